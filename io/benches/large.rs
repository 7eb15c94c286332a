//! Large problems: import, score, check and bounds of layered networks of up to 100 000 ops.
//!
//! Run with `cargo bench -p divvy-io`. The peak of memory is printed at the end, where the system tells it.
//! `cargo bench -p divvy-io --bench large -- external` imports an ONNX model beside a gigabyte of weights: neither time
//! nor memory shows them, because they are not read.

use std::path::PathBuf;
use std::sync::{LazyLock, Mutex};

use divan::{Bencher, black_box};
use divvy_core::costs::{ClassCosts, Cost, Origin, Profile};
use divvy_core::graph::{Graph, GraphSpec, OpSpec, ParamSpec, TensorSpec};
use divvy_core::hardware::{ClassSpec, DeviceSpec, HardwareSpec, LinkSpec, NodeSpec};
use divvy_core::ids::{DeviceId, OpId};
use divvy_core::plan::Plan;
use divvy_core::problem::{ConstraintsSpec, LinkUse, Objective, OwnHardware, Problem, ProblemSpec};
use divvy_core::rng::Rng;
use divvy_core::units::Time;
use divvy_core::{check, default_plan};
use divvy_io::{file, import, problem_file};
use divvy_proof::evidence::Evidence;
use divvy_proof::verify;

/// Numbers of ops; that times grow in proportion shows that nothing is quadratic.
const SIZES: [u32; 3] = [25_000, 50_000, 100_000];

/// Ops side by side in a layer.
const WIDTH: u32 = 20;

const DEVICES: u32 = 3;

fn main() {
    divan::main();
    if let Some(kib) = peak_memory_kib() {
        eprintln!("peak memory {} MiB", kib >> 10);
    }
    for path in FILES.lock().expect("no bench panicked").iter() {
        // A file left behind in the temporary folder harms nobody.
        let _ = std::fs::remove_file(path);
    }
}

fn peak_memory_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix("kB")?.trim().parse().ok())
}

/// Layers of [`WIDTH`] ops; each op reads two tensors of the layer before, every third has a parameter.
fn network(ops: u32, rng: &mut Rng) -> GraphSpec {
    let mut graph = GraphSpec { name: format!("layers of {ops} ops"), ..GraphSpec::default() };
    graph.tensors.push(TensorSpec { name: "input".to_owned(), bytes: 600_000, ..TensorSpec::default() });
    for i in 0..ops {
        let name = format!("layer{}.op{}", i / WIDTH, i % WIDTH);
        if i % 3 == 0 {
            let (name, bytes) = (format!("{name}.weight"), rng.between(1_000, 4_000_000));
            graph.params.push(ParamSpec { name, bytes, readers: vec![i] });
        }
        for _ in 0..2 {
            let earlier = (i / WIDTH * WIDTH).saturating_sub(WIDTH) as usize;
            // Tensor 0 is the input; op `o` makes tensor `o + 1`.
            let source = if i < WIDTH { 0 } else { 1 + earlier + rng.below(WIDTH as usize) };
            graph.tensors[source].consumers.push(i);
        }
        let (output, bytes) = (format!("{name}.out"), rng.between(1_000, 200_000));
        graph.tensors.push(TensorSpec { name: output, bytes, producer: Some(i), ..TensorSpec::default() });
        graph.ops.push(OpSpec {
            name,
            kind: "Conv2d".to_owned(),
            flops: Some(1_000_000),
            ..OpSpec::default()
        });
    }
    for tensor in &mut graph.tensors {
        tensor.output = tensor.consumers.is_empty();
    }
    graph
}

/// Three devices of three classes around one host memory, and joined with each other.
fn hardware() -> HardwareSpec {
    let name = |i: u32| format!("device{i}");
    let mut links: Vec<LinkSpec> = (0..DEVICES)
        .map(|i| LinkSpec {
            between: ["host".into(), name(i)],
            bandwidth: 12_000_000_000,
            ..LinkSpec::default()
        })
        .collect();
    for i in 0..DEVICES {
        for j in i + 1..DEVICES {
            let bandwidth = 20_000_000_000 + u64::from(i + j);
            links.push(LinkSpec { between: [name(i), name(j)], bandwidth, ..LinkSpec::default() });
        }
    }
    let class = |i| ClassSpec { name: format!("class{i}"), ..ClassSpec::default() };
    let device = |i| DeviceSpec {
        name: name(i),
        class: format!("class{i}"),
        node: Some("host".to_owned()),
        ..DeviceSpec::default()
    };
    HardwareSpec {
        name: "three".to_owned(),
        classes: (0..DEVICES).map(class).collect(),
        nodes: vec![NodeSpec { name: "host".to_owned(), memory: None }],
        devices: (0..DEVICES).map(device).collect(),
        links,
        ..HardwareSpec::default()
    }
}

