//! `divvy region`: whether splitting a stream can help at all, where it does, and what finding out costs.

mod maps;

use std::fmt::Write;
use std::sync::atomic::Ordering;

use divvy::core::graph::Graph;
use divvy::core::problem::Objective;
use divvy::core::units::show_number;
use divvy::io::assemble::{ProblemOptions, assemble, read_model};
use divvy::io::file::{self, read_once};
use divvy::search::studies::acceleration_region::{
    Boundary, Region, RegionQuestion, Verdict, region, sizes, verdict,
};
use serde_json::json;

use crate::args::RegionArgs;
use crate::failure::Failure;
use crate::progress::{Progress, cancel_on_interrupt_saying};
use crate::show;

/// The least speed-up that is called one: less reads as 1.00.
const NOTICED: f64 = 1.005;

pub(crate) fn run(args: &RegionArgs) -> Result<String, Failure> {
    read_once([Some(args.file.as_str()), args.on.as_deref()].into_iter().flatten())?;
    let model = read_model(&args.file, &args.reading.options()?)?;
    let graph =
        Graph::new(model.spec.graph.clone()).map_err(|errors| Failure::Input(args.file.clone(), errors))?;
    if let Err(op) = sizes(&graph) {
        let message = format!("op `{op}` does not say how many operations it takes");
        let fix = "give every op `flops`; ONNX models and `divvy generate yolov2` have them";
        return Err(Failure::option("MODEL", message, fix));
    }
    if let Some(folder) = &args.output {
        std::fs::create_dir_all(folder).map_err(|cause| {
            Failure::File(
                format!("cannot make `{}`: {cause}", folder.display()),
                "choose another folder".into(),
            )
        })?;
    }
    let said = args.on.as_ref().map(|on| on_hardware(args, on)).transpose()?;
    let cancelled = cancel_on_interrupt_saying("stopping; nothing is written");
    let progress = Progress::counting(args.quiet);
    let question = RegionQuestion {
        graph: model.spec.graph,
        devices: args.devices,
        max_splits: args.max_splits,
        limit: args.time,
    };
    let found = region(&question, &mut |done, all| {
        progress.say(&format!("{done} of {all} ratios of link to processing rate"));
        !cancelled.load(Ordering::Relaxed)
    });
    drop(progress);
    let found = found.map_err(|reason| Failure::Environment(format!("there is no region: {reason}")))?;
    if let Some(folder) = &args.output {
        file::write(&folder.join("throughput.svg"), &maps::throughput(&found).svg())?;
        file::write(&folder.join("effort.svg"), &maps::effort(&found).svg())?;
        file::write(&folder.join("region.csv"), &csv(&found))?;
    }
    Ok(if args.json { in_json(&found, said.as_ref()) } else { in_words(args, &found, said.as_ref()) })
}

/// The verdict on given hardware: its bandwidth in words, and the sentence.
struct Said {
    verdict: Verdict,
    sentence: String,
    /// What was not measured of the times that the verdict rests on.
    note: Option<String>,
}

fn on_hardware(args: &RegionArgs, on: &str) -> Result<Said, Failure> {
    let asked = ProblemOptions {
        hardware: Some(on.to_owned()),
        read: args.reading.options()?,
        objective: Objective::Stream.into(),
        ..ProblemOptions::default()
    };
    let problem = assemble(&args.file, &asked)?.problem;
    let verdict = match verdict(&problem, args.time) {
        Ok(verdict) => verdict,
        Err(reason) => {
            let fix = "leave out --on, or name hardware with more memory";
            return Err(Failure::option("--on", reason, fix));
        }
    };
    Ok(Said { verdict, sentence: sentence(&verdict), note: show::basis_note(&problem) })
}

