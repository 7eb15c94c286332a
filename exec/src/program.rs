//! A program: stages, what feeds what, and where each runs. Checked once, so that the executor may rely on it.

use std::collections::HashMap;

use crate::backend::StageModel;
use crate::cores::Cores;

/// A place where stages run.
#[derive(Clone, Debug)]
pub struct DeviceSpec {
    /// Its name.
    pub name: String,
    /// Its cores.
    pub cores: Cores,
}

/// A stage and its device.
#[derive(Clone, Debug)]
pub struct StageSpec {
    /// The model.
    pub model: StageModel,
    /// A position in the list of devices.
    pub device: usize,
    /// Put before the names of the model's values to tell them from those of another copy of it.
    pub prefix: String,
}

impl StageSpec {
    /// A stage of the only copy of a model.
    pub fn new(model: StageModel, device: usize) -> StageSpec {
        StageSpec { model, device, prefix: String::new() }
    }

    /// What the program calls a value of the stage's model.
    fn value(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }
}

/// A way between two memories: values that cross are copied. Devices that no link joins share a memory.
#[derive(Clone, Debug)]
pub struct LinkSpec {
    /// Its name.
    pub name: String,
    /// A position in the list of devices.
    pub from: usize,
    /// A position in the list of devices.
    pub to: usize,
}

/// What is to be run.
#[derive(Clone, Debug, Default)]
pub struct ProgramSpec {
    /// The devices.
    pub devices: Vec<DeviceSpec>,
    /// The links.
    pub links: Vec<LinkSpec>,
    /// The stages; each is fed by earlier ones or by inputs.
    pub stages: Vec<StageSpec>,
    /// Values that are given.
    pub inputs: Vec<String>,
    /// Values that are wanted.
    pub results: Vec<String>,
    /// Whether a device runs the stages of one item in the order of the list, even if a later one could start.
    pub in_order: bool,
}

/// Where a value goes: an input of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) stage: usize,
    pub(crate) input: usize,
}

/// Where a value goes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Readers {
    /// Inputs of stages in the same memory.
    pub(crate) near: Vec<Slot>,
    /// Inputs of stages behind links.
    pub(crate) far: Vec<(usize, Vec<Slot>)>,
    /// Places among the results.
    pub(crate) results: Vec<usize>,
}

/// A program that can be run.
#[derive(Debug)]
pub struct Program {
    pub(crate) spec: ProgramSpec,
    /// For each input, where it goes. Inputs are in every memory.
    pub(crate) of_input: Vec<Readers>,
    /// For each stage and output, where it goes.
    pub(crate) of_output: Vec<Vec<Readers>>,
}

/// Where a value comes from.
#[derive(Clone, Copy)]
enum Maker {
    Input(usize),
    Stage(usize, usize),
}

impl Program {
    /// Works out what feeds what; fails with the first fault.
    pub fn new(spec: ProgramSpec) -> Result<Program, String> {
        let mut makers: HashMap<String, Maker> = HashMap::new();
        let inputs = spec.inputs.iter().enumerate().map(|(i, name)| (name.clone(), Maker::Input(i)));
        let outputs = spec.stages.iter().enumerate().flat_map(|(s, stage)| {
            let outputs = stage.model.outputs.iter().enumerate();
            outputs.map(move |(o, name)| (stage.value(name), Maker::Stage(s, o)))
        });
        for (name, maker) in inputs.chain(outputs) {
            if makers.contains_key(&name) {
                return Err(format!("`{name}` is made twice"));
            }
            makers.insert(name, maker);
        }
        let mut of_input = vec![Readers::default(); spec.inputs.len()];
        let mut of_output: Vec<Vec<Readers>> =
            spec.stages.iter().map(|stage| vec![Readers::default(); stage.model.outputs.len()]).collect();
        for (s, stage) in spec.stages.iter().enumerate() {
            let about = &stage.model.name;
            if stage.device >= spec.devices.len() {
                return Err(format!("stage `{about}` has no device"));
            }
            for (i, name) in stage.model.inputs.iter().enumerate() {
                let slot = Slot { stage: s, input: i };
                let name = stage.value(name);
                match makers.get(&name) {
                    None => return Err(format!("stage `{about}` needs `{name}`, which nothing makes")),
                    Some(&Maker::Input(input)) => of_input[input].near.push(slot),
                    Some(&Maker::Stage(from, _)) if from >= s => {
                        return Err(format!("stage `{about}` needs `{name}` of a later stage"));
                    }
                    Some(&Maker::Stage(from, output)) => {
                        let readers = &mut of_output[from][output];
                        let ends = (spec.stages[from].device, stage.device);
                        match spec.links.iter().position(|link| (link.from, link.to) == ends) {
                            None => readers.near.push(slot),
                            Some(link) => match readers.far.iter_mut().find(|(other, _)| *other == link) {
                                Some((_, slots)) => slots.push(slot),
                                None => readers.far.push((link, vec![slot])),
                            },
                        }
                    }
                }
            }
        }
        for (r, name) in spec.results.iter().enumerate() {
            match makers.get(name.as_str()) {
                None => return Err(format!("nothing makes the result `{name}`")),
                Some(&Maker::Input(input)) => of_input[input].results.push(r),
                Some(&Maker::Stage(stage, output)) => of_output[stage][output].results.push(r),
            }
        }
        Ok(Program { spec, of_input, of_output })
    }

    /// What it was made from.
    pub fn spec(&self) -> &ProgramSpec {
        &self.spec
    }
}
