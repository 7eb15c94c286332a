//! The run of a cold start: a thread for each device, and one for each card's bus.
//!
//! Nothing on a card waits for the host but what needs a value from host memory: loads are all put into the card's queue as the
//! request begins, pieces as soon as their loads are, and each waits there. A piece that reads in place has its turn on the bus:
//! it waits for the loads before it, and those behind it wait for it.
//!
//! A thread that fails ends the run with [`Failure`]; the others stop at their next step.

use std::collections::{HashMap, HashSet};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::board::{Board, Stopped};
use super::card::{Card, Mark, Queue};
use super::spec::{BusWork, ColdSpec, Place, WeightAt};
use crate::backend::{Backend, Stage};
use crate::cores::Cores;
use crate::executor::Failure;
use crate::stage_error::StageError;
use crate::tensor::{HostTensor, Tensor};

/// Something that happened in a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ColdSpan {
    /// What.
    pub what: ColdWork,
    /// Microseconds since the request came; on a card by its own clock.
    pub start_us: f64,
    /// Microseconds since the request came.
    pub end_us: f64,
}

/// What a [`ColdSpan`] is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColdWork {
    /// A piece ran.
    Piece(usize),
    /// A step of the buses.
    Bus(usize),
}

/// What one request left.
#[derive(Clone, Debug)]
pub struct ColdRun {
    /// The results, in the order in which they are wanted.
    pub results: Vec<HostTensor>,
    /// From the request to the end of the last piece, by the wall clock.
    pub wall: Duration,
    /// What happened when.
    pub spans: Vec<ColdSpan>,
}

/// Pieces that are loaded, on devices that wait for a request.
pub struct ColdStart {
    spec: ColdSpec,
    /// For each device, its card if it is one.
    cards: Vec<Option<Box<dyn Card>>>,
    /// For each piece on cores, itself.
    stages: Vec<Option<Mutex<Box<dyn Stage>>>>,
    makers: Vec<Option<usize>>,
    /// The step that loads a weight to a card.
    load_of: HashMap<(usize, usize), usize>,
    /// For each piece, the step in which it reads in place.
    read_of: Vec<Option<usize>>,
}

/// A piece by its number, ready to run.
type LoadedPiece = (usize, Box<dyn Stage>);
/// When something began and ended, on the host.
type HostSpan = (usize, f64, f64);
/// Why a thread of a run ended early.
enum End {
    Stopped,
    Failed(Failure),
}

impl From<Stopped> for End {
    fn from(_: Stopped) -> End {
        End::Stopped
    }
}

/// What the threads of one run share.
struct Request<'a> {
    board: Board<'a>,
    gate: Barrier,
    inputs: &'a [HostTensor],
}

impl ColdStart {
    /// Loads the pieces of devices of cores with `host`. `cards` has one entry for each device, a card where it is one.
    pub fn new(
        spec: ColdSpec,
        cards: Vec<Option<Box<dyn Card>>>,
        host: &dyn Backend,
    ) -> Result<ColdStart, Failure> {
        let all = || "all".to_owned();
        spec.check().map_err(|cause| Failure { stage: all(), device: all(), op: None, item: None, cause })?;
        let mut stages: Vec<Option<Mutex<Box<dyn Stage>>>> = spec.pieces.iter().map(|_| None).collect();
        for (device, known) in spec.devices.iter().enumerate() {
            if let Place::Cores(cores) = &known.place {
                for (piece, stage) in load(&spec, device, cores, host)? {
                    stages[piece] = Some(Mutex::new(stage));
                }
            }
        }
        let mut load_of = HashMap::new();
        let mut read_of = vec![None; spec.pieces.len()];
        for (step, known) in spec.bus.iter().enumerate() {
            match known.what {
                BusWork::Load { weight, device } => {
                    load_of.insert((weight, device), step);
                }
                BusWork::Read { piece } => read_of[piece] = Some(step),
            }
        }
        let makers = spec.makers();
        Ok(ColdStart { spec, cards, stages, makers, load_of, read_of })
    }

