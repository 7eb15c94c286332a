//! What the op times of a result rest on: measured, carried over from another class, or estimated from data sheets; how far
//! such times are off; and the commands that would bring measured ones.
//!
//! A proof is about the times given. So whoever shows a value shows this beside it: the terminal, JSON and the report take
//! their words from here. All times of the problem count, also those of placements that a plan does not take: a proof rests on
//! them as much.

use divvy_core::coarsen::Granularity;
use divvy_core::costs::{CalibratedShare, ErrorBand, Origin, error_band};
use divvy_core::hardware::DeviceKind;
use divvy_core::plan::Plan;
use divvy_core::problem::{Objective, Problem};
use divvy_core::units::{show_count, show_number};

use crate::read_options::ReadOptions;
use crate::shell::shell_word;
use crate::source::Source;

/// What the op times of a problem, and of a plan for it, rest on.
#[derive(Clone, Debug)]
pub struct TimesBasis {
    /// Shares of the plan's op times; without a plan, of all.
    pub share: CalibratedShare,
    /// How many op times, over all devices and batch sizes, were measured.
    pub measured: usize,
    /// How many were carried over from another class.
    pub scaled: usize,
    /// How many are estimates from data sheets.
    pub estimated: usize,
    /// How far those that were not measured are off; none if all were.
    pub error: Option<TimesError>,
}

/// How far times that were not measured are off.
#[derive(Clone, Debug, PartialEq)]
pub enum TimesError {
    /// As far as on hardware that was left out when the constants were fitted.
    Within(ErrorBand),
    /// Nobody measured hardware like these classes.
    Unknown(Vec<String>),
}

impl TimesBasis {
    /// Of a plan, or of all times where there is none.
    pub fn of(problem: &Problem, plan: Option<&Plan>) -> TimesBasis {
        let share = match plan {
            Some(plan) => {
                let placements = plan.placements().into_iter();
                let costs = placements.filter_map(|(op, device, size)| problem.cost(op, device, size));
                CalibratedShare::of(costs)
            }
            None => problem.calibrated_share(),
        };
        let mut counts = [0; 3];
        let mut unmeasured: Vec<(usize, Origin)> = Vec::new();
        for (index, class) in problem.costs().iter().enumerate() {
            for cost in class.costs.iter().flatten().flatten() {
                counts[cost.origin as usize] += 1;
                if cost.origin != Origin::Measured && unmeasured.last() != Some(&(index, cost.origin)) {
                    unmeasured.push((index, cost.origin));
                }
            }
        }
        unmeasured.sort_unstable();
        unmeasured.dedup();
        let [measured, scaled, estimated] = counts;
        TimesBasis { share, measured, scaled, estimated, error: error(problem, &unmeasured) }
    }

    /// Whether every op time was measured.
    pub fn is_measured(&self) -> bool {
        self.scaled + self.estimated == 0
    }

    /// The basis in a word: `measured`, `scaled`, `estimated` or `mixed`.
    pub fn kind(&self) -> &'static str {
        match [self.measured, self.scaled, self.estimated] {
            [_, 0, 0] => "measured",
            [0, _, 0] => "scaled",
            [0, 0, _] => "estimated",
            _ => "mixed",
        }
    }

    /// The basis in a few words, to stand beside a value: `by estimated times`.
    pub fn phrase(&self) -> String {
        match self.kind() {
            "mixed" if self.share.measured >= 1.0 => "by measured times, others being guessed".to_owned(),
            "mixed" => match self.shares() {
                shares if shares.is_empty() => "by times not all measured".to_owned(),
                shares => format!("by times {shares}"),
            },
            kind => format!("by {kind} times"),
        }
    }

    /// The shares that are not nothing: `38 % measured, 62 % estimated`.
    fn shares(&self) -> String {
        let parts = [
            (self.share.measured, "measured"),
            (self.share.scaled, "scaled"),
            (self.share.estimated, "estimated"),
        ];
        let parts = parts.iter().filter(|(share, _)| *share > 0.0);
        let parts: Vec<String> =
            parts.map(|(share, name)| format!("{} % {name}", show_number(100.0 * share, 3))).collect();
        parts.join(", ")
    }

    /// What was not measured, in a sentence; none if all was.
    pub fn what(&self) -> Option<String> {
        let guessed = self.scaled + self.estimated;
        let all = show_count((guessed + self.measured) as u128);
        let how = match (self.scaled, self.estimated) {
            (0, 0) => return None,
            (_, 0) => "carried over from another class of devices",
            (0, _) => "estimated from data sheets",
            _ => "carried over from another class of devices, or estimated from data sheets",
        };
        Some(match self.measured {
            0 => format!("no op time was measured: all {all} are {how}"),
            _ => format!("{} of {all} op times were not measured, but {how}", show_count(guessed as u128)),
        })
    }

    /// How far off that is, in a sentence; none if all was measured.
    pub fn how_far(&self) -> Option<String> {
        let unknown = |classes: &Vec<String>| {
            let names: Vec<String> = classes.iter().map(|class| format!("`{class}`")).collect();
            format!(
                "how far off they are is not known: no op was measured on devices like {}",
                names.join(", ")
            )
        };
        self.error.as_ref().map(|error| match error {
            TimesError::Within(band) => {
                format!("nine of ten such times turn out {} as long", in_words(*band))
            }
            TimesError::Unknown(classes) => unknown(classes),
        })
    }
}

