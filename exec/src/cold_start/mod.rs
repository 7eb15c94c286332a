//! Cold starts: one request whose weights come from host memory while ops run.
//!
//! This is SortingHat's executor (its Algorithm 1) with pieces for ops. Every card has a queue that loads weights in the planned
//! order and one that runs pieces; a piece waits, in its queue and not on the host, for the last weight it needs, so loads and
//! computation overlap by themselves. Devices of CPU cores run pieces from where the weights already lie, on a thread of their own.
//!
//! | file | what it does |
//! |---|---|
//! | [`spec`] | what is to be run: weights, pieces, the order of each bus |
//! | [`card`] | what a card must be able to do: queues, marks in them, loads, pieces |
//! | `board` | what threads of a run tell each other |
//! | [`run`] | the run: a thread for each device and each card's bus |
//!
//! Cards are in [`crate::backends`]: CUDA's, and simulated ones, whose queues are threads.

mod board;
pub mod card;
pub mod run;
pub mod spec;