fn profile(ops: u32, rng: &mut Rng) -> Profile {
    let mut class = |i: u32| {
        let mut times = |least: u64| -> Vec<Option<Cost>> {
            let time = |rng: &mut Rng| Time(rng.between(least, 40 * least) * 1_000_000);
            (0..ops).map(|_| Some(Cost { time: time(rng), origin: Origin::Measured })).collect()
        };
        let costs = vec![times(u64::from(i + 1)), times(u64::from(i + 1) * 4)];
        ClassCosts { class: format!("class{i}"), batch_sizes: vec![1, 8], costs }
    };
    Profile { classes: (0..DEVICES).map(&mut class).collect(), ..Profile::default() }
}

fn spec(ops: u32) -> ProblemSpec {
    let mut rng = Rng::new(u64::from(ops));
    ProblemSpec {
        graph: network(ops, &mut rng),
        profile: profile(ops, &mut rng),
        hardware: Some(OwnHardware::Given(Box::new(hardware()))),
        objective: None,
        constraints: ConstraintsSpec::default(),
    }
}

fn problem(spec: &ProblemSpec, objective: Objective) -> Problem {
    let graph = Graph::new(spec.graph.clone()).expect("the network is sound");
    Problem::new(graph, &spec.profile, hardware(), &[], objective, &spec.constraints).expect("it is sound")
}

/// Ops at random; for pipelines in three parts of the canonical order, because stages may not depend on each other in
/// a circle.
fn plan(problem: &Problem) -> Plan {
    let (mut rng, ops) = (Rng::new(1), problem.graph.op_count());
    let device_of: Vec<DeviceId> = (0..ops)
        .map(|i| match problem.objective {
            Objective::Pipeline { .. } => DeviceId::new(i * DEVICES as usize / ops),
            _ => DeviceId::new(rng.below(DEVICES as usize)),
        })
        .collect();
    default_plan::plan(problem, &device_of).expect("all devices are joined")
}

/// Files written so far, to be removed at the end.
static FILES: LazyLock<Mutex<Vec<PathBuf>>> = LazyLock::new(Mutex::default);

fn written(ops: u32, ending: &str) -> String {
    let name = format!("divvy-bench-{}-{ops}.{ending}", std::process::id());
    let path = std::env::temp_dir().join(name);
    file::write(&path, &problem_file::write(&spec(ops)).to_string())
        .expect("the temporary folder can be written");
    let text = path.display().to_string();
    FILES.lock().expect("no bench panicked").push(path);
    text
}

fn read(path: &str) -> ProblemSpec {
    let loaded = file::load(path).expect("it was just written");
    import::import_problem(&loaded).expect("it is sound")
}

#[divan::bench(args = SIZES, sample_count = 5)]
fn import_json(bencher: Bencher<'_, '_>, ops: u32) {
    let path = written(ops, "json");
    bencher.bench(|| read(black_box(&path)));
}

#[divan::bench(args = SIZES, sample_count = 5)]
fn import_gzip(bencher: Bencher<'_, '_>, ops: u32) {
    let path = written(ops, "json.gz");
    bencher.bench(|| read(black_box(&path)));
}

