//! The way of a file through divvy, and what must hold at each step.

use std::collections::{BTreeMap, HashSet};
use std::sync::LazyLock;

use divvy_core::coarsen::{Granularity, coarsen};
use divvy_core::graph::Graph;
use divvy_core::hardware::{ClassSpec, Hardware, HardwareSpec};
use divvy_core::input_error::InputErrors;
use divvy_core::problem::{LinkUse, Objective, Problem, ProblemSpec};
use divvy_core::rng::Rng;
use divvy_core::score::Trace;
use divvy_core::{check, default_plan};
use divvy_core::ids::DeviceId;
use divvy_io::file::Loaded;
use divvy_io::import::{Imported, import};
use divvy_io::onnx::cut::{CutPiece, Fault, Piece, annotate, cut};
use divvy_io::onnx::facts::Facts;
use divvy_io::onnx::fixed_shapes::FixedShapes;
use divvy_io::onnx::import::{Understood, understand};
use divvy_io::onnx::infer::infer;
use divvy_io::onnx::proto::Model;
use divvy_io::onnx::symbolic::SymbolicShapes;
use divvy_io::onnx::{pieces, inline, load};
use divvy_io::onnx::pieces::Cutting;
use divvy_io::plan_file::PlanFile;
use divvy_io::report::{OneDevice, Report};
use divvy_io::{Error, detect, presets, problem_file, trace_file};
use prost::Message;
use serde_json::json;

use crate::assess::{assess, faults, loaded};
use crate::build::assert_sound;
use crate::seeds::plan_files;

/// Every fault says what, where and how to fix it.
fn assert_well_told(errors: &InputErrors) {
    assert!(!errors.is_empty(), "refused without a reason");
    for error in errors.kept() {
        let told = [&error.place, &error.message, &error.fix].iter().all(|text| !text.trim().is_empty());
        assert!(told, "{error:?}");
    }
}

/// A file of any format but ONNX: read, planned, checked; what was read is written and read again.
pub fn file(bytes: &[u8]) {
    let outcome = assess(bytes);
    if let Err(errors) = &outcome {
        assert_well_told(errors);
    }
    match import(&loaded(bytes)) {
        Ok(Imported::Problem { spec, .. }) if outcome.is_ok() => problem_survives_writing(&spec),
        Ok(Imported::Hardware(spec)) if Hardware::new((*spec).clone()).is_ok() => {
            hardware_survives_writing(&spec);
        }
        Ok(Imported::Plan) => plan(bytes),
        _ => {}
    }
}

fn problem_survives_writing(spec: &ProblemSpec) {
    let text = problem_file::write(spec).to_string();
    match import(&loaded(text.as_bytes())) {
        Ok(Imported::Problem { spec: again, .. }) => assert_eq!(*again, *spec),
        Ok(_) => panic!("a problem became something else"),
        Err(error) => panic!("a problem that was written is not read: {error}\n{text}"),
    }
}

/// Hardware is the same as TOML and as JSON.
pub fn hardware_survives_writing(spec: &HardwareSpec) {
    let _ = detect::gaps(spec);
    for text in [detect::to_toml(spec), detect::to_json(spec).to_string()] {
        match import(&loaded(text.as_bytes())) {
            Ok(Imported::Hardware(again)) => assert_eq!(*again, *spec, "{text}"),
            Ok(_) => panic!("hardware became something else"),
            Err(error) => panic!("hardware that was written is not read: {error}\n{text}"),
        }
    }
}

fn plan(bytes: &[u8]) {
    let Ok(file) = PlanFile::read(&loaded(bytes)) else { return };
    let verdict = file.check();
    let text = file.write();
    let again = PlanFile::read(&loaded(text.as_bytes())).expect("a plan that was written is read");
    assert_eq!(again.write(), text);
    match (verdict, again.check()) {
        (Ok(before), Ok(after)) => {
            assert_eq!(before.score.value, after.score.value);
            assert_eq!(before.verified_lower_bound, after.verified_lower_bound);
        }
        (Err(before), Err(after)) => assert_eq!(before.len(), after.len()),
        (before, after) => panic!("{before:?} became {after:?}"),
    }
    let _ = file.check_against(&again.problem, &again.sources);
}

