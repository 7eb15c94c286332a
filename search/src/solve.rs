//! A planning run, from problem to outcome.

use divvy_core::graph::Graph;
use divvy_core::ids::DeviceId;
use divvy_core::plan::Plan;
use divvy_core::problem::Problem;
use divvy_core::score::Score;

use crate::bound::{Bound, When};
use crate::budget::{Budget, StopReason};
use crate::exhaustive;
use crate::one_device::baseline::{Baseline, baseline};
use crate::outcome::Outcome;
use crate::pieces::recut;
use crate::planner::Planner;
use crate::request::{
    ChosenPlanner, Refused, Request, check_paper_bound, check_symmetry, choose_bounds, choose_inner,
    choose_planners,
};
use crate::run::Run;

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

/// With more devices than this none is left out.
const MOST_LEFT_OUT: usize = 8;
/// With a budget of nodes, which no clock ends, none is left out of longer networks: each takes as long as all before.
const MOST_OPS_WITH_NODES: usize = 100;

/// Until which share of the budget planners go on, and then the last bounds; one turn after the other.
struct TimePlan(&'static [Turn]);

struct Turn {
    plan_until: f64,
    bound_until: f64,
}

impl TimePlan {
    /// Planners leave time to the last bounds: a little at first, since that is all that an easy problem takes. Where plans
    /// are few, what they have not proved after a little time is for the search that tries all plans.
    fn new(has_last_bounds: bool, has_few_plans: bool) -> TimePlan {
        const PLANNERS_ALONE: &[Turn] = &[Turn { plan_until: 1.0, bound_until: 1.0 }];
        const IN_TURNS: &[Turn] = &[
            Turn { plan_until: 0.05, bound_until: 0.1 },
            Turn { plan_until: 0.5, bound_until: 1.0 },
            Turn { plan_until: 1.0, bound_until: 1.0 },
        ];
        const LITTLE_FIRST: &[Turn] =
            &[Turn { plan_until: 0.05, bound_until: 0.05 }, Turn { plan_until: 1.0, bound_until: 1.0 }];
        TimePlan(match (has_last_bounds, has_few_plans) {
            (true, _) => IN_TURNS,
            (false, true) => LITTLE_FIRST,
            (false, false) => PLANNERS_ALONE,
        })
    }

    /// The budget of a turn until a share of the time. The first of several turns is short, so it is the second that has the
    /// seed which was asked for.
    fn budget(&self, all: &Budget, turn: usize, until: f64) -> Budget {
        let seed = (turn + self.0.len() - 1) % self.0.len();
        Budget {
            time: if until < 1.0 { all.time.mul_f64(until) } else { all.time },
            seed: all.seed.wrapping_add(seed as u64),
            ..all.clone()
        }
    }

    /// The budget of the first bounds: half the time, since one that could go on for ever leaves the rest to planners.
    fn first_bounds(all: &Budget, bound_only: bool) -> Budget {
        if bound_only { all.clone() } else { Budget { time: all.time / 2, ..all.clone() } }
    }
}

/// Proves what can be proved, plans, and checks everything on the way. `watch` hears of every improvement.
///
/// ```
/// # use divvy_core::generate::{RwnnOptions, rwnn};
/// # use divvy_core::graph::Graph;
/// # use divvy_core::problem::{LinkUse, Objective, OwnHardware, Problem};
/// # use std::time::Duration;
/// use divvy_search::{Budget, Request, solve};
/// # let spec = rwnn(&RwnnOptions { modules: 1, ..RwnnOptions::default() }).unwrap();
/// # let Some(OwnHardware::Given(hardware)) = spec.hardware else { unreachable!() };
/// # let objective = Objective::Latency { links: LinkUse::Delay };
/// # let graph = Graph::new(spec.graph).unwrap();
/// # let problem = Problem::new(graph, &spec.profile, *hardware, &[], objective, &spec.constraints).unwrap();
/// let budget = Budget::new(Duration::from_millis(200));
/// let solved = solve(&problem, &Request::default(), &budget, &mut |_| {}).unwrap();
/// assert!(solved.outcome.value() >= solved.outcome.lower_bound());
/// ```
pub fn solve(
    problem: &Problem,
    request: &Request,
    budget: &Budget,
    watch: &mut dyn FnMut(&Outcome),
) -> Result<Solved, Refused> {
    let planners = choose_planners(problem, request)?;
    let bounds = choose_bounds(problem, request)?;
    let inner = choose_inner(request)?;
    check_paper_bound(problem, request)?;
    check_symmetry(problem, request)?;
    let keeps_plans = request.planner.as_deref().is_none_or(|name| name == "auto") && !request.bound_only;
    Ok(run_all(problem, request, inner, keeps_plans, &planners, bounds, budget, watch))
}

/// As [`solve()`], with the caller's own planners and bounds in place of the registered ones: planners in the order given, each
/// until it has no better plan. Those that do not support the problem are left out. No plan is offered but theirs.
pub fn solve_with(
    problem: &Problem,
    planners: &[&dyn Planner],
    bounds: &[&dyn Bound],
    budget: &Budget,
    watch: &mut dyn FnMut(&Outcome),
) -> Solved {
    let supported = planners.iter().filter(|planner| planner.supports(problem).is_ok());
    let planners: Vec<_> = supported.map(|&planner| (planner, None)).collect();
    let bounds = bounds.iter().copied().filter(|bound| bound.supports(problem).is_ok()).collect();
    let names: Vec<&str> = planners.iter().map(|(planner, _)| planner.name()).collect();
    let request = Request { planner: Some(names.join(", ")), ..Request::default() };
    run_all(problem, &request, None, false, &planners, bounds, budget, watch)
}

#[expect(clippy::too_many_arguments, reason = "the two ways in share it, and nothing else calls it")]
fn run_all(
    problem: &Problem,
    request: &Request,
    inner: Option<&str>,
    keeps_plans: bool,
    planners: &[ChosenPlanner<'_>],
    bounds: Vec<&dyn Bound>,
    budget: &Budget,
    watch: &mut dyn FnMut(&Outcome),
) -> Solved {
    let (baseline, baseline_plan) = baseline(problem, budget);
    let mut outcome = Outcome::default();
    outcome.infeasible = problem.infeasibilities();
    if outcome.infeasible.is_empty() {
        let is_last = |bound: &&dyn Bound| bound.runs() == When::Last;
        let (last_bounds, first_bounds): (Vec<_>, Vec<_>) = bounds.into_iter().partition(is_last);
        let relaxed = problem.relaxed();
        let relaxed = relaxed.as_ref().unwrap_or(problem);
        let mut session =
            Session { problem, relaxed, request, inner, keeps_plans, budget, outcome: &mut outcome, watch };
        session.prove_first(&first_bounds, baseline_plan);
        let stop = session.plan_and_prove(planners, &last_bounds);
        session.leave_out_devices();
        session.recut_best();
        outcome.stop = if budget.is_cancelled() { StopReason::Cancelled } else { stop };
    }
    let planner = request.planner.clone().unwrap_or_else(|| "auto".to_owned());
    Solved { outcome, baseline, planner }
}

/// What all runs of planners and bounds have in common.
struct Session<'a> {
    problem: &'a Problem,
    /// What planners and bounds see of it.
    relaxed: &'a Problem,
    request: &'a Request,
    inner: Option<&'a str>,
    /// Whether plans of others than the planner count: a planner asked for by name must find its own.
    keeps_plans: bool,
    budget: &'a Budget,
    outcome: &'a mut Outcome,
    watch: &'a mut dyn FnMut(&Outcome),
}

impl Session<'_> {
    fn run<'b>(&'b mut self, budget: &'b Budget) -> Run<'b> {
        Run::new(self.problem, budget, self.outcome, self.watch)
            .relaxed_to(self.relaxed)
            .with_inner(self.inner)
            .with_paper_bound(self.request.paper_bound)
            .with_symmetry(self.request.symmetry.as_deref())
            .with_inner_planner(plan_inner)
    }

    /// The bounds that come before any planner. Whatever happens next, there is a plan to keep.
    fn prove_first(&mut self, bounds: &[&dyn Bound], baseline_plan: Option<Plan>) {
        let keeps_plans = self.keeps_plans;
        let budget = TimePlan::first_bounds(self.budget, self.request.bound_only);
        let mut run = self.run(&budget);
        if let Some(plan) = baseline_plan.filter(|_| keeps_plans) {
            run.set_planner("baseline");
            let offered = run.offer(plan);
            debug_assert!(offered.is_ok(), "the baseline passed the check");
        }
        for bound in bounds {
            if !run.budget.is_spent() && !run.is_solved() {
                bound.bound(&mut run);
            }
        }
    }

    /// Planners and the last bounds in turn, until one is through or the budget is spent.
    fn plan_and_prove(&mut self, planners: &[ChosenPlanner<'_>], bounds: &[&dyn Bound]) -> StopReason {
        let tries_all = exhaustive::of_few_plans(self.problem).filter(|_| self.keeps_plans);
        let time_plan = TimePlan::new(!bounds.is_empty(), tries_all.is_some());
        let mut planners = planners;
        let mut stop = StopReason::Finished;
        let mut exhausted = vec![false; bounds.len()];
        // Whether all that is left to prove was given its time.
        let mut are_through = false;
        for (turn, &Turn { plan_until, bound_until }) in time_plan.0.iter().enumerate() {
            // Where bounds have proved all they can, the planner is not interrupted again.
            let is_over = turn > 0 && (are_through || exhausted.iter().all(|is_exhausted| *is_exhausted));
            let plan_until = if is_over { 1.0 } else { plan_until };
            let planning = time_plan.budget(self.budget, turn, plan_until);
            if !self.request.bound_only {
                stop = self.plan(&mut planners, &planning).unwrap_or(stop);
            }
            let mut is_solved = false;
            for number in (0..bounds.len()).filter(|_| plan_until < 1.0) {
                // Where a better plan helps no bound that is left, all have their time at once, so that planners go on
                // undisturbed.
                let left = bounds.iter().zip(&exhausted).filter(|(_, is_exhausted)| !**is_exhausted);
                let shares: Option<Vec<f64>> = left.map(|(bound, _)| bound.deadline_share()).collect();
                let ahead = shares.filter(|_| !self.request.bound_only);
                are_through = ahead.is_some();
                let until = ahead.into_iter().flatten().fold(bound_until, f64::max);
                let bounding = time_plan.budget(self.budget, turn, until);
                let keeps_plans = self.keeps_plans;
                let mut run = self.run(&bounding).taking_plans(keeps_plans).with_planner_waiting(are_through);
                if !exhausted[number] && !run.budget.is_spent() && !run.is_solved() {
                    bounds[number].bound(&mut run);
                    exhausted[number] = run.is_exhausted();
                }
                is_solved = run.is_solved();
            }
            if is_solved || self.budget.is_spent() {
                break;
            }
            let first_of_all = exhaustive::for_a_first_plan(self.problem);
            let first_of_all = first_of_all.filter(|_| self.keeps_plans && self.outcome.best.is_none());
            if let Some(planner) = tries_all.or(first_of_all).filter(|_| turn == 0)
                && self.try_all(planner)
            {
                return StopReason::Finished;
            }
        }
        stop
    }

    /// Tries all plans of a problem that has few, unless others have proved theirs, for half of the time that is left at most.
    /// Whether nothing is left to do.
    fn try_all(&mut self, planner: &dyn Planner) -> bool {
        let budget =
            Budget { time: self.budget.start.elapsed() + self.budget.left() / 2, ..self.budget.clone() };
        let mut run = self.run(&budget);
        if !run.is_solved() {
            plan_with(planner, None, &mut run);
        }
        run.is_solved()
    }

    /// Where planners have ended without a proof, or are out of nodes, and time is left: the best plans that leave out one of few devices, each in an
    /// equal part of the time. What holds them up may be a device that only seems to help.
    fn leave_out_devices(&mut self) {
        let devices = self.problem.hardware.device_count();
        let is_long = self.budget.nodes.is_some() && self.problem.graph.op_count() > MOST_OPS_WITH_NODES;
        if !self.keeps_plans || is_long || !(2..=MOST_LEFT_OUT).contains(&devices) {
            return;
        }
        for (number, device) in self.problem.hardware.devices().enumerate() {
            if self.outcome.is_optimal() || self.budget.is_spent() {
                return;
            }
            let Some(part) = without(self.problem, device) else { continue };
            let time = self.budget.start.elapsed() + self.budget.left() / (devices - number) as u32;
            let budget = Budget { time, ..self.budget.clone() };
            let Some((plan, by)) = plan_part(&part, &budget) else { continue };
            let mut run = self.run(self.budget);
            run.set_planner(&by);
            let offered = run.offer(plan);
            debug_assert!(offered.is_ok(), "bans are all that sets the part apart: {offered:?}");
        }
    }

    /// Cuts the best plan better, or as well with fewer pieces, where these cost something.
    fn recut_best(&mut self) {
        if !self.problem.has_piece_costs() {
            return;
        }
        let Some((plan, _)) = &self.outcome.best else { return };
        let Some(plan) = recut::recut(self.problem, plan, recut::MUCH_WORK) else { return };
        let by = self.outcome.found_by.clone().unwrap_or_default();
        let offered = self.outcome.offer(self.problem, plan, &by, self.budget);
        debug_assert!(offered.is_ok(), "only cuts differ: {offered:?}");
    }

    /// Planners one after the other; those that finish are dropped from the list. Why the last of them stopped, if any ran.
    fn plan(&mut self, planners: &mut &[ChosenPlanner<'_>], budget: &Budget) -> Option<StopReason> {
        let mut run = self.run(budget);
        let mut stop = None;
        while let Some((&(planner, number), later)) = planners.split_first() {
            if run.budget.is_spent() && run.outcome().best.is_some() {
                return Some(StopReason::OutOfBudget);
            }
            let reason = plan_with(planner, number, &mut run);
            stop = Some(reason);
            if reason != StopReason::Finished {
                return stop;
            }
            *planners = later;
        }
        stop
    }
}

fn plan_with(planner: &dyn Planner, number: Option<u64>, run: &mut Run<'_>) -> StopReason {
    run.set_planner(planner.name());
    if let (Some(prefix), Some(number)) = (planner.numbered_prefix(), number) {
        run.set_planner(&format!("{prefix}{number}"));
    }
    run.set_number(number);
    planner.plan(run)
}

/// The same problem with all ops banned from a device; none if some op can run nowhere else.
fn without(problem: &Problem, device: DeviceId) -> Option<Problem> {
    let mut spec = problem.to_spec();
    let name = problem.hardware.device_name(device);
    for op in problem.graph.ops() {
        let banned = spec.constraints.forbid.entry(problem.graph.op_name(op).to_owned()).or_default();
        if !banned.iter().any(|other| other == name) {
            banned.push(name.to_owned());
        }
    }
    let graph = Graph::new(spec.graph).ok()?;
    let hardware = problem.hardware.spec().clone();
    Problem::new(graph, &spec.profile, hardware, &[], problem.objective, &spec.constraints).ok()
}

/// The best plan of a part of a problem, and who found it.
fn plan_part(problem: &Problem, budget: &Budget) -> Option<(Plan, String)> {
    let request = Request::default();
    let planners = choose_planners(problem, &request).ok()?;
    let mut outcome = Outcome::default();
    let relaxed = problem.relaxed();
    let mut session = Session {
        problem,
        relaxed: relaxed.as_ref().unwrap_or(problem),
        request: &request,
        inner: None,
        keeps_plans: true,
        budget,
        outcome: &mut outcome,
        watch: &mut |_| {},
    };
    let (_, baseline_plan) = baseline(problem, budget);
    session.prove_first(&[], baseline_plan);
    session.plan_and_prove(&planners, &[]);
    Some((outcome.best?.0, outcome.found_by?))
}

/// Plans a problem without proving anything, and shows each plan that is better than those before.
fn plan_inner(problem: &Problem, budget: &Budget, found: &mut dyn FnMut(&Plan, &Score)) {
    let request = Request { bounds: Some(Vec::new()), ..Request::default() };
    let mut before = None;
    let mut watch = |outcome: &Outcome| {
        if let Some((plan, score)) = outcome.best.as_ref().filter(|(_, score)| before != Some(score.value)) {
            before = Some(score.value);
            found(plan, score);
        }
    };
    // An objective has planners for every problem, so nothing is refused.
    let _ = solve(problem, &request, budget, &mut watch);
}
