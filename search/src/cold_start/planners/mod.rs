//! The planners that `auto` runs, `one-gpu` without overlap apart.
//!
//! * `interleave.rs`: beam search and simulated annealing; the best one
//! * `exhaustive.rs`: exact, for tiny networks
//! * `deepplan.rs`: one GPU computes, peers forward weights (DeepPlan)
//! * `one_gpu.rs`: everything on one GPU

pub(crate) mod deepplan;
pub(crate) mod exhaustive;
pub(crate) mod interleave;
pub(crate) mod one_gpu;
