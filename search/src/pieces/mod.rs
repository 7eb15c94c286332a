//! Plans whose pieces cost something.
//!
//! Planners of an objective count ops and transfers. What pieces cost is brought to them in three ways:
//!
//! | file | what |
//! |---|---|
//! | `priced` | a device change is given a price, as part of the transfer; then every planner sees it |
//! | `recut` | the plans that come of it are cut better, with their orders as they are |

pub(crate) mod priced;
pub(crate) mod recut;
