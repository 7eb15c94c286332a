//! Linear programs over the divisions of each op's inputs: the bounds `division-area`, `division-lp` and `memory`.
//!
//! * [`op_divisions`]: the divisions of each op over classes of devices, and the graph between ops.
//! * [`division_program`]: the program, its separation of windows, and its dual as evidence.
//! * [`cutting_planes`]: solves the program with rows added as they are violated, and proves the dual of every solve.
//! * [`memory_bound`]: the bound `memory` of `latency` and `stream`. Those of `batch` are in
//!   `batch/bounds/division_lp.rs`.
//!
//! Why the rows hold, and how the rounded dual is checked, is stated in `divvy_proof::division_lp`.

pub(crate) mod cutting_planes;
pub(crate) mod division_program;
pub(crate) mod memory_bound;
pub(crate) mod op_divisions;
