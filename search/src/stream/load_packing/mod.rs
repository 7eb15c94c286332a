//! Units on devices so that the largest load is least, links and memory left out: the generalised assignment problem with a
//! makespan objective (scheduling on unrelated machines, R | | C_max).
//!
//! * `search.rs`: the exact search: branch and bound with backjumping
//! * `relaxation.rs`: its linear relaxation, by the simplex method with generalised upper bounds
//! * `conflict_reasons.rs`, `decision_sets.rs`: which decisions a deduction follows from
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
