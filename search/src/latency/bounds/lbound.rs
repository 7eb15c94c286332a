//! `lbound`: DiviML's recursive lower bound over modules (IV.B), where its argument holds.
//!
//! Let M be the first module, G what follows it, and OPT(·) the optimum of a set of ops alone.
//!
//! * *First form.* The last op of M to end is a sink of M. If every sink of M has a consumer in G, all descendants of
//!   that consumer start after M has ended: OPT ≥ OPT(M) + min over sinks of M of what must follow a consumer of the
//!   sink.
//! * *Second form.* The first op of G to start is a source of G. If every source of G reads from M,
//!   OPT ≥ OPT(G) + min over sources of G of what must precede the source within M.
//!
//! DiviML states both without the conditions, and both are then false: the tests have a counterexample. The two are
//! applied at every boundary from the last to the first, and the better value is kept. OPT of a set is the bound that
//! the solver of subproblems proves, so the bound is attested by it. Memory limits and colocation across modules are
//! left out: a relaxation.

use std::collections::HashMap;

use divvy_core::ids::OpId;
use divvy_core::problem::Problem;
use divvy_core::units::Time;
use divvy_proof::latency_tables::{LatencyTables, NEVER};

use crate::bound::{Bound, When};
use crate::latency::mip;
use crate::latency::mip::MipLimits;
use crate::latency::module_solver::{ModuleSolver, solver_named};
use crate::latency::subproblem::Subproblem;
use crate::modules::Modules;
use crate::run::Run;

pub(crate) struct LBound;

impl Bound for LBound {
    fn name(&self) -> &'static str {
        "lbound"
    }

    fn about(&self) -> &'static str {
        "DiviML's recursive bound: modules one after the other, each by the solver of --inner; attested by it"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        mip::supports(problem)?;
        let tables = LatencyTables::new(problem)?;
        let modules = Modules::find(&tables);
        if modules.modules.len() < 2 {
            return Err("the network does not fall into modules with few edges between them".to_owned());
        }
        Recursion::new(problem, &tables, &modules).holds()
    }

    fn runs(&self) -> When {
        When::ByName
    }

    fn bound(&self, run: &mut Run<'_>) {
        let Ok(tables) = LatencyTables::new(run.problem) else { return };
        let Some(solver) = solver_named(run.inner()) else { return };
        let modules = Modules::find(&tables);
        let recursion = Recursion::new(run.problem, &tables, &modules);
        let limits = MipLimits::of(run.budget);
        recursion
            .run(solver, &limits, &mut |bound| run.attest(self.name(), Time(bound), solver.attested_by()));
    }
}

/// The recursion over the modules of a network.
struct Recursion<'a> {
    problem: &'a Problem,
    tables: &'a LatencyTables,
    modules: &'a [Vec<u32>],
    /// The module of each op.
    number: Vec<usize>,
}