/// A trace of a run, read for each of some plans; one that is read goes into a report.
pub fn trace(bytes: &[u8]) {
    static PLANS: LazyLock<Vec<PlanFile>> = LazyLock::new(plan_files);
    for file in PLANS.iter() {
        match trace_file::read(&loaded(bytes), &file.problem) {
            Ok(trace) => report(file, &trace),
            Err(error) => assert_well_told(&faults(error)),
        }
    }
}

fn report(file: &PlanFile, trace: &Trace) {
    let score = check::check(&file.problem, &file.plan).expect("a seed is sound");
    let report = Report {
        problem: &file.problem,
        plan: &file.plan,
        score: &score,
        certificates: &[],
        history: &[],
        one_device: OneDevice::Impossible { reason: "not asked".to_owned() },
        found_by: "a seed",
        notes: Vec::new(),
        to_measure: Vec::new(),
        sources: Vec::new(),
        measured: Some(trace),
        next: Vec::new(),
        if_lost: Vec::new(),
        every_move: false,
    };
    assert!(report.html().ends_with("</html>\n"));
}

/// What `nvidia-smi topo -m` printed.
pub fn topo(text: &str) {
    match detect::from_topo(text) {
        Ok(spec) => {
            if let Err(errors) = Hardware::new(spec.clone()) {
                panic!("a matrix gives unsound hardware: {errors}");
            }
            hardware_survives_writing(&spec);
        }
        Err(errors) => assert_well_told(&errors),
    }
}

/// A model as `divvy` reads it: functions inlined. None if it is refused.
fn model(bytes: &[u8]) -> Option<Model> {
    let told = |error: Error| match error {
        Error::Input { errors, .. } => assert_well_told(&errors),
        other => panic!("not the input's fault: {other}"),
    };
    let whole = load::decode("fuzz.onnx", &bytes.to_vec().into()).map_err(told).ok()?.model;
    let written = whole.encode_to_vec();
    let again = Model::decode(written.as_slice()).expect("what was written is read");
    assert_eq!(again.encode_to_vec(), written, "a model changes when it is written");
    inline::inline(whole).map_err(|reason| assert!(!reason.is_empty())).ok()
}

/// Sizes for all symbolic dimensions that the model leaves open, and its facts with them.
fn settle(model: &Model, rng: &mut Rng) -> (BTreeMap<String, u64>, Facts) {
    let mut dims = BTreeMap::new();
    // What is set may show others that stood behind it.
    for _ in 0..4 {
        let facts = infer(model, &dims);
        if facts.unset_dims.is_empty() {
            break;
        }
        for name in facts.unset_dims {
            let size = *rng.pick(&[1, 1, 2, 3, 8, 128, 0, 1 << 20, 1 << 40, u64::MAX]);
            dims.entry(name).or_insert(size);
        }
    }
    let facts = infer(model, &dims);
    (dims, facts)
}

/// Reads a model with its open dimensions set; the faults, if any, are well told.
fn understood(model: &Model, dims: &BTreeMap<String, u64>) -> Option<Understood> {
    understand(model, "fuzz", dims, &BTreeMap::new()).map_err(|errors| assert_well_told(&errors)).ok()
}

/// An ONNX model: read at every granularity, planned and checked.
pub fn onnx(bytes: &[u8]) {
    let _ = load::looks_like_onnx(bytes);
    let Some(model) = model(bytes) else { return };
    let mut rng = Rng::new(bytes.len() as u64);
    let _ = understood(&model, &BTreeMap::new());
    let (dims, _) = settle(&model, &mut rng);
    let Some(understood) = understood(&model, &dims) else { return };
    let spec = understood.spec;
    Graph::new(spec.graph.clone()).expect("what was understood is sound");
    problem_survives_writing(&spec);
    let fused = coarse(&spec, Granularity::Fused);
    let blocks = fused.as_ref().and_then(|fused| coarse(fused, Granularity::Block));
    for spec in [Some(spec), fused, blocks].into_iter().flatten() {
        if let Some(problem) = problem(&spec) {
            let plan = default_plan::plan(&problem, &placement(&problem, &mut rng));
            let _ = plan.map(|plan| check::check(&problem, &plan));
        }
    }
}

