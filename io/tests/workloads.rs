//! Every bundled model, and every published workload where those are at hand, imports, is sound, and says what its
//! source says.

#![allow(clippy::unwrap_used, reason = "a test that cannot read its data has failed")]

use std::path::{Path, PathBuf};

use divvy_core::check::check;
use divvy_core::default_plan;
use divvy_core::graph::Graph;
use divvy_core::ids::DeviceId;
use divvy_core::problem::{LinkUse, Objective, OwnHardware, Problem, ProblemSpec};
use divvy_core::units::Time;
use divvy_io::import::{Imported, import};
use divvy_io::{file, presets};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// JSON files of the bundled models and, where they are there, of the published workloads beside the repository.
fn files(published: &str) -> Vec<PathBuf> {
    let folders = [repository().join("models"), repository().join("../shared/workloads").join(published)];
    let mut files: Vec<PathBuf> = Vec::new();
    for folder in folders {
        let Ok(entries) = std::fs::read_dir(folder) else { continue };
        let paths = entries.map(|entry| entry.unwrap().path());
        files.extend(paths.filter(|path| path.to_string_lossy().contains(".json")));
    }
    files.sort();
    files
}

fn read(path: &Path) -> Imported {
    let loaded = file::load(path.to_str().unwrap()).unwrap();
    import(&loaded).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn torch_models() -> Vec<(PathBuf, ProblemSpec)> {
    let mut models = Vec::new();
    for path in files("torch") {
        if let Imported::Problem { format: "torch workload", spec, .. } = read(&path) {
            models.push((path, *spec));
        }
    }
    models
}

/// The problem with pieces that cost nothing.
fn problem(spec: &ProblemSpec, hardware: &str, objective: Objective) -> Problem {
    let mut hardware = presets::hardware(hardware).unwrap().unwrap();
    hardware.set_piece_cost(Time::ZERO);
    let graph = Graph::new(spec.graph.clone()).unwrap();
    Problem::new(graph, &spec.profile, hardware, &presets::catalogue(), objective, &spec.constraints).unwrap()
}

const LATENCY: Objective = Objective::Latency { links: LinkUse::Delay };

/// What the whole network takes on one device.
fn on_one_device(problem: &Problem, device: DeviceId) -> Time {
    let plan = default_plan::plan(problem, &vec![device; problem.graph.op_count()]).unwrap();
    check(problem, &plan).unwrap().value
}

#[test]
fn every_workload_imports_and_is_sound() {
    for folder in ["torch", "latency", "pipeline", "msr"] {
        for path in files(folder) {
            match read(&path) {
                Imported::Hardware(spec) => {
                    divvy_core::hardware::Hardware::new(*spec).unwrap();
                }
                Imported::Plan => panic!("{}: a plan", path.display()),
                Imported::Problem { spec, .. } => {
                    let graph = Graph::new(spec.graph.clone()).unwrap();
                    assert!(
                        graph.op_count() > 0 && graph.depth() > 0 && graph.width() > 0,
                        "{}",
                        path.display()
                    );
                    if let Some(OwnHardware::Given(hardware)) = spec.hardware {
                        let catalogue = presets::catalogue();
                        Problem::new(graph, &spec.profile, *hardware, &catalogue, LATENCY, &spec.constraints)
                            .unwrap_or_else(|errors| panic!("{}: {errors}", path.display()));
                    }
                }
            }
        }
    }
}

#[test]
fn one_device_takes_what_the_whole_model_took() {
    let models = torch_models();
    assert!(models.len() >= 2, "the bundled models are there");
    for (path, spec) in models {
        let language = spec.graph.precision.as_deref() == Some("fp16");
        for (class, size, whole) in spec.profile.whole_model.iter().filter(|(class, ..)| class == "h200") {
            let problem = problem(&spec, "h200-cpu", Objective::Batch { inputs: *size });
            let value = on_one_device(&problem, problem.hardware.device_named("gpu").unwrap());
            let profiled = spec.profile.classes.iter().find(|c| c.class == *class).unwrap();
            let sum: Time = profiled.at(*size).unwrap().iter().flatten().map(|cost| cost.time).sum();
            assert_eq!(value, sum, "{}: nothing is lost or added", path.display());
            // GPU times are kernel time without the gaps between kernels, which weigh most at batch 1.
            let share = match (language, size) {
                (true, _) if whole.as_us() < 10_000.0 => 0.22,
                (_, 1) => 0.12,
                _ => 0.04,
            };
            let off = (value.as_us() - whole.as_us()).abs() / whole.as_us();
            assert!(off <= share, "{} at batch {size}: {:.1} % off", path.display(), off * 100.0);
        }
    }
}

#[test]
fn weights_and_flops_are_the_published_ones() {
    for (path, spec) in torch_models() {
        let graph = Graph::new(spec.graph).unwrap();
        let flops: u64 = graph.ops().filter_map(|op| graph.op(op).flops).sum();
        let name = path.file_name().unwrap().to_str().unwrap().split('.').next().unwrap().to_owned();
        // Multiply-adds as torchvision's model pages give them, twice; language models by 2 x parameters x tokens.
        let published = match name.as_str() {
            "resnet50" => 2.0 * 4.089e9,
            "googlenet" => 2.0 * 1.498e9,
            "mobilenet_v2" => 2.0 * 0.301e9,
            "gpt2-large-1x32" => 2.0 * 774e6 * 32.0,
            _ => continue,
        };
        let off = (flops as f64 / published - 1.0).abs();
        assert!(off < 0.06, "{name}: {flops} FLOP, {:.1} % off", off * 100.0);
    }
}

#[test]
fn free_ops_are_folded_and_remembered() {
    let path = repository().join("models/gpt2-large-1x32.json.gz");
    let Imported::Problem { spec, .. } = read(&path) else { panic!("a network") };
    let graph = Graph::new(spec.graph).unwrap();
    let folded: usize = graph.ops().map(|op| graph.op(op).members.len()).sum();
    assert!(folded > 900, "{folded} folded");
    let zero =
        spec.profile.classes[0].costs[0].iter().flatten().filter(|cost| cost.time == Time::ZERO).count();
    assert!(zero <= 2, "{zero} free ops are left, with several sources each");
    let several = graph.ops().filter(|&op| graph.outputs(op).len() > 1).count();
    assert!(several >= 36, "each layer's query, key and value come from one op");
    // The source says 1 548 060 160 of weights; a scalar constant is a parameter too.
    assert_eq!(graph.total_weight_bytes(), 1_548_060_160 + 2);
    let tied = graph.params().filter(|&p| graph.readers(p).len() > 1).count();
    assert_eq!(tied, 1, "the embedding is the head too");
}

#[test]
fn a_measured_machine_is_hardware() {
    let path = repository().join("io/tests/data/machine.json");
    let Imported::Hardware(measured) = read(&path) else { panic!("hardware") };
    let preset = presets::hardware("h200-cpu").unwrap().unwrap();
    let ratio = measured.links[0].bandwidth as f64 / preset.links[0].bandwidth as f64;
    assert!((0.98..1.02).contains(&ratio), "the preset has the measured bandwidth: {ratio}");
}

#[test]
fn reading_in_place_takes_what_was_measured() {
    let path = repository().join("models/gpt2-large-1x32.json.gz");
    let Imported::Problem { spec, .. } = read(&path) else { panic!("a network") };
    let problem = problem(&spec, "h200-cpu", Objective::COLD_START);
    let gpu = problem.hardware.device_named("gpu").unwrap();
    let head = problem.graph.op_named("linear").unwrap();
    let (time, _) = problem.in_place_time(head, gpu).unwrap();
    assert!((time.as_us() - 2519.744).abs() < 1.0, "{time}");
}
