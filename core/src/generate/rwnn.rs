//! Randomly wired networks on three unlike devices, for the `latency` and `batch` objectives.
//!
//! Source: DiviML, section V, which stacks modules of random graphs (Xie et al., "Exploring Randomly WiredGraph Neural
//! Networks for Image Recognition", ICCV 2019) and joins them by channels. The paper's words for its wirings
//! can be read in several ways; [`Wiring`] says what is built here. Ops are numbered module by module, and
//! edges lead upwards.
//!
//! Times follow the pattern of profiled vision networks: the ops at the ends of modules are short; half of the inner
//! ops are *light*, bound by launches and memory and nearly as fast on one device as on another; the others are
//! *heavy*, 1.2 to 1.6 times slower on the T4 than on the A100 and 6 to 20 times slower on the CPU. All times are
//! whole microseconds, and a transfer over a link of 1 GB/s takes whole microseconds too.

use super::draft::graph_of_edges;
use super::options::{MOST_DRAWS, MOST_OPS, check_range, check_size, choose};
use super::random_graphs::{NodePair, RandomModel};
use crate::costs::{ClassCosts, Cost, Origin, Profile};
use crate::graph::GraphSpec;
use crate::hardware::{ClassSpec, DeviceKind, DeviceSpec, HardwareSpec, LinkSpec};
use crate::input_error::InputErrors;
use crate::problem::{LinkUse, Objective, OwnHardware, ProblemSpec};
use crate::rng::Rng;
use crate::units::Time;

/// How a module is closed and joined to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wiring {
    /// Strongly dependent: every module has one source before and one sink after all its inner ops. Channels lead from the
    /// sink and from inner ops to the next source and its inner ops, paired by chance.
    Sdep,
    /// Weakly dependent: between modules there are as many output ops, and input ops, as channels, joined one to one.
    /// Each inner op without a predecessor hangs on one input, each without a successor on one output, by chance.
    Wdep,
    /// Free: modules have inner ops only, and each channel joins any inner op to any of the next module, so that ops
    /// may dangle. Only the first module has a source, and the last a sink.
    Wfree,
}

impl Wiring {
    /// Every wiring.
    pub const ALL: [Wiring; 3] = [Wiring::Sdep, Wiring::Wdep, Wiring::Wfree];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Wiring::Sdep => "sdep",
            Wiring::Wdep => "wdep",
            Wiring::Wfree => "wfree",
        }
    }

    /// The wiring of that name.
    pub fn named(name: &str) -> Result<Wiring, InputErrors> {
        choose("--wiring", name, &Wiring::ALL.map(|wiring| (wiring.name(), wiring)))
    }
}

/// What [`rwnn`] makes.
#[derive(Clone, Debug, PartialEq)]
pub struct RwnnOptions {
    /// The random model inside a module.
    pub model: RandomModel,
    /// Number of modules.
    pub modules: u32,
    /// Inner ops of a module, not counting its inputs and outputs.
    pub nodes: u32,
    /// Edges from each module to the next.
    pub channels: u32,
    /// How modules are closed and joined.
    pub wiring: Wiring,
    /// Seed.
    pub seed: u64,
    /// Factor on the size of every tensor. At 1 a transfer takes a quarter of the time of an inner op on the A100.
    pub communication_factor: f64,
    /// Whether to give times at batch sizes 4, 8, 12 and 16 too.
    pub batches: bool,
}

impl Default for RwnnOptions {
    fn default() -> RwnnOptions {
        RwnnOptions {
            model: RandomModel::ER,
            modules: 10,
            nodes: 10,
            channels: 1,
            wiring: Wiring::Sdep,
            seed: 1,
            communication_factor: 1.0,
            batches: false,
        }
    }
}

const CLASSES: [&str; 3] = ["a100", "t4", "cpu"];
const BATCH_SIZES: [u32; 5] = [1, 4, 8, 12, 16];
/// Bytes that a link carries in a microsecond.
const BYTES_PER_US: u64 = 1000;

