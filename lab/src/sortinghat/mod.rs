//! SortingHat: how long a first request takes when the weights are still in host memory.

pub(crate) mod ablations;
pub(crate) mod runs;
pub(crate) mod topology;

use crate::cells::{Cell, Work};
use crate::figures::Figures;
use crate::instances::Instance;
use crate::markdown::{Notes, Page, Picture, Table, factor, percent, seconds};
use crate::models::{Model, ModelFamily};
use crate::{Experiment, Mode, Results, Settings};
use divvy_io::svg::{Axis, BarChart};

/// The paper's servers, the one of its discussion last.
const SERVERS: [&str; 4] = ["dgx-v100", "dgx-v100-mixed", "a6000-3", "p4d-24xlarge"];

/// The methods of Figure 9, the baseline first.
const METHODS: [&str; 6] =
    ["one-gpu", "one-gpu-overlapped", "efficient-mip", "deepplan", "sortinghat", "auto"];

/// The cases that SortingHat's program has its full 30 seconds for each submodel on.
const FULL_TIME: [(&str, &str); 2] = [("gpt2-large-1x32", "dgx-v100"), ("gpt2-large-1x32", "a6000-3")];

fn language(settings: &Settings) -> Vec<&Model> {
    settings.models.iter().filter(|model| model.family == ModelFamily::Language).collect()
}

/// Methods that take no time to speak of.
const QUICK: [&str; 3] = ["one-gpu", "one-gpu-overlapped", "deepplan"];

/// What the limits are, in words.
const LIMITS: &str = "30 s for auto; programs 2 s of processor time for each submodel (sortinghat, 30 s: 30 s), and 15 s (quick) or \
                      1 h (full) for all of them (sortinghat, 30 s: 60 s or 4 h)";

/// A run of a method; programs have a limit for each submodel, and for all of them together.
fn cell(instance: Instance, method: &'static str, settings: &Settings) -> Cell {
    let limit = match method {
        "sortinghat-30" => settings.limit(60, 14_400),
        _ if method == "auto" || QUICK.contains(&method) => settings.limit(30, 30),
        _ => settings.limit(15, 3600),
    };
    Cell { instance, work: Work::Plan(method), limit }
}

/// How many times as fast as the baseline.
fn speed_up(base: Option<u64>, figures: Option<&Figures>) -> Option<f64> {
    Some(base? as f64 / figures?.value_ps? as f64)
}

/// What all cases of Figure 9 come to.
#[derive(Default)]
struct Summary {
    gaps: Vec<f64>,
    /// Cases where another method is better than `auto`.
    beaten: usize,
    /// Cases that a program was run on, and those where it has a plan.
    programs: (usize, usize),
    /// How much longer `sortinghat` takes than `auto`.
    gains: Vec<f64>,
    /// Cases where `sortinghat` takes less than 5 % longer than `auto`'s bound, and the gaps of `auto` there.
    near: Vec<f64>,
}

impl Summary {
    fn add<'f>(
        &mut self,
        auto: Option<&Figures>,
        others: impl Iterator<Item = (&'static str, Option<&'f Figures>)>,
    ) {
        let Some(auto) = auto else { return };
        let Some(value) = auto.value_ps else { return };
        self.gaps.extend(auto.gap());
        let mut beaten = false;
        for (method, figures) in others {
            if method == "sortinghat" {
                self.programs.0 += usize::from(figures.is_some());
            }
            let Some(theirs) = figures.and_then(|figures| figures.value_ps) else { continue };
            beaten |= theirs < value;
            if method == "sortinghat" {
                self.programs.1 += 1;
                self.gains.push(theirs as f64 / value as f64 - 1.0);
                let room = auto.bound_ps.map(|bound| theirs as f64 / bound as f64 - 1.0);
                self.near.extend(room.filter(|&room| room < 0.05).and_then(|_| auto.gap()));
            }
        }
        self.beaten += usize::from(beaten);
    }

    fn lines(&self) -> Vec<String> {
        let mean = |list: &[f64]| list.iter().sum::<f64>() / list.len().max(1) as f64;
        let most = |list: &[f64]| list.iter().copied().fold(0.0, f64::max);
        let (run, found) = self.programs;
        let mut lines = vec![format!(
            "Gap of `auto`: {} on average, {} at most, over {} cases. Cases where another method is better: {}.",
            percent(Some(mean(&self.gaps))),
            percent(Some(most(&self.gaps))),
            self.gaps.len(),
            self.beaten
        )];
        if run > 0 {
            let least = self.gains.iter().copied().fold(f64::INFINITY, f64::min);
            lines.push(format!(
                "`sortinghat` was run on {run} cases and has a plan for {found}; it takes {} longer than `auto` on average, {} at \
                 least. Where it is within 5 % of the bound of `auto`, {} cases, `auto` is within {} of it.",
                percent(Some(mean(&self.gains))),
                percent(Some(least).filter(|least| least.is_finite())),
                self.near.len(),
                percent(Some(most(&self.near)))
            ));
        }
        lines
    }
}

