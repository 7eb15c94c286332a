//! Cold starts on simulated cards: results are right only where queues, order, forwarding and turns on the bus are.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bytes::Bytes;
use divvy_exec::backend::{Backend, Device, Stage, StageModel, Weight, WeightsAre};
use divvy_exec::backends::simulated::{SimulatedCard, SimulatedSpeed};
use divvy_exec::cold_start::card::Card;
use divvy_exec::cold_start::run::{ColdStart, ColdWork};
use divvy_exec::cold_start::spec::{
    BusStep, BusWork, ColdDevice, ColdPiece, ColdSpec, Place, ValueSpec, WeightAt, WeightUse,
};
use divvy_exec::cores::Cores;
use divvy_exec::stage_error::StageError;
use divvy_exec::tensor::{Data, Element, HostTensor, Tensor};

/// Seeded random numbers.
struct Rng(u64);

impl Rng {
    fn new(seed: u64) -> Rng {
        Rng(seed * 2 + 1)
    }

    fn between(&mut self, low: u64, high: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        low + (self.0 >> 33) % (high - low + 1)
    }

    fn chance(&mut self, probability: f64) -> bool {
        (self.between(0, 999) as f64) < 1000.0 * probability
    }
}

/// An engine whose stages give the sum of all they are fed, weights included, plus a number that the model names; or fail.
struct Sums;

impl Backend for Sums {
    fn name(&self) -> String {
        "sums".into()
    }

    fn open(&self, _cores: &Cores) -> Result<Box<dyn Device>, StageError> {
        Ok(Box::new(Sums))
    }

    fn take_in(&self, value: HostTensor) -> Result<Tensor, StageError> {
        Ok(Tensor::new(value))
    }
}

impl Device for Sums {
    fn load(&mut self, model: &StageModel) -> Result<Box<dyn Stage>, StageError> {
        let own = match model.weights_are {
            WeightsAre::Constants => model.weights.iter().map(|weight| number(&weight.data)).sum(),
            _ => 0.0,
        };
        let text = String::from_utf8_lossy(&model.bytes);
        let plus = text.parse::<f32>().ok().map(|plus| plus + own);
        Ok(Box::new(Sum { plus, outputs: model.outputs.len() }))
    }
}

struct Sum {
    plus: Option<f32>,
    outputs: usize,
}

impl Stage for Sum {
    fn run(&mut self, inputs: &[Tensor]) -> Result<Vec<Tensor>, StageError> {
        let plus = self.plus.ok_or_else(|| StageError::new("it was told to fail"))?;
        let mut sum = plus;
        for input in inputs {
            let Data::F32(values) = input.stored().to_host()?.data else {
                return Err(StageError::new("no floats"));
            };
            sum += values[0];
        }
        Ok((0..self.outputs).map(|i| Tensor::new(value(sum + i as f32))).collect())
    }
}

fn value(number: f32) -> HostTensor {
    HostTensor { shape: vec![1], data: Data::F32(vec![number]) }
}

fn number(bytes: &[u8]) -> f32 {
    f32::from_le_bytes(bytes.try_into().expect("four bytes"))
}

fn weight(name: usize, number: f32) -> Weight {
    let data = Bytes::copy_from_slice(&number.to_le_bytes());
    Weight { name: format!("w{name}"), element: Element::F32, shape: vec![1], data }
}

/// A piece as tests describe it.
struct Draft {
    device: usize,
    values: Vec<usize>,
    weights: Vec<(usize, WeightAt)>,
}

const CARDS: usize = 2;

