//! Verifies a plan file from nothing but itself: the plan is scored anew, and the evidence of every bound worked out again.
//!
//! `cargo run --release --example verify -- plan.json`

#![allow(clippy::print_stdout, reason = "an example talks")]

use divvy::{PlanFile, Standing, check, io::file, verify};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("give a plan file")?;
    let plan = PlanFile::read(&file::load(&path)?)?;
    let score = check(&plan.problem, &plan.plan).map_err(|violations| violations[0].to_string())?;
    println!("the plan takes {}, as claimed: {}", score.value, score.value == plan.claim.value_ps);
    for certificate in &plan.certificates {
        let standing = match verify(&plan.problem, certificate) {
            Ok(Standing::Verified) => "verified".to_owned(),
            Ok(Standing::Attested) => "attested".to_owned(),
            Err(violation) => format!("false: {violation}"),
        };
        println!("no plan takes less than {} ({}): {standing}", certificate.value_ps, certificate.bound);
    }
    Ok(())
}
