//! Where no device holds the network, a plan is found all the same, however short the time is: for a pipeline within a
//! moment, for the others at once.

use std::time::Duration;

use divvy_core::costs::{ClassCosts, Cost, Origin, Profile};
use divvy_core::graph::{GraphSpec, OpSpec, ParamSpec, TensorSpec};
use divvy_core::hardware::{ClassSpec, DeviceSpec, HardwareSpec, LinkSpec};
use divvy_core::problem::{ConstraintsSpec, LinkUse, Objective};
use divvy_core::units::Time;
use divvy_search::{Budget, Request, solve};
use divvy_testing::cases::Case;
use divvy_testing::random_problems::Draw;

const OPS: u32 = 400;
const BYTES: u64 = 1000;

/// A chain on three devices, each of which holds little more than a third of the weights.
fn chain(objective: Objective) -> Case {
    let graph = GraphSpec {
        name: "chain".into(),
        ops: (0..OPS).map(|i| OpSpec { name: format!("op{i}"), ..OpSpec::default() }).collect(),
        tensors: (0..OPS)
            .map(|i| TensorSpec {
                name: format!("t{i}"),
                bytes: 8,
                producer: Some(i),
                consumers: (i + 1 < OPS).then_some(i + 1).into_iter().collect(),
                output: i + 1 == OPS,
            })
            .collect(),
        params: (0..OPS)
            .map(|i| ParamSpec { name: format!("w{i}"), bytes: BYTES, readers: vec![i] })
            .collect(),
        ..GraphSpec::default()
    };
    let time = Some(Cost { time: Time(1_000_000), origin: Origin::Measured });
    let classes = vec![ClassCosts {
        class: "card".into(),
        batch_sizes: vec![1, 2],
        costs: vec![vec![time; OPS as usize]; 2],
    }];
    let names = ["d0", "d1", "d2"];
    let link = |a: usize, b: usize| LinkSpec {
        between: [names[a].to_owned(), names[b].to_owned()],
        bandwidth: 1_000_000_000,
        ..LinkSpec::default()
    };
    let hardware = HardwareSpec {
        name: "three".into(),
        classes: vec![ClassSpec {
            name: "card".into(),
            memory: Some(u64::from(OPS) * BYTES * 36 / 100 + 10_000),
            ..ClassSpec::default()
        }],
        devices: names
            .iter()
            .map(|name| DeviceSpec {
                name: (*name).to_owned(),
                class: "card".into(),
                ..DeviceSpec::default()
            })
            .collect(),
        links: vec![link(0, 1), link(1, 2), link(0, 2)],
        ..HardwareSpec::default()
    };
    let profile = Profile { classes, ..Profile::default() };
    let constraints = ConstraintsSpec::default();
    Case::from_draw(0, Draw { graph, profile, hardware, objective, constraints }).expect("a valid problem")
}

#[test]
fn there_is_a_plan_at_once() {
    let objectives = [
        (Objective::Latency { links: LinkUse::Delay }, 1),
        (Objective::Batch { inputs: 2 }, 1),
        (Objective::Stream, 1),
        (Objective::Pipeline { stages: 3 }, 3000),
    ];
    for (objective, milliseconds) in objectives {
        let case = chain(objective);
        let budget = Budget::new(Duration::from_millis(milliseconds));
        let solved = solve(&case.problem, &Request::default(), &budget, &mut |_| {});
        let outcome = solved.expect("a plain request").outcome;
        assert!(outcome.value().is_some(), "{objective:?}: {:?}", outcome.status());
    }
}
