//! `sortinghat`, its ablations and `efficient-mip`: submodel after submodel, each a mixed-integer program on HiGHS.
//!
//! `sortinghat` is the method of SortingHat (ICS 2025): the network is cut at the dominators of its output
//! ([`submodels`]), and program (1)–(23) is solved for each submodel ([`SubmodelProgram`]) given the decisions of those before;
//! 2 seconds of processor time for each, or as many as the name ends in. `efficient-mip` is EfficientMIP as that paper reads it:
//! model parallelism alone, each submodel from idle devices, weights over the device's own bus, a bus for every device. The
//! other variants change one setting each, for the ablations of section 4.4.
//!
//! In-place reads hold their bus in the program too, unless contention is the paper's. The plan is scored by the definition, with
//! each bus in the order that the program chose. Only devices whose weights are loaded over a bus take part. A node of the
//! budget is a node of HiGHS in each submodel.

use std::collections::HashMap;
use std::time::Duration;

use divvy_core::ids::ParamId;
use divvy_core::plan::{BusItem, Plan};
use divvy_core::problem::Problem;

use crate::budget::StopReason;
use crate::cold_start;
use crate::cold_start::baselines::dominators::submodels;
use crate::cold_start::baselines::submodel_mip::{
    CarriedState, PieceDecision, SubmodelProgram, SubmodelSettings, bus_of,
};
use crate::cold_start::choices::{Choices, PieceChoice};
use crate::cold_start::pieces::{NEVER, Pieces};
use crate::cold_start::simulate::Simulation;
use crate::cold_start::to_plan;
use crate::planner::Planner;
use crate::run::Run;

/// The paper's settings, but for the time.
const PAPER: SubmodelSettings = SubmodelSettings {
    slots: 6,
    dominators: 1,
    time: Duration::from_secs(2),
    data_parallel: true,
    carries_state: true,
    shares_buses: true,
    knows_topology: true,
};

/// A planner that solves submodel after submodel.
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
    settings: SubmodelSettings { data_parallel: false, carries_state: false, shares_buses: false, ..PAPER },
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
    settings: SubmodelSettings { shares_buses: false, ..PAPER },
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
        let unset = PieceChoice { device: 0, via: 0, in_place: false };
        let mut choices = Choices { sequence: Vec::new(), by_piece: vec![unset; pieces.pieces.len()] };
        let mut turns = vec![(0, 0, 0); pieces.pieces.len()];
        let mut simulation = Simulation::new(&pieces);
        let (_, bus_count) = bus_of(&pieces, &settings);
        let fresh = CarriedState {
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
            // An equal share of the remaining time for each remaining submodel.
            let left = run.budget.time.saturating_sub(run.budget.start.elapsed());
            let share = (left / (parts.len() - index) as u32).max(Duration::from_millis(20));
            let known = if settings.carries_state {
                carried.clone()
            } else {
                CarriedState {
                    placed: carried.placed.clone(),
                    landed: carried.landed.clone(),
                    ..fresh.clone()
                }
            };
            let program = SubmodelProgram::new(&pieces, &settings, &known, part);
            let Some(mut decided) = program.solve(run.budget, share) else { return StopReason::Finished };
            let rank: HashMap<usize, usize> = part.iter().enumerate().map(|(i, &piece)| (piece, i)).collect();
            decided.sort_by(|a, b| a.start.total_cmp(&b.start).then(rank[&a.piece].cmp(&rank[&b.piece])));
            let order = topological(&pieces, &decided);
            for one in order {
                choices.by_piece[one.piece] = one.choice;
                turns[one.piece] = (index, one.turn, choices.sequence.len());
                choices.sequence.push(one.piece);
                if simulation.append(&pieces, one.piece, one.choice) == NEVER {
                    return StopReason::Finished;
                }
                carry(&pieces, &mut carried, &one);
            }
            carried.devices.copy_from_slice(&simulation.device_free);
            let (bus, _) = bus_of(&pieces, &settings);
            for device in (0..pieces.devices).filter(|&d| pieces.has_bus[d]) {
                let free = pieces.load_links[device]
                    .iter()
                    .map(|&link| simulation.link_free[link])
                    .fold(0.0, f64::max);
                carried.buses[bus[device]] = if settings.shares_buses { free } else { 0.0 };
            }
        }
        let _ = run.offer(in_turns(run.problem, &pieces, &choices, &turns));
        if run.budget.is_spent() { StopReason::OutOfBudget } else { StopReason::Finished }
    }
}

/// Adds a decision to the state carried on: where the piece and its weights are.
fn carry(pieces: &Pieces, carried: &mut CarriedState, one: &PieceDecision) {
    let piece = &pieces.pieces[one.piece];
    let device = one.choice.device as usize;
    carried.placed[one.piece] = Some(device);
    carried.memory[device] += piece.produced;
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

/// The decisions in a topological order, close to the order of their slots.
fn topological(pieces: &Pieces, decided: &[PieceDecision]) -> Vec<PieceDecision> {
    let mut left: Vec<PieceDecision> = decided.to_vec();
    let mut order = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let waits = |one: &PieceDecision| {
            pieces.pieces[one.piece]
                .predecessors
                .iter()
                .any(|before| left.iter().any(|other| other.piece == *before))
        };
        let next = left.iter().position(|one| !waits(one)).unwrap_or(0);
        order.push(left.remove(next));
    }
    order
}

/// The plan with the loads of each submodel in the order of their slots, and in-place reads behind them.
fn in_turns(problem: &Problem, pieces: &Pieces, choices: &Choices, turns: &[(usize, usize, usize)]) -> Plan {
    let mut plan = to_plan::plan(problem, pieces, choices);
    let mut wanted: HashMap<ParamId, (usize, usize, usize)> = HashMap::new();
    for &piece in &choices.sequence {
        let in_place = choices.by_piece[piece].in_place;
        for &op in pieces.pieces[piece].ops.iter().skip(usize::from(in_place)) {
            for &param in problem.graph.params_of(op) {
                wanted.entry(param).or_insert(turns[piece]);
            }
        }
    }
    plan.bus.sort_by_key(|item| match item {
        BusItem::Load { param, .. } => wanted[param],
        BusItem::Read { op } => turns[pieces.piece_of(*op)],
    });
    Plan::ColdStart(plan)
}
