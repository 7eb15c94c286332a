//! *Load packing*: scheduling on unrelated machines (R | | C_max), the relaxation of `stream` without links and memory. Each
//! unit goes to one device, and the largest load is minimised.
//!
//! * `search.rs`: the exact search: branch and bound with backjumping
//! * `relaxation.rs`: its linear relaxation, by the simplex method with generalised upper bounds
//! * `conflict_reasons.rs`, `decision_sets.rs`: nogoods, the decisions that a deduction follows from
//! * `device_classes.rs`: a bound and a start from two classes of proportional devices
//! * `rebalance_loads.rs`: local search by optimal repartition between two devices
//! * `instance.rs`: the problem itself, in integer multiples of the largest common time

pub(crate) mod conflict_reasons;
pub(crate) mod decision_sets;
pub(crate) mod device_classes;
pub(crate) mod instance;
pub(crate) mod rebalance_loads;
pub(crate) mod relaxation;
pub(crate) mod search;
