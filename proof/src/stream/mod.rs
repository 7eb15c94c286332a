//! Bounds on the period of a stream over networked devices: each refutes a threshold.
//!
//! | file | evidence |
//! |---|---|
//! | [`colocation`] | `colocation`: ops that no link can keep apart form clusters, and those do not fit the devices |
//! | [`device_groups`] | `device-groups`: no division of the ops among a few groups of devices is within all capacities |
//! | [`link_prices`] | `link-prices`: a Lagrangian of the link capacities, with one knapsack for each device |

pub mod colocation;
pub mod device_groups;
pub mod link_prices;