/// Ops merged. What is within bounds op by op may add up to too much; that is well told, then.
fn coarse(spec: &ProblemSpec, granularity: Granularity) -> Option<ProblemSpec> {
    coarsen(spec, granularity).map_err(|errors| assert_well_told(&errors)).ok()
}

/// Three equal devices, and the classes that are built in: read once.
static HARDWARE: LazyLock<(HardwareSpec, Vec<ClassSpec>)> = LazyLock::new(|| {
    let hardware = presets::hardware("uniform-3").and_then(Result::ok).expect("it is built in");
    (hardware, presets::catalogue())
});

/// The latency problem of a network on some hardware; none where the network is too much for it.
fn problem(spec: &ProblemSpec) -> Option<Problem> {
    let graph = Graph::new(spec.graph.clone()).expect("a coarsened graph is sound");
    let (hardware, catalogue) = &*HARDWARE;
    let objective = Objective::Latency { links: LinkUse::Delay };
    let (hardware, constraints) = (hardware.clone(), &spec.constraints);
    let problem = Problem::new(graph, &spec.profile, hardware, catalogue, objective, constraints);
    problem.map_err(|errors| assert_well_told(&errors)).ok()
}

/// A device for every op: changing now and then along the order, or from op to op.
fn placement(problem: &Problem, rng: &mut Rng) -> Vec<DeviceId> {
    let (devices, change) = (problem.hardware.device_count(), *rng.pick(&[0.05, 0.3, 1.0]));
    let mut device = rng.below(devices);
    let mut placement = vec![DeviceId(0); problem.graph.op_count()];
    for op in problem.graph.order() {
        if rng.chance(change) {
            device = rng.below(devices);
        }
        placement[op.index()] = DeviceId::new(device);
    }
    placement
}

/// An ONNX model, cut: by pieces at random, and by a plan.
pub fn onnx_cut(seed: u64, bytes: &[u8]) {
    let Some(model) = model(bytes) else { return };
    let Some(graph) = &model.graph else { return };
    let mut rng = Rng::new(seed);
    let (dims, facts) = settle(&model, &mut rng);
    let at_random = random_pieces(graph.node.len(), &mut rng);
    let _ = annotate(&model, &at_random, "fuzz").encode_to_vec();
    let symbolic_shapes = SymbolicShapes::new(&model, &dims, &facts);
    match cut(&model, &at_random, &symbolic_shapes) {
        Ok(cut) => assert_pieces(&model, &cut, &dims),
        Err(error) => assert!(!error.faults.is_empty() && !error.to_string().is_empty()),
    }
    let Some(understood) = understood(&model, &dims) else { return };
    let spec = match rng.below(3) {
        0 => Some(understood.spec),
        1 => coarse(&understood.spec, Granularity::Fused),
        _ => coarse(&understood.spec, Granularity::Block),
    };
    let Some(problem) = spec.as_ref().and_then(problem) else { return };
    let Ok(plan) = default_plan::plan(&problem, &placement(&problem, &mut rng)) else { return };
    let fixed = FixedShapes::new(graph, &dims, &facts);
    let planned = match pieces::pieces(&problem, &plan, graph, &fixed, Cutting::Fewest) {
        Ok(planned) => planned,
        Err(reason) => panic!("a plan of this very model gives no pieces: {reason}"),
    };
    let model = fixed.write_down(model.clone(), &planned);
    match cut(&model, &planned, &symbolic_shapes) {
        Ok(cut) => assert_pieces(&model, &cut, &dims),
        // A type that nobody knows cannot be made up; everything else was known when the model was read.
        Err(error) => assert!(
            error.faults.iter().all(|fault| matches!(fault, Fault::NoType { .. })),
            "a plan of this very model cannot be cut: {error}"
        ),
    }
}

