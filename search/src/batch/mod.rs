//! Planners and bounds of `batch`: the inputs of each op divided over devices, least makespan (DiviML IV).
//!
//! The planner that `auto` relies on is [`planners::divisions`]: simulated annealing of divisions and order together,
//! from list schedules and from a `latency` plan of whole batches. The cost of one changed decision is computed in
//! [`segment_value`].
//!
//! | module | content |
//! |---|---|
//! | [`planners`] | what `auto` runs beside b-HEFT |
//! | [`baselines`] | published methods, run by name: b-MET, b-greedy, b-HEFT, annealing, (1+1) EA, MILP, MILP-SPLIT |
//! | [`bounds`] | lower bounds that need this objective |
//! | [`tables`] | the problem as arrays, with inputs in groups; contraction of serial chains |
//! | [`memory_use`] | memory held while divisions change |
//! | [`schedule`] | divisions and an order, and the schedule that follows |
//! | [`segment_value`] | the makespan after a change of a segment of the order |
//! | [`annealing`] | simulated annealing of divisions and order |
//! | [`crossover`] | recombination of schedules at narrow cuts of the network |
//! | [`dual_cost`] | the cost of divisions at the dual prices of a bound |
//! | [`list_scheduling`] | the list scheduler behind b-MET, b-greedy and b-HEFT |
//! | [`device_string`] | DiviML's encoding, for its annealing and (1+1) EA |
//! | [`undivided`] | the problem with all inputs in one batch, which is a `latency` problem |

pub(crate) mod annealing;
pub(crate) mod baselines;
pub(crate) mod bounds;
pub(crate) mod crossover;
pub(crate) mod device_string;
pub(crate) mod dual_cost;
pub(crate) mod list_scheduling;
pub(crate) mod memory_use;
pub(crate) mod planners;
pub(crate) mod schedule;
pub(crate) mod segment_value;
pub(crate) mod tables;
pub(crate) mod undivided;
