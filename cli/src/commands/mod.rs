//! The commands, one file each: settle what is asked, call the libraries, return text.

pub(crate) mod bound;
pub(crate) mod check;
pub(crate) mod combine;
pub(crate) mod diff;
pub(crate) mod export;
pub(crate) mod generate;
pub(crate) mod hardware;
pub(crate) mod inspect;
pub(crate) mod manual;
mod next_steps;
pub(crate) mod pareto;
pub(crate) mod plan;
pub(crate) mod planning_run;
pub(crate) mod profile;
pub(crate) mod region;
pub(crate) mod replan;
pub(crate) mod report;
pub(crate) mod reproduce;
pub(crate) mod run;
pub(crate) mod stages;
mod values;