/// Up to four pieces: runs of nodes, or every node for itself.
fn random_pieces(nodes: usize, rng: &mut Rng) -> Vec<Piece> {
    let (count, change) = (1 + rng.below(4), *rng.pick(&[0.05, 0.3, 1.0]));
    let mut pieces: Vec<Piece> = (0..count)
        .map(|i| Piece { name: format!("p{i}"), device: format!("d{}", i % 2), nodes: Vec::new() })
        .collect();
    let mut piece = 0;
    for node in 0..nodes {
        if rng.chance(change) {
            piece = rng.below(count);
        }
        pieces[piece].nodes.push(node);
    }
    pieces.retain(|piece| !piece.nodes.is_empty());
    pieces
}

/// Pieces are sound together, and each is a model that divvy itself reads, understands and can cut.
fn assert_pieces(whole: &Model, cut_pieces: &[CutPiece], dims: &BTreeMap<String, u64>) {
    // An output that is listed twice is given once.
    let mut whole = whole.clone();
    let mut seen = HashSet::new();
    if let Some(graph) = &mut whole.graph {
        graph.output.retain(|output| seen.insert(output.name().to_owned()));
    }
    assert_sound(&whole, cut_pieces);
    let is_told = load::looks_like_onnx(&whole.encode_to_vec());
    for piece in cut_pieces {
        let bytes = piece.model.encode_to_vec();
        assert!(load::looks_like_onnx(&bytes) || !is_told, "{}", piece.name);
        let read = match load::decode("piece.onnx", &bytes.into()) {
            Ok(read) => inline::inline(read.model).expect("a piece has no functions that unfold"),
            Err(error) => panic!("{} is not read: {error}", piece.name),
        };
        let symbolic_shapes = SymbolicShapes::new(&read, dims, &infer(&read, dims));
        let nodes = (0..read.graph.as_ref().map_or(0, |graph| graph.node.len())).collect();
        let all = Piece { name: "all".to_owned(), device: "d0".to_owned(), nodes };
        if let Err(error) = cut(&read, &[all], &symbolic_shapes) {
            panic!("{} cannot be cut again: {error}", piece.name);
        }
        let own = dims.iter().filter(|(name, _)| infer(&read, &BTreeMap::new()).unset_dims.contains(*name));
        let own = own.map(|(name, size)| (name.clone(), *size)).collect();
        let _ = understood(&read, &own);
    }
}

/// A file on disk, for what only shows when it is loaded from there.
pub fn on_disk(bytes: &[u8]) -> Option<Loaded> {
    let path = std::env::temp_dir().join(format!("divvy-fuzz-{}", std::process::id()));
    std::fs::write(&path, bytes).expect("the temporary folder can be written");
    let loaded = divvy_io::file::load(path.to_str().expect("a plain path"));
    std::fs::remove_file(&path).expect("it was just written");
    match loaded {
        Ok(loaded) => Some(loaded),
        Err(Error::Input { errors, .. }) => {
            assert_well_told(&errors);
            None
        }
        Err(other) => panic!("not the input's fault: {other}"),
    }
}

/// A text where a hardware file has a quantity, in every such place.
pub fn quantity(text: &str) {
    let _ = divvy_io::hardware_file::parse_bytes(text);
    let classes =
        ["memory", "fast_memory", "memory_bandwidth", "launch", "power"].map(|field| json!({field: text}));
    for class in classes.into_iter().chain([json!({"peak": {"fp32": text}})]) {
        hardware(&json!({"class": {"c": class}, "device": [{"name": "d", "class": "c"}]}));
    }
    let devices = json!([{"name": "a", "class": "h200"}, {"name": "b", "class": "h200"}]);
    for field in ["bandwidth", "latency"] {
        let mut link = json!({"between": ["a", "b"], "bandwidth": "1 GB/s"});
        link[field] = text.into();
        hardware(&json!({"device": devices, "link": [link]}));
    }
}

fn hardware(value: &serde_json::Value) {
    match import(&loaded(value.to_string().as_bytes())) {
        Ok(Imported::Hardware(spec)) => hardware_survives_writing(&spec),
        Ok(_) => panic!("hardware became something else"),
        Err(Error::Input { errors, .. }) => assert_well_told(&errors),
        Err(other) => panic!("not the input's fault: {other}"),
    }
}