    /// What is run.
    pub fn spec(&self) -> &ColdSpec {
        &self.spec
    }

    /// Forgets the weights on cards, then answers one request; none if it was cancelled. `inputs` are in the order of the spec.
    pub fn run(&mut self, inputs: &[HostTensor], cancelled: &AtomicBool) -> Result<Option<ColdRun>, Failure> {
        Cores::back_after(|| self.answer(inputs, cancelled))
    }

    fn answer(&self, inputs: &[HostTensor], cancelled: &AtomicBool) -> Result<Option<ColdRun>, Failure> {
        for (device, card) in self.all_cards() {
            card.forget().map_err(|error| self.failure("weights", device, error))?;
        }
        let spec = &self.spec;
        let is_used = |device: &usize| spec.order(*device).next().is_some();
        let devices: Vec<usize> = (0..spec.devices.len()).filter(is_used).collect();
        let buses: Vec<usize> = self.all_cards().map(|(device, _)| device).collect();
        let request = Request {
            board: Board::new(spec.bus.len(), spec.pieces.len(), spec.values.len(), cancelled),
            gate: Barrier::new(devices.len() + buses.len() + 1),
            inputs,
        };
        let mut on_host: Vec<HostSpan> = Vec::new();
        let wall = std::thread::scope(|scope| {
            let request = &request;
            let on_cores = devices.iter().filter(|&&device| !spec.devices[device].is_card());
            let on_cores: Vec<_> = on_cores
                .map(|&device| {
                    scope.spawn(move || self.guarded(request, device, |s| s.on_cores(request, device)))
                })
                .collect();
            let on_cards = devices.iter().filter(|&&device| spec.devices[device].is_card());
            let mut on_cards: Vec<_> = on_cards
                .map(|&device| {
                    scope.spawn(move || self.guarded(request, device, |s| s.on_card(request, device)))
                })
                .collect();
            on_cards.extend(buses.iter().map(|&device| {
                scope.spawn(move || self.guarded(request, device, |s| s.on_bus(request, device)))
            }));
            request.gate.wait();
            let origin = Instant::now();
            on_cards.into_iter().for_each(|thread| drop(thread.join()));
            for thread in on_cores {
                on_host.extend(thread.join().ok().flatten().unwrap_or_default());
            }
            for (device, card) in self.all_cards() {
                if let Err(error) = card.finish() {
                    request.board.fail(self.failure("pieces", device, error));
                }
            }
            origin.elapsed()
        });
        let mut told = request.board.end();
        if let Some(failure) = told.failure {
            return Err(failure);
        }
        if cancelled.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let results =
            spec.results.iter().map(|&value| self.result(value, inputs, &told.pieces, &mut told.values));
        let results = results.collect::<Result<_, _>>()?;
        let spans = self.spans(&told.bus, &told.pieces, on_host)?;
        Ok(Some(ColdRun { results, wall, spans }))
    }

    fn all_cards(&self) -> impl Iterator<Item = (usize, &dyn Card)> {
        let cards = self.cards.iter().enumerate();
        cards.filter_map(|(device, card)| card.as_deref().map(|card| (device, card)))
    }

    fn card(&self, device: usize) -> Result<&dyn Card, Failure> {
        let none = || self.failure("pieces", device, StageError::new("it is no card"));
        self.cards[device].as_deref().ok_or_else(none)
    }

    fn failure(&self, stage: &str, device: usize, error: StageError) -> Failure {
        let device = self.spec.devices[device].name.clone();
        Failure { stage: stage.to_owned(), device, op: error.op, item: Some(0), cause: error.cause }
    }