/// What decides an op's times.
#[derive(Clone, Copy, PartialEq)]
enum OpWeight {
    /// An input or output of a module.
    End,
    Light,
    Heavy,
}

/// A randomly wired network with times on three devices, every two of them joined by a link of 1 GB/s.
pub fn rwnn(options: &RwnnOptions) -> Result<ProblemSpec, InputErrors> {
    check(options)?;
    let mut rng = Rng::new(options.seed);
    let wired = WiredGraph::new(options, &mut rng);
    let weight = |inner: bool, rng: &mut Rng| match inner {
        true if rng.chance(0.5) => OpWeight::Heavy,
        true => OpWeight::Light,
        false => OpWeight::End,
    };
    let weights: Vec<OpWeight> = wired.inner.iter().map(|&inner| weight(inner, &mut rng)).collect();
    let times: Vec<[u64; 3]> = weights.iter().map(|&weight| op_times(weight, &mut rng)).collect();
    let transfer_us =
        |rng: &mut Rng| (log_normal(420.0, 0.4, rng) * options.communication_factor).round() as u64;
    let bytes: Vec<u64> = weights.iter().map(|_| transfer_us(&mut rng) * BYTES_PER_US).collect();
    let name = format!(
        "{}{}-{}{}-m{}-s{}",
        options.model.name(),
        options.nodes,
        options.wiring.name(),
        options.channels,
        options.modules,
        options.seed
    );
    let mut graph: GraphSpec = graph_of_edges(name, &bytes, &wired.edges);
    for (op, &module) in graph.ops.iter_mut().zip(&wired.module) {
        op.module = Some(module);
    }
    Ok(ProblemSpec {
        graph,
        profile: profile(&weights, &times, options.batches, &mut rng),
        hardware: Some(OwnHardware::Given(Box::new(three_devices()))),
        objective: Some(Objective::Latency { links: LinkUse::Delay }),
        ..ProblemSpec::default()
    })
}

fn check(options: &RwnnOptions) -> Result<(), InputErrors> {
    let mut errors = InputErrors::default();
    let RwnnOptions { modules, nodes, channels, .. } = *options;
    check_range("--modules", modules, 1, MOST_OPS as u32, &mut errors);
    check_range("--nodes", nodes, 1, MOST_OPS as u32, &mut errors);
    check_range("--communication-factor", options.communication_factor, 0.0, 1e3, &mut errors);
    check_range("--channels", channels, 1, nodes.max(1), &mut errors);
    let (modules, nodes) = (u64::from(modules), u64::from(nodes));
    let ops = modules.saturating_mul(nodes + 2 * u64::from(channels));
    check_size("--modules, --nodes", "ops", ops, MOST_OPS, &mut errors);
    options.model.check(options.nodes, &mut errors);
    let draws = modules.saturating_mul(options.model.draws(nodes));
    check_size("--modules, --nodes", "random draws", draws, MOST_DRAWS, &mut errors);
    errors.into_result(())
}

/// The wiring of the whole network.
#[derive(Default)]
struct WiredGraph {
    edges: Vec<NodePair>,
    /// The module of each op.
    module: Vec<u32>,
    /// Whether each op is an inner one.
    inner: Vec<bool>,
}