/// A band as text: `0.41 to 2.6 times`.
pub fn in_words(band: ErrorBand) -> String {
    format!("{} to {} times", show_number(band.low, 2), show_number(band.high, 2))
}

/// The widest of the bands; unknown if one of them is.
fn error(problem: &Problem, unmeasured: &[(usize, Origin)]) -> Option<TimesError> {
    let classes = &problem.hardware.spec().classes;
    let mut unknown: Vec<String> = Vec::new();
    let mut widest: Option<ErrorBand> = None;
    for &(index, origin) in unmeasured {
        match error_band(&classes[index], origin) {
            None => unknown.push(classes[index].name.clone()),
            Some(band) => {
                let before = widest.unwrap_or(band);
                widest = Some(ErrorBand { low: before.low.min(band.low), high: before.high.max(band.high) });
            }
        }
    }
    unknown.dedup();
    if !unknown.is_empty() {
        return Some(TimesError::Unknown(unknown));
    }
    widest.map(TimesError::Within)
}

/// The commands that bring measured times and plan with them; none if all times are measured, or where the files are not known.
pub fn next_commands(
    problem: &Problem,
    basis: &TimesBasis,
    sources: &[Source],
    reading: &ReadOptions,
) -> Vec<String> {
    let path = |role: &str| sources.iter().find(|source| source.role == role).map(|s| s.path.as_str());
    let Some(model) = path("model").filter(|&model| model != "-" && !basis.is_measured()) else {
        return Vec::new();
    };
    let is_onnx = model.ends_with(".onnx") || model.ends_with(".onnx.gz");
    let default = if is_onnx { Granularity::Fused } else { Granularity::Op };
    let granularity = reading.granularity.filter(|&own| own != default);
    let reading = ReadOptions { granularity, ..reading.clone() };
    let read: String = reading.as_options().iter().map(|option| format!(" {option}")).collect();
    let model_word = shell_word(model);
    let on = path("hardware").map_or(String::new(), |on| format!(" --on {}", shell_word(on)));
    let plan = format!("divvy plan {model_word}{on}{read}{} --profile times.json", question(problem));
    // Only ONNX models can be run; of others somebody has to bring the times.
    if !is_onnx || on.is_empty() {
        return vec![plan];
    }
    let from = elsewhere(problem);
    vec![format!("divvy profile {model_word}{on}{read}{from} -o times.json"), plan]
}

/// `--from` for classes that no CPU core stands for: ONNX Runtime's own profile, written where they are.
fn elsewhere(problem: &Problem) -> String {
    let hardware = &problem.hardware;
    let mut names: Vec<&str> = Vec::new();
    let mut is_elsewhere = false;
    for device in hardware.devices() {
        let class = hardware.class(device);
        is_elsewhere |= class.kind != DeviceKind::Cpu;
        if !names.contains(&class.name.as_str()) {
            names.push(&class.name);
        }
    }
    if !is_elsewhere {
        return String::new();
    }
    names
        .iter()
        .map(|name| format!(" --from {}", shell_word(&format!("{name}={name}-profile.json"))))
        .collect()
}

