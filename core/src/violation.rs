//! The rules that a plan, a certificate or a plan file can break, and what a broken one looks like.
//!
//! [`crate::check`] says what each rule asks; `docs/errors.md` explains it to users. A check collects all violations before it
//! gives up.

use std::fmt;

/// A rule that a plan, a certificate or a plan file can break.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(usize)]
#[expect(missing_docs, reason = "the table of `check.rs` says what each asks")]
pub enum Rule {
    PlanKind,
    Ids,
    OpOnce,
    DeviceAllowed,
    Colocation,
    Route,
    Order,
    Transfers,
    Memory,
    BatchSize,
    StageCount,
    StageDevice,
    StageCycle,
    Splits,
    Pieces,
    PieceCycle,
    Weights,
    InPlace,
    Duration,
    Overlap,
    TooEarly,
    Score,
    Start,
    Bound,
    Evidence,
    Problem,
    Source,
}

impl Rule {
    /// Every rule, in the order of the enum.
    pub const ALL: [Rule; 27] = [
        Rule::PlanKind,
        Rule::Ids,
        Rule::OpOnce,
        Rule::DeviceAllowed,
        Rule::Colocation,
        Rule::Route,
        Rule::Order,
        Rule::Transfers,
        Rule::Memory,
        Rule::BatchSize,
        Rule::StageCount,
        Rule::StageDevice,
        Rule::StageCycle,
        Rule::Splits,
        Rule::Pieces,
        Rule::PieceCycle,
        Rule::Weights,
        Rule::InPlace,
        Rule::Duration,
        Rule::Overlap,
        Rule::TooEarly,
        Rule::Score,
        Rule::Start,
        Rule::Bound,
        Rule::Evidence,
        Rule::Problem,
        Rule::Source,
    ];

    /// The rule as users see it and `docs/errors.md` lists it.
    pub fn as_str(self) -> &'static str {
        match self {
            Rule::PlanKind => "plan-kind",
            Rule::Ids => "ids",
            Rule::OpOnce => "op-once",
            Rule::DeviceAllowed => "device-allowed",
            Rule::Colocation => "colocation",
            Rule::Route => "route",
            Rule::Order => "order",
            Rule::Transfers => "transfers",
            Rule::Memory => "memory",
            Rule::BatchSize => "batch-size",
            Rule::StageCount => "stage-count",
            Rule::StageDevice => "stage-device",
            Rule::StageCycle => "stage-cycle",
            Rule::Splits => "splits",
            Rule::Pieces => "pieces",
            Rule::PieceCycle => "piece-cycle",
            Rule::Weights => "weights",
            Rule::InPlace => "in-place",
            Rule::Duration => "duration",
            Rule::Overlap => "overlap",
            Rule::TooEarly => "too-early",
            Rule::Score => "score",
            Rule::Start => "start",
            Rule::Bound => "bound",
            Rule::Evidence => "evidence",
            Rule::Problem => "problem",
            Rule::Source => "source",
        }
    }
}

/// A rule that is broken, where, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The rule.
    pub rule: Rule,
    /// Where: an op, a device, a stage.
    pub place: String,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}] {}: {}", self.rule.as_str(), self.place, self.message)
    }
}

/// The violations found so far.
#[derive(Debug, Default)]
pub(crate) struct Violations(pub(crate) Vec<Violation>);

impl Violations {
    /// Adds one.
    pub(crate) fn add(&mut self, rule: Rule, place: impl Into<String>, message: impl Into<String>) {
        self.0.push(Violation { rule, place: place.into(), message: message.into() });
    }

    /// All violations as an error, if there are any.
    pub(crate) fn stop(&mut self) -> Result<(), Vec<Violation>> {
        if self.0.is_empty() { Ok(()) } else { Err(std::mem::take(&mut self.0)) }
    }
}
