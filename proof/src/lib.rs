//! Lower bounds and the evidence that proves them.
//!
//! * A [`Certificate`](certificate::Certificate) claims that no plan of a problem has a value below `value_ps`, and carries
//!   [`Evidence`](evidence::Evidence) for it.
//! * *Evidence* is plain data: a chain of ops, multipliers of inequalities, a branch-and-bound tree, the parameters of a
//!   search. It comes from anywhere, a file included, and nothing in it is trusted.
//! * A certificate is *verified* if [`verify`](verify::verify) derives the value, or a larger one, from the problem and the
//!   evidence alone.
//! * It is *attested* ([`Evidence::Attested`](evidence::Evidence::Attested)) if only a search vouches for it; such a bound
//!   is never presented as verified.
//!
//! All arithmetic is exact: integers (`u64`, `i128` for sums), every rounding towards a smaller bound, every overflow an
//! error. No floating-point number enters a proof; whoever finds multipliers by an LP solver rounds them first.
//!
//! This crate knows no planner. It holds the verifier and the arguments that both the verifier and a search for good
//! evidence (crate `divvy-search`, `search/src/<objective>/bounds`) evaluate.
//!
//! | objective | where | evidence checked there |
//! |---|---|---|
//! | makespan (`latency`, `batch`, `cold-start`) | [`critical_path`] | `critical-path` |
//! | all | [`loads`] | `op`, `area`, `device-load`, `link-load` |
//! | `latency` | [`frontier_search`], [`latency`] | `frontier-search`, `interval-lp` |
//! | `batch` | [`batch`] | `division-cases`, `chain-dp` |
//! | `batch`, `latency`, `stream` | [`division_lp`] | `division-lp` |
//! | `cold-start` | [`cold_start`] | `last-loads`, `segment-prices` |
//! | `pipeline` | [`pipeline`] | `set-cover`, `two-way-cut`, `down-sets` |
//! | `stream` | [`stream`] | `colocation`, `link-prices` |
//!
//! | file | what |
//! |---|---|
//! | [`certificate`] | the claim |
//! | [`evidence`] | the payload of every kind of evidence |
//! | [`verify`] | from evidence to the value it proves |
//! | [`latency_tables`] | a one-request problem as dense tables |
//! | [`min_cut`] | incremental minimum cut |
//! | [`bit_set`] | sets of small numbers |

pub mod batch;
pub mod bit_set;
pub mod certificate;
pub mod cold_start;
pub mod critical_path;
pub mod division_lp;
pub mod evidence;
pub mod frontier_search;
pub mod latency;
pub mod latency_tables;
pub mod loads;
pub mod min_cut;
pub mod pipeline;
pub mod stream;
pub mod verify;
