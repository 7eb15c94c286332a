//! The schemas in `docs/` accept what divvy writes and what `docs/formats.md` shows, and refuse what the reader refuses.

#![expect(clippy::unwrap_used, reason = "a panic is how a test reports")]

use std::path::Path;

use boon::{Compiler, SchemaIndex, Schemas};
use divvy_core::check::check;
use divvy_core::default_plan;
use divvy_core::generate::{
    RandomModel, RegalFamily, RegalOptions, RwnnOptions, TransformerOptions, Wiring, Yolov2Options, gpt,
    llama, regal, rwnn, yolov2,
};
use divvy_core::graph::Graph;
use divvy_core::hardware::Hardware;
use divvy_core::history::HistoryPoint;
use divvy_core::ids::{DeviceId, LinkId, OpId};
use divvy_core::problem::{LinkUse, Objective, OwnHardware, Problem, ProblemSpec};
use divvy_core::units::Time;
use divvy_io::file::Loaded;
use divvy_io::import::{Imported, import, import_problem};
use divvy_io::plan_file::{Claim, PlanFile};
use divvy_io::read_options::ReadOptions;
use divvy_io::source::Source;
use divvy_io::{presets, problem_file};
use divvy_proof::certificate::Certificate;
use divvy_proof::evidence::{
    CaseRegion, CaseTree, ChainStage, DevicePair, Evidence, ForcedPair, IntervalRow, PricedEdge, ProofStep,
    RowMultiple, StageGroup, WorkWindow,
};
use serde_json::{Value, json};

/// Where the schemas are taken to be; they refer to each other by file name.
const BASE: &str = "file:///docs";

struct Validator {
    schemas: Schemas,
    index: SchemaIndex,
}

impl Validator {
    /// The schema at `location`, such as `problem.schema.json#/$defs/class`. Fails if a schema is itself not valid.
    fn new(location: &str) -> Validator {
        let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
        for name in ["problem.schema.json", "plan.schema.json"] {
            let schema = serde_json::from_str(&doc(name)).unwrap();
            compiler.add_resource(&format!("{BASE}/{name}"), schema).unwrap();
        }
        let compiled = compiler.compile(&format!("{BASE}/{location}"), &mut schemas);
        let index = compiled.unwrap_or_else(|error| panic!("{location}: {error:#}"));
        Validator { schemas, index }
    }

    fn accepts(&self, value: &Value) -> bool {
        self.schemas.validate(value, self.index).is_ok()
    }

    fn must_accept(&self, what: &str, value: &Value) {
        if let Err(error) = self.schemas.validate(value, self.index) {
            panic!("{what}: {error:#}");
        }
    }
}

fn problems() -> Validator {
    Validator::new("problem.schema.json")
}

fn plans() -> Validator {
    Validator::new("plan.schema.json")
}