impl<'a> Recursion<'a> {
    fn new(problem: &'a Problem, tables: &'a LatencyTables, modules: &'a Modules) -> Recursion<'a> {
        let number = modules.number_of(tables.op_count());
        Recursion { problem, tables, modules: &modules.modules, number }
    }

    /// An error if neither form holds at the first boundary.
    fn holds(&self) -> Result<(), String> {
        let (Err(first), Err(second)) = (self.sinks(&self.modules[0]), self.sources(0)) else {
            return Ok(());
        };
        let name = |op: u32| self.problem.graph.op_name(OpId(op));
        Err(format!(
            "nothing behind the first module waits for `{}`, and `{}` behind it waits for nothing in it, so the \
             modules may overlap in time",
            name(first),
            name(second)
        ))
    }

    /// The sinks of a set of ops of one module if each has a consumer in a later module; else a sink that has none.
    fn sinks(&self, set: &[u32]) -> Result<Vec<u32>, u32> {
        let outputs = |op: u32| self.tables.outputs(op as usize);
        let sinks = set.iter().copied().filter(|&op| outputs(op).iter().all(|edge| !set.contains(&edge.op)));
        let sinks: Vec<u32> = sinks.collect();
        match sinks.iter().find(|&&op| outputs(op).is_empty()) {
            Some(&op) => Err(op),
            None => Ok(sinks),
        }
    }

    /// The sources of what follows a module if each reads from that module; else a source that does not.
    fn sources(&self, module: usize) -> Result<Vec<u32>, u32> {
        let behind = self.modules[module + 1..].iter().flatten().copied();
        let inputs = |op: u32| self.tables.inputs(op as usize);
        let is_source = |&op: &u32| inputs(op).iter().all(|edge| self.number[edge.op as usize] <= module);
        let sources: Vec<u32> = behind.filter(is_source).collect();
        let reads = |&op: &u32| inputs(op).iter().any(|edge| self.number[edge.op as usize] == module);
        match sources.iter().find(|&op| !reads(op)) {
            Some(&op) => Err(op),
            None => Ok(sources),
        }
    }

    /// The descendants of an op within a module, or its ancestors, with itself.
    fn reach(&self, op: u32, module: usize, forward: bool) -> Vec<u32> {
        let mut found = vec![op];
        let mut next = 0;
        while let Some(&op) = found.get(next) {
            let edges =
                if forward { self.tables.outputs(op as usize) } else { self.tables.inputs(op as usize) };
            for edge in edges.iter().filter(|edge| self.number[edge.op as usize] == module) {
                if !found.contains(&edge.op) {
                    found.push(edge.op);
                }
            }
            next += 1;
        }
        found.sort_unstable();
        found
    }

    /// Proceeds from the last module to the first; `claim` receives bounds on the makespan.
    fn run(&self, solver: &dyn ModuleSolver, limits: &MipLimits<'_>, claim: &mut dyn FnMut(u64)) {
        let entries = (0..self.tables.op_count())
            .filter(|&op| {
                let inputs = self.tables.inputs(op);
                inputs.iter().any(|edge| self.number[edge.op as usize] != self.number[op])
            })
            .count();
        let exits = (0..self.tables.op_count())
            .filter(|&op| {
                let outputs = self.tables.outputs(op);
                outputs.iter().any(|edge| self.number[edge.op as usize] != self.number[op])
            })
            .count();
        let mut todo = entries + exits + self.modules.len();
        let mut known: HashMap<Vec<u32>, u64> = HashMap::new();
        let mut optimum = |ops: Vec<u32>| -> u64 {
            let share = limits.share(3.0 / todo.max(1) as f64);
            todo = todo.saturating_sub(1);
            *known.entry(ops).or_insert_with_key(|ops| {
                let bound = self.alone(ops, solver, &share);
                // Without a schedule of these ops the problem has no plan, and any bound holds.
                if bound >= NEVER { 0 } else { bound }
            })
        };
        // For each op that reads from an earlier module, a lower bound on the time from its start to the end.
        let mut follows = vec![0u64; self.tables.op_count()];
        let mut behind = 0u64;
        for module in (0..self.modules.len()).rev() {
            let here = &self.modules[module];
            let after = |set: &[u32], follows: &[u64]| {
                let Ok(sinks) = self.sinks(set) else { return 0 };
                let most = |&sink: &u32| {
                    let consumers = self.tables.outputs(sink as usize).iter();
                    consumers.map(|edge| follows[edge.op as usize]).max().unwrap_or(0)
                };
                sinks.iter().map(most).min().unwrap_or(0)
            };
            let entries: Vec<u32> = (here.iter().copied())
                .filter(|&op| {
                    let inputs = self.tables.inputs(op as usize);
                    inputs.iter().any(|edge| self.number[edge.op as usize] != module)
                })
                .collect();
            for op in entries {
                let led_to = self.reach(op, module, true);
                let rest = after(&led_to, &follows);
                follows[op as usize] = optimum(led_to) + rest;
            }
            let mut sorted = here.clone();
            sorted.sort_unstable();
            let first_form = optimum(sorted) + after(here, &follows);
            let second_form = match self.sources(module) {
                Ok(sources) if module + 1 < self.modules.len() => {
                    let mut before = |source: u32| {
                        let inputs = self.tables.inputs(source as usize).iter();
                        let makers = inputs.filter(|edge| self.number[edge.op as usize] == module);
                        makers.map(|edge| optimum(self.reach(edge.op, module, false))).max().unwrap_or(0)
                    };
                    behind + sources.into_iter().map(&mut before).min().unwrap_or(0)
                }
                _ => 0,
            };
            behind = behind.max(first_form).max(second_form);
            claim(behind);
            if limits.are_spent() {
                return;
            }
        }
    }

    /// A lower bound on the optimum of some ops alone.
    fn alone(&self, ops: &[u32], solver: &dyn ModuleSolver, limits: &MipLimits<'_>) -> u64 {
        let mut part = Subproblem::new(self.problem, self.tables, ops.to_vec());
        for op in 0..part.op_count() {
            // The delivery of inputs and outputs of the network may overlap with other modules.
            part.release[op].fill(0);
            part.tail[op].fill(0);
        }
        solver.solve(&part, None, limits).bound
    }
}

#[cfg(test)]
mod tests {
    use crate::budget::Budget;
    use divvy_core::costs::{ClassCosts, Cost, Origin, Profile};
    use divvy_core::generate::{RwnnOptions, Wiring, rwnn};
    use divvy_core::graph::{Graph, GraphSpec, OpSpec, TensorSpec};
    use divvy_core::hardware::ClassSpec;
    use divvy_core::problem::{ConstraintsSpec, LinkUse, Objective, OwnHardware, uniform_hardware};

    use super::*;

