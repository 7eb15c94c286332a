//! Claims about what a plan of a coarse network costs when it is expanded: loads are equal, and no schedule is slower.

use super::{Merged, expand, group_blocks, group_fused, merge};
use crate::coarsen::test_networks::{generated, random_networks, random_runs, random_times};
use crate::costs::Profile;
use crate::graph::Graph;
use crate::hardware::{ClassSpec, DeviceSpec, HardwareSpec, LinkSpec};
use crate::ids::{DeviceId, OpId};
use crate::input_error::Code;
use crate::plan::{LatencyPlan, Plan};
use crate::problem::{ConstraintsSpec, LinkUse, MemoryRule, Objective, Problem};
use crate::rng::Rng;
use crate::score::Score;
use crate::units::Time;
use crate::{check, default_plan};

/// Three devices of two classes, joined by unlike links.
fn three_devices(rng: &mut Rng) -> HardwareSpec {
    let class = |name: &str| ClassSpec { name: name.into(), ..ClassSpec::default() };
    let device = |(name, class): (&str, &str)| DeviceSpec {
        name: name.into(),
        class: class.into(),
        ..DeviceSpec::default()
    };
    let mut link = |[a, b]: [&str; 2]| LinkSpec {
        between: [a.into(), b.into()],
        bandwidth: rng.between(1, 4) * 100_000_000_000,
        latency: Time(rng.between(0, 5)),
        half_duplex: rng.chance(0.3),
        ..LinkSpec::default()
    };
    HardwareSpec {
        classes: ["fast", "slow"].map(class).into(),
        devices: [("a", "fast"), ("b", "fast"), ("c", "slow")].map(device).into(),
        links: [["a", "b"], ["a", "c"], ["b", "c"]].map(&mut link).into(),
        ..HardwareSpec::default()
    }
}

/// A problem, its coarse version, and the map between their ops.
struct CoarsenedProblem {
    fine: Problem,
    coarse: Problem,
    op_of: Vec<OpId>,
}

impl CoarsenedProblem {
    fn new(
        fine: &Graph,
        profile: &Profile,
        merged: &Merged,
        objective: Objective,
        rng: &mut Rng,
    ) -> Option<CoarsenedProblem> {
        let hardware = three_devices(rng);
        let end = |rng: &mut Rng| rng.chance(0.4).then(|| rng.pick(&["a", "b", "c"]).to_string());
        let constraints = ConstraintsSpec {
            input_at: end(rng),
            output_at: end(rng),
            memory_rule: MemoryRule::Weights,
            ..ConstraintsSpec::default()
        };
        // A class that can run no merged op at all is refused; there is nothing to compare then.
        let problem = |graph: Graph, profile: &Profile| {
            let problem = Problem::new(graph, profile, hardware.clone(), &[], objective, &constraints);
            problem.inspect_err(|errors| assert_eq!(errors.kept()[0].code, Code::NoCost)).ok()
        };
        Some(CoarsenedProblem {
            fine: problem(fine.clone(), profile)?,
            coarse: problem(Graph::new(merged.graph.clone()).unwrap(), &merged.profile)?,
            op_of: expand(&merged.graph, fine).unwrap(),
        })
    }

    /// Every placement if there are few, else some.
    fn placements(&self, rng: &mut Rng) -> Vec<Vec<DeviceId>> {
        let choices: Vec<Vec<DeviceId>> =
            self.coarse.graph.ops().map(|op| self.coarse.devices_for(op).collect()).collect();
        let count = choices.iter().map(Vec::len).fold(1, usize::saturating_mul);
        let nth = |mut n: usize| {
            let pick = |devices: &Vec<DeviceId>| {
                let device = devices[n % devices.len()];
                n /= devices.len();
                device
            };
            choices.iter().map(pick).collect()
        };
        if count <= 100 {
            return (0..count).map(nth).collect();
        }
        (0..40).map(|_| choices.iter().map(|devices| *rng.pick(devices)).collect()).collect()
    }

