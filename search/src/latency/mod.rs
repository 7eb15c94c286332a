//! Planners and bounds of `latency`: one input, each op on one device, least makespan (DiviML III and IV with one
//! input).
//!
//! The best planner is [`planners::dominance`]: a beam search with dominance over partial schedules, improved by
//! [`window_search`]. **The cost of one moved op** is computed in [`device_string`].
//!
//! | module | content |
//! |---|---|
//! | [`planners`] | what `auto` runs: HEFT, PEFT, dominance search, the MILP on small constrained problems |
//! | [`baselines`] | published methods and common practice, run by name |
//! | [`bounds`] | lower bounds that need this objective |
//! | [`window_search`] | large-neighbourhood search over windows of consecutive ops |
//! | [`list_scheduling`] | the list scheduler behind MET, greedy, HEFT and PEFT |
//! | [`device_string`] | placements as strings of devices, evaluated incrementally, for annealing and (1+1) EA |
//! | [`blocks`] | stretches of a sequence on devices, evaluated with pieces and links in turn |
//! | [`repair`] | a placement within memory limits near a given one |
//! | [`placement_units`], [`memory_use`] | colocation groups as units; memory held while a placement changes |
//! | [`subproblem`], [`module_solver`] | a set of ops with release times and tails, and the exact solvers for it |
//! | [`mip`] | DiviML's mixed-integer program of a subproblem |
//! | [`transportation`] | prices of a small transportation problem, which separate rows of the interval program |

pub(crate) mod baselines;
pub(crate) mod blocks;
pub(crate) mod bounds;
pub(crate) mod device_string;
pub(crate) mod list_scheduling;
pub(crate) mod memory_use;
pub(crate) mod mip;
pub(crate) mod module_solver;
pub(crate) mod placement_units;
pub(crate) mod planners;
pub(crate) mod repair;
pub(crate) mod subproblem;
pub(crate) mod transportation;
pub(crate) mod window_search;