fn common() -> Vec<String> {
    vec![
        "Times are measured on an H200 and scaled to each server's GPUs, in half precision; the paper measures its own servers, \
         and its speed-ups look like single precision. Ratios of kernels to transfers differ accordingly."
            .to_owned(),
        "An op that reads in place holds its bus here; the paper lets such reads pass for free. Plans of all methods are scored \
         by the same definition."
            .to_owned(),
    ]
}

pub(crate) struct Figure9;

impl Experiment for Figure9 {
    fn name(&self) -> &'static str {
        "sortinghat-figure-9"
    }

    fn paper(&self) -> &'static str {
        "SortingHat, Figure 9"
    }

    fn about(&self) -> &'static str {
        "Speed-up of a cold start over one GPU without overlap, by method and server"
    }

    fn duration(&self, mode: Mode) -> &'static str {
        match mode {
            Mode::Quick => "5 min",
            Mode::Full => "4 h",
        }
    }

    fn cells(&self, settings: &Settings) -> Vec<Cell> {
        let instances: Vec<(&str, &str, Instance)> = rotation(settings).collect();
        let mut cells: Vec<Cell> = instances.iter().map(|(_, _, instance)| chain(instance.clone())).collect();
        // The longer it takes, the later.
        for methods in [&QUICK[..], &["auto"], &["sortinghat", "efficient-mip"]] {
            for (_, _, instance) in &instances {
                cells.extend(methods.iter().map(|method| cell(instance.clone(), method, settings)));
            }
        }
        let full = instances.into_iter().filter(|(model, server, _)| FULL_TIME.contains(&(model, server)));
        cells.extend(full.map(|(_, _, instance)| cell(instance, "sortinghat-30", settings)));
        cells
    }

    fn page(&self, settings: &Settings, results: &Results) -> Page {
        let mut head = vec!["model", "on", "one-gpu, ms", "critical path"];
        head.extend(&METHODS[1..]);
        head.extend([
            "sortinghat, 30 s",
            "auto, ms",
            "bound, ms",
            "proved, ms",
            "gap",
            "auto's processor time",
        ]);
        let mut table = Table::new(
            "Speed-up over `one-gpu`: everything loaded, then everything run. The critical path is the paper's column; it is \
             no bound, as plans that share out transfers pass it.",
            &head,
        );
        let mut chart =
            BarChart::new("Speed-up over one GPU", Axis::from_zero("times as fast"), &METHODS[1..]);
        let mut notes = Notes::default();
        let mut summary = Summary::default();
        for model in language(settings) {
            for server in SERVERS {
                let instance = model.cold_start(server, 0);
                let of = |method| results.of(&cell(instance.clone(), method, settings));
                let base = of("one-gpu").and_then(|figures| figures.value_ps);
                let faster = |figures: Option<&Figures>| speed_up(base, figures);
                let auto = of("auto");
                let others = METHODS[..METHODS.len() - 1].iter().map(|&method| (method, of(method)));
                summary.add(auto, others);
                let mut row = vec![model.name.clone(), server.to_owned()];
                row.push(notes.milliseconds(of("one-gpu"), |f| f.value_ps));
                row.push(factor(faster(results.of(&chain(instance.clone())))));
                row.extend(METHODS[1..].iter().map(|&method| notes.factor(base, of(method))));
                let full = FULL_TIME.contains(&(model.name.as_str(), server));
                row.push(if full { notes.factor(base, of("sortinghat-30")) } else { String::new() });
                row.push(notes.milliseconds(auto, |f| f.value_ps));
                row.push(notes.milliseconds(auto, |f| f.bound_ps));
                row.push(notes.milliseconds(auto, |f| f.verified_ps));
                row.push(percent(auto.and_then(Figures::gap)));
                row.push(seconds(auto.and_then(|f| f.processor_seconds)));
                table.row(row);
                let bars = METHODS[1..].iter().map(|&method| faster(of(method))).collect();
                chart.group(&format!("{} on {server}", model.name), bars);
            }
        }
        if table.rows.is_empty() {
            table.row(vec!["–".to_owned(); head.len()]);
        }
        let mut differs = common();
        differs.extend(summary.lines());
        differs.extend(notes.lines());
        let pictures = vec![Picture::new("speed-ups", "As the paper draws it.", chart.svg())];
        Page { tables: vec![table], pictures, limits: LIMITS.to_owned(), differs }
    }
}

