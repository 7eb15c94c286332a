//! All ways to ask for what the registries have, by name.

use std::time::Duration;

use divvy_core::problem::Problem;
use divvy_search::{Bound, Budget, Planner, Request, SYMMETRIES, bounds, planners};
use divvy_testing::problem_kind::ProblemKind;

/// What is run on one problem in so many, since it takes long; everything else is run on all.
const SELDOM: &[(&str, usize)] = &[
    ("bottleneck", 8),
    ("bottleneck-guess", 8),
    ("column-generation", 4),
    ("efficient-mip", 10),
    ("milp", 6),
    ("milp-split", 8),
    ("sortinghat", 12),
];
/// A bound runs beside planners on one problem in so many.
const BESIDE: usize = 4;

/// Planners that find the best plan of every problem, and prove it.
const EXACT: &[(ProblemKind, &str)] = &[
    (ProblemKind::Latency, "exhaustive"),
    (ProblemKind::LatencyInTurn, "exhaustive"),
    (ProblemKind::Batch, "exhaustive"),
    (ProblemKind::Pipeline, "exhaustive"),
    (ProblemKind::Stream, "exhaustive"),
    (ProblemKind::Latency, "milp"),
    (ProblemKind::Stream, "branch-and-bound"),
    (ProblemKind::Stream, "conflict-driven"),
    (ProblemKind::Stream, "dominance"),
    (ProblemKind::ColdStart, "exhaustive"),
];

/// Names that split a problem and have others solve its parts, and who those are.
const SPLITTERS: &[&str] = &["lbound", "milp-split"];
const SOLVERS_OF_PARTS: &[&str] = &["exact", "milp"];

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Asked {
    /// Everything that is run unasked.
    Auto,
    /// One planner, and no bound but its own.
    Planner,
    /// One bound, and no planner.
    Bound,
    /// One bound, and planners.
    Beside,
}

/// A request by name.
pub(crate) struct Trial {
    pub(crate) asked: Asked,
    pub(crate) label: String,
    /// The name in the registry.
    pub(crate) name: &'static str,
    pub(crate) request: Request,
    /// What the planner or bound says of the problem.
    pub(crate) supports: Result<(), String>,
}

impl Trial {
    /// All trials of a problem.
    pub(crate) fn all(problem: &Problem) -> Vec<Trial> {
        let mut trials = Vec::new();
        for (label, bound_only) in [("auto", false), ("every bound", true)] {
            let request = Request { bound_only, ..Request::default() };
            let label = label.to_owned();
            trials.push(Trial { asked: Asked::Auto, label, name: "auto", request, supports: Ok(()) });
        }
        planners(problem).iter().for_each(|&planner| of_planner(planner, problem, &mut trials));
        bounds(problem).iter().for_each(|&bound| of_bound(bound, problem, &mut trials));
        trials
    }

    /// Whether it asks for what few planners have; the others refuse.
    pub(crate) fn has_option(&self) -> bool {
        self.request.symmetry.is_some() || self.request.paper_bound
    }

    /// Whether it is run on the problem of a number.
    pub(crate) fn is_for(&self, number: usize) -> bool {
        let family = |name: &str| {
            self.name == name || self.name.strip_prefix(name).is_some_and(|rest| rest.starts_with('-'))
        };
        let seldom = SELDOM.iter().rev().find(|(name, _)| family(name)).map_or(1, |&(_, one_in)| one_in);
        number.is_multiple_of(if self.asked == Asked::Beside { seldom * BESIDE } else { seldom })
    }

    /// Whether it must find and prove the best plan. Where pieces cost something only the search through all plans does.
    pub(crate) fn is_exact(&self, kind: ProblemKind, has_piece_costs: bool) -> bool {
        self.asked == Asked::Planner
            && EXACT.contains(&(kind, self.name))
            && (!has_piece_costs || self.name == "exhaustive")
    }
}

/// A search that takes all it is given has little; one that must prove the best plan has as long as it takes.
pub(crate) fn budget(must_be_best: bool) -> Budget {
    if must_be_best {
        return Budget::new(Duration::from_secs(600));
    }
    Budget { nodes: Some(100), ..Budget::new(Duration::from_millis(200)) }
}

/// By its name, with a number of the user's choice in it, and with each option that it has.
fn of_planner(planner: &'static dyn Planner, problem: &Problem, trials: &mut Vec<Trial>) {
    let name = planner.name();
    let mut add = |option: &str, request: Request| {
        let planner_name = request.planner.unwrap_or_else(|| name.to_owned());
        let label = format!("planner {planner_name}{option}");
        let request = Request { planner: Some(planner_name), bounds: Some(Vec::new()), ..request };
        trials.push(Trial {
            asked: Asked::Planner,
            label,
            name,
            request,
            supports: planner.supports(problem),
        });
    };
    add("", Request::default());
    if let Some(prefix) = planner.numbered_prefix() {
        add("", Request { planner: Some(format!("{prefix}3")), ..Request::default() });
    }
    for solver in SOLVERS_OF_PARTS.iter().filter(|_| SPLITTERS.contains(&name)) {
        add(
            &format!(" --inner {solver}"),
            Request { inner: Some((*solver).to_owned()), ..Request::default() },
        );
    }
    for symmetry in SYMMETRIES {
        add(
            &format!(" --symmetry {symmetry}"),
            Request { symmetry: Some(symmetry.to_owned()), ..Request::default() },
        );
    }
    add(" --paper-bound", Request { paper_bound: true, ..Request::default() });
}

/// Alone and beside planners.
fn of_bound(bound: &'static dyn Bound, problem: &Problem, trials: &mut Vec<Trial>) {
    let name = bound.name();
    let mut add = |asked: Asked, option: &str, request: Request| {
        let label = format!("bound {name}{option}");
        let request =
            Request { bounds: Some(vec![name.to_owned()]), bound_only: asked == Asked::Bound, ..request };
        trials.push(Trial { asked, label, name, request, supports: bound.supports(problem) });
    };
    add(Asked::Bound, "", Request::default());
    for solver in SOLVERS_OF_PARTS.iter().filter(|_| SPLITTERS.contains(&name)) {
        let request = Request { inner: Some((*solver).to_owned()), ..Request::default() };
        add(Asked::Bound, &format!(" --inner {solver}"), request);
    }
    add(Asked::Beside, ", beside auto", Request::default());
}
