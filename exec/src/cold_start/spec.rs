//! What a cold start runs: devices, weights, values, pieces, and what buses carry in which order.

use crate::backend::{StageModel, Weight};
use crate::cores::Cores;
use crate::tensor::Element;

/// A device.
#[derive(Clone, Debug)]
pub struct ColdDevice {
    /// Its name.
    pub name: String,
    /// Where it is.
    pub place: Place,
}

/// Where a device is.
#[derive(Clone, Debug)]
pub enum Place {
    /// In host memory, on these cores: weights need not be loaded.
    Cores(Cores),
    /// A card, behind a bus.
    Card,
}

impl ColdDevice {
    /// Whether it is behind a bus.
    pub fn is_card(&self) -> bool {
        matches!(self.place, Place::Card)
    }
}

/// A value that pieces hand on.
#[derive(Clone, Debug, PartialEq)]
pub struct ValueSpec {
    /// Its name in the model.
    pub name: String,
    /// The type of its elements.
    pub element: Element,
    /// Its shape.
    pub shape: Vec<usize>,
}

impl ValueSpec {
    /// Bytes of its elements.
    pub fn byte_count(&self) -> usize {
        self.shape.iter().product::<usize>() * self.element.size()
    }
}

/// Where a piece on a card finds a weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WeightAt {
    /// In the card's memory: loaded over the bus of a device, itself or a peer that forwards it.
    Loaded {
        /// The device.
        via: usize,
    },
    /// In host memory, read over the bus by the piece itself.
    InPlace,
}

/// A weight that a piece reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WeightUse {
    /// A position in the list of weights.
    pub weight: usize,
    /// Where it is.
    pub at: WeightAt,
}

/// Ops that a device runs in one call.
#[derive(Clone, Debug)]
pub struct ColdPiece {
    /// A position in the list of devices.
    pub device: usize,
    /// The model. On a card its inputs are `values`, then `weights`; on cores it has its weights.
    pub model: StageModel,
    /// Values that it reads.
    pub values: Vec<usize>,
    /// Values that it makes, as the model's outputs.
    pub outputs: Vec<usize>,
    /// Weights that it is fed: on cards alone.
    pub weights: Vec<WeightUse>,
}

/// What a bus carries at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BusWork {
    /// A weight to a card.
    Load {
        /// The weight.
        weight: usize,
        /// The card.
        device: usize,
    },
    /// A piece that reads in place.
    Read {
        /// The piece.
        piece: usize,
    },
}

/// A step of the buses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BusStep {
    /// What is carried.
    pub what: BusWork,
    /// Steps that must be over before: those before it on any of its links.
    pub after: Vec<usize>,
}

/// What is to be run.
#[derive(Clone, Debug, Default)]
pub struct ColdSpec {
    /// The devices.
    pub devices: Vec<ColdDevice>,
    /// Weights that cards need.
    pub weights: Vec<Weight>,
    /// Inputs, results, and what pieces hand to each other.
    pub values: Vec<ValueSpec>,
    /// Pieces, in an order in which they can run; those of a device run in it.
    pub pieces: Vec<ColdPiece>,
    /// What buses carry, in order.
    pub bus: Vec<BusStep>,
    /// Values that are given.
    pub inputs: Vec<usize>,
    /// Values that are wanted.
    pub results: Vec<usize>,
    /// The share of every weight that is on its card already.
    pub resident: f64,
}

impl ColdSpec {
    /// The pieces of a device, in order.
    pub fn order(&self, device: usize) -> impl Iterator<Item = usize> + '_ {
        (0..self.pieces.len()).filter(move |&piece| self.pieces[piece].device == device)
    }

    /// How many bytes of a weight are on the card already: its first ones.
    pub fn resident_bytes(&self, weight: usize) -> usize {
        let bytes = self.weights[weight].data.len();
        ((bytes as f64 * self.resident) as usize).min(bytes)
    }

    /// The card whose bus carries a step.
    pub fn device_of(&self, step: usize) -> usize {
        match self.bus[step].what {
            BusWork::Load { device, .. } => device,
            BusWork::Read { piece } => self.pieces[piece].device,
        }
    }

    /// Whether a value goes between a card and the host: brought to a piece there, or made there and wanted elsewhere.
    pub fn crosses(&self, value: usize, card: usize) -> bool {
        let on_cores = |piece: &&ColdPiece| !self.devices[piece.device].is_card();
        let maker = self.pieces.iter().find(|piece| piece.outputs.contains(&value));
        match maker {
            Some(maker) if maker.device == card => {
                let read_there = |piece: &ColdPiece| piece.values.contains(&value);
                self.results.contains(&value) || self.pieces.iter().filter(on_cores).any(read_there)
            }
            Some(maker) => on_cores(&maker),
            None => true,
        }
    }

    /// Who makes each value; none of inputs.
    pub(super) fn makers(&self) -> Vec<Option<usize>> {
        let mut makers = vec![None; self.values.len()];
        for (piece, spec) in self.pieces.iter().enumerate() {
            spec.outputs.iter().for_each(|&value| makers[value] = Some(piece));
        }
        makers
    }

    /// The first fault, in words: the executor relies on there being none.
    pub fn check(&self) -> Result<(), String> {
        let makers = self.makers();
        let loaded = |weight: usize, device: usize| {
            self.bus.iter().any(|step| step.what == BusWork::Load { weight, device })
        };
        for (number, piece) in self.pieces.iter().enumerate() {
            let name = &piece.model.name;
            let Some(device) = self.devices.get(piece.device) else {
                return Err(format!("piece `{name}` has no device"));
            };
            for &value in &piece.values {
                let is_given = self.inputs.contains(&value);
                if !is_given && makers[value].is_none_or(|maker| maker >= number) {
                    return Err(format!(
                        "piece `{name}` needs `{}` before it is made",
                        self.values[value].name
                    ));
                }
            }
            if !device.is_card() {
                continue;
            }
            for used in &piece.weights {
                let weight = &self.weights[used.weight].name;
                match used.at {
                    WeightAt::Loaded { via } if !loaded(used.weight, via) => {
                        return Err(format!("weight `{weight}` of piece `{name}` is never loaded"));
                    }
                    WeightAt::InPlace
                        if !self.bus.iter().any(|s| s.what == BusWork::Read { piece: number }) =>
                    {
                        return Err(format!("piece `{name}` reads `{weight}` in place at no time"));
                    }
                    _ => {}
                }
            }
        }
        for (number, step) in self.bus.iter().enumerate() {
            if step.after.iter().any(|&before| before >= number) {
                return Err("a step of a bus waits for a later one".into());
            }
        }
        match self.results.iter().find(|&&value| makers[value].is_none() && !self.inputs.contains(&value)) {
            Some(&value) => Err(format!("nothing makes the result `{}`", self.values[value].name)),
            None => Ok(()),
        }
    }
}