    fn expanded(&self, device_of: &[DeviceId]) -> Vec<DeviceId> {
        self.op_of.iter().map(|op| device_of[op.index()]).collect()
    }

    /// The plan that runs the parts of each merged op in a row.
    fn expanded_order(&self, plan: &LatencyPlan) -> Plan {
        let mut parts: Vec<Vec<OpId>> = vec![Vec::new(); self.coarse.graph.op_count()];
        for &op in self.fine.graph.order() {
            parts[self.op_of[op.index()].index()].push(op);
        }
        let order = plan.order.iter();
        let order = order.map(|ops| ops.iter().flat_map(|op| parts[op.index()].clone()).collect()).collect();
        Plan::Latency(LatencyPlan { order, ..LatencyPlan::default() })
    }
}

fn score(problem: &Problem, plan: &Plan) -> Score {
    check::check(problem, plan).unwrap()
}

/// Three coarsenings of each of many networks.
fn coarsened_problems(objective: Objective) -> Vec<(Rng, CoarsenedProblem)> {
    let mut coarsened_problems = Vec::new();
    let given = generated().into_iter().zip(0..).map(|(mut problem, seed)| {
        let mut rng = Rng::new(seed);
        problem.profile = random_times(&mut rng, problem.graph.ops.len());
        (rng, problem)
    });
    for (mut rng, problem) in random_networks().chain(given) {
        let (graph, profile) = (Graph::new(problem.graph).unwrap(), &problem.profile);
        let runs = random_runs(&graph, &mut rng);
        for group_of in [group_fused(&graph, profile), group_blocks(&graph).group_of, runs] {
            let merged = merge(&graph, profile, &group_of).unwrap();
            let coarsened = CoarsenedProblem::new(&graph, profile, &merged, objective, &mut rng);
            coarsened_problems.extend(coarsened.map(|coarsened| (rng.clone(), coarsened)));
        }
    }
    assert!(coarsened_problems.len() > 1200, "{}", coarsened_problems.len());
    coarsened_problems
}

#[test]
fn a_coarse_stream_costs_the_same_when_it_is_expanded() {
    for (mut rng, coarsened) in coarsened_problems(Objective::Stream) {
        for device_of in coarsened.placements(&mut rng) {
            let coarse =
                score(&coarsened.coarse, &default_plan::plan(&coarsened.coarse, &device_of).unwrap());
            let plan = default_plan::plan(&coarsened.fine, &coarsened.expanded(&device_of)).unwrap();
            let fine = score(&coarsened.fine, &plan);
            assert_eq!(coarse.value, fine.value);
            assert_eq!(coarse.device_busy, fine.device_busy);
            assert_eq!(coarse.link_busy, fine.link_busy);
            assert_eq!(coarse.memory, fine.memory, "weights alone count here");
        }
    }
}

#[test]
fn a_coarse_schedule_is_never_slower_when_it_is_expanded() {
    let mut on_one_device = 0;
    for (mut rng, coarsened) in coarsened_problems(Objective::Latency { links: LinkUse::Delay }) {
        for device_of in coarsened.placements(&mut rng) {
            let plan = default_plan::plan(&coarsened.coarse, &device_of).unwrap();
            let Plan::Latency(order) = &plan else { panic!("the objective is latency") };
            let coarse = score(&coarsened.coarse, &plan);
            let fine = score(&coarsened.fine, &coarsened.expanded_order(order));
            assert!(fine.value <= coarse.value);
            assert_eq!(coarse.device_busy, fine.device_busy);
            assert_eq!(coarse.link_busy, fine.link_busy);
            let one_device = device_of.iter().all(|&device| device == device_of[0]);
            let open_ends =
                coarsened.fine.constraints.input_at.or(coarsened.fine.constraints.output_at).is_none();
            if one_device && open_ends {
                assert_eq!(coarse.value, fine.value);
                assert_eq!(coarse.value, coarse.device_busy[device_of[0].index()]);
                on_one_device += 1;
            }
        }
    }
    assert!(on_one_device > 300, "{on_one_device}");
}
