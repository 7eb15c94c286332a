//! `sortinghat` and `efficient-mip`: submodels one after the other, each by a mixed-integer program on HiGHS.
//!
//! `sortinghat` is the method of SortingHat (ICS 2025): the network is cut at the dominators of its output, and the
//! program (1)–(23) is solved for each submodel with what the ones before have decided (`cold_start/submodel.rs`); 2
//! seconds of processor time for each, or as many as its name ends in. `efficient-mip` is its reading of EfficientMIP:
//! model parallelism alone, every submodel by itself, weights over the own bus, every device as if it had a bus of its
//! own. Variants turn one thing off or up, for the ablations of section 4.4. Reads in place hold their bus in the program
//! too, or pass beside its loads where contention is as in the paper. The plan is scored by the definition, with each bus
//! in the turns that the program chose. A node of the budget is one of HiGHS's in every submodel. Only devices that
//! weights reach over a bus take part.

use std::collections::HashMap;
use std::time::Duration;

use crate::budget::StopReason;
use divvy_core::ids::ParamId;
use divvy_core::plan::{BusItem, Plan};
use divvy_core::problem::Problem;

use crate::cold_start;
use crate::cold_start::baselines::dominators::submodels;
use crate::cold_start::baselines::submodel_mip::{Carried, Decided, SubmodelSettings, Submodel, bus_of};
use crate::cold_start::choices::{PieceChoice, Choices};
use crate::cold_start::pieces::Pieces;
use crate::cold_start::simulate::Simulation;
use crate::cold_start::to_plan;
use crate::planner::Planner;
use crate::run::Run;

/// As the paper has it, but for the time.
const PAPER: SubmodelSettings = SubmodelSettings {
    slots: 6,
    dominators: 1,
    time: Duration::from_secs(2),
    data_parallel: true,
    carries_on: true,
    avoids_contention: true,
    knows_topology: true,
};

/// A method of submodels.
pub(crate) struct Submodels {
    name: &'static str,
    about: &'static str,
    settings: SubmodelSettings,
}

pub(crate) const SORTINGHAT: Submodels = Submodels {
    name: "sortinghat",
    about: "dominator submodels, each by SortingHat's program on HiGHS; sortinghat-30: 30 s for each",
    settings: PAPER,
};
pub(crate) const EFFICIENT_MIP: Submodels = Submodels {
    name: "efficient-mip",
    about: "dominator submodels by themselves, model parallelism alone (EfficientMIP as SortingHat reads it)",
    settings: SubmodelSettings { data_parallel: false, carries_on: false, avoids_contention: false, ..PAPER },
};
pub(crate) const TWELVE_SLOTS: Submodels = Submodels {
    name: "sortinghat-q12",
    about: "sortinghat with 12 slots for each device",
    settings: SubmodelSettings { slots: 12, ..PAPER },
};
pub(crate) const TWO_DOMINATORS: Submodels = Submodels {
    name: "sortinghat-two-dominators",
    about: "sortinghat with two dominators in each submodel",
    settings: SubmodelSettings { dominators: 2, ..PAPER },
};
pub(crate) const NO_TOPOLOGY: Submodels = Submodels {
    name: "sortinghat-no-topology",
    about: "sortinghat with average times and copies for all devices",
    settings: SubmodelSettings { knows_topology: false, ..PAPER },
};
pub(crate) const NO_TURNS: Submodels = Submodels {
    name: "sortinghat-no-turns",
    about: "sortinghat as if every device had a bus of its own",
    settings: SubmodelSettings { avoids_contention: false, ..PAPER },
};

