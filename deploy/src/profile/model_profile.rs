//! All that was measured of a model, and the files for planning with it.

use std::path::Path;

use divvy_core::costs::{ClassCosts, Cost, Origin, Profile};
use divvy_core::problem::{Problem, ProblemSpec};
use divvy_core::units::Time;
use divvy_io::{detect, file, problem_file};

use crate::error::DeployError;
use crate::profile::card_costs::{BesideCopies, CardBus};
use crate::profile::checkpoint::Checkpoint;
use crate::profile::class_times::ClassTimes;
use crate::profile::contention::Contention;
use crate::profile::cut_costs::{CutCosts, PieceRates};
use crate::profile::handovers::Handover;
use crate::profile::in_place::InPlaceTime;
use crate::profile::measured_hardware::measured_hardware;
use crate::profile::transfer_times::{self, Transfer};

/// What was measured of cards besides their ops.
#[derive(Clone, Debug, Default)]
pub struct CardCosts {
    /// Copies of each card.
    pub buses: Vec<CardBus>,
    /// What a stage takes on each class that does next to nothing, in microseconds.
    pub calls: Vec<(String, f64)>,
    /// What copies do to cores.
    pub beside_copies: Vec<BesideCopies>,
    /// What pieces on cores cost beside a card.
    pub handovers: Vec<Handover>,
    /// Ops that were timed reading their weights in place.
    pub in_place: Vec<InPlaceTime>,
}

impl CardCosts {
    /// What a stage takes that does next to nothing, on a class.
    pub(super) fn call(&self, class: &str) -> Option<f64> {
        self.calls.iter().find(|(known, _)| known == class).map(|(_, us)| *us)
    }
}

/// All that was measured of a model.
pub struct ModelProfile {
    /// Op times, for each class and batch size.
    pub classes: Vec<ClassTimes>,
    /// For classes on which the model was cut, what that costs.
    pub cuts: Vec<CutCosts>,
    /// Between every two devices.
    pub transfers: Vec<Transfer>,
    /// For classes of several devices, what they do to each other.
    pub contention: Vec<Contention>,
    /// What cards cost besides their ops.
    pub cards: CardCosts,
    problem: Problem,
    /// What was kept of this while it was measured.
    checkpoint: Option<Checkpoint>,
}

impl ModelProfile {
    /// A profile with nothing but the times of ops.
    pub(super) fn of_ops(problem: Problem, classes: Vec<ClassTimes>) -> ModelProfile {
        let (cuts, transfers, contention) = Default::default();
        ModelProfile {
            classes,
            cuts,
            transfers,
            contention,
            cards: CardCosts::default(),
            problem,
            checkpoint: None,
        }
    }

    /// The same with what else was measured; the checkpoint goes when the profile is written.
    pub(super) fn with(
        self,
        cuts: Vec<CutCosts>,
        transfers: Vec<Transfer>,
        contention: Vec<Contention>,
        checkpoint: Checkpoint,
    ) -> ModelProfile {
        ModelProfile { cuts, transfers, contention, checkpoint: Some(checkpoint), ..self }
    }

    /// The same with what was measured of cards.
    pub(super) fn with_cards(self, cards: CardCosts) -> ModelProfile {
        ModelProfile { cards, ..self }
    }

    /// What pieces cost on each class on which the model was cut.
    pub fn piece_rates(&self) -> impl Iterator<Item = (&str, PieceRates)> {
        let of_cores = transfer_times::launch(&self.transfers);
        let launch = move |class: &str| self.cards.call(class).unwrap_or(of_cores);
        self.cuts.iter().map(move |cuts| (cuts.class.as_str(), cuts.rates(launch(&cuts.class))))
    }

    /// Writes the times of ops, for planning with them. The checkpoint is not needed any more.
    pub fn write(&self, path: &Path) -> Result<(), DeployError> {
        file::write(path, &format!("{}\n", problem_file::write(&self.spec())))?;
        if let Some(checkpoint) = &self.checkpoint {
            checkpoint.remove();
        }
        Ok(())
    }

    /// Writes the hardware with its links, cuts and contention as measured.
    pub fn write_hardware(&self, path: &Path) -> Result<(), DeployError> {
        let mut spec = measured_hardware(&self.problem, &self.transfers, &self.cuts, &self.contention);
        for (name, rates) in self.piece_rates() {
            if let Some(class) = spec.classes.iter_mut().find(|known| known.name == name) {
                class.piece = Time((rates.piece * 1e6).round() as u64);
            }
        }
        for BesideCopies { class, factor, .. } in &self.cards.beside_copies {
            if let Some(class) = spec.classes.iter_mut().find(|known| known.name == *class) {
                class.beside_copies = Some((1000.0 * factor).round() / 1000.0);
            }
        }
        // The better figure: of cores that wait for the card, as they do in a cold start.
        for Handover { class, factor, .. } in &self.cards.handovers {
            if let Some(class) = spec.classes.iter_mut().find(|known| known.name == *class) {
                class.beside_copies = Some((1000.0 * factor).round() / 1000.0);
            }
        }
        Ok(file::write(path, &detect::to_toml(&spec))?)
    }

    /// The times as a problem without hardware and objective.
    fn spec(&self) -> ProblemSpec {
        let time = |us: f64| Time((us * 1e6).round() as u64);
        let mut profile = Profile::default();
        let mut sorted: Vec<&ClassTimes> = self.classes.iter().collect();
        sorted.sort_by_key(|times| (&times.class, times.batch));
        let mut fused: Vec<&Vec<usize>> = Vec::new();
        for ClassTimes { class, batch, ops, whole, fused: groups, .. } in sorted {
            let costs =
                ops.iter().map(|&us| Some(Cost { time: time(us), origin: Origin::Measured })).collect();
            profile.whole_model.push((class.clone(), *batch, time(*whole)));
            if profile.classes.last().is_none_or(|last| last.class != *class) {
                profile.classes.push(ClassCosts { class: class.clone(), ..ClassCosts::default() });
            }
            if let Some(last) = profile.classes.last_mut() {
                last.batch_sizes.push(*batch);
                last.costs.push(costs);
            }
            fused.extend(groups.iter().filter(|group| !fused.contains(group)).collect::<Vec<_>>());
        }
        let mut graph = self.problem.graph.spec().clone();
        // A read in place holds the bus: what it takes is said in the bytes that the bus carries meanwhile.
        if let Some(bus) = self.cards.buses.first() {
            for read in &self.cards.in_place {
                let bytes = (read.extra_us / 1e6 * bus.rates.to_card).round() as u64;
                let op = &mut graph.ops[read.op.index()];
                op.in_place_bytes = Some(bytes);
            }
        }
        let name = |&op: &usize| graph.ops[op].name.clone();
        let colocate = fused.iter().map(|group| group.iter().map(name).collect()).collect();
        let handover = |class: &str| self.cards.handovers.iter().find(|known| known.class == class);
        let pieces = self.piece_rates().map(|(class, rates)| {
            let us = handover(class).map_or(rates.piece, |known| known.piece_us.max(rates.piece));
            (class.to_owned(), time(us))
        });
        profile.pieces = pieces.collect();
        let mut spec =
            ProblemSpec { graph, profile, hardware: None, objective: None, constraints: Default::default() };
        spec.constraints.colocate = colocate;
        spec
    }
}
