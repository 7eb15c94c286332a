//! Runs a plan on this machine's cores, and compares what it took with what the plan promised.
//!
//! `cargo run --release --example run -- plan.json`

#![allow(clippy::print_stdout, reason = "an example talks")]

use std::sync::atomic::AtomicBool;

use divvy::{LoadedPlan, PlanFile, RunOptions, deploy, io::file, prepare};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("give a plan file")?;
    let plan = PlanFile::read(&file::load(&path)?)?;
    let options = RunOptions { items: Some(20), ..RunOptions::default() };
    let prepared = prepare(&path, &plan, &options)?;
    let stop = AtomicBool::new(false);
    let mut loaded = LoadedPlan::new(prepared, &plan, deploy::runtime(None)?, &options)?;
    loaded.warm_up(&stop)?;
    let finished = loaded.run(&stop)?;
    let compared = finished.comparison().value;
    println!("predicted {} us, measured {} us", compared.predicted, compared.measured);
    Ok(())
}
