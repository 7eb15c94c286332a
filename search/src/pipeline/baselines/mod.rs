//! Published methods, run by name (Archer et al.).
//!
//! * `random.rs`: random orders, sliced
//! * `brkga.rs`: a biased random-key genetic algorithm over sliced orders
//! * `linear_arrangement.rs`: a minimum linear arrangement, sliced
//! * `milp.rs`: the exact mixed-integer program

pub(crate) mod brkga;
pub(crate) mod linear_arrangement;
pub(crate) mod milp;
pub(crate) mod random;
