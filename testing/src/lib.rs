//! What the tests of all crates share: an oracle, and seeded tiny problems on which everything is compared with it.
//!
//! | module | what it holds |
//! |---|---|
//! | [`oracle`] | the value of a plan, by the definitions alone |
//! | [`cases`] | a problem of a seed, and a walk over many |
//! | [`problem_kind`], [`random_problems`], [`random_hardware`], [`random_modules`], [`stretched`] | how problems are drawn |
//! | [`features`] | what the problems drawn have in them |
//! | [`plans`] | every plan of a problem, or a sample of them |
//! | [`mutants`] | plans spoiled in one place, and the rules that this breaks |
//! | [`describe`] | a problem as text, for the message of a failed test |
//! | [`skipped`] | tests that need what is not there say so |
//! | [`two_cores`] | hardware on which plans are run |

#![allow(missing_docs, reason = "a tool of tests: names say what fields are")]

pub mod cases;
pub mod choices;
pub mod describe;
pub mod features;
pub mod mutants;
pub mod oracle;
pub mod plans;
pub mod problem_kind;
pub mod random_hardware;
pub mod random_modules;
pub mod random_problems;
pub mod skipped;
pub mod stretched;
pub mod two_cores;
