//! The division LP: a linear program over the divisions of each op's inputs among devices, and bounds by its dual.
//!
//! | file | what |
//! |---|---|
//! | `batch_prices` | the rows, the price of every batch under a dual solution, and the bound: one knapsack per op |
//! | [`memory_prices`] | memory rows |
//! | [`class_routes`] | the fastest routes between classes, and what several bounds share |

mod batch_prices;
pub mod class_routes;
pub mod memory_prices;

pub use batch_prices::{BatchPrices, ClassSize, DivisionRows, class_sizes};
pub(crate) use batch_prices::{MOST_STEPS, bound_of, divisor_of, indivisible, proven, reached};