/// Two cards and cores; value 0 is given, each piece makes the next one, and the last is wanted. Every weight that is loaded is loaded
/// once, in the order of need, on one bus for both cards.
fn spec(drafts: &[Draft], weights: &[f32]) -> ColdSpec {
    let device = |i: usize| ColdDevice {
        name: format!("device{i}"),
        place: if i < CARDS { Place::Card } else { Place::Cores(Cores::allowed().first()) },
    };
    let value = |i: usize| ValueSpec { name: format!("v{i}"), element: Element::F32, shape: vec![1] };
    let weights: Vec<Weight> = weights.iter().enumerate().map(|(i, &w)| weight(i, w)).collect();
    let (mut bus, mut loaded): (Vec<BusStep>, HashMap<(usize, usize), usize>) = Default::default();
    let mut pieces = Vec::new();
    for (number, draft) in drafts.iter().enumerate() {
        let is_card = draft.device < CARDS;
        let mut uses = Vec::new();
        for &(weight, at) in draft.weights.iter().filter(|_| is_card) {
            if let WeightAt::Loaded { via } = at
                && !loaded.contains_key(&(weight, via))
            {
                loaded.insert((weight, via), bus.len());
                bus.push(BusStep { what: BusWork::Load { weight, device: via }, after: Vec::new() });
            }
            uses.push(WeightUse { weight, at });
        }
        if uses.iter().any(|used| used.at == WeightAt::InPlace) {
            bus.push(BusStep { what: BusWork::Read { piece: number }, after: Vec::new() });
        }
        let own: Vec<Weight> = draft.weights.iter().map(|&(weight, _)| weights[weight].clone()).collect();
        pieces.push(ColdPiece {
            device: draft.device,
            model: StageModel {
                name: format!("piece{number}"),
                bytes: format!("{number}").into_bytes(),
                weights: own,
                weights_are: if is_card { WeightsAre::Inputs } else { WeightsAre::Constants },
                inputs: draft.values.iter().map(|v| format!("v{v}")).collect(),
                outputs: vec![format!("v{}", number + 1)],
            },
            values: draft.values.clone(),
            outputs: vec![number + 1],
            weights: uses,
        });
    }
    for (number, step) in bus.iter_mut().enumerate().skip(1) {
        step.after = vec![number - 1];
    }
    ColdSpec {
        devices: (0..=CARDS).map(device).collect(),
        weights,
        values: (0..=drafts.len()).map(value).collect(),
        pieces,
        bus,
        inputs: vec![0],
        results: vec![drafts.len()],
        resident: 0.0,
    }
}

/// What the pieces give, one after the other.
fn expected(drafts: &[Draft], weights: &[f32], input: f32) -> f32 {
    let mut values = vec![input];
    for (number, draft) in drafts.iter().enumerate() {
        let sum: f32 = draft.values.iter().map(|&v| values[v]).sum();
        let of_weights: f32 = draft.weights.iter().map(|&(weight, _)| weights[weight]).sum();
        values.push(sum + of_weights + number as f32);
    }
    values[drafts.len()]
}

fn start(spec: ColdSpec) -> ColdStart {
    let spec = Arc::new(spec);
    let speed = SimulatedSpeed { bus: 4e4, ..SimulatedSpeed::default() };
    let card = |device: usize| {
        let card = SimulatedCard::new(&spec, device, &Sums, speed).expect("it fits");
        (device < CARDS).then(|| Box::new(card) as Box<dyn Card>)
    };
    let cards = (0..=CARDS).map(|device| if device < CARDS { card(device) } else { None }).collect();
    ColdStart::new((*spec).clone(), cards, &Sums).expect("it loads")
}

fn answer(drafts: &[Draft], weights: &[f32], input: f32) -> f32 {
    let mut cold = start(spec(drafts, weights));
    // A second request forgets what the first one loaded.
    let off = AtomicBool::new(false);
    let first = cold.run(&[value(1.0)], &off).expect("it runs").expect("it was not cancelled");
    assert_eq!(first.results, [value(expected(drafts, weights, 1.0))]);
    let second = cold.run(&[value(input)], &off).expect("it runs").expect("it was not cancelled");
    let Data::F32(found) = &second.results[0].data else { panic!("floats") };
    found[0]
}

const HERE: fn(usize) -> WeightAt = |via| WeightAt::Loaded { via };

#[test]
fn loads_forwards_reads_in_place_and_cores() {
    let drafts = [
        Draft { device: 2, values: vec![0], weights: vec![(0, WeightAt::InPlace)] },
        Draft { device: 0, values: vec![1], weights: vec![(1, HERE(0)), (2, HERE(0))] },
        Draft { device: 1, values: vec![2, 0], weights: vec![(2, HERE(0)), (3, HERE(1))] },
        Draft { device: 2, values: vec![3, 2], weights: Vec::new() },
        Draft { device: 0, values: vec![4], weights: vec![(0, WeightAt::InPlace)] },
        Draft { device: 1, values: vec![5, 3], weights: vec![(4, HERE(1))] },
    ];
    let weights = [100.0, 200.0, 400.0, 800.0, 1600.0];
    assert_eq!(answer(&drafts, &weights, 7.0), expected(&drafts, &weights, 7.0));
}

