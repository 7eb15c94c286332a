//! What a card's bus costs: copies to it, and what they do to cores that compute meanwhile.

use std::sync::atomic::AtomicBool;

use divvy_core::problem::Problem;
use divvy_exec::backends::cuda::{CopyRates, CopyTraffic, copy_rates};
use divvy_exec::measure::Timings;
use divvy_exec::program::DeviceSpec;

use crate::engine::Engine;
use crate::error::DeployError;
use crate::profile::profiled_model::ProfiledModel;
use crate::profile::transfer_times::Transfer;
use crate::profile::turns::{SHORT_TURNS, affordable, item_times};
use crate::session::{feeds, start, warm_up};

/// What was measured of a card's bus.
#[derive(Clone, Debug)]
pub struct CardBus {
    /// The card's device.
    pub device: String,
    /// Its copies.
    pub rates: CopyRates,
}

/// What copies to cards do to a class of cores.
#[derive(Clone, Debug)]
pub struct BesideCopies {
    /// The class.
    pub class: String,
    /// The whole model beside copies, over the same without.
    pub factor: f64,
    /// The distance of the quarters of the time beside copies, over its median.
    pub spread: f64,
}

fn failed(error: &divvy_exec::stage_error::StageError) -> DeployError {
    DeployError::Environment(error.to_string())
}

/// The copies of each card, one after the other, with the device that it is.
pub(super) fn buses(cards: &[(String, usize)]) -> Result<Vec<CardBus>, DeployError> {
    let one = |(device, card): &(String, usize)| {
        Ok(CardBus { device: device.clone(), rates: copy_rates(*card).map_err(|error| failed(&error))? })
    };
    cards.iter().map(one).collect()
}

/// The link between a card and whatever is no card, as measured.
pub(super) fn transfer(problem: &Problem, bus: &CardBus, cards: &[(String, usize)]) -> Option<Transfer> {
    let is_card = |end: &String| cards.iter().any(|(device, _)| device == end);
    let links = problem.hardware.spec().links.iter();
    let mut others = links.filter_map(|link| {
        let [a, b] = &link.between;
        let other = if *a == bus.device { b } else { a };
        ((*a == bus.device || *b == bus.device) && !is_card(other)).then(|| other.clone())
    });
    Some(Transfer {
        from: others.next()?,
        to: bus.device.clone(),
        latency: bus.rates.each_us,
        launch: 0.0,
        bandwidth: Some(bus.rates.to_card),
        spread: 0.0,
    })
}

impl ProfiledModel {
    /// The whole model, which takes so long on a class of cores, beside copies to cards, over the same without, in turns.
    pub(super) fn beside_copies(
        &self,
        (class, whole): (&str, f64),
        devices: &[DeviceSpec],
        engine: &Engine,
        cards: &[(String, usize)],
        cancelled: &AtomicBool,
    ) -> Result<Option<BesideCopies>, DeployError> {
        let Some(device) = devices.first() else { return Ok(None) };
        let backend = engine.plain();
        let fed = feeds(&self.inputs[..1], &*backend)?;
        let mut running = start(self.program(&self.model, device, engine), &backend, 1)?;
        warm_up(&mut running, &fed, affordable(self.options.warm_up, 4.0 * whole), cancelled)?;
        let count = self.options.repeat.div_ceil(SHORT_TURNS);
        let (mut factors, mut beside) = (Vec::new(), Vec::new());
        for _ in 0..affordable(SHORT_TURNS, 2.0 * whole * count as f64) {
            let alone = Timings::new(item_times(&mut running, &fed, count, cancelled)?);
            let traffic =
                cards.iter().map(|(_, card)| CopyTraffic::start(*card).map_err(|error| failed(&error)));
            let traffic = traffic.collect::<Result<Vec<_>, _>>()?;
            let with = Timings::new(item_times(&mut running, &fed, count, cancelled)?);
            drop(traffic);
            if alone.median() > 0.0 && with.median() > 0.0 {
                factors.push(with.median() / alone.median());
                beside.extend(with.values().iter().copied());
            }
        }
        let spread = Timings::new(beside).spread();
        let factor = Timings::new(factors).median().max(1.0);
        Ok((factor > 0.0).then(|| BesideCopies { class: class.to_owned(), factor, spread }))
    }
}