/// An ONNX model of 256 matrix products, beside a file of a gigabyte that holds their weights.
fn beside_its_weights() -> String {
    use divvy_io::onnx::proto::{
        Dimension, DimensionValue, Entry, Graph, Model, Node, OperatorSet, Shape, Tensor, TensorType, Type,
        TypeValue, ValueInfo,
    };
    const LAYERS: u64 = 256;
    const SIDE: i64 = 1024;
    let name = |ending: &str| format!("divvy-bench-{}.{ending}", std::process::id());
    let entry = |key: &str, value: String| Entry { key: Some(key.into()), value: Some(value) };
    let weight = |i: u64| Tensor {
        name: Some(format!("w{i}")),
        dims: vec![SIDE, SIDE],
        data_type: Some(1),
        data_location: Some(1),
        external_data: vec![entry("location", name("bin")), entry("offset", (i << 22).to_string())],
        ..Tensor::default()
    };
    let node = |i: u64| Node {
        op_type: Some("MatMul".into()),
        input: vec![format!("x{i}"), format!("w{i}")],
        output: vec![format!("x{}", i + 1)],
        ..Node::default()
    };
    let dimension = |dim| Dimension { value: Some(DimensionValue::DimValue(dim)), denotation: None };
    let shape = Some(Shape { dim: [1, SIDE].map(dimension).to_vec() });
    let tensor = TypeValue::TensorType(TensorType { elem_type: Some(1), shape });
    let r#type = Some(Type { value: Some(tensor), denotation: None });
    let graph = Graph {
        node: (0..LAYERS).map(node).collect(),
        initializer: (0..LAYERS).map(weight).collect(),
        input: vec![ValueInfo { name: Some("x0".into()), r#type, ..ValueInfo::default() }],
        ..Graph::default()
    };
    let opset_import = vec![OperatorSet { domain: None, version: Some(18) }];
    let model = Model { ir_version: Some(9), opset_import, graph: Some(graph), ..Model::default() };
    let folder = std::env::temp_dir();
    let (path, weights) = (folder.join(name("onnx")), folder.join(name("bin")));
    file::write_bytes(&path, &prost::Message::encode_to_vec(&model)).expect("the folder can be written");
    let sparse = std::fs::File::create(&weights).expect("the temporary folder can be written");
    sparse.set_len(LAYERS << 22).expect("the file system has sparse files");
    let text = path.display().to_string();
    FILES.lock().expect("no bench panicked").extend([path, weights]);
    text
}

#[divan::bench(sample_count = 20)]
fn import_onnx_with_external_weights(bencher: Bencher<'_, '_>) {
    let path = beside_its_weights();
    bencher.bench(|| read(black_box(&path)));
}

#[divan::bench(args = SIZES, sample_count = 5)]
fn new_problem(bencher: Bencher<'_, '_>, ops: u32) {
    let spec = spec(ops);
    bencher.bench(|| problem(black_box(&spec), Objective::Latency { links: LinkUse::Delay }));
}

/// Scores and checks one plan; the two are one pass over the same timeline.
fn score_and_check(bencher: Bencher<'_, '_>, ops: u32, objective: Objective) {
    let problem = problem(&spec(ops), objective);
    let plan = plan(&problem);
    bencher.bench(|| check::check(black_box(&problem), black_box(&plan)).expect("the plan is valid"));
}

#[divan::bench(args = SIZES, sample_count = 5)]
fn check_latency(bencher: Bencher<'_, '_>, ops: u32) {
    score_and_check(bencher, ops, Objective::Latency { links: LinkUse::Delay });
}

#[divan::bench(args = SIZES, sample_count = 5)]
fn check_latency_in_turn(bencher: Bencher<'_, '_>, ops: u32) {
    score_and_check(bencher, ops, Objective::Latency { links: LinkUse::InTurn });
}

#[divan::bench(args = SIZES, sample_count = 5)]
fn check_batch(bencher: Bencher<'_, '_>, ops: u32) {
    score_and_check(bencher, ops, Objective::Batch { inputs: 8 });
}

#[divan::bench(args = SIZES, sample_count = 5)]
fn check_cold_start(bencher: Bencher<'_, '_>, ops: u32) {
    score_and_check(bencher, ops, Objective::COLD_START);
}

#[divan::bench(args = SIZES, sample_count = 5)]
fn check_pipeline(bencher: Bencher<'_, '_>, ops: u32) {
    score_and_check(bencher, ops, Objective::Pipeline { stages: DEVICES });
}

#[divan::bench(args = SIZES, sample_count = 5)]
fn check_stream(bencher: Bencher<'_, '_>, ops: u32) {
    score_and_check(bencher, ops, Objective::Stream);
}

fn verify(bencher: Bencher<'_, '_>, ops: u32, evidence: impl Fn(&Problem) -> Evidence) {
    let problem = problem(&spec(ops), Objective::Latency { links: LinkUse::Delay });
    let evidence = evidence(&problem);
    bencher.bench(|| verify::proven(black_box(&problem), black_box(&evidence)).expect("it proves something"));
}

#[divan::bench(args = SIZES, sample_count = 5)]
fn verify_path(bencher: Bencher<'_, '_>, ops: u32) {
    verify(bencher, ops, |problem| Evidence::CriticalPath { ops: chain(problem) });
}

#[divan::bench(args = SIZES, sample_count = 5)]
fn verify_area(bencher: Bencher<'_, '_>, ops: u32) {
    verify(bencher, ops, |_| Evidence::Area { weights: vec![3, 2, 1] });
}

/// A chain through all layers, from the last op back.
fn chain(problem: &Problem) -> Vec<OpId> {
    let last = problem.graph.order().last().copied();
    let mut ops: Vec<OpId> =
        std::iter::successors(last, |&op| problem.graph.predecessors(op).next()).collect();
    ops.reverse();
    ops
}
