//! Plans a model as a stream over several devices, and writes the plan with its proof to a file.
//!
//! `cargo run --release --example plan -- models/googlenet.onnx edge-wifi plan.json`

#![allow(clippy::print_stdout, reason = "an example talks")]

use std::path::Path;
use std::time::Duration;

use divvy::io::assemble::{ObjectiveKind, ObjectiveOptions};
use divvy::{Budget, ProblemOptions, Request, assemble, io::file, plan_file, solve};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, model, hardware, output] = args.as_slice() else {
        return Err("give MODEL HARDWARE OUTPUT".into());
    };
    let objective = ObjectiveOptions { kind: Some(ObjectiveKind::Stream), ..ObjectiveOptions::default() };
    let options = ProblemOptions { hardware: Some(hardware.clone()), objective, ..ProblemOptions::default() };
    let assembled = assemble(model, &options)?;
    let budget = Budget::new(Duration::from_secs(2));
    let solved =
        solve(&assembled.problem, &Request::default(), &budget, &mut |_| {}).map_err(|r| r.message)?;
    let outcome = &solved.outcome;
    println!(
        "{}: gap {:?}, bound proved by {:?}",
        outcome.status().as_str(),
        outcome.gap(),
        outcome.verified_by()
    );
    let kept = plan_file(&assembled, &solved).ok_or("no plan was found")?;
    println!("an inference every {}", kept.claim.value_ps);
    file::write(Path::new(output), &kept.write())?;
    Ok(())
}