    /// Does something for a device; an error or a panic is the run's failure.
    fn guarded<T>(
        &self,
        request: &Request<'_>,
        device: usize,
        body: impl FnOnce(&ColdStart) -> Result<T, End>,
    ) -> Option<T> {
        let died = |_| {
            let error = StageError::new("its thread died");
            Err(End::Failed(self.failure("pieces", device, error)))
        };
        match std::panic::catch_unwind(AssertUnwindSafe(|| body(self))).unwrap_or_else(died) {
            Ok(done) => Some(done),
            Err(End::Stopped) => None,
            Err(End::Failed(failure)) => {
                request.board.fail(failure);
                None
            }
        }
    }

    /// Puts the loads of a card's bus into its queue.
    fn on_bus(&self, request: &Request<'_>, device: usize) -> Result<(), End> {
        let card = self.card(device).map_err(End::Failed);
        request.gate.wait();
        let card = card?;
        let failed = |stage: &str| {
            let stage = stage.to_owned();
            move |error| End::Failed(self.failure(&stage, device, error))
        };
        card.begin().map_err(failed("weights"))?;
        for (number, step) in self.spec.bus.iter().enumerate() {
            if self.spec.device_of(number) != device {
                continue;
            }
            match step.what {
                // Whoever runs the piece waits for the bus, and tells when it is over.
                BusWork::Read { .. } => {
                    let over = request.board.hear_bus(number)?;
                    card.wait(Queue::Copy, &over).map_err(failed("weights"))?;
                }
                BusWork::Load { weight, .. } => {
                    let name = &self.spec.weights[weight].name;
                    for &before in step.after.iter().filter(|&&step| self.spec.device_of(step) != device) {
                        let over = request.board.hear_bus(before)?;
                        card.wait(Queue::Copy, &over).map_err(failed(name))?;
                    }
                    card.load(weight).map_err(failed(name))?;
                    let over = card.mark(Queue::Copy).map_err(failed(name))?;
                    request.board.tell_bus(number, over);
                }
            }
        }
        Ok(())
    }

    /// Puts the pieces of a card, and what they need, into its queue.
    fn on_card(&self, request: &Request<'_>, device: usize) -> Result<(), End> {
        let card = self.card(device).map_err(End::Failed);
        request.gate.wait();
        let card = card?;
        let (mut here, mut forwarded) = (HashSet::new(), HashSet::new());
        for number in self.spec.order(device) {
            let piece = &self.spec.pieces[number];
            let failed = |error| End::Failed(self.failure(&piece.model.name, device, error));
            let wait = |step: usize| -> Result<(), End> {
                let over = request.board.hear_bus(step)?;
                card.wait(Queue::Compute, &over).map_err(failed)
            };
            // The queue of loads is in order: the last of those needed covers the others.
            let mut last = None;
            for used in &piece.weights {
                let WeightAt::Loaded { via } = used.at else { continue };
                let step = self.load_of[&(used.weight, via)];
                if via == device {
                    last = last.max(Some(step));
                } else if forwarded.insert(used.weight) {
                    wait(step)?;
                    let peer = self.card(via).map_err(End::Failed)?;
                    card.forward(used.weight, peer).map_err(failed)?;
                }
            }
            if let Some(step) = last {
                wait(step)?;
            }
            for &value in piece.values.iter().filter(|&&value| here.insert(value)) {
                self.bring(request, card, device, value).map_err(|end| match end {
                    Ok(error) => failed(error),
                    Err(stopped) => stopped.into(),
                })?;
            }
            if let Some(read) = self.read_of[number] {
                self.spec.bus[read].after.iter().try_for_each(|&step| wait(step))?;
            }
            card.run(number).map_err(failed)?;
            let over = card.mark(Queue::Compute).map_err(failed)?;
            if let Some(read) = self.read_of[number] {
                request.board.tell_bus(read, over.clone());
            }
            request.board.tell_piece(number, over);
            here.extend(&piece.outputs);
        }
        Ok(())
    }