impl WiredGraph {
    fn new(options: &RwnnOptions, rng: &mut Rng) -> WiredGraph {
        let RwnnOptions { modules, nodes, channels, wiring, .. } = *options;
        let mut wired = WiredGraph::default();
        // The outputs and the inner ops of the module before.
        let mut before: Option<(Vec<u32>, Vec<u32>)> = None;
        for module in 0..modules {
            let (first, last) = (module == 0, module + 1 == modules);
            let ends = |at_the_edge: bool| match wiring {
                Wiring::Sdep => 1,
                Wiring::Wdep if at_the_edge => 1,
                Wiring::Wdep => channels,
                Wiring::Wfree => u32::from(at_the_edge),
            };
            let inputs = wired.add_ops(ends(first), module, false);
            let inner = wired.add_ops(nodes, module, true);
            let outputs = wired.add_ops(ends(last), module, false);
            wired.add_module(options.model, [&inputs, &inner, &outputs], rng);
            if let Some((last_outputs, last_inner)) = &before {
                let count = channels as usize;
                let pairs = match wiring {
                    Wiring::Sdep => {
                        let further = some_pairs(last_inner, &inner, count - 1, rng);
                        let (mut from, mut to): (Vec<u32>, Vec<u32>) = further.into_iter().unzip();
                        from.push(last_outputs[0]);
                        to.push(inputs[0]);
                        some_pairs(&from, &to, count, rng)
                    }
                    Wiring::Wdep => some_pairs(last_outputs, &inputs, count, rng),
                    Wiring::Wfree => some_pairs(last_inner, &inner, count, rng),
                };
                wired.edges.extend(pairs);
            }
            before = Some((outputs, inner));
        }
        wired.edges.sort_unstable();
        wired
    }

    fn add_ops(&mut self, count: u32, module: u32, inner: bool) -> Vec<u32> {
        let start = self.module.len() as u32;
        self.module.extend((0..count).map(|_| module));
        self.inner.extend((0..count).map(|_| inner));
        (start..start + count).collect()
    }

    /// The edges within a module: its random graph, and those that tie loose ends to its inputs and outputs.
    fn add_module(&mut self, model: RandomModel, [inputs, inner, outputs]: [&[u32]; 3], rng: &mut Rng) {
        let mut has_input = vec![false; inner.len()];
        let mut has_output = vec![false; inner.len()];
        for (a, b) in model.edges(inner.len() as u32, rng) {
            self.edges.push((inner[a as usize], inner[b as usize]));
            has_output[a as usize] = true;
            has_input[b as usize] = true;
        }
        let loose = |tied: &[bool]| -> Vec<u32> {
            inner.iter().zip(tied).filter(|(_, tied)| !**tied).map(|(&op, _)| op).collect()
        };
        self.edges.extend(spread(inputs, &loose(&has_input), inner, rng));
        self.edges.extend(spread(outputs, &loose(&has_output), inner, rng).into_iter().map(|(o, i)| (i, o)));
    }
}

/// Ties each of `loose` to one of `ends`, and an end that got none to any of `inner`.
fn spread(ends: &[u32], loose: &[u32], inner: &[u32], rng: &mut Rng) -> Vec<NodePair> {
    if ends.is_empty() {
        return Vec::new();
    }
    let mut used = vec![false; ends.len()];
    let mut edges = Vec::with_capacity(loose.len());
    for &op in loose {
        let end = rng.below(ends.len());
        used[end] = true;
        edges.push((ends[end], op));
    }
    let unused = ends.iter().zip(used).filter(|(_, used)| !used);
    edges.extend(unused.map(|(&end, _)| (end, *rng.pick(inner))));
    edges
}

/// `count` pairs, no two with the same start or the same end.
fn some_pairs(from: &[u32], to: &[u32], count: usize, rng: &mut Rng) -> Vec<NodePair> {
    let (mut from, mut to) = (from.to_vec(), to.to_vec());
    rng.shuffle(&mut from);
    rng.shuffle(&mut to);
    from.into_iter().zip(to).take(count).collect()
}

/// Microseconds on each of the three classes.
fn op_times(weight: OpWeight, rng: &mut Rng) -> [u64; 3] {
    let a100 =
        if weight == OpWeight::End { log_normal(287.0, 0.32, rng) } else { log_normal(1720.0, 0.345, rng) };
    let (on_t4, on_cpu) = match weight {
        OpWeight::Heavy => (uniform(1.2, 1.6, rng), uniform(6f64.ln(), 20f64.ln(), rng).exp()),
        OpWeight::End | OpWeight::Light => (uniform(0.97, 1.15, rng), uniform(1.0, 2.0, rng)),
    };
    [a100, a100 * on_t4, a100 * on_cpu].map(|us| us.round() as u64)
}

