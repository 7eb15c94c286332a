//! The stages of a program: pieces of the model, and regroupings where a `batch` plan puts inputs together anew.
//!
//! | file | what it does |
//! |---|---|
//! | `stage_source` | one piece of the model to one stage |
//! | `one_input` | the stages of a plan for one input |
//! | `input_groups` | the stages of a `batch` plan: a piece for each group of inputs |
//! | `regroupings` | stages that put inputs of several groups together anew |
//! | `shares` | how the inputs of an item enter and leave the program |

pub(crate) mod input_groups;
pub(crate) mod one_input;
mod regroupings;
pub(crate) mod shares;
pub(crate) mod stage_source;