/// Random pieces on random devices, loaded, forwarded or read in place.
fn random(rng: &mut Rng) -> (Vec<Draft>, Vec<f32>) {
    let weights: Vec<f32> = (0..6).map(|i| (1 << i) as f32 * 8.0).collect();
    let count = rng.between(1, 10) as usize;
    let mut drafts = Vec::new();
    for number in 0..count {
        let device = rng.between(0, 2) as usize;
        let mut values = vec![number];
        values.extend((0..number).filter(|_| rng.chance(0.2)));
        let in_place = rng.chance(0.2);
        let mut own = Vec::new();
        for weight in 0..weights.len() {
            if !rng.chance(0.35) {
                continue;
            }
            let via = if rng.chance(0.3) { 1 - device.min(1) } else { device.min(1) };
            own.push((weight, if in_place || device == CARDS { WeightAt::InPlace } else { HERE(via) }));
        }
        drafts.push(Draft { device, values, weights: own });
    }
    (drafts, weights)
}

#[test]
fn random_cold_starts_give_what_their_pieces_give_one_by_one() {
    let mut rng = Rng::new(3);
    for _ in 0..60 {
        let (drafts, weights) = random(&mut rng);
        assert_eq!(answer(&drafts, &weights, 3.0), expected(&drafts, &weights, 3.0));
    }
}

#[test]
fn pieces_wait_for_their_weights_and_loads_for_reads_in_place() {
    let drafts = [
        Draft { device: 0, values: vec![0], weights: vec![(0, HERE(0))] },
        Draft { device: 0, values: vec![1], weights: vec![(1, WeightAt::InPlace)] },
        Draft { device: 0, values: vec![2], weights: vec![(2, HERE(0))] },
    ];
    let weights = [1.0, 2.0, 4.0];
    let mut cold = start(spec(&drafts, &weights));
    let run =
        cold.run(&[value(0.0)], &AtomicBool::new(false)).expect("it runs").expect("it was not cancelled");
    let end = |what: ColdWork| run.spans.iter().find(|span| span.what == what).unwrap().end_us;
    assert!(end(ColdWork::Bus(0)) <= end(ColdWork::Piece(0)), "a piece ends after its weight has come");
    assert!(end(ColdWork::Piece(1)) <= end(ColdWork::Bus(2)), "the bus is the piece's while it reads");
    assert!(end(ColdWork::Bus(2)) <= end(ColdWork::Piece(2)));
}

#[test]
fn a_piece_that_fails_is_named_and_nothing_hangs() {
    for device in 0..=CARDS {
        let mut drafts = vec![
            Draft { device: 0, values: vec![0], weights: vec![(0, HERE(0))] },
            Draft { device, values: vec![1], weights: Vec::new() },
        ];
        drafts.push(Draft { device: 2 - device, values: vec![2], weights: Vec::new() });
        let mut spec = spec(&drafts, &[1.0]);
        spec.pieces[1].model.bytes = b"no number".to_vec();
        let mut cold = start(spec);
        let failure = cold.run(&[value(0.0)], &AtomicBool::new(false)).map(|_| ()).unwrap_err();
        assert!(failure.to_string().contains("told to fail"), "{failure}");
        if device == CARDS {
            assert_eq!(failure.stage, "piece1");
        }
    }
}

#[test]
fn a_cancelled_run_gives_nothing_and_the_next_is_right() {
    let drafts = [
        Draft { device: 2, values: vec![0], weights: Vec::new() },
        Draft { device: 0, values: vec![1], weights: vec![(0, HERE(0))] },
    ];
    let mut cold = start(spec(&drafts, &[5.0]));
    assert!(cold.run(&[value(0.0)], &AtomicBool::new(true)).unwrap().is_none());
    let run =
        cold.run(&[value(0.0)], &AtomicBool::new(false)).expect("it runs").expect("it was not cancelled");
    assert_eq!(run.results, [value(expected(&drafts, &[5.0], 0.0))]);
}

#[test]
fn what_cannot_run_is_refused_before() {
    let draft = || [Draft { device: 0, values: vec![0], weights: vec![(0, HERE(0))] }];
    let refused = |change: &dyn Fn(&mut ColdSpec)| {
        let mut spec = spec(&draft(), &[1.0]);
        change(&mut spec);
        spec.check().unwrap_err()
    };
    assert_eq!(refused(&|spec| spec.bus.clear()), "weight `w0` of piece `piece0` is never loaded");
    assert!(refused(&|spec| spec.pieces[0].values = vec![1]).contains("before it is made"));
    assert!(refused(&|spec| spec.bus[0].after = vec![0]).contains("waits for a later one"));
    assert!(refused(&|spec| spec.pieces.clear()).contains("nothing makes the result"));
    let spec = Arc::new(spec(&draft(), &[1.0]));
    let speed = SimulatedSpeed { memory: 3, ..SimulatedSpeed::default() };
    let error = SimulatedCard::new(&spec, 0, &Sums, speed).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("4 bytes do not fit into its memory of 3"), "{error}");
}