/// The share of an op's time at batch size 1 that does not grow with the batch.
fn fixed_share(weight: OpWeight, class: usize, rng: &mut Rng) -> f64 {
    match (CLASSES[class], weight) {
        ("cpu", _) => uniform(0.02, 0.15, rng),
        ("t4", OpWeight::Heavy) => uniform(0.3, 0.6, rng),
        (_, OpWeight::Heavy) => uniform(0.6, 0.85, rng),
        _ => uniform(0.8, 0.95, rng),
    }
}

fn profile(weights: &[OpWeight], times: &[[u64; 3]], batches: bool, rng: &mut Rng) -> Profile {
    let sizes = if batches { &BATCH_SIZES[..] } else { &BATCH_SIZES[..1] };
    let mut class_costs = |class: usize| {
        let fixed: Vec<f64> = weights.iter().map(|&weight| fixed_share(weight, class, rng)).collect();
        let cost = |op: usize, size: u32| {
            let growth = fixed[op] + (1.0 - fixed[op]) * f64::from(size);
            let us = (times[op][class] as f64 * growth).round() as u64;
            Some(Cost { time: Time(us * 1_000_000), origin: Origin::Measured })
        };
        let costs = sizes.iter().map(|&size| (0..times.len()).map(|op| cost(op, size)).collect()).collect();
        ClassCosts { class: CLASSES[class].into(), batch_sizes: sizes.to_vec(), costs }
    };
    Profile { classes: (0..CLASSES.len()).map(&mut class_costs).collect(), ..Profile::default() }
}

fn three_devices() -> HardwareSpec {
    let kinds = [DeviceKind::Gpu, DeviceKind::Gpu, DeviceKind::Cpu];
    let class =
        |(name, kind): (&str, DeviceKind)| ClassSpec { name: name.into(), kind, ..ClassSpec::default() };
    let device = |name: &str| DeviceSpec { name: name.into(), class: name.into(), ..DeviceSpec::default() };
    let link = |[a, b]: [usize; 2]| LinkSpec {
        between: [CLASSES[a].into(), CLASSES[b].into()],
        bandwidth: BYTES_PER_US * 1_000_000,
        ..LinkSpec::default()
    };
    HardwareSpec {
        name: "a100-t4-cpu".into(),
        description: "an A100, a T4 and a CPU, every two joined at 1 GB/s".into(),
        classes: CLASSES.into_iter().zip(kinds).map(class).collect(),
        devices: CLASSES.map(device).into(),
        links: [[0, 1], [0, 2], [1, 2]].map(link).into(),
        ..HardwareSpec::default()
    }
}

fn uniform(low: f64, high: f64, rng: &mut Rng) -> f64 {
    low + (high - low) * rng.unit()
}

