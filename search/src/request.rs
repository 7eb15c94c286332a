//! What a planning run is asked for, and the planners and bounds that follow from it.

use divvy_core::did_you_mean::closest;
use divvy_core::problem::{Objective, Problem};

use crate::bound::{Bound, When};
use crate::latency::module_solver;
use crate::planner::Planner;
use crate::registry::{bounds, every_bound, every_planner, planner_named, planners};
use crate::stream::baselines::branch_and_bound;

/// By what devices and nodes that can be exchanged are told apart: inputs, ops, or time on them.
pub const SYMMETRIES: [&str; 3] = ["batches", "tasks", "time"];

/// Which planner and bounds to use.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// A planner by name; `auto` and none: the best for the problem.
    pub planner: Option<String>,
    /// Bounds by name; none: all that apply and are quick.
    pub bounds: Option<Vec<String>>,
    /// Who solves the parts of a problem that is split, by name; none: the best there is.
    pub inner: Option<String>,
    /// Whether to plan at all, or only to bound.
    pub bound_only: bool,
    /// By what `milp` and `milp-split` tell devices and nodes apart that can be exchanged: a name of [`SYMMETRIES`].
    pub symmetry: Option<String>,
    /// Whether `branch-and-bound` prunes by the transmission of padded lists, as its paper does.
    pub paper_bound: bool,
}

/// A planner or bound that does not exist, or does not work on the problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Why.
    pub message: String,
    /// What to do instead.
    pub fix: String,
    /// Whether there is a planner or bound of that name at all.
    pub exists: bool,
}

/// A planner, with the number that its name was given.
pub(crate) type ChosenPlanner<'a> = (&'a dyn Planner, Option<u64>);

pub(crate) fn choose_planners(
    problem: &Problem,
    request: &Request,
) -> Result<Vec<ChosenPlanner<'static>>, Refused> {
    let all = planners(problem);
    match request.planner.as_deref() {
        None | Some("auto") => {
            let used = |p: &&dyn Planner| p.helps_auto(problem) && p.supports(problem).is_ok();
            Ok(all.iter().copied().filter(used).map(|planner| (planner, None)).collect())
        }
        Some(name) => {
            let names = all.iter().map(|p| p.name()).chain(["auto"]);
            // One of another objective says itself why it is of no use here.
            let chosen = planner_named(all, name)
                .or_else(|| planner_named(&every_planner(), name))
                .ok_or_else(|| unknown(problem, "planner", name, &names.collect::<Vec<_>>()))?;
            chosen.0.supports(problem).map_err(|reason| refused("planner", name, &reason))?;
            Ok(vec![chosen])
        }
    }
}

pub(crate) fn choose_bounds(
    problem: &Problem,
    request: &Request,
) -> Result<Vec<&'static dyn Bound>, Refused> {
    let all = bounds(problem);
    let Some(names) = &request.bounds else {
        let is_auto = request.planner.as_deref().is_none_or(|name| name == "auto");
        let runs = |b: &&dyn Bound| match b.runs() {
            When::Always => true,
            When::Last => is_auto || request.bound_only,
            When::Alone => request.bound_only,
            When::ByName => false,
        };
        let chosen = all.iter().copied().filter(|b| runs(b) && b.supports(problem).is_ok());
        return Ok(chosen.collect());
    };
    let find = |name: &String| {
        let fitting = all.iter().filter(|b| b.supports(problem).is_ok());
        let known: Vec<&str> = fitting.map(|b| b.name()).collect();
        let others = every_bound();
        let bound = all.iter().chain(&others).copied().find(|b| b.name() == name);
        let bound = bound.ok_or_else(|| unknown(problem, "bound", name, &known))?;
        bound.supports(problem).map_err(|reason| refused("bound", name, &reason))?;
        Ok(bound)
    };
    names.iter().map(find).collect()
}

pub(crate) fn choose_inner(request: &Request) -> Result<Option<&str>, Refused> {
    let known = module_solver::names();
    match request.inner.as_deref() {
        Some(name) if !known.contains(&name) => Err(Refused {
            message: format!("there is no inner solver `{name}`"),
            fix: format!("use one of {}", known.join(", ")),
            exists: false,
        }),
        inner => Ok(inner),
    }
}

pub(crate) fn check_symmetry(problem: &Problem, request: &Request) -> Result<(), Refused> {
    let Some(name) = request.symmetry.as_deref() else { return Ok(()) };
    let splits = matches!(request.planner.as_deref(), Some("milp" | "milp-split"));
    if !splits || !matches!(problem.objective, Objective::Batch { .. }) {
        return Err(Refused {
            message: "criteria of symmetry belong to `milp` and `milp-split` for batch".to_owned(),
            fix: "use --symmetry with --objective batch --planner milp-split".to_owned(),
            exists: true,
        });
    }
    if !SYMMETRIES.contains(&name) {
        return Err(Refused {
            message: format!("there is no criterion of symmetry `{name}`"),
            fix: format!("use one of {}", SYMMETRIES.join(", ")),
            exists: false,
        });
    }
    Ok(())
}

pub(crate) fn check_paper_bound(problem: &Problem, request: &Request) -> Result<(), Refused> {
    let refused = |message: String, fix: &str| Refused { message, fix: fix.to_owned(), exists: true };
    match request.planner.as_deref() {
        _ if !request.paper_bound => Ok(()),
        Some("branch-and-bound") => branch_and_bound::padding_refusal(problem).map_err(|reason| {
            refused(reason, "leave out --paper-bound: what replaces it holds for every graph")
        }),
        _ => {
            let message = "the paper's bound belongs to one planner".to_owned();
            Err(refused(message, "use --paper-bound with --planner branch-and-bound"))
        }
    }
}

fn unknown(problem: &Problem, what: &str, name: &str, known: &[&str]) -> Refused {
    let near = closest(name, known);
    let near = near.map_or(String::new(), |name| format!("did you mean `{name}`? Or "));
    Refused {
        message: format!("there is no {what} `{name}` for {}", problem.objective.name()),
        fix: format!("{near}use one of {}", known.join(", ")),
        exists: false,
    }
}

fn refused(what: &str, name: &str, reason: &str) -> Refused {
    Refused {
        message: format!("the {what} `{name}` says nothing here: {reason}"),
        fix: "choose another".to_owned(),
        exists: true,
    }
}
