//! What could be tried after a plan, as commands for a shell that work on its problem: for the report.
//!
//! A command is given only where all that it needs is known: the files that the problem was made from, unchanged, and
//! the file of the plan. What must be done by hand between commands, such as editing a copy of the hardware, is said.

use std::path::Path;

use divvy::core::hardware::DeviceSpec;
use divvy::core::ids::DeviceId;
use divvy::core::problem::{Contention, LinkUse, Objective, Problem};
use divvy::core::score::Score;
use divvy::core::units::Time;
use divvy::io::hardware_source;
use divvy::io::read_options::ReadOptions;
use divvy::io::report::Advice;
use divvy::io::shell::shell_word;
use divvy::io::source::Source;

use crate::view::percent::percent;

/// More constraints than this make no command that anybody would type.
const MOST_CONSTRAINTS: usize = 12;
/// A link that is busy for less of the value is not worth making faster.
const BUSY_LINK: f64 = 0.25;

/// A plan and where its problem came from.
pub(super) struct Origins<'a> {
    pub(super) problem: &'a Problem,
    pub(super) score: &'a Score,
    pub(super) sources: &'a [Source],
    pub(super) reading: &'a ReadOptions,
    /// The file of the plan; none where it was not kept.
    pub(super) plan: Option<&'a Path>,
    /// Whether the value is proved to be the best.
    pub(super) optimal: bool,
}

