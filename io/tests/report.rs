//! Reports say what the check says: the critical path is a chain from first to last, moves cost what the check says,
//! attested is not verified, and the same plan gives the same file.

#![allow(clippy::unwrap_used, reason = "a test that cannot read its data has failed")]

use std::path::{Path, PathBuf};

use divvy_core::check::check;
use divvy_core::default_plan;
use divvy_core::graph::Graph;
use divvy_core::ids::{DeviceId, OpId};
use divvy_core::problem::{LinkUse, Objective, Problem};
use divvy_core::relocate::relocate;
use divvy_core::rng::Rng;
use divvy_core::score::Score;
use divvy_core::units::Time;
use divvy_core::violation::Rule;
use divvy_io::import::import_problem;
use divvy_io::plan_file::PlanFile;
use divvy_io::report::{OneDevice, Report};
use divvy_io::{file, presets, trace_file};
use divvy_proof::certificate::Certificate;
use divvy_proof::evidence::Evidence;
use serde_json::Value;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn report<'a>(problem: &'a Problem, plan: &'a divvy_core::plan::Plan, score: &'a Score) -> Report<'a> {
    Report {
        problem,
        plan,
        score,
        certificates: &[],
        history: &[],
        one_device: OneDevice::Impossible { reason: "not asked".to_owned() },
        found_by: "a test",
        notes: Vec::new(),
        to_measure: Vec::new(),
        sources: Vec::new(),
        measured: None,
        next: Vec::new(),
        if_lost: Vec::new(),
        every_move: false,
    }
}

/// The data inside of a report.
fn data(html: &str) -> Value {
    let mark = "<script id=\"data\" type=\"application/json\">";
    let start = html.find(mark).unwrap() + mark.len();
    let end = start + html[start..].find("</script>").unwrap();
    serde_json::from_str(&html[start..end]).unwrap()
}