/// The objective as options.
fn question(problem: &Problem) -> String {
    let name = problem.objective.name();
    match problem.objective {
        Objective::Latency { .. } => String::new(),
        Objective::Batch { inputs } => format!(" --objective {name} --inputs {inputs}"),
        Objective::Pipeline { stages } => format!(" --objective {name} --stages {stages}"),
        Objective::Stream | Objective::ColdStart { .. } => format!(" --objective {name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assemble::put_together;
    use crate::presets;
    use divvy_core::costs::{ClassCosts, Cost, Profile};
    use divvy_core::graph::{GraphSpec, OpSpec, TensorSpec};
    use divvy_core::problem::{LinkUse, ProblemSpec};
    use divvy_core::units::Time;

    /// Two ops, one after the other, on built-in hardware; `measured` are classes with times.
    fn problem(hardware: &str, measured: &[&str]) -> Problem {
        let op = |name: &str| OpSpec {
            name: name.to_owned(),
            kind: "Conv".to_owned(),
            flops: Some(1_000_000_000),
            ..OpSpec::default()
        };
        let tensor = |producer: u32, consumers: &[u32]| TensorSpec {
            name: format!("t{producer}"),
            bytes: 1_000_000,
            producer: Some(producer),
            consumers: consumers.to_vec(),
            output: consumers.is_empty(),
        };
        let graph = GraphSpec {
            ops: vec![op("a"), op("b")],
            tensors: vec![tensor(0, &[1]), tensor(1, &[])],
            ..GraphSpec::default()
        };
        let cost = Some(Cost { time: Time(5_000_000), origin: Origin::Measured });
        let class = |name: &&str| ClassCosts {
            class: (*name).to_owned(),
            batch_sizes: vec![1],
            costs: vec![vec![cost; 2]],
        };
        let profile = Profile { classes: measured.iter().map(class).collect(), ..Profile::default() };
        let spec = ProblemSpec { graph, profile, ..ProblemSpec::default() };
        let hardware = presets::hardware(hardware).unwrap().unwrap();
        put_together(spec, hardware, Objective::Latency { links: LinkUse::Delay }).unwrap()
    }

    #[test]
    fn the_words_are_those_of_where_times_come_from() {
        let basis = |hardware: &str, measured: &[&str]| TimesBasis::of(&problem(hardware, measured), None);
        let measured = basis("h200-cpu", &["h200", "cpu16"]);
        assert_eq!((measured.kind(), measured.phrase().as_str()), ("measured", "by measured times"));
        assert_eq!((measured.what(), measured.how_far()), (None, None));

        let estimated = basis("h200-cpu", &[]);
        assert_eq!((estimated.kind(), estimated.phrase().as_str()), ("estimated", "by estimated times"));
        let what = "no op time was measured: all 4 are estimated from data sheets";
        assert_eq!(estimated.what().as_deref(), Some(what));
        let far = estimated.how_far().unwrap();
        assert!(far.starts_with("nine of ten such times turn out 0.") && far.ends_with(" as long"), "{far}");

        let scaled = basis("h200-cpu", &["a100"]);
        assert_eq!((scaled.kind(), scaled.phrase().as_str()), ("scaled", "by scaled times"));
        assert!(scaled.what().unwrap().contains("all 4 are carried over from another class"));

        let mixed = basis("h200-cpu", &["h200"]);
        assert_eq!(mixed.kind(), "mixed");
        assert!(mixed.phrase().contains("% measured, ") && mixed.phrase().ends_with("% scaled"));
        assert!(mixed.what().unwrap().starts_with("2 of 4 op times were not measured, but carried over"));
    }

    #[test]
    fn the_error_is_not_known_where_nobody_measured_such_devices() {
        let unknown = TimesBasis::of(&problem("pi5-3-ethernet", &[]), None);
        assert_eq!(unknown.error, Some(TimesError::Unknown(vec!["raspberry-pi-5".to_owned()])));
        let far = unknown.how_far().unwrap();
        assert!(far.contains("is not known") && far.ends_with("`raspberry-pi-5`"), "{far}");
    }

    #[test]
    fn the_next_commands_can_be_copied() {
        let source = |role: &str, path: &str| Source { role: role.into(), path: path.into(), sha256: None };
        let next = |hardware: &str, measured: &[&str], model: &str| {
            let problem = problem(hardware, measured);
            let sources = [source("model", model), source("hardware", hardware)];
            let dims = [("batch".to_owned(), 1)].into();
            let reading = ReadOptions { dims, ..ReadOptions::default() };
            next_commands(&problem, &TimesBasis::of(&problem, None), &sources, &reading)
        };
        let plan = "divvy plan 'my net.onnx' --on pi5-3-ethernet --dim batch=1 --profile times.json";
        let profile = "divvy profile 'my net.onnx' --on pi5-3-ethernet --dim batch=1 -o times.json";
        assert_eq!(next("pi5-3-ethernet", &[], "my net.onnx"), [profile, plan]);
        assert_eq!(next("h200-cpu", &["h200", "cpu16"], "net.onnx"), [""; 0]);
        // What is not a CPU is timed where it is.
        let elsewhere = next("h200-cpu", &[], "net.onnx");
        assert!(elsewhere[0].contains(" --from h200=h200-profile.json --from cpu16=cpu16-profile.json "));
        // Only ONNX models can be run here.
        assert_eq!(next("pi5-3-ethernet", &[], "net.json").len(), 1);
    }
}