    /// s → a → c and s → b, times 1, 1, 10, 10 for s, a, b, c, two equal devices, no communication: optimum 12.
    fn counterexample() -> Problem {
        let op = |name: &str| OpSpec { name: name.into(), ..OpSpec::default() };
        let tensor = |name: &str, from: u32, to: &[u32]| TensorSpec {
            name: name.into(),
            producer: Some(from),
            consumers: to.to_vec(),
            ..TensorSpec::default()
        };
        let graph = GraphSpec {
            name: "counterexample".into(),
            ops: ["s", "a", "b", "c"].map(op).to_vec(),
            tensors: vec![tensor("t", 0, &[1, 2]), tensor("u", 1, &[3])],
            ..GraphSpec::default()
        };
        let hardware = uniform_hardware(2, 1_000_000_000, ClassSpec::default());
        let cost = |time: u64| Some(Cost { time: Time(time), origin: Origin::Measured });
        let costs = vec![[1, 1, 10, 10].map(cost).to_vec()];
        let class = hardware.classes[0].name.clone();
        let profile = Profile {
            classes: vec![ClassCosts { class, batch_sizes: vec![1], costs }],
            ..Profile::default()
        };
        let objective = Objective::Latency { links: LinkUse::Delay };
        let graph = Graph::new(graph).unwrap();
        Problem::new(graph, &profile, hardware, &[], objective, &ConstraintsSpec::default()).unwrap()
    }

    fn bound(problem: &Problem, modules: Vec<Vec<u32>>) -> (Result<(), String>, u64) {
        let tables = LatencyTables::new(problem).unwrap();
        let modules = Modules { modules, channels: 1 };
        let recursion = Recursion::new(problem, &tables, &modules);
        let budget = Budget::new(std::time::Duration::from_secs(20));
        let mut best = 0;
        let solver = solver_named(None).unwrap();
        recursion.run(solver, &MipLimits::of(&budget), &mut |bound| best = best.max(bound));
        (recursion.holds(), best)
    }

    #[test]
    fn the_paper_s_formula_is_refused_where_it_is_wrong() {
        let problem = counterexample();
        // M₁ = {s, a, b}, G₂ = {c}: the printed formula gives 11 + 10 = 21. Here b is a sink that nothing waits for.
        let (_, value) = bound(&problem, vec![vec![0, 1, 2], vec![3]]);
        assert!(value <= 12, "{value}");
        let tables = LatencyTables::new(&problem).unwrap();
        let modules = Modules { modules: vec![vec![0, 1, 2], vec![3]], channels: 1 };
        assert_eq!(Recursion::new(&problem, &tables, &modules).sinks(&[0, 1, 2]), Err(2));
        // And nothing in M₁ is before b if M₁ = {a}: neither form holds.
        let modules = Modules { modules: vec![vec![0, 1, 3], vec![2]], channels: 1 };
        let recursion = Recursion::new(&problem, &tables, &modules);
        assert_eq!(recursion.sinks(&[0, 1, 3]), Err(3));
        assert_eq!(recursion.sources(0), Ok(vec![2]));
    }

    /// Small modules of every wiring, against the optimum.
    #[test]
    fn it_never_passes_the_optimum() {
        let mut refused = 0;
        let mut held = 0;
        for (wiring, channels) in
            [(Wiring::Sdep, 2), (Wiring::Wdep, 2), (Wiring::Wfree, 2), (Wiring::Wfree, 1)]
        {
            for seed in 0..4 {
                let options =
                    RwnnOptions { modules: 3, nodes: 2, channels, wiring, seed, ..RwnnOptions::default() };
                let problem = network(&options);
                let tables = LatencyTables::new(&problem).unwrap();
                let budget = Budget::new(std::time::Duration::from_secs(60));
                let limits = MipLimits::of(&budget);
                let solver = solver_named(None).unwrap();
                let optimum = solver.solve(&Subproblem::whole(&problem, &tables), None, &limits);
                assert!(optimum.finished);
                let modules = Modules::of_size(&tables, 1);
                let recursion = Recursion::new(&problem, &tables, &modules);
                refused += usize::from(recursion.holds().is_err());
                recursion.run(solver, &limits, &mut |bound| {
                    held += 1;
                    assert!(bound <= optimum.best.as_ref().unwrap().value, "{options:?}");
                });
            }
        }
        assert!(held > 20 && refused < 16, "{held} {refused}");
    }

    fn network(options: &RwnnOptions) -> Problem {
        let spec = rwnn(options).unwrap();
        let Some(OwnHardware::Given(hardware)) = spec.hardware else { panic!("it brings its devices") };
        let graph = Graph::new(spec.graph).unwrap();
        let objective = Objective::Latency { links: LinkUse::Delay };
        Problem::new(graph, &spec.profile, *hardware, &[], objective, &spec.constraints).unwrap()
    }

    #[test]
    fn where_it_holds_it_finds_the_optimum_of_a_chain_of_modules() {
        let problem = counterexample();
        let (holds, value) = bound(&problem, vec![vec![0], vec![1, 2, 3]]);
        assert_eq!((holds, value), (Ok(()), 12));
    }
}