/// All models on all servers, by name; each round has another model for each server, so that a run which is stopped
/// has seen some of everything.
fn rotation(settings: &Settings) -> impl Iterator<Item = (&str, &'static str, Instance)> {
    let models = language(settings);
    let apart = (models.len() / SERVERS.len()).max(1);
    (0..models.len()).flat_map(move |round| {
        let models = models.clone();
        SERVERS.into_iter().enumerate().map(move |(number, server)| {
            let model = models[(round + number * apart) % models.len()];
            (model.name.as_str(), server, model.cold_start(server, 0))
        })
    })
}

fn chain(instance: Instance) -> Cell {
    Cell { instance, work: Work::LoadedChain("gpu1"), limit: std::time::Duration::ZERO }
}

pub(crate) struct Figure1;

impl Experiment for Figure1 {
    fn name(&self) -> &'static str {
        "sortinghat-figure-1c"
    }

    fn paper(&self) -> &'static str {
        "SortingHat, Figure 1(c)"
    }

    fn about(&self) -> &'static str {
        "Transfer of all weights and all kernels on one V100, one beside the other"
    }

    fn duration(&self, _mode: Mode) -> &'static str {
        "1 s"
    }

    fn cells(&self, settings: &Settings) -> Vec<Cell> {
        let cells = |model: &&Model| {
            let instance = model.cold_start("dgx-v100", 0);
            [Work::Loads("gpu1"), Work::Sum("gpu1")].map(|work| Cell {
                instance: instance.clone(),
                work,
                limit: std::time::Duration::ZERO,
            })
        };
        language(settings).iter().flat_map(cells).collect()
    }

    fn page(&self, settings: &Settings, results: &Results) -> Page {
        let mut table = Table::new("In ms.", &["model", "transfer", "kernels", "transfer / kernels"]);
        let mut chart =
            BarChart::new("Transfer and kernels", Axis::from_zero("ms"), &["transfer", "kernels"]);
        let mut notes = Notes::default();
        for model in language(settings) {
            let instance = model.cold_start("dgx-v100", 0);
            let of = |work| {
                let cell = Cell { instance: instance.clone(), work, limit: std::time::Duration::ZERO };
                results.of(&cell)
            };
            let (loads, kernels) = (of(Work::Loads("gpu1")), of(Work::Sum("gpu1")));
            let value = |figures: Option<&Figures>| Some(figures?.value_ps? as f64);
            let ratio = value(loads).zip(value(kernels)).map(|(loads, kernels)| loads / kernels);
            table.row(vec![
                model.name.clone(),
                notes.milliseconds(loads, |f| f.value_ps),
                notes.milliseconds(kernels, |f| f.value_ps),
                factor(ratio),
            ]);
            let ms = |figures| value(figures).map(|ps| ps / 1e9);
            chart.group(&model.name, vec![ms(loads), ms(kernels)]);
        }
        let mut differs = common();
        differs.extend(notes.lines());
        let pictures = vec![Picture::new("times", "As the paper draws it.", chart.svg())];
        Page { tables: vec![table], pictures, limits: "none: sums".to_owned(), differs }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(value_ps: u64, bound_ps: u64) -> Figures {
        Figures { value_ps: Some(value_ps), bound_ps: Some(bound_ps), ..Figures::default() }
    }

    #[test]
    fn the_summary_tells_room_from_gain() {
        let mut summary = Summary::default();
        let nothing = Figures::default();
        // Much better; no better, where there was little room; worse than another; without a plan to compare with.
        let cases = [
            (figures(1000, 990), figures(1200, 0), None),
            (figures(1000, 995), figures(1010, 0), None),
            (figures(1000, 900), figures(1100, 0), Some(figures(950, 0))),
        ];
        for (auto, theirs, other) in &cases {
            summary.add(Some(auto), [("sortinghat", Some(theirs)), ("deepplan", other.as_ref())].into_iter());
        }
        summary.add(Some(&figures(1000, 1000)), [("sortinghat", Some(&nothing))].into_iter());
        let [gap, gain] = &summary.lines()[..] else { panic!("two lines") };
        assert!(gap.contains("11.1 % at most, over 4 cases") && gap.contains("is better: 1."), "{gap}");
        assert!(gain.contains("run on 4 cases and has a plan for 3"), "{gain}");
        assert!(gain.contains("10.3 % longer") && gain.contains("1.0 % at least"), "{gain}");
        assert!(gain.contains("1 cases, `auto` is within 0.5 %"), "{gain}");
    }
}