fn sentence(verdict: &Verdict) -> String {
    let rate = |factor: f64| match verdict.bandwidth {
        Some(bandwidth) => show_rate(bandwidth as f64 * factor),
        None => format!("{} times the rates of your links", show_number(factor, 3)),
    };
    let have = match verdict.bandwidth {
        Some(bandwidth) => format!("you have {}", show_rate(bandwidth as f64)),
        None => "you have 1".to_owned(),
    };
    // What rounds to 1.00 is nothing that anyone notices.
    let now = verdict.speedup >= NOTICED;
    match (now, verdict.cannot_at, verdict.helps_at) {
        (true, Some(cannot), _) => format!(
            "splitting helps: {} times the best single device; it could not below {}, and {have}",
            show_number(verdict.speedup, 3),
            rate(cannot)
        ),
        (true, None, _) => {
            let how_far = verdict.slowest.map_or(String::new(), |slowest| {
                format!(
                    "; it does down to {}, and {have}; times with slower links are past divvy's clock of 106 days",
                    rate(slowest)
                )
            });
            format!(
                "splitting helps: {} times the best single device{how_far}",
                show_number(verdict.speedup, 3)
            )
        }
        (false, Some(cannot), Some(helps)) if cannot >= 1.0 => {
            format!("splitting cannot help below {}; {have} (it does from {} on)", rate(cannot), rate(helps))
        }
        (false, Some(cannot), None) if cannot >= 1.0 => {
            format!("splitting cannot help, however fast the links, up to {}; {have}", rate(cannot))
        }
        (false, cannot, helps) => {
            let below = cannot.map_or(String::new(), |cannot| format!("; it cannot below {}", rate(cannot)));
            let from = helps.map_or(String::new(), |helps| format!("; it does from {} on", rate(helps)));
            format!("no plan was found that is faster than one device{below}{from}; {have}")
        }
    }
}

fn show_rate(bytes_per_second: f64) -> String {
    let units = [(1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s")];
    match units.iter().find(|(size, _)| bytes_per_second >= *size) {
        Some((size, unit)) => format!("{} {unit}", show_number(bytes_per_second / size, 3)),
        None => format!("{} B/s", show_number(bytes_per_second, 3)),
    }
}

fn in_words(args: &RegionArgs, found: &Region, said: Option<&Said>) -> String {
    let mut text = String::new();
    if let Some(said) = said {
        let _ = writeln!(text, "{}", said.sentence);
        if let Some(note) = &said.note {
            let _ = writeln!(text, "  but {note}");
        }
    }
    let _ = writeln!(
        text,
        "{} equal devices, a link for each pair, at most {} splits; boundaries in bytes of link per operation:",
        args.devices, args.max_splits
    );
    for Boundary { name, ratio, .. } in found.boundaries() {
        let _ = writeln!(text, "  {ratio:>10.3e}  {name}");
    }
    let open = found.ratios.iter().filter(|at| !at.is_optimal).count();
    if open > 0 {
        let all = found.ratios.len();
        let _ =
            writeln!(text, "  {open} of {all} ratios were not solved to the end; --time gives each longer");
    }
    if let Some(folder) = &args.output {
        let _ = writeln!(text, "  throughput.svg, effort.svg and region.csv are in {}", folder.display());
    }
    text
}

/// The plane of link and device rates, a row for each cell.
fn csv(region: &Region) -> String {
    let mut text = "device_flops_per_s,link_bytes_per_s,ratio,throughput_per_s,one_device_per_s,speedup,optimal,placements\n".to_owned();
    let (links, rates) = region.axes();
    for (r, rate) in rates.iter().enumerate() {
        for (l, link) in links.iter().enumerate() {
            let at = region.at(l, r);
            let _ = writeln!(
                text,
                "{rate:.6e},{link:.6e},{:.6e},{:.6e},{:.6e},{:.6},{},{}",
                at.ratio,
                rate / at.period,
                rate / at.one_device,
                at.one_device / at.period,
                at.is_optimal,
                at.effort
            );
        }
    }
    text
}

fn in_json(found: &Region, said: Option<&Said>) -> String {
    let boundary = |b: &Boundary| json!({"name": b.name, "ratio": b.ratio, "from_paper": b.from_paper, "holds": b.holds});
    let at = |at: &divvy::search::studies::acceleration_region::AtRatio| {
        json!({
            "ratio": at.ratio, "speedup": at.one_device / at.period, "optimal": at.is_optimal,
            "placements": at.effort,
        })
    };
    let verdict = said.map(|said| {
        json!({
            "sentence": said.sentence, "speedup": said.verdict.speedup, "cannot_at": said.verdict.cannot_at,
            "helps_at": said.verdict.helps_at, "slowest": said.verdict.slowest, "but": said.note,
            "bandwidth": said.verdict.bandwidth,
        })
    });
    let object = json!({
        "verdict": verdict,
        "boundaries": found.boundaries().iter().map(boundary).collect::<Vec<_>>(),
        "ratios": found.ratios.iter().map(at).collect::<Vec<_>>(),
    });
    format!("{object}\n")
}
