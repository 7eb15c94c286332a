//! Claims that moving one op keeps everything else: the others stay where they are, and the result breaks only rules that a
//! move can break.

use std::collections::BTreeSet;

use divvy_core::check::check;
use divvy_core::ids::{DeviceId, OpId};
use divvy_core::plan::Plan;
use divvy_core::relocate::relocate;
use divvy_core::violation::Rule;

use divvy_testing::problem_kind::ProblemKind;
use divvy_testing::{cases::for_cases, describe::describe, plans};

/// Rules that a sound plan can break once an op has moved. The others say that the plan itself was put together wrongly.
const MAY_BREAK: [Rule; 10] = [
    Rule::DeviceAllowed,
    Rule::Colocation,
    Rule::Route,
    Rule::Order,
    Rule::Memory,
    Rule::BatchSize,
    Rule::StageCount,
    Rule::StageDevice,
    Rule::StageCycle,
    Rule::Splits,
];

/// Where everything but one op runs.
fn others(plan: &Plan, moved: OpId) -> BTreeSet<(OpId, DeviceId, u32)> {
    plan.placements().into_iter().filter(|(op, ..)| *op != moved).collect()
}

fn relocate_everything(kind: ProblemKind, wanted: usize) {
    let (mut moves, mut valid) = (0, 0);
    for_cases(kind, wanted, |case| {
        let (plans, _) = plans::every(&case.model, 40, case.seed);
        for plan in plans {
            let Ok(score) = check(&case.problem, &plan) else { continue };
            for op in case.problem.graph.ops() {
                for to in case.problem.hardware.devices() {
                    let there = plan.placements().iter().all(|&(o, device, _)| o != op || device == to);
                    let Ok(moved) = relocate(&case.problem, &plan, &score, op, to) else { continue };
                    let Some(moved) = moved else {
                        assert!(there || matches!(plan, Plan::Pipeline(_)), "{}", describe(case));
                        continue;
                    };
                    assert!(!there, "it was there already: {}", describe(case));
                    assert_eq!(others(&plan, op), others(&moved, op), "{}", describe(case));
                    let now: Vec<_> = moved.placements().into_iter().filter(|(o, ..)| *o == op).collect();
                    assert!(now.iter().any(|&(_, device, _)| device == to), "{}", describe(case));
                    moves += 1;
                    match check(&case.problem, &moved) {
                        Ok(_) => valid += 1,
                        Err(violations) => {
                            let wrong = violations.iter().find(|v| !sound(kind, v.rule));
                            assert!(
                                wrong.is_none(),
                                "{wrong:?} of {moved:?}, from {plan:?}\n{}",
                                describe(case)
                            );
                        }
                    }
                }
            }
        }
    });
    eprintln!("{kind:?}: {moves} moves, {valid} of them valid");
    assert!(5 * valid > moves, "{kind:?}: only {valid} of {moves} moves are valid");
}

/// Whether a moved op may break a rule. Peers without a route leave weights that never land.
fn sound(kind: ProblemKind, rule: Rule) -> bool {
    MAY_BREAK.contains(&rule) || (kind == ProblemKind::ColdStart && matches!(rule, Rule::Weights))
}

#[test]
fn everything_else_stays_where_it_is() {
    for kind in ProblemKind::ALL {
        relocate_everything(kind, 60);
    }
}