    /// Brings a value to a card, from wherever it is.
    fn bring(
        &self,
        request: &Request<'_>,
        card: &dyn Card,
        device: usize,
        value: usize,
    ) -> Result<(), Result<StageError, Stopped>> {
        let Some(maker) = self.makers[value] else {
            return self
                .given(request.inputs, value)
                .map_or(Ok(()), |input| card.bring(value, input).map_err(Ok));
        };
        let from = self.spec.pieces[maker].device;
        if from == device {
            return Ok(());
        }
        match self.cards[from].as_deref() {
            Some(peer) => {
                let made = request.board.hear_piece(maker).map_err(Err)?;
                card.wait(Queue::Compute, &made).map_err(Ok)?;
                card.bring_from(value, peer).map_err(Ok)
            }
            None => {
                let made = request.board.hear_value(value).map_err(Err)?;
                let host = made.stored().to_host().map_err(Ok)?;
                card.bring(value, &host).map_err(Ok)
            }
        }
    }

    fn given<'a>(&self, inputs: &'a [HostTensor], value: usize) -> Option<&'a HostTensor> {
        let place = self.spec.inputs.iter().position(|&input| input == value)?;
        inputs.get(place)
    }

    /// Runs the pieces of a device of cores.
    fn on_cores(&self, request: &Request<'_>, device: usize) -> Result<Vec<HostSpan>, End> {
        let pinned = match &self.spec.devices[device].place {
            Place::Cores(cores) => {
                cores.first().pin_this_thread().map_err(|cause| StageError::new(cause.to_string()))
            }
            Place::Card => Ok(()),
        };
        request.gate.wait();
        let origin = Instant::now();
        pinned.map_err(|error| End::Failed(self.failure("pieces", device, error)))?;
        let since = |at: Instant| at.duration_since(origin).as_secs_f64() * 1e6;
        let mut spans = Vec::new();
        for number in self.spec.order(device) {
            let piece = &self.spec.pieces[number];
            let failed = |error| End::Failed(self.failure(&piece.model.name, device, error));
            let mut inputs: Vec<Tensor> = Vec::with_capacity(piece.values.len());
            for &value in &piece.values {
                inputs.push(self.on_host(request, value).map_err(|end| match end {
                    Ok(error) => failed(error),
                    Err(stopped) => stopped.into(),
                })?);
            }
            let Some(stage) = &self.stages[number] else { continue };
            let start = since(Instant::now());
            let made = stage.lock().unwrap_or_else(PoisonError::into_inner).run(&inputs).map_err(failed)?;
            spans.push((number, start, since(Instant::now())));
            for (&value, tensor) in piece.outputs.iter().zip(made) {
                request.board.tell_value(value, tensor);
            }
        }
        Ok(spans)
    }

    /// A value in host memory, from wherever it is.
    fn on_host(&self, request: &Request<'_>, value: usize) -> Result<Tensor, Result<StageError, Stopped>> {
        let Some(maker) = self.makers[value] else {
            let input =
                self.given(request.inputs, value).ok_or_else(|| Ok(StageError::new("an input is missing")));
            return Ok(Tensor::new(input?.clone()));
        };
        match self.cards[self.spec.pieces[maker].device].as_deref() {
            None => request.board.hear_value(value).map_err(Err),
            Some(card) => {
                let made = request.board.hear_piece(maker).map_err(Err)?;
                let host = card.fetch(value, &made).map_err(Ok)?;
                Ok(Tensor::new(host))
            }
        }
    }

    fn result(
        &self,
        value: usize,
        inputs: &[HostTensor],
        pieces: &[Option<Mark>],
        values: &mut [Option<Tensor>],
    ) -> Result<HostTensor, Failure> {
        let Some(maker) = self.makers[value] else {
            let none = || self.failure("results", 0, StageError::new("an input is missing"));
            return self.given(inputs, value).cloned().ok_or_else(none);
        };
        let device = self.spec.pieces[maker].device;
        let failed = |error| self.failure("results", device, error);
        let missing = || failed(StageError::new(format!("`{}` was not made", self.spec.values[value].name)));
        match self.cards[device].as_deref() {
            Some(card) => card.fetch(value, pieces[maker].as_ref().ok_or_else(missing)?).map_err(failed),
            None => values[value].take().ok_or_else(missing)?.stored().to_host().map_err(failed),
        }
    }

    /// What happened when: on cards, from mark to mark.
    fn spans(
        &self,
        bus: &[Option<Mark>],
        pieces: &[Option<Mark>],
        on_host: Vec<HostSpan>,
    ) -> Result<Vec<ColdSpan>, Failure> {
        let at = |device: usize, mark: &Option<Mark>| -> Result<Option<f64>, Failure> {
            let Some(mark) = mark else { return Ok(None) };
            let reached = self.card(device)?.reached_us(mark);
            reached.map(Some).map_err(|error| self.failure("times", device, error))
        };
        let mut spans = Vec::new();
        for (device, _) in self.all_cards() {
            let mut free = 0.0;
            for (number, _) in
                self.spec.bus.iter().enumerate().filter(|(n, _)| self.spec.device_of(*n) == device)
            {
                if let Some(end_us) = at(device, &bus[number])? {
                    spans.push(ColdSpan { what: ColdWork::Bus(number), start_us: free, end_us });
                    free = end_us;
                }
            }
            let mut free: f64 = 0.0;
            for number in self.spec.order(device) {
                let piece = &self.spec.pieces[number];
                // It began when its device was free and the last of its loads had come.
                let mut start_us = free;
                for used in &piece.weights {
                    if let WeightAt::Loaded { via } = used.at {
                        start_us =
                            start_us.max(at(via, &bus[self.load_of[&(used.weight, via)]])?.unwrap_or(0.0));
                    }
                }
                for maker in piece.values.iter().filter_map(|&value| self.makers[value]) {
                    let from = self.spec.pieces[maker].device;
                    let host = on_host.iter().find(|(piece, ..)| *piece == maker).map(|&(.., end)| end);
                    let made = if self.cards[from].is_some() { at(from, &pieces[maker])? } else { host };
                    start_us = start_us.max(made.unwrap_or(0.0));
                }
                if let Some(end_us) = at(device, &pieces[number])? {
                    spans.push(ColdSpan {
                        what: ColdWork::Piece(number),
                        start_us: start_us.min(end_us),
                        end_us,
                    });
                    free = end_us;
                }
            }
        }
        let piece = |(number, start_us, end_us)| ColdSpan { what: ColdWork::Piece(number), start_us, end_us };
        spans.extend(on_host.into_iter().map(piece));
        spans.sort_by(|a, b| a.start_us.total_cmp(&b.start_us));
        Ok(spans)
    }
}

/// The pieces of a device of cores, loaded on a thread that is pinned to the first of them.
fn load(
    spec: &ColdSpec,
    device: usize,
    cores: &Cores,
    host: &dyn Backend,
) -> Result<Vec<LoadedPiece>, Failure> {
    let name = &spec.devices[device].name;
    let fault = |stage: &str, error: StageError| Failure {
        stage: stage.to_owned(),
        device: name.clone(),
        op: error.op,
        item: None,
        cause: error.cause,
    };
    let body = || {
        let unusable = |cause| StageError::new(format!("cannot use the cores {cores}: {cause}"));
        let opened = cores.first().pin_this_thread().map_err(unusable).and_then(|()| host.open(cores));
        let mut opened = opened.map_err(|error| fault(name, error))?;
        let mut loaded = Vec::new();
        for number in spec.order(device) {
            let model = &spec.pieces[number].model;
            loaded.push((number, opened.load(model).map_err(|error| fault(&model.name, error))?));
        }
        Ok(loaded)
    };
    std::thread::scope(|scope| {
        let died = |_| Err(fault(name, StageError::new("its thread died")));
        scope.spawn(body).join().unwrap_or_else(died)
    })
}