fn plans() -> Vec<(String, PlanFile)> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(repository().join("cli/tests/plans/valid"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    let read = |path: &PathBuf| PlanFile::read(&file::load(path.to_str().unwrap()).unwrap()).unwrap();
    paths.iter().map(|path| (path.file_stem().unwrap().to_string_lossy().into_owned(), read(path))).collect()
}

/// GoogLeNet with its ops here and there.
fn scattered(objective: Objective, seed: u64) -> (Problem, divvy_core::plan::Plan) {
    let path = repository().join("models/googlenet.json.gz");
    let spec = import_problem(&file::load(path.to_str().unwrap()).unwrap()).unwrap();
    let hardware = presets::hardware("cpu-t4-a100").unwrap().unwrap();
    let graph = Graph::new(spec.graph.clone()).unwrap();
    let problem =
        Problem::new(graph, &spec.profile, hardware, &presets::catalogue(), objective, &spec.constraints)
            .unwrap();
    let mut rng = Rng::new(seed);
    let devices: Vec<DeviceId> = problem.hardware.devices().collect();
    let placement: Vec<DeviceId> = problem.graph.ops().map(|_| *rng.pick(&devices)).collect();
    let plan = default_plan::plan(&problem, &placement).unwrap();
    (problem, plan)
}

#[test]
fn the_critical_path_is_a_chain_from_the_start_to_the_end() {
    let objectives = [
        Objective::Latency { links: LinkUse::Delay },
        Objective::Latency { links: LinkUse::InTurn },
        Objective::Batch { inputs: 1 },
        Objective::COLD_START,
    ];
    for (seed, objective) in (0..).zip(objectives.into_iter().cycle().take(8)) {
        let (problem, plan) = scattered(objective, seed);
        let score = check(&problem, &plan).unwrap();
        let data = data(&report(&problem, &plan, &score).html());
        let spans: Vec<u64> =
            data["spans"].as_array().unwrap().iter().map(|one| one.as_u64().unwrap()).collect();
        let mut now = 0;
        let steps = data["path"].as_array().unwrap();
        for step in steps {
            let at = step[0].as_u64().unwrap() as usize * 6;
            assert_eq!(spans[at + 3], now, "{objective:?}: a step begins where the one before ends");
            now += spans[at + 4];
        }
        assert_eq!(now, score.value.0, "{objective:?}: the steps add up to the finish");
        assert!(steps.len() > 10, "{objective:?}");
    }
}

#[test]
fn plans_of_every_objective_have_a_report_and_it_is_always_the_same() {
    let plans = plans();
    assert_eq!(plans.len(), 6);
    for (name, plan) in &plans {
        let verdict = plan.check().unwrap();
        let report = Report {
            certificates: &plan.certificates,
            history: &plan.history,
            ..report(&plan.problem, &plan.plan, &verdict.score)
        };
        let html = report.html();
        assert_eq!(html, report.html(), "{name}");
        let data = data(&html);
        assert_eq!(data["value"], verdict.score.value.0, "{name}");
        let is_period = plan.problem.objective.is_period();
        assert_eq!(data["path"].as_array().unwrap().is_empty(), is_period, "{name}");
        assert_eq!(data["moves"]["ops"].as_array().unwrap().len(), plan.problem.graph.op_count(), "{name}");
        assert_eq!(data["stages"].is_array(), name == "pipeline", "{name}");
        assert_eq!(data["params"].is_object(), name == "cold-start", "{name}");
        assert_eq!(data["routes"].is_array(), name == "cold-start", "{name}");
        if let divvy_core::plan::Plan::ColdStart(cold) = &plan.plan {
            let routes = data["routes"].as_array().unwrap();
            assert_eq!(routes.len(), cold.bus.len());
            let starts: Vec<u64> = routes.iter().map(|route| route[3].as_u64().unwrap()).collect();
            assert!(starts.is_sorted());
            for (i, landing) in cold.landings.iter().enumerate() {
                // Every landing is on the way of some load: read where it lands, or forwarded.
                let serves = |route: &&Value| {
                    route[0] == landing.param.0
                        && route[1] == landing.via.0
                        && if landing.via == landing.reader {
                            route[6] == true
                        } else {
                            route[5].as_array().unwrap().contains(&landing.reader.0.into())
                        }
                };
                assert_eq!(routes.iter().filter(serves).count(), 1, "landing {i}");
            }
        }
    }
}

#[test]
fn a_move_costs_what_the_plan_with_that_op_elsewhere_costs() {
    let (problem, plan) = scattered(Objective::Stream, 5);
    let divvy_core::plan::Plan::Stream(stream) = &plan else { panic!("a stream plan") };
    let score = check(&problem, &plan).unwrap();
    let data = data(&report(&problem, &plan, &score).html());
    for op in [0, 17, 196] {
        for device in problem.hardware.devices() {
            let mut elsewhere = stream.clone();
            elsewhere.device_of[OpId(op).index()] = device;
            let value = check(&problem, &divvy_core::plan::Plan::Stream(elsewhere)).unwrap().value;
            let told = &data["moves"]["rows"][op as usize][device.index()];
            let here = stream.device_of[op as usize] == device;
            assert_eq!(told.as_u64(), (!here).then_some(value.0));
        }
    }
}

/// Most moves of a pipeline are refused without the check, which has to agree with that.
#[test]
fn moves_of_a_pipeline_are_what_the_check_says() {
    let path = repository().join("models/layered-54.json.gz");
    let spec = import_problem(&file::load(path.to_str().unwrap()).unwrap()).unwrap();
    let objective = Objective::Pipeline { stages: 5 };
    let hardware = presets::hardware("uniform-5").unwrap().unwrap();
    let graph = Graph::new(spec.graph.clone()).unwrap();
    let problem =
        Problem::new(graph, &spec.profile, hardware, &presets::catalogue(), objective, &spec.constraints)
            .unwrap();
    // Four stages, so that one device is idle.
    let mut placement = vec![DeviceId(0); problem.graph.op_count()];
    for (i, op) in problem.graph.order().iter().enumerate() {
        placement[op.index()] = DeviceId((i / 14) as u32);
    }
    let plan = default_plan::plan(&problem, &placement).unwrap();
    let score = check(&problem, &plan).unwrap();
    let data = data(&report(&problem, &plan, &score).html());
    let (mut possible, mut circles) = (0, 0);
    for op in problem.graph.ops() {
        for device in problem.hardware.devices() {
            let told = data["moves"]["rows"][op.index()][device.index()].as_i64();
            match relocate(&problem, &plan, &score, op, device).unwrap() {
                None => assert_eq!(told, None),
                Some(moved) => match check(&problem, &moved) {
                    Ok(score) => {
                        assert_eq!(told, Some(score.value.0 as i64), "{op:?} to {device:?}");
                        possible += 1;
                    }
                    Err(violations) => {
                        let reason = &data["moves"]["reasons"][(-1 - told.unwrap()) as usize];
                        let is_circle = reason.as_str().unwrap().ends_with("would wait for each other");
                        assert_eq!(
                            is_circle,
                            violations[0].rule == Rule::StageCycle,
                            "{reason}: {violations:?}"
                        );
                        circles += usize::from(is_circle);
                    }
                },
            }
        }
    }
    assert!(possible > 20 && circles > 20, "{possible} moves are possible, {circles} make a circle");
}

#[test]
fn what_a_search_vouches_for_is_never_called_verified() {
    let (problem, plan) = scattered(Objective::Latency { links: LinkUse::Delay }, 1);
    let score = check(&problem, &plan).unwrap();
    let certificate =
        |value_ps: Time, evidence: Evidence| Certificate { bound: "b".into(), value_ps, evidence };
    let attested = |value| certificate(value, Evidence::Attested { by: "a search".into() });
    let verified = |value| certificate(value, Evidence::CriticalPath { ops: vec![OpId(0)] });
    let half = Time(score.value.0 / 2);
    let quality = |certificates: &[Certificate]| {
        let report = Report { certificates, ..report(&problem, &plan, &score) };
        data(&report.html())["verdict"][2].as_str().unwrap().to_owned()
    };
    let given = " for the op times given";
    assert_eq!(quality(&[]), "no bound says how far from the best possible");
    assert_eq!(quality(&[attested(score.value)]), format!("the best possible{given} (attested)"));
    assert_eq!(quality(&[verified(score.value)]), format!("the best possible{given}, verified"));
    let both = quality(&[attested(score.value), verified(half)]);
    assert!(
        both.starts_with("the best possible")
            && both.contains("(attested); at most 100")
            && both.ends_with("verified")
    );
    let apart = quality(&[attested(Time(score.value.0 / 4 * 3)), verified(half)]);
    assert!(apart.contains("(attested), 100") && apart.ends_with(" verified"), "{apart}");
}

#[test]
fn traces_name_what_there_is() {
    let (_, plan) = plans().into_iter().find(|(name, _)| name == "latency").unwrap();
    let (op, device) = (plan.problem.graph.op_name(OpId(0)), plan.problem.hardware.device_name(DeviceId(0)));
    let read = |text: String| {
        let loaded = file::Loaded {
            path: "trace.json".into(),
            bytes: text.into_bytes().into(),
            sha256: String::new(),
        };
        trace_file::read(&loaded, &plan.problem).map_err(|error| error.to_string())
    };
    let file = |spans: &str| format!(r#"{{"divvy": "trace", "version": 1, "spans": [{spans}]}}"#);
    let good = format!(r#"{{"op": "{op}", "device": "{device}", "start": 1, "end": 2.5}}"#);
    let trace = read(file(&good)).unwrap();
    assert_eq!((trace.spans[0].start, trace.spans[0].end), (Time(1_000_000), Time(2_500_000)));
    let faults = [
        (file(&good.replace(op, "nobody")), "there is no op `nobody`"),
        (file(&good.replace(device, "nowhere")), "there is no device `nowhere`"),
        (file(&good.replace("2.5", "0.5")), "it ends before it starts"),
        (file(&good.replace("\"start\": 1,", "")), "the field `start` is missing"),
        (file(r#"{"tensor": "t", "link": "l", "to": "d", "start": 1, "end": 2}"#), "there is no"),
        (r#"{"divvy": "plan", "version": 1}"#.to_owned(), "this is not a trace file"),
        (file(&good).replace("\"version\": 1", "\"version\": 9"), "version 9 is not known"),
    ];
    for (text, expected) in faults {
        let fault = read(text.clone()).unwrap_err();
        assert!(fault.contains(expected), "{fault}, of {text}");
    }
    let html =
        Report { measured: Some(&trace), ..report(&plan.problem, &plan.plan, &plan.check().unwrap().score) }
            .html();
    assert_eq!(data(&html)["measured"], serde_json::json!([0, 0, 0, 1_000_000, 1_500_000, 1]));
}