impl Planner for Submodels {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn numbered_prefix(&self) -> Option<&'static str> {
        (self.name == SORTINGHAT.name).then_some("sortinghat-")
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        cold_start::supports(problem)?;
        let constraints = &problem.constraints;
        if !constraints.colocate.is_empty()
            || constraints.input_at.is_some()
            || constraints.output_at.is_some()
        {
            return Err("its program knows neither groups of ops nor places of inputs and outputs".to_owned());
        }
        let pieces = Pieces::new(problem);
        let runs = |piece: &cold_start::pieces::Piece| piece.devices.iter().any(|&d| pieces.has_bus[d]);
        if pieces.pieces.iter().all(runs) {
            Ok(())
        } else {
            Err("some op may run on no device that weights reach over a bus".to_owned())
        }
    }

    fn in_auto(&self) -> bool {
        false
    }

    fn plan(&self, run: &mut Run<'_>) -> StopReason {
        let pieces = Pieces::new(run.problem);
        let sequence = pieces.sequence();
        let parts = submodels(&pieces, &sequence, self.settings.dominators);
        let mut settings = self.settings;
        settings.time = run.number().map_or(settings.time, Duration::from_secs);
        let idle = PieceChoice { device: 0, via: 0, in_place: false };
        let mut choices = Choices { sequence: Vec::new(), of: vec![idle; pieces.pieces.len()] };
        let mut turns = vec![(0, 0, 0); pieces.pieces.len()];
        let mut state = Simulation::new(&pieces);
        let (_, bus_count) = bus_of(&pieces, &settings);
        let fresh = Carried {
            buses: vec![0.0; bus_count],
            devices: vec![0.0; pieces.devices],
            memory: vec![0.0; pieces.devices],
            placed: vec![None; pieces.pieces.len()],
            landed: vec![None; pieces.bundles.len()],
        };
        let mut carried = fresh.clone();
        for (index, part) in parts.iter().enumerate() {
            if run.budget.is_cancelled() {
                return StopReason::Cancelled;
            }
            // What is left of the time is for all submodels that are left.
            let left = run.budget.time.saturating_sub(run.budget.start.elapsed());
            let fair = (left / (parts.len() - index) as u32).max(Duration::from_millis(20));
            let known = if settings.carries_on {
                carried.clone()
            } else {
                Carried { placed: carried.placed.clone(), landed: carried.landed.clone(), ..fresh.clone() }
            };
            let submodel = Submodel::new(&pieces, &settings, &known, part);
            let Some(mut decided) = submodel.solve(run.budget, fair) else { return StopReason::Finished };
            let rank: HashMap<usize, usize> = part.iter().enumerate().map(|(i, &piece)| (piece, i)).collect();
            decided.sort_by(|a, b| a.start.total_cmp(&b.start).then(rank[&a.piece].cmp(&rank[&b.piece])));
            let order = topological(&pieces, &decided);
            for one in order {
                choices.of[one.piece] = one.choice;
                turns[one.piece] = (index, one.turn, choices.sequence.len());
                choices.sequence.push(one.piece);
                if state.take(&pieces, one.piece, one.choice) == f64::INFINITY {
                    return StopReason::Finished;
                }
                carry(&pieces, &mut carried, &one);
            }
            carried.devices.copy_from_slice(&state.device_free);
            let (bus, _) = bus_of(&pieces, &settings);
            for device in (0..pieces.devices).filter(|&d| pieces.has_bus[d]) {
                let free = pieces.media[device].iter().map(|&link| state.link_free[link]).fold(0.0, f64::max);
                carried.buses[bus[device]] = if settings.avoids_contention { free } else { 0.0 };
            }
        }
        let _ = run.offer(in_turns(run.problem, &pieces, &choices, &turns));
        if run.budget.is_spent() { StopReason::OutOfBudget } else { StopReason::Finished }
    }
}

/// Notes where a piece and its weights are.
fn carry(pieces: &Pieces, carried: &mut Carried, one: &Decided) {
    let piece = &pieces.pieces[one.piece];
    let device = one.choice.device as usize;
    carried.placed[one.piece] = Some(device);
    carried.memory[device] += piece.made;
    let first = if one.choice.in_place { &[][..] } else { &piece.first_bundles[..] };
    for &bundle in first.iter().chain(&piece.other_bundles) {
        if carried.landed[bundle].is_none() {
            carried.landed[bundle] = Some(one.choice.via as usize);
            carried.memory[one.choice.via as usize] += pieces.bundles[bundle].bytes;
            if one.choice.via != one.choice.device {
                carried.memory[device] += pieces.bundles[bundle].bytes;
            }
        }
    }
}

/// Pieces in the order of their slots, as far as data allow.
fn topological(pieces: &Pieces, decided: &[Decided]) -> Vec<Decided> {
    let mut left: Vec<Decided> = decided.to_vec();
    let mut order = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let waits = |one: &Decided| {
            pieces.pieces[one.piece]
                .before
                .iter()
                .any(|before| left.iter().any(|other| other.piece == *before))
        };
        let next = left.iter().position(|one| !waits(one)).unwrap_or(0);
        order.push(left.remove(next));
    }
    order
}

/// The plan with the loads of each submodel in the turns of their slots, and reads in place behind them.
fn in_turns(problem: &Problem, pieces: &Pieces, choices: &Choices, turns: &[(usize, usize, usize)]) -> Plan {
    let mut plan = to_plan::plan(problem, pieces, choices);
    let mut wanted: HashMap<ParamId, (usize, usize, usize)> = HashMap::new();
    for &piece in &choices.sequence {
        let in_place = choices.of[piece].in_place;
        for &op in pieces.pieces[piece].ops.iter().skip(usize::from(in_place)) {
            for &param in problem.graph.params_of(op) {
                wanted.entry(param).or_insert(turns[piece]);
            }
        }
    }
    plan.bus.sort_by_key(|item| match item {
        BusItem::Load { param, .. } => wanted[param],
        BusItem::Read { op } => turns[pieces.of(*op)],
    });
    Plan::ColdStart(plan)
}
