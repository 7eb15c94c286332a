//! From a plan and its model to a program: pieces, devices with their cores, links, inputs.

use divvy_core::plan::Plan;
use divvy_core::problem::Objective;
use divvy_exec::backend::WeightsAre;
use divvy_exec::cores::Cores;
use divvy_exec::program::{DeviceSpec, ProgramSpec, StageSpec};
use divvy_io::onnx::batch::with_batch;
use divvy_io::onnx::infer::infer;
use divvy_io::onnx::op_rewrites::rewrite_ops;
use divvy_io::onnx::proto::{Graph, Model};
use divvy_io::plan_file::PlanFile;

use crate::cold_start::places::{DevicePlace, check_cuda, places};
use crate::device_specs::{cores_of_all, device_specs, links, used_devices};
use crate::error::DeployError;
use crate::inputs::inputs_of;
use crate::kernel_owners::Owners;
use crate::pieces::shares::Share;
use crate::pieces::stage_source::{RUNNABLE, StageSource, whole_model};
use crate::pieces::{input_groups, one_input};
use crate::prepared::Prepared;
use crate::run::options::RunOptions;
use crate::source_model::{fill_weights, model_of_plan};

/// Checks the plan that the file at `plan_path` holds, finds its model, cuts it, and puts the pieces on this machine's
/// cores.
pub fn prepare(plan_path: &str, plan: &PlanFile, options: &RunOptions) -> Result<Prepared, DeployError> {
    let verdict = plan.check().map_err(|violations| {
        let first = violations.first().map_or(String::new(), ToString::to_string);
        DeployError::cannot_run(plan_path, format!("the plan is not valid: {first}"), "plan anew")
    })?;
    check_runnable(plan_path, &plan.plan)?;
    let is_stream = plan.problem.objective.is_period();
    let (model_path, mut model) = model_of_plan(options.model.as_deref(), plan_path, plan)?;
    let mut warnings = Vec::new();
    fill_weights(&mut model, &model_path, options.seed, &mut warnings)?;
    let empty = Graph::default();
    let graph = model.graph.as_ref().unwrap_or(&empty);
    let facts = infer(&model, &plan.reading.dims);
    let devices = used_devices(&plan.plan, &plan.problem);
    let all_places = places(&options.devices, &plan.problem, &mut warnings)?;
    let used_places: Vec<DevicePlace> = devices.iter().map(|device| all_places[device.index()]).collect();
    if used_places.contains(&DevicePlace::Simulated) {
        let fix = "give it cores: --device gpu1=cores";
        return Err(DeployError::option("--device", "simulated cards run cold-start plans alone", fix));
    }
    check_cuda(&used_places)?;
    let specs = device_specs(&options.cores, &plan.problem, &devices, &all_places, &mut warnings)?;
    let inputs = inputs_of(graph, &facts);
    let results: Vec<String> = graph.output.iter().map(|value| value.name().to_owned()).collect();
    let names: Vec<String> = inputs.iter().map(|input| input.name.clone()).collect();
    let owners = Owners::new(&plan.problem, graph);
    let source = StageSource {
        plan_path,
        plan,
        model_path: &model_path,
        model: &model,
        inputs: &names,
        results: &results,
        devices: &specs,
        owners: &owners,
    };
    let stages = match &plan.plan {
        Plan::Batch(batch) => input_groups::stages(&source, batch)?,
        _ => one_input::stages(&source)?,
    };
    let together = match plan.problem.objective {
        Objective::Batch { inputs } => inputs,
        _ => 1,
    };
    let untouched = (options.verify || options.compare).then(|| whole(&model, &names, &results));
    let at_once = (options.compare && together > 1).then(|| with_batch(&model, together).ok()).flatten();
    let untouched_at_once = at_once.map(|model| whole(&model, &names, &results).stages.remove(0).model);
    let whole = whole(&rewrite_ops(model), &names, &results);
    let share_names = |shares: &[Share]| shares.iter().map(|share| share.name.clone()).collect();
    let spec = ProgramSpec {
        links: links(&plan.problem, &devices),
        inputs: share_names(&stages.inputs),
        results: share_names(&stages.results),
        in_order: !is_stream && stages.groups == 1,
        devices: specs,
        stages: stages.plain,
    };
    Ok(Prepared {
        problem: plan.problem.clone(),
        score: verdict.score,
        is_stream,
        marked: ProgramSpec { stages: stages.marked, ..spec.clone() },
        spec,
        whole,
        untouched,
        untouched_at_once,
        all_cores: Cores::all_of(cores_of_all(&options.cores, &plan.problem)?.iter().map(|spec| &spec.cores)),
        work: stages.work,
        together: together as usize,
        fed: stages.inputs,
        given: stages.results,
        devices,
        places: used_places,
        bytes: facts.values.iter().filter_map(|(name, fact)| Some((name.clone(), fact.bytes()?))).collect(),
        owners,
        inputs,
        warnings,
    })
}

/// Refuses a plan that no run can follow.
fn check_runnable(plan_path: &str, plan: &Plan) -> Result<(), DeployError> {
    if matches!(plan, Plan::ColdStart(_)) {
        let message = "a cold-start plan moves weights between devices, which CPU cores do not";
        return Err(DeployError::cannot_run(plan_path, message, RUNNABLE));
    }
    Ok(())
}

/// The model in one piece, on every core that may be used.
fn whole(model: &Model, inputs: &[String], results: &[String]) -> ProgramSpec {
    let (inputs, results) = (inputs.to_vec(), results.to_vec());
    let model =
        whole_model("whole model", model.clone(), inputs.clone(), results.clone(), WeightsAre::Constants);
    let device = DeviceSpec { name: "all cores".into(), cores: Cores::allowed() };
    let (devices, stages) = (vec![device], vec![StageSpec::new(model, 0)]);
    ProgramSpec { devices, stages, inputs, results, ..ProgramSpec::default() }
}
