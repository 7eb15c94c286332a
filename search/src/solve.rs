//! A planning run, from problem to outcome.

use crate::budget::{Budget, StopReason};
use crate::outcome::Outcome;
use divvy_core::did_you_mean::closest;
use divvy_core::problem::{Objective, Problem};

use crate::bound::{Bound, Runs};
use crate::latency::module_solver;
use crate::one_device::baseline::{Baseline, baseline};
use crate::planner::Planner;
use crate::registry::{bounds, planner_named, planners};
use crate::run::Run;
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

/// What came of it.
#[derive(Clone, Debug)]
pub struct Solved {
    /// Plan, bounds, history.
    pub outcome: Outcome,
    /// The whole network on one device.
    pub baseline: Baseline,
    /// The planner as asked for; `outcome.found_by` is the one whose plan was kept.
    pub planner: String,
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

/// Proves what can be proved, plans, and checks everything on the way. `watch` hears of every improvement.
pub fn solve(
    problem: &Problem,
    request: &Request,
    budget: &Budget,
    watch: &mut dyn FnMut(&Outcome),
) -> Result<Solved, Refused> {
    let chosen_planners = choose_planners(problem, request)?;
    let chosen_bounds = choose_bounds(problem, request)?;
    let inner = choose_inner(request)?;
    check_paper_bound(problem, request)?;
    check_symmetry(problem, request)?;
    let (baseline, baseline_plan) = baseline(problem, budget);
    let mut outcome = Outcome::default();
    outcome.infeasible = problem.infeasibilities();
    let is_last = |bound: &&dyn Bound| bound.runs() == Runs::Last;
    let (last_bounds, first_bounds): (Vec<_>, Vec<_>) = chosen_bounds.into_iter().partition(is_last);
    // A bound that could go on for ever leaves half the time to the planner.
    let half = Budget { time: budget.time / 2, ..budget.clone() };
    let bounding = if request.bound_only { budget.clone() } else { half };
    // A planner leaves time to the last bounds: a little at first, since that is all that an easy problem takes.
    let turns: &[(f64, f64)] =
        if last_bounds.is_empty() { &[(1.0, 1.0)] } else { &[(0.05, 0.1), (0.5, 1.0), (1.0, 1.0)] };
    let keep = request.planner.as_deref().is_none_or(|name| name == "auto") && !request.bound_only;
    if outcome.infeasible.is_empty() {
        let mut run = Run::new(problem, &bounding, &mut outcome, watch).with_inner(inner);
        // Whatever happens next, there is a plan to keep. A planner asked for by name must find its own.
        if let Some(plan) = baseline_plan.filter(|_| keep) {
            run.set_planner("baseline");
            let offered = run.offer(plan);
            debug_assert!(offered.is_ok(), "the baseline passed the check");
        }
        for bound in &first_bounds {
            if !run.budget.is_spent() && !run.is_solved() {
                bound.bound(&mut run);
            }
        }
        let mut stop = StopReason::Finished;
        let mut planners = chosen_planners.as_slice();
        let mut exhausted = vec![false; last_bounds.len()];
        // Whether all that is left to prove was given its time.
        let mut are_through = false;
        for (turn, &(plan_until, bound_until)) in turns.iter().enumerate() {
            // Where bounds have proved all they can, the planner is not interrupted again.
            let is_over = turn > 0 && (are_through || exhausted.iter().all(|is_exhausted| *is_exhausted));
            let plan_until = if is_over { 1.0 } else { plan_until };
            // The first go is short, so it is the second that has the seed which was asked for.
            let seed = (turn + turns.len() - 1) % turns.len();
            let until = |share: f64| Budget {
                time: if share < 1.0 { budget.time.mul_f64(share) } else { budget.time },
                seed: budget.seed.wrapping_add(seed as u64),
                ..budget.clone()
            };
            let planning = until(plan_until);
            let mut run = Run::new(problem, &planning, &mut outcome, watch)
                .with_inner(inner)
                .with_paper_bound(request.paper_bound)
                .with_symmetry(request.symmetry.as_deref());
            while let Some((&(planner, number), later)) =
                planners.split_first().filter(|_| !request.bound_only)
            {
                if run.budget.is_spent() && run.outcome().best.is_some() {
                    stop = StopReason::OutOfBudget;
                    break;
                }
                stop = plan_with(planner, number, &mut run);
                if stop != StopReason::Finished {
                    break;
                }
                planners = later;
            }
            let mut is_solved = false;
            for number in (0..last_bounds.len()).filter(|_| plan_until < 1.0) {
                // Where a better plan helps no bound that is left, all have their time at once, so that planners go on
                // undisturbed.
                let left = last_bounds.iter().zip(&exhausted).filter(|(_, is_exhausted)| !**is_exhausted);
                let shares: Option<Vec<f64>> = left.map(|(bound, _)| bound.ahead()).collect();
                let ahead = shares.filter(|_| !request.bound_only);
                are_through = ahead.is_some();
                let bounding = until(ahead.into_iter().flatten().fold(bound_until, f64::max));
                let run = Run::new(problem, &bounding, &mut outcome, watch).with_inner(inner);
                let mut run = run.taking_plans(keep).with_planner_waiting(are_through);
                if !exhausted[number] && !run.budget.is_spent() && !run.is_solved() {
                    exhausted[number] = run.exhausts(last_bounds[number]);
                }
                is_solved = run.is_solved();
            }
            if is_solved || budget.is_spent() {
                break;
            }
        }
        outcome.stop = if budget.is_cancelled() { StopReason::Cancelled } else { stop };
    }
    let planner = request.planner.clone().unwrap_or_else(|| "auto".to_owned());
    Ok(Solved { outcome, baseline, planner })
}

fn plan_with(planner: &dyn Planner, number: Option<u64>, run: &mut Run<'_>) -> StopReason {
    run.set_planner(planner.name());
    if let (Some(prefix), Some(number)) = (planner.numbered_prefix(), number) {
        run.set_planner(&format!("{prefix}{number}"));
    }
    run.set_number(number);
    planner.plan(run)
}

/// Planners, each with the number that its name was given.
type Chosen = Vec<(&'static dyn Planner, Option<u64>)>;

fn choose_planners(problem: &Problem, request: &Request) -> Result<Chosen, Refused> {
    let all = planners(problem);
    match request.planner.as_deref() {
        None | Some("auto") => {
            let used = |p: &&dyn Planner| p.helps_auto(problem) && p.supports(problem).is_ok();
            Ok(all.iter().copied().filter(used).map(|planner| (planner, None)).collect())
        }
        Some(name) => {
            let names = all.iter().map(|p| p.name()).chain(["auto"]);
            let chosen = planner_named(all, name)
                .ok_or_else(|| unknown(problem, "planner", name, &names.collect::<Vec<_>>()))?;
            chosen.0.supports(problem).map_err(|reason| refused("planner", name, &reason))?;
            Ok(vec![chosen])
        }
    }
}

fn choose_bounds(problem: &Problem, request: &Request) -> Result<Vec<&'static dyn Bound>, Refused> {
    let all = bounds(problem);
    let Some(names) = &request.bounds else {
        let is_auto = request.planner.as_deref().is_none_or(|name| name == "auto");
        let runs = |b: &&dyn Bound| match b.runs() {
            Runs::Always => true,
            Runs::Last => is_auto || request.bound_only,
            Runs::Alone => request.bound_only,
            Runs::ByName => false,
        };
        let chosen = all.iter().copied().filter(|b| runs(b) && b.supports(problem).is_ok());
        return Ok(chosen.collect());
    };
    let find = |name: &String| {
        let fitting = all.iter().filter(|b| b.supports(problem).is_ok());
        let known: Vec<&str> = fitting.map(|b| b.name()).collect();
        let bound = all.iter().find(|b| b.name() == name);
        let bound = bound.ok_or_else(|| unknown(problem, "bound", name, &known))?;
        bound.supports(problem).map_err(|reason| refused("bound", name, &reason))?;
        Ok(*bound)
    };
    names.iter().map(find).collect()
}

fn choose_inner(request: &Request) -> Result<Option<&str>, Refused> {
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

fn check_symmetry(problem: &Problem, request: &Request) -> Result<(), Refused> {
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

fn check_paper_bound(problem: &Problem, request: &Request) -> Result<(), Refused> {
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