fn doc(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn loaded(text: &str) -> Loaded {
    Loaded { path: "test".to_owned(), bytes: text.as_bytes().to_vec().into(), sha256: String::new() }
}

/// Code blocks of `docs/formats.md` whose fence says `info`.
fn examples(info: &str) -> Vec<String> {
    let (text, fence) = (doc("formats.md"), format!("```{info}\n"));
    let blocks = text.split(&fence).skip(1).map(|rest| rest.split("```").next().unwrap().to_owned());
    let blocks: Vec<String> = blocks.collect();
    assert!(!blocks.is_empty(), "docs/formats.md has an example `{info}`");
    blocks
}

/// The problem that a file gives, as the command line would put it together.
fn build(spec: ProblemSpec) -> Result<Problem, String> {
    let objective = spec.objective.unwrap_or(Objective::Latency { links: LinkUse::Delay });
    let hardware = match spec.hardware {
        Some(OwnHardware::Given(hardware)) => *hardware,
        Some(OwnHardware::UniformPerStage { bandwidth }) => presets::uniform_devices(4, bandwidth),
        None => presets::hardware("h200-cpu").unwrap().unwrap(),
    };
    let graph = Graph::new(spec.graph).map_err(|errors| errors.to_string())?;
    let catalogue = presets::catalogue();
    let problem = Problem::new(graph, &spec.profile, hardware, &catalogue, objective, &spec.constraints);
    problem.map_err(|errors| errors.to_string())
}

/// Reads a problem file and puts the problem together.
fn read(file: &Value) -> Result<Problem, String> {
    build(import_problem(&loaded(&file.to_string())).map_err(|error| error.to_string())?)
}

/// A plan file with the plainest plan that puts each op on the first device that may run it.
fn plan_file(problem: &Problem) -> PlanFile {
    let device_of: Vec<DeviceId> =
        problem.graph.ops().map(|op| problem.devices_for(op).next().unwrap()).collect();
    let plan = default_plan::plan(problem, &device_of).unwrap();
    let score = check(problem, &plan).unwrap();
    PlanFile {
        problem: problem.clone(),
        plan,
        planner: "auto".to_owned(),
        found_by: Some("plainest".to_owned()),
        reading: ReadOptions::default(),
        sources: vec![
            Source { role: "model".into(), path: "model.json".into(), sha256: Some("0f".repeat(32)) },
            Source { role: "hardware".into(), path: "h200-cpu".into(), sha256: None },
        ],
        claim: Claim::of(&score),
        certificates: Vec::new(),
        history: vec![
            HistoryPoint { seconds: 0.25, value: None, lower_bound: Some(Time(3)), by: Some("area".into()) },
            HistoryPoint { seconds: 1.5, value: Some(score.value), lower_bound: None, by: None },
        ],
    }
}

fn generated() -> Vec<ProblemSpec> {
    let mut specs = Vec::new();
    for model in [RandomModel::ER, RandomModel::WS, RandomModel::BA] {
        for wiring in Wiring::ALL {
            for batches in [false, true] {
                let sizes = RwnnOptions { modules: 3, batches, ..RwnnOptions::default() };
                specs.push(rwnn(&RwnnOptions { model, wiring, ..sizes }).unwrap());
            }
        }
    }
    let families = RegalFamily::ALL.map(|family| RegalOptions { family, nodes: 40, seed: 2 });
    specs.extend(families.iter().map(|options| regal(options).unwrap()));
    let one_token = TransformerOptions { past: 9, sequence: 1, ..TransformerOptions::default() };
    specs.extend([
        yolov2(&Yolov2Options::default()).unwrap(),
        yolov2(&Yolov2Options { paper_scale: true, ..Yolov2Options::default() }).unwrap(),
        gpt(&TransformerOptions::default()).unwrap(),
        gpt(&one_token).unwrap(),
        llama(&TransformerOptions::default()).unwrap(),
        llama(&one_token).unwrap(),
    ]);
    specs
}

#[test]
fn every_generated_problem_is_valid_and_reads_back_as_it_was() {
    let validator = problems();
    let preset = |name: &str| OwnHardware::Given(Box::new(presets::hardware(name).unwrap().unwrap()));
    for spec in generated() {
        let uniform = OwnHardware::UniformPerStage { bandwidth: 5_000_000 };
        let others = [None, Some(uniform), Some(preset("dgx-v100-mixed")), Some(preset("uniform-3"))];
        for hardware in [spec.hardware.clone()].into_iter().chain(others) {
            let spec = ProblemSpec { hardware, ..spec.clone() };
            let file = problem_file::write(&spec);
            validator.must_accept(&spec.graph.name, &file);
            assert!(import_problem(&loaded(&file.to_string())).unwrap() == spec, "{}", spec.graph.name);
        }
    }
}

#[test]
fn every_built_in_hardware_is_valid_as_text_and_as_written() {
    let (problems, hardware) = (problems(), Validator::new("problem.schema.json#/$defs/hardware"));
    for name in presets::names().into_iter().filter(|name| *name != "uniform-K").chain(["uniform-7"]) {
        if let Some(text) = presets::text(name) {
            hardware.must_accept(name, &loaded(text).parse().unwrap());
        }
        let graph = json!({"ops": {"flops": [1]}});
        let by_name = json!({"divvy": "problem", "version": 1, "graph": graph, "hardware": name});
        problems.must_accept(name, &by_name);
        let written = problem_file::write(&read(&by_name).unwrap().to_spec());
        problems.must_accept(name, &written);
        hardware.must_accept(name, &written["hardware"]);
    }
}

#[test]
fn plan_files_of_every_objective_are_valid_and_so_are_their_problems() {
    let (problems, plans) = (problems(), plans());
    let spec: ProblemSpec = import_problem(&loaded(&examples("json problem")[0])).unwrap();
    let objectives = [
        Objective::Latency { links: LinkUse::Delay },
        Objective::Latency { links: LinkUse::InTurn },
        Objective::Batch { inputs: 8 },
        Objective::Pipeline { stages: 2 },
        Objective::Stream,
        Objective::COLD_START,
    ];
    for objective in objectives {
        let problem = build(ProblemSpec { objective: Some(objective), ..spec.clone() }).unwrap();
        let mut plan = plan_file(&problem);
        plan.certificates = every_evidence();
        let value: Value = serde_json::from_str(&plan.write()).unwrap();
        plans.must_accept(objective.name(), &value);
        problems.must_accept(objective.name(), &value["problem"]);
        plan.certificates.clear();
        let again = PlanFile::read(&loaded(&plan.write())).unwrap();
        // What was written has its cuts.
        assert_eq!(again.claim, plan.claim);
        assert_eq!(again.check().unwrap().score, plan.check().unwrap().score);
    }
}

/// A certificate of each kind; what they claim is not checked here.
fn every_row() -> Vec<RowMultiple> {
    let (op, device) = (OpId(0), DeviceId(1));
    let rows = [
        IntervalRow::Head { op },
        IntervalRow::Tail { op },
        IntervalRow::Between { from: Some(op), to: None, device },
        IntervalRow::Between { from: None, to: Some(op), device },
        IntervalRow::Gap { from: op, to: OpId(1), prices: vec![0, u64::MAX] },
    ];
    rows.map(|row| RowMultiple { times: 1 << 32, row }).into()
}

fn every_evidence() -> Vec<Certificate> {
    let kinds = [
        Evidence::CriticalPath { ops: vec![OpId(0)] },
        Evidence::Op { op: OpId(0) },
        Evidence::Area { weights: vec![1, u64::MAX] },
        Evidence::DeviceLoad { device: DeviceId(1) },
        Evidence::LinkLoad { link: LinkId(0) },
        Evidence::LastLoads {
            weights: vec![1, 0],
            left_ps: Time(5),
            shares: vec![vec![1, 2]],
            steps: vec![ProofStep::Tails { window: 12, width: 100, limit_ps: Time(7), ops: 3 }],
        },
        Evidence::SegmentPrices {
            links: vec![1, 0],
            kernels: 3,
            chain: vec![OpId(0), OpId(1)],
            shared: true,
        },
        Evidence::FrontierSearch {
            weights: vec![vec![1, 2]],
            steps: vec![
                ProofStep::Tails { window: 12, width: 100, limit_ps: Time(7), ops: 3 },
                ProofStep::Whole { width: 20, limit_ps: Time(7), levels: 2 },
            ],
        },
        Evidence::IntervalLp {
            weights: vec![vec![1, 2]],
            steps: vec![ProofStep::Tails { window: 3, width: 4, limit_ps: Time(5), ops: 6 }],
            rows: every_row(),
        },
        Evidence::DivisionLp {
            weights: vec![1, 2],
            flows: vec![PricedEdge { from: OpId(0), to: OpId(1), times: 3, prices: vec![-1, 4] }],
            windows: vec![WorkWindow { from: Some(OpId(0)), to: None, device: DeviceId(1), times: 2 }],
            memory: vec![0, 7],
        },
        Evidence::DivisionCases {
            weights: vec![1, 2],
            flows: vec![PricedEdge { from: OpId(1), to: OpId(2), times: 3, prices: vec![-1, 4] }],
            windows: vec![WorkWindow { from: Some(OpId(0)), to: None, device: DeviceId(1), times: 2 }],
            parts: vec![CaseRegion {
                ops: vec![OpId(0), OpId(1)],
                walk: vec![
                    CaseTree::Split { op: OpId(0), class: 1, least: 2 },
                    CaseTree::Order { first: OpId(0), second: OpId(1) },
                    CaseTree::Priced { flows: Vec::new(), windows: Vec::new(), turns: Vec::new() },
                    CaseTree::Priced {
                        flows: Vec::new(),
                        windows: Vec::new(),
                        turns: vec![DevicePair { from: OpId(1), to: OpId(0), times: 2 }],
                    },
                    CaseTree::Priced {
                        flows: vec![PricedEdge { from: OpId(0), to: OpId(1), times: 3, prices: Vec::new() }],
                        windows: vec![WorkWindow {
                            from: Some(OpId(0)),
                            to: Some(OpId(1)),
                            device: DeviceId(1),
                            times: 2,
                        }],
                        turns: Vec::new(),
                    },
                ],
            }],
        },
        Evidence::ChainDp {
            stages: vec![
                ChainStage { op: OpId(0), branches: Vec::new(), shares: Vec::new(), weights: Vec::new() },
                ChainStage {
                    op: OpId(3),
                    branches: vec![vec![OpId(1)], vec![OpId(2)]],
                    shares: vec![1, 2],
                    weights: vec![vec![0, 1]],
                },
            ],
            limit_ps: Time(7),
            width: 20,
            shares: vec![2, 1],
        },
        Evidence::SetCover {
            merged: true,
            threshold_ps: Time(7),
            prices: vec![1, 0],
            groups: vec![StageGroup { stages: 1, count: 2, limit: 0, tree: vec![0, 1, 1] }],
        },
        Evidence::TwoWayCut { merged: false, threshold_ps: Time(7), first: 1, tree: vec![1] },
        Evidence::DownSets { merged: true, threshold_ps: Time(7) },
        Evidence::Colocation {
            threshold_ps: Time(7),
            unions: vec![ForcedPair { one: OpId(0), other: OpId(1), by_cut: true }],
            weights: vec![1, 0],
            rounding: 2,
        },
        Evidence::LinkPrices { threshold_ps: Time(7), weights: vec![1], prices: vec![-1, 4] },
        Evidence::DeviceGroups {
            threshold_ps: Time(7),
            groups: vec![vec![DeviceId(0)], vec![DeviceId(1)]],
            weights: vec![1, 4],
            links: vec![1],
            slots: 32,
        },
        Evidence::Attested { by: "a search".to_owned() },
    ];
    kinds.map(|evidence| Certificate { bound: "some".to_owned(), value_ps: Time(0), evidence }).into()
}

#[test]
fn the_examples_of_the_documentation_are_valid_and_plan() {
    let (problems, plans) = (problems(), plans());
    for text in examples("json problem") {
        problems.must_accept("formats.md", &loaded(&text).parse().unwrap());
        let problem = build(import_problem(&loaded(&text)).unwrap()).unwrap();
        assert_eq!(problem.infeasibilities(), [""; 0]);
        plan_file(&problem).check().unwrap();
    }
    for text in examples("json plan") {
        plans.must_accept("formats.md", &loaded(&text).parse().unwrap());
        PlanFile::read(&loaded(&text)).unwrap().check().unwrap();
    }
    let hardware = Validator::new("problem.schema.json#/$defs/hardware");
    for text in examples("toml hardware") {
        hardware.must_accept("formats.md", &loaded(&text).parse().unwrap());
        let Imported::Hardware(spec) = import(&loaded(&text)).unwrap() else { panic!("it is hardware") };
        Hardware::new(*spec).unwrap();
    }
}

#[test]
fn the_workloads_of_the_documentation_import_as_what_they_are() {
    for name in ["torch", "latency", "pipeline", "msr"] {
        for text in examples(&format!("json {name}")) {
            let Imported::Problem { format, spec, .. } = import(&loaded(&text)).unwrap() else {
                panic!("`{name}` holds a network");
            };
            assert_eq!(format, format!("{name} workload"));
            build(*spec).unwrap();
        }
    }
    for text in examples("json machine") {
        let Imported::Hardware(spec) = import(&loaded(&text)).unwrap() else { panic!("it is hardware") };
        Hardware::new(*spec).unwrap();
    }
}

/// `file` with the value at `pointer` replaced, or taken away.
fn with(file: &Value, pointer: &str, value: Option<Value>) -> Value {
    let mut file = file.clone();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    match (file.pointer_mut(parent).unwrap(), value) {
        (Value::Object(map), Some(value)) => drop(map.insert(key.to_owned(), value)),
        (Value::Object(map), None) => drop(map.shift_remove(key).unwrap()),
        (Value::Array(list), value) => list[key.parse::<usize>().unwrap()] = value.unwrap(),
        (other, _) => panic!("{pointer} leads to {other}"),
    }
    file
}

#[test]
fn wrong_problem_files_are_refused_by_schema_and_reader() {
    let validator = problems();
    let good: Value = serde_json::from_str(&examples("json problem")[0]).unwrap();
    validator.must_accept("formats.md", &good);
    read(&good).unwrap();
    let missing =
        ["/version", "/graph", "/graph/ops", "/costs/classes/gpu/times", "/hardware/device/0/class"];
    for pointer in missing {
        refuse(&validator, &with(&good, pointer, None), pointer);
    }
    let unknown = [
        "",
        "/graph",
        "/graph/ops",
        "/graph/tensors",
        "/graph/params",
        "/costs",
        "/costs/classes/gpu",
        "/hardware",
        "/hardware/class/gpu",
        "/hardware/node/0",
        "/hardware/device/0",
        "/hardware/link/0",
        "/objective",
        "/constraints",
    ];
    for pointer in unknown {
        let pointer = format!("{pointer}/surprise");
        refuse(&validator, &with(&good, &pointer, Some(json!(1))), &pointer);
    }
    let wrong = [
        ("/version", json!(2)),
        ("/version", json!("1")),
        ("/name", json!(["tiny"])),
        ("/graph/ops", json!([{"name": "a"}])),
        ("/graph/ops", json!({"members": {"0": ["a"]}})),
        ("/graph/ops/name/0", json!("")),
        ("/graph/ops/flops/0", json!(-1)),
        ("/graph/ops/flops/0", json!(0.5)),
        ("/graph/ops/module", json!([0, 0, 0, 4_294_967_296_u64])),
        ("/graph/ops/members", json!({"first": ["a"]})),
        ("/graph/tensors", json!({})),
        ("/graph/tensors/bytes/0", json!("128")),
        ("/graph/tensors/producer/1", json!("embed")),
        ("/graph/tensors/consumers/0", json!(0)),
        ("/graph/tensors/outputs", json!([-4])),
        ("/graph/params/readers/0", json!(["embed"])),
        ("/costs/time_unit", json!("ms")),
        ("/costs/classes/gpu/times/0/0", json!(-2.0)),
        ("/costs/classes/gpu/times/0/0", json!("fast")),
        ("/costs/classes/gpu/times", json!([1, 2, 3, 4])),
        ("/costs/whole_model", json!([{"class": "gpu", "time": 5}])),
        ("/costs/pieces", json!([{"class": "gpu"}])),
        ("/hardware", json!("no-such")),
        ("/hardware", json!("uniform-0")),
        ("/hardware", json!({"uniform_bandwidth": 0})),
        ("/hardware", json!({"uniform_bandwidth": 1, "device": []})),
        ("/hardware/device", json!([])),
        ("/hardware/device/0/count", json!(0)),
        ("/hardware/device/0/on_host", json!("yes")),
        ("/hardware/class/gpu/kind", json!("tpu")),
        ("/hardware/class/gpu/memory", json!("16 gigabytes")),
        ("/hardware/class/gpu/memory", json!("16")),
        ("/hardware/class/gpu/memory", json!(-1)),
        ("/hardware/class/gpu/peak", json!({"fp32": 0})),
        ("/hardware/class/gpu/batch_sizes", json!([0, 1])),
        ("/hardware/class/gpu/launch", json!("1 hour")),
        ("/hardware/link/0/between", json!(["host"])),
        ("/hardware/link/0/between", json!(["host", "gpu", "cpu"])),
        ("/hardware/link/0/bandwidth", json!(0)),
        ("/hardware/link/0/bandwidth", json!("12 GB")),
        ("/hardware/link/0/duplex", json!("none")),
        ("/objective", json!("latency")),
        ("/objective", json!({"kind": "fastest"})),
        ("/objective", json!({"kind": "batch"})),
        ("/objective", json!({"kind": "batch", "inputs": 0})),
        ("/objective", json!({"kind": "pipeline", "stages": 0})),
        ("/objective/links", json!("sometimes")),
        ("/constraints/pin", json!(null)),
        ("/constraints/pin", json!({"embed": 0})),
        ("/constraints/memory_limit", json!({"gpu": "8 GB"})),
        ("/constraints/max_splits", json!(-1)),
        ("/constraints/memory_rule", json!("none")),
    ];
    for (pointer, value) in wrong {
        let what = format!("{pointer} = {value}");
        refuse(&validator, &with(&good, pointer, Some(value)), &what);
    }
}

fn refuse(validator: &Validator, file: &Value, what: &str) {
    assert!(!validator.accepts(file), "the schema accepts {what}");
    assert!(read(file).is_err(), "the reader accepts {what}");
}

#[test]
fn wrong_plan_files_are_refused_by_schema_and_reader() {
    let validator = plans();
    let problem = build(import_problem(&loaded(&examples("json problem")[0])).unwrap()).unwrap();
    let mut file = plan_file(&problem);
    file.certificates = every_evidence();
    let good: Value = serde_json::from_str(&file.write()).unwrap();
    let refuse = |file: &Value, what: &str| {
        assert!(!validator.accepts(file), "the schema accepts {what}");
        assert!(PlanFile::read(&loaded(&file.to_string())).is_err(), "the reader accepts {what}");
    };
    let missing = [
        "/version",
        "/claim",
        "/claim/value_ps",
        "/plan",
        "/plan/objective",
        "/plan/pieces",
        "/problem",
        "/problem/hardware",
        "/problem/objective",
        "/sources/0/role",
        "/certificates/0/evidence",
    ];
    for pointer in missing {
        refuse(&with(&good, pointer, None), pointer);
    }
    for pointer in ["", "/claim", "/plan", "/problem", "/sources/0", "/certificates/0"] {
        let pointer = format!("{pointer}/surprise");
        refuse(&with(&good, &pointer, Some(json!(1))), &pointer);
    }
    let wrong = [
        ("/divvy", json!("problem")),
        ("/version", json!(1)),
        ("/version", json!(4)),
        ("/claim/value_ps", json!(-1)),
        ("/claim/value_ps", json!(0.5)),
        ("/claim/starts_ps", json!([null])),
        ("/plan/objective", json!("fastest")),
        ("/plan/pieces", json!([{"device": 0, "ops": ["embed"]}])),
        ("/plan/transfers", json!([{"tensor": 0}])),
        ("/certificates/0/evidence", json!({"kind": "trust"})),
        ("/certificates/0/evidence", json!({"kind": "path"})),
        ("/certificates/0/evidence", json!({"kind": "interval", "weights": [], "steps": []})),
        (
            "/certificates/0/evidence",
            json!({"kind": "interval", "weights": [], "steps": [], "rows": [{"times": -1, "row": {"head": {"op": 0}}}]}),
        ),
        (
            "/certificates/0/evidence",
            json!({"kind": "interval", "weights": [], "steps": [], "rows": [{"times": 1, "row": {"foot": {"op": 0}}}]}),
        ),
        ("/certificates/0/evidence", json!({"kind": "op", "op": 0, "ops": []})),
        ("/problem/hardware", json!({"uniform_bandwidth": 1})),
        ("/problem/graph/ops/flops", json!("none")),
    ];
    for (pointer, value) in wrong {
        let what = format!("{pointer} = {value}");
        refuse(&with(&good, pointer, Some(value)), &what);
    }
}
