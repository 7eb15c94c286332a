//! Plans the problems of plan files again, each with a budget of nodes and a seed, and prints what came of it: value, every
//! bound by name, and a hash of the plan's decisions. `scripts/record.py` compares that with the record.
//!
//! `cargo run --release -p divvy-lab --example record -- NODES SECONDS OUTPUT_FOLDER FILE...`

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use divvy_io::plan_file::{Claim, PlanFile};
use divvy_io::{file, problem_file};
use divvy_search::{Budget, Request, solve};
use serde_json::json;
use sha2::{Digest, Sha256};

fn hash(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let mut next = || args.next().ok_or("usage: record NODES SECONDS OUTPUT_FOLDER FILE...");
    let (nodes, seconds, output) = (next()?.parse()?, next()?.parse()?, next()?);
    for path in args {
        let read = PlanFile::read(&file::load(&path)?)?;
        let begun = Instant::now();
        let budget = Budget { nodes: Some(nodes), ..Budget::new(Duration::from_secs(seconds)) };
        let solved =
            solve(&read.problem, &Request::default(), &budget, &mut |_| ()).map_err(|r| r.message)?;
        let outcome = solved.outcome;
        let bounds: BTreeMap<&str, u64> =
            outcome.certificates.iter().map(|c| (c.bound.as_str(), c.value_ps.0)).collect();
        let name =
            Path::new(&path).file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned());
        let mut line = json!({
            "case": name.trim_end_matches(".json.gz"),
            "problem": hash(&problem_file::write(&read.problem.to_spec()).to_string()),
            "value_ps": outcome.value(),
            "found_by": outcome.found_by,
            "bounds": bounds,
            "seconds": begun.elapsed().as_secs_f64(),
        });
        if let Some((plan, score)) = outcome.best {
            line["plan"] = json!(hash(&serde_json::to_string(&plan)?));
            let kept = PlanFile {
                plan,
                planner: solved.planner,
                found_by: outcome.found_by,
                claim: Claim::of(&score),
                certificates: outcome.certificates,
                history: Vec::new(),
                ..read
            };
            file::write(&Path::new(&output).join(&name), &kept.write())?;
        }
        writeln!(std::io::stdout(), "{line}")?;
    }
    Ok(())
}