fn log_normal(median: f64, sigma: f64, rng: &mut Rng) -> f64 {
    median * (sigma * rng.normal()).exp()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware::Hardware;

    fn make(wiring: Wiring, modules: u32, channels: u32) -> ProblemSpec {
        rwnn(&RwnnOptions { wiring, modules, channels, ..RwnnOptions::default() }).unwrap()
    }

    /// Sizes of the modules, and the number of edges from each to the next; no edge leads further.
    fn shape(problem: &ProblemSpec) -> (Vec<usize>, Vec<usize>) {
        let module = |op: u32| problem.graph.ops[op as usize].module.unwrap() as usize;
        let modules = problem.graph.ops.last().unwrap().module.unwrap() as usize + 1;
        let (mut sizes, mut channels) = (vec![0; modules], vec![0; modules - 1]);
        (0..problem.graph.ops.len() as u32).for_each(|op| sizes[module(op)] += 1);
        for tensor in &problem.graph.tensors {
            let from = module(tensor.producer.unwrap());
            for to in tensor.consumers.iter().map(|&op| module(op)).filter(|&to| to != from) {
                assert_eq!(to, from + 1);
                channels[from] += 1;
            }
        }
        (sizes, channels)
    }

    fn ends(problem: &ProblemSpec) -> (usize, usize) {
        let mut read = vec![false; problem.graph.ops.len()];
        let tensors = &problem.graph.tensors;
        tensors.iter().flat_map(|t| &t.consumers).for_each(|&c| read[c as usize] = true);
        (read.iter().filter(|r| !**r).count(), tensors.iter().filter(|t| t.output).count())
    }

    #[test]
    fn modules_have_the_stated_size_and_channels() {
        assert_eq!(shape(&make(Wiring::Sdep, 3, 4)), (vec![12, 12, 12], vec![4, 4]));
        assert_eq!(shape(&make(Wiring::Wdep, 4, 3)), (vec![14, 16, 16, 14], vec![3, 3, 3]));
        assert_eq!(shape(&make(Wiring::Wfree, 3, 2)), (vec![11, 10, 11], vec![2, 2]));
        assert_eq!(shape(&make(Wiring::Wfree, 1, 1)), (vec![12], vec![]));
        for wiring in [Wiring::Sdep, Wiring::Wdep] {
            assert_eq!(ends(&make(wiring, 5, 2)), (1, 1));
        }
    }

    #[test]
    fn times_have_the_stated_pattern() {
        let options = RwnnOptions { nodes: 32, modules: 40, batches: true, ..RwnnOptions::default() };
        let problem = rwnn(&options).unwrap();
        let us = |class: usize, size: usize, op: usize| {
            problem.profile.classes[class].costs[size][op].unwrap().time.as_us()
        };
        let mut heavy = 0;
        for op in 0..problem.graph.ops.len() {
            let ratio = us(2, 0, op) / us(0, 0, op);
            assert!((0.98..2.02).contains(&ratio) || (5.9..20.1).contains(&ratio), "{ratio}");
            heavy += usize::from(ratio > 3.0);
            for class in 0..3 {
                let growth = us(class, 4, op) / us(class, 0, op);
                assert!(growth > 1.0 && growth < 16.0, "{growth}");
                assert_eq!(us(class, 0, op).fract(), 0.0);
            }
        }
        assert!((500..780).contains(&heavy), "{heavy} of 1280 inner ops");
        let mean = problem.graph.tensors.iter().map(|t| t.bytes).sum::<u64>() / 1360;
        assert!((430_000..480_000).contains(&mean), "{mean}");
        let plain = rwnn(&RwnnOptions { batches: false, ..options }).unwrap();
        assert_eq!(plain.graph, problem.graph);
        assert_eq!(plain.profile.classes[1].costs[0], problem.profile.classes[1].costs[0]);
    }

    #[test]
    fn the_hardware_is_sound() {
        let Some(OwnHardware::Given(spec)) = make(Wiring::Sdep, 1, 1).hardware else {
            panic!("own hardware")
        };
        assert_eq!(Hardware::new(*spec).unwrap().device_count(), 3);
    }

    #[test]
    fn all_faults_of_the_options_are_reported() {
        let bad = RwnnOptions {
            model: RandomModel::Ws { k: 3, p: f64::NAN },
            modules: 0,
            channels: 11,
            communication_factor: -1.0,
            ..RwnnOptions::default()
        };
        let errors = rwnn(&bad).unwrap_err();
        let places: Vec<&str> = errors.kept().iter().map(|e| e.place.as_str()).collect();
        assert_eq!(places, ["--modules", "--communication-factor", "--channels", "--p", "--k"]);
        for (modules, nodes) in [(u32::MAX, u32::MAX), (2_000_000, 10), (1, 10_000)] {
            assert!(rwnn(&RwnnOptions { modules, nodes, ..RwnnOptions::default() }).is_err());
        }
    }
}