impl Origins<'_> {
    /// What could make the value better, or surer.
    pub(super) fn next(&self) -> Vec<Advice> {
        let steps = [self.search_longer(), self.faster_link(), self.one_more_device()];
        steps.into_iter().flatten().collect()
    }

    /// What to do without each device that has something to do.
    pub(super) fn if_lost(&self) -> Vec<(DeviceId, Advice)> {
        let busy = |device: &DeviceId| self.score.device_busy[device.index()] > Time::ZERO;
        let devices = self.problem.hardware.devices().filter(busy);
        devices.filter_map(|device| Some((device, self.without(device)?))).collect()
    }

    fn search_longer(&self) -> Option<Advice> {
        if self.optimal {
            return None;
        }
        let plan = self.plan_command(None)?;
        Some(Advice {
            what: "Search longer: two minutes may find a better plan, or a better bound.".to_owned(),
            commands: vec![format!("{plan} --time 2m -o longer.json")],
        })
    }

    fn faster_link(&self) -> Option<Advice> {
        let busiest = self.score.link_busy.iter().copied().max()?;
        let share = busiest.0 as f64 / self.score.value.0.max(1) as f64;
        if share < BUSY_LINK {
            return None;
        }
        // A link and the bus that it is part of are busy alike: one alone would change nothing.
        let links = self.score.link_busy.iter().zip(self.problem.hardware.links());
        let names: Vec<String> =
            links.filter(|(busy, _)| **busy == busiest).map(|(_, link)| format!("`{}`", link.name)).collect();
        let (are, their) = if names.len() == 1 { ("is", "its") } else { ("are", "their") };
        Some(Advice {
            what: format!(
                "A faster link: {} {are} busy for {} of the time. Raise {their} bandwidth in the copy, then plan again.",
                names.join(" and "),
                percent(share)
            ),
            commands: self.on_a_copy("faster", false)?,
        })
    }

    fn one_more_device(&self) -> Option<Advice> {
        let what = "One more device: add it and its links to the copy, then plan again.";
        Some(Advice { what: what.to_owned(), commands: self.on_a_copy("larger", true)? })
    }

    fn without(&self, device: DeviceId) -> Option<Advice> {
        let name = self.problem.hardware.device_name(device);
        let file = shell_word(&format!("without-{name}.json"));
        if let (Objective::Stream, Some(plan)) = (self.problem.objective, self.plan) {
            let plan = shell_word(&plan.display().to_string());
            let command = format!("divvy replan {plan} --without {} -o {file}", shell_word(name));
            return Some(Advice { what: "To plan anew, moving little:".to_owned(), commands: vec![command] });
        }
        Some(Advice {
            what: format!("To plan anew, take `{name}` and its links out of the copy:"),
            commands: self.on_a_copy(&format!("without-{name}"), false)?,
        })
    }

    /// Commands that copy the hardware's description and plan on the copy.
    fn on_a_copy(&self, name: &str, keep: bool) -> Option<Vec<String>> {
        let hardware = self.hardware()?;
        let is_file = self.sources.iter().any(|source| source.role == "hardware" && source.sha256.is_some());
        let ending = Path::new(hardware).extension().filter(|_| is_file);
        let ending = ending.map_or("toml".into(), |ending| ending.to_string_lossy());
        let (toml, json) = (format!("{name}.{ending}"), shell_word(&format!("{name}-plan.json")));
        let copy = if is_file {
            format!("cp {} {}", shell_word(hardware), shell_word(&toml))
        } else {
            format!("divvy hardware show {} --toml > {}", shell_word(hardware), shell_word(&toml))
        };
        let plan = match (self.problem.objective, self.plan) {
            // What is there keeps running while the new device takes its part.
            (Objective::Stream, Some(plan)) if keep => {
                let plan = shell_word(&plan.display().to_string());
                format!("divvy replan {plan} --on {} -o {json}", shell_word(&toml))
            }
            _ => format!("{} -o {json}", self.plan_command(Some(&toml))?),
        };
        Some(vec![copy, plan])
    }

    /// `divvy plan` as it would be called for this problem, on other hardware if named; none where that is not known.
    fn plan_command(&self, on: Option<&str>) -> Option<String> {
        let mut words = vec!["divvy".to_owned(), "plan".to_owned(), self.source("model")?.to_owned()];
        match (on, self.source("hardware")) {
            (Some(on), _) => words.extend(["--on".to_owned(), on.to_owned()]),
            (None, Some(_)) => words.extend(["--on".to_owned(), self.hardware()?.to_owned()]),
            // The model file holds its own.
            (None, None) => {}
        }
        let mut line: Vec<String> = words.iter().map(|word| shell_word(word)).collect();
        line.extend(self.objective_words());
        line.extend(self.reading.as_options());
        line.extend(self.constraint_words()?);
        if let Some(profile) = self.source("profile") {
            line.push(format!("--profile {}", shell_word(profile)));
        }
        line.extend(self.piece_cost_words());
        Some(line.join(" "))
    }

    /// The cost of pieces, where it is one for all devices and not that of the hardware's classes.
    fn piece_cost_words(&self) -> Option<String> {
        let (found, _) = hardware_source::find(self.source("hardware")?).ok()?;
        let hardware = &self.problem.hardware;
        let differs = hardware.spec().classes.iter().any(|class| {
            found.classes.iter().any(|known| known.name == class.name && known.piece != class.piece)
        });
        let first = hardware.devices().next().map(|device| hardware.piece_cost(device))?;
        let is_one = hardware.devices().all(|device| hardware.piece_cost(device) == first);
        (differs && is_one).then(|| format!("--piece-cost {}us", first.as_us()))
    }

    /// The path of a source, unless it was standard input.
    fn source(&self, role: &str) -> Option<&str> {
        let found = self.sources.iter().find(|source| source.role == role)?;
        (found.path != "-").then_some(found.path.as_str())
    }

    /// The name or path of the hardware, if that is still what the plan is for.
    fn hardware(&self) -> Option<&str> {
        let name = self.source("hardware")?;
        let (found, _) = hardware_source::find(name).ok()?;
        let own = self.problem.hardware.spec();
        // A profile may have told what pieces cost on a device.
        let alike = |(a, b): (&DeviceSpec, &DeviceSpec)| DeviceSpec { piece: b.piece, ..a.clone() } == *b;
        let same =
            found.devices.len() == own.devices.len() && found.devices.iter().zip(&own.devices).all(alike);
        (same && found.links == own.links).then_some(name)
    }

    fn objective_words(&self) -> Vec<String> {
        let mut words = vec![format!("--objective {}", self.problem.objective.name())];
        match self.problem.objective {
            Objective::Latency { links: LinkUse::InTurn } => words.push("--links in-turn".to_owned()),
            Objective::Batch { inputs } => words.push(format!("--inputs {inputs}")),
            // As many stages as devices are the default, which follows where devices come or go.
            Objective::Pipeline { stages } if stages as usize == self.problem.hardware.device_count() => {}
            Objective::Pipeline { stages } => words.push(format!("--stages {stages}")),
            Objective::ColdStart { contention, resident } => {
                words.extend((contention == Contention::Paper).then(|| "--contention paper".to_owned()));
                words.extend((resident > 0).then(|| format!("--resident {resident}")));
            }
            Objective::Latency { links: LinkUse::Delay } | Objective::Stream => {}
        }
        words
    }

    /// The constraints as options; none where there are too many.
    fn constraint_words(&self) -> Option<Vec<String>> {
        let spec = self.problem.constraints.spec();
        let pair = |option: &str, a: &str, b: &str| format!("{option} {}", shell_word(&format!("{a}={b}")));
        let mut words: Vec<String> = spec.pin.iter().map(|(op, device)| pair("--pin", op, device)).collect();
        for (op, devices) in &spec.forbid {
            words.extend(devices.iter().map(|device| pair("--forbid", op, device)));
        }
        // A profile keeps together what it measured as one, and says so itself.
        if self.source("profile").is_none() {
            words
                .extend(spec.colocate.iter().map(|ops| format!("--colocate {}", shell_word(&ops.join(",")))));
        }
        words
            .extend(spec.memory_limit.iter().map(|(d, bytes)| pair("--memory-limit", d, &bytes.to_string())));
        let splits = [("--max-splits", spec.max_splits), ("--min-splits", spec.min_splits)];
        words.extend(splits.iter().filter_map(|(option, most)| Some(format!("{option} {}", (*most)?))));
        let ends = [("--input-at", &spec.input_at), ("--output-at", &spec.output_at)];
        words.extend(
            ends.iter().filter_map(|(option, at)| Some(format!("{option} {}", shell_word(at.as_ref()?)))),
        );
        words.extend(spec.replicate.then(|| "--replicate".to_owned()));
        (words.len() <= MOST_CONSTRAINTS).then_some(words)
    }
}
