//! Running experiments: cells one after the other, each stored when it is done, then the page.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::cells::{Cell, SEED};
use crate::markdown::{Page, percent};
use crate::store::{Results, Store, build};
use crate::{Experiment, Mode, Settings};

/// What a page says about where it was made.
#[derive(Clone, Debug)]
pub struct Environment {
    /// Model of the processor.
    pub processor: String,
    /// Number of cores that may be used.
    pub cores: usize,
    /// Name and version of the solver.
    pub solver: String,
}

impl Environment {
    /// This machine.
    pub fn here() -> Environment {
        Environment {
            processor: processor(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            solver: divvy_search::solver_name(),
        }
    }
}

/// The model of the first processor of a `/proc/cpuinfo`.
fn processor(cpuinfo: &str) -> String {
    let mut fields = cpuinfo.lines().filter_map(|line| line.split_once(':'));
    let model = fields.find(|(name, _)| name.trim() == "model name");
    model.map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, model)| model.trim().to_owned())
}

/// What happens while experiments run.
#[derive(Clone, Copy, Debug)]
pub enum Event<'e> {
    /// An experiment begins; so many of its cells are to be run, and so many are there already.
    Begin {
        /// Its name.
        experiment: &'e str,
        /// Cells to be run.
        to_run: usize,
        /// Cells that an earlier run finished.
        stored: usize,
    },
    /// A cell begins.
    Cell(&'e Cell),
    /// A cell is done and stored.
    Done,
}

/// What an experiment gave.
#[derive(Clone, Debug)]
pub struct Report {
    /// Its name.
    pub experiment: &'static str,
    /// Its page, written to `path`.
    pub markdown: String,
    /// Where the page is.
    pub path: PathBuf,
    /// Every cell and what came of it.
    pub json: Value,
}

/// Why an experiment did not come to its end.
#[derive(Debug)]
pub enum Stopped {
    /// It was cancelled. What is done is stored.
    Cancelled {
        /// Cells that are done.
        done: usize,
        /// Cells that there are.
        all: usize,
    },
    /// A result could not be written.
    Unwritable(PathBuf, std::io::Error),
}

/// Runs what is missing of an experiment, as far as there is time, and writes its page into `folder`.
pub fn reproduce(
    experiment: &dyn Experiment,
    settings: &Settings,
    folder: &Path,
    fresh: bool,
    cancelled: &Arc<AtomicBool>,
    watch: &mut dyn FnMut(Event<'_>),
) -> Result<Report, Stopped> {
    let store = Store::new(folder, experiment.shares_cells_of(), &build());
    let unwritable = |cause| Stopped::Unwritable(folder.to_owned(), cause);
    if fresh {
        store.clear().map_err(unwritable)?;
    }
    let mut results = store.load();
    let cells = experiment.cells(settings);
    let to_run: Vec<&Cell> = cells.iter().filter(|cell| results.of(cell).is_none()).collect();
    let stored = cells.len() - to_run.len();
    watch(Event::Begin { experiment: experiment.name(), to_run: to_run.len(), stored });
    for (done, cell) in to_run.into_iter().enumerate() {
        let cancel = || Stopped::Cancelled { done: stored + done, all: cells.len() };
        if settings.is_over() {
            break;
        }
        if cancelled.load(Ordering::Relaxed) {
            return Err(cancel());
        }
        watch(Event::Cell(cell));
        let figures = cell.run(cancelled).ok_or_else(cancel)?;
        store.add(cell, &figures).map_err(unwritable)?;
        results.add(cell, figures);
        watch(Event::Done);
    }
    let page = experiment.page(settings, &results);
    let share = core_share(&cells, &results);
    let missing = cells.iter().filter(|cell| results.of(cell).is_none()).count();
    let mut markdown = whole_page(experiment, settings, &page, &Environment::here(), share);
    if missing > 0 {
        markdown.push_str(&format!(
            "* runs: {} of {}; there was no time for the others, and the same command goes on with them\n",
            cells.len() - missing,
            cells.len()
        ));
    }
    let path = folder.join(format!("{}.md", experiment.name()));
    fs::create_dir_all(folder).map_err(unwritable)?;
    let write = |path: &Path, text: &str| {
        fs::write(path, text).map_err(|cause| Stopped::Unwritable(path.to_owned(), cause))
    };
    for picture in &page.pictures {
        write(&folder.join(picture.file(experiment.name())), &picture.svg)?;
    }
    write(&path, &markdown)?;
    let json = json(experiment, settings, &cells, &results);
    Ok(Report { experiment: experiment.name(), markdown, path, json })
}

/// The head that ends what a page shows and begins what it says about it.
const DIFFERS: &str = "## What differs";

/// What share of a core the runs had, over those of at least half a second; none without such runs.
fn core_share(cells: &[Cell], results: &Results) -> Option<f64> {
    let long = cells.iter().filter_map(|cell| results.of(cell)).filter(|figures| figures.seconds >= 0.5);
    let mut sums = (0.0, 0.0);
    for figures in long {
        sums = (sums.0 + figures.processor_seconds?, sums.1 + figures.seconds);
    }
    (sums.1 > 0.0).then(|| sums.0 / sums.1)
}

fn whole_page(
    experiment: &dyn Experiment,
    settings: &Settings,
    page: &Page,
    here: &Environment,
    core_share: Option<f64>,
) -> String {
    let mut text = format!("# {}\n\n{}. {}.\n\n", experiment.name(), experiment.paper(), experiment.about());
    let mut command = format!("divvy reproduce {}", experiment.name());
    if settings.mode == Mode::Full {
        command.push_str(" --full");
    }
    if let Some(time) = settings.time {
        command.push_str(&format!(" --time {time:?}"));
    }
    if let Some((_, within)) = settings.within {
        command.push_str(&format!(" --within {within:?}"));
    }
    if settings.with_workloads {
        command.push_str(" --workloads DIR");
    }
    for table in &page.tables {
        text.push_str(&format!("{}\n", table.markdown()));
    }
    for picture in &page.pictures {
        text.push_str(&format!("![{0}]({1})\n\n{0}\n\n", picture.caption, picture.file(experiment.name())));
    }
    text.push_str(&format!("{DIFFERS}\n\n"));
    page.differs.iter().for_each(|line| text.push_str(&format!("* {line}\n")));
    text.push_str(&format!(
        "\n## How this was made\n\n\
         * command: `{command}` ({} mode)\n\
         * limits: {}\n\
         * seed of the methods: {SEED}; one thread\n\
         * divvy {}{}, {}\n\
         * machine: {}, {} cores\n",
        settings.mode.name(),
        page.limits,
        env!("CARGO_PKG_VERSION"),
        if cfg!(debug_assertions) { " (debug build: searches get less done in their time)" } else { "" },
        here.solver,
        here.processor,
        here.cores
    ));
    if let Some(share) = core_share {
        text.push_str(&format!(
            "* processor time of the runs: {} of a core; well under 100 % means that the machine was busy with other \
             work\n",
            percent(Some(share))
        ));
    }
    text
}

fn json(experiment: &dyn Experiment, settings: &Settings, cells: &[Cell], results: &Results) -> Value {
    let one = |cell: &Cell| {
        let figures = results.of(cell);
        let gap = figures.and_then(crate::figures::Figures::gap);
        json!({"cell": cell.label(), "key": cell.key(), "gap": gap, "figures": figures})
    };
    json!({
        "experiment": experiment.name(),
        "paper": experiment.paper(),
        "mode": settings.mode.name(),
        "cells": cells.iter().map(one).collect::<Vec<_>>(),
    })
}

/// The papers, each with its link.
const PAPERS: &str = "[DiviML](https://arxiv.org/abs/2308.00127), [Practical Performance Guarantees for Pipelined DNN \
                      Inference](https://proceedings.mlr.press/v235/archer24a.html) (MTPP, for its max-throughput \
                      partitioning problem), [DNN Partitioning for Inference Throughput Acceleration at the \
                      Edge](https://doi.org/10.1109/ACCESS.2023.3244497), and \
                      [SortingHat](https://doi.org/10.1145/3721145.3728490)";

/// One page with everything that the pages of a folder show: a list of all experiments, then for each that was run its
/// tables and pictures. What differs from the papers and how it was made is on the experiments' own pages.
pub fn results_index(folder: &Path) -> std::io::Result<PathBuf> {
    let mut table = crate::Table::new("", &["page", "paper", "what it shows"]);
    let mut sections = String::new();
    for experiment in crate::EXPERIMENTS {
        let (name, paper) = (experiment.name(), experiment.paper());
        let shown = match fs::read_to_string(folder.join(format!("{name}.md"))) {
            Ok(page) => {
                sections.push_str(&section(*experiment, &page));
                format!("[{name}](#{name})")
            }
            Err(_) => format!("{name} (not run)"),
        };
        table.row(vec![shown, paper.to_owned(), experiment.about().to_owned()]);
    }
    let text = format!(
        "# Results\n\nThe papers' tables and figures, run again, theirs beside ours. The papers are {PAPERS}.\n\n\
         * `divvy reproduce` lists what can be run again, `divvy reproduce NAME` makes its page anew.\n\
         * Each link in the table leads to tables and pictures below. A link there leads to the page that says what differs from \
         the paper, and on which machine and with which limits it was made.\n{}\n{}{sections}",
        other_pages(folder)?,
        table.markdown()
    );
    let path = folder.join("README.md");
    fs::write(&path, text)?;
    Ok(path)
}

/// A line with a link to each page of the folder that no experiment made, in the order of their names.
fn other_pages(folder: &Path) -> std::io::Result<String> {
    let mut pages = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let Some(stem) = name.strip_suffix(".md") else { continue };
        if stem == "README" || crate::EXPERIMENTS.iter().any(|experiment| experiment.name() == stem) {
            continue;
        }
        let text = fs::read_to_string(folder.join(&name))?;
        let title = text.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or(stem);
        pages.push(format!("[{title}]({name})"));
    }
    pages.sort();
    Ok(if pages.is_empty() {
        String::new()
    } else {
        format!("* Measured otherwise: {}.\n", pages.join(", "))
    })
}

/// What the page of an experiment shows, under a head of its own.
fn section(experiment: &dyn Experiment, page: &str) -> String {
    let name = experiment.name();
    let shown = page.split_once(DIFFERS).map_or(page, |(shown, _)| shown);
    // The page's own head and first line are said here in other words.
    let body = shown.splitn(3, "\n\n").nth(2).unwrap_or("").trim();
    let command = page.lines().find_map(|line| line.strip_prefix("* command: ")).unwrap_or("");
    let made = if command.is_empty() { String::new() } else { format!(" Made by {command}.") };
    let about = experiment.about();
    format!(
        "\n## {name}\n\n{}. {about}.{made} [What differs, and how it was made]({name}.md).\n\n{body}\n",
        experiment.paper()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cells::Work;
    use crate::instances::Instance;
    use crate::markdown::{Picture, Table};
    use crate::store::tests::Folder;
    use divvy_core::generate::RwnnOptions;
    use std::time::Duration;

    /// Two planners on a network of six ops.
    struct Tiny;

    impl Experiment for Tiny {
        fn name(&self) -> &'static str {
            "tiny"
        }
        fn paper(&self) -> &'static str {
            "No paper"
        }
        fn about(&self) -> &'static str {
            "A network of six ops"
        }
        fn duration(&self, _: Mode) -> &'static str {
            "1 s"
        }
        fn cells(&self, settings: &Settings) -> Vec<Cell> {
            let instance = Instance::Rwnn(RwnnOptions { modules: 1, nodes: 4, ..RwnnOptions::default() });
            let works = [Work::Plan("heft"), Work::Plan("met"), Work::Plan("no-such")];
            works.map(|work| Cell { instance: instance.clone(), work, limit: settings.limit(1, 2) }).into()
        }
        fn page(&self, settings: &Settings, results: &Results) -> Page {
            let mut table = Table::new("", &["method", "ps"]);
            for cell in self.cells(settings) {
                let value = results.of(&cell).and_then(|figures| figures.value_ps);
                table.row(vec![cell.label(), format!("{value:?}")]);
            }
            let pictures = vec![Picture::new("one", "A picture.", "<svg/>".into())];
            Page { tables: vec![table], pictures, limits: "1 s".into(), differs: vec!["everything".into()] }
        }
    }

    fn settings() -> Settings {
        Settings::new(Mode::Quick, None, Path::new("no-such-folder"), None)
    }

    fn run(folder: &Folder, settings: &Settings, fresh: bool) -> (usize, usize, Report) {
        let (mut ran, mut found) = (0, 0);
        let mut watch = |event: Event<'_>| match event {
            Event::Begin { stored, .. } => found = stored,
            Event::Cell(_) => {}
            Event::Done => ran += 1,
        };
        let report = reproduce(&Tiny, settings, &folder.0, fresh, &Arc::default(), &mut watch).unwrap();
        (ran, found, report)
    }

    #[test]
    fn a_second_run_takes_up_what_the_first_one_did() {
        let folder = Folder::new("resume");
        let (ran, stored, first) = run(&folder, &settings(), false);
        assert_eq!((ran, stored), (3, 0));
        let (ran, stored, again) = run(&folder, &settings(), false);
        assert_eq!((ran, stored), (0, 3));
        assert_eq!(first.markdown, again.markdown, "nothing in the page depends on when it was made");
        let longer = Settings { time: Some(Duration::from_secs(2)), ..settings() };
        assert_eq!(run(&folder, &longer, false).0, 3, "other limits are other cells");
        assert_eq!(run(&folder, &settings(), true).0, 3, "fresh means fresh");
        assert_eq!(fs::read_to_string(&first.path).unwrap(), first.markdown);
        assert_eq!(fs::read_to_string(folder.0.join("tiny-one.svg")).unwrap(), "<svg/>");
        assert!(first.markdown.contains("![A picture.](tiny-one.svg)"), "{}", first.markdown);
        assert_eq!(again.json["cells"].as_array().unwrap().len(), 3);
    }

    #[test]
    fn what_was_cancelled_is_not_stored_and_what_was_done_is() {
        let folder = Folder::new("cancel");
        let cancelled = Arc::new(AtomicBool::new(false));
        let flag = cancelled.clone();
        let mut watch = |event: Event<'_>| {
            if let Event::Done = event {
                flag.store(true, Ordering::Relaxed);
            }
        };
        let stopped = reproduce(&Tiny, &settings(), &folder.0, false, &cancelled, &mut watch).unwrap_err();
        assert!(matches!(stopped, Stopped::Cancelled { done: 1, all: 3 }), "{stopped:?}");
        assert!(!folder.0.join("tiny.md").exists());
        let (ran, stored, _) = run(&folder, &settings(), false);
        assert_eq!((ran, stored), (2, 1));
    }

    #[test]
    fn without_time_left_no_run_begins_and_the_page_says_so() {
        let folder = Folder::new("within");
        let (ran, _, report) = run(&folder, &settings().within(Some(Duration::ZERO)), false);
        assert_eq!(ran, 0);
        assert!(report.markdown.contains("* runs: 0 of 3; there was no time"), "{}", report.markdown);
        assert!(report.markdown.contains("`divvy reproduce tiny --within 0ns`"), "{}", report.markdown);
        let (ran, _, report) = run(&folder, &settings().within(Some(Duration::from_secs(3600))), false);
        assert_eq!(ran, 3);
        assert!(!report.markdown.contains("* runs:"), "{}", report.markdown);
    }

    #[test]
    fn the_page_says_how_it_was_made() {
        let here = Environment { processor: "Some CPU".into(), cores: 2, solver: "HiGHS 9.9".into() };
        let text =
            whole_page(&Tiny, &settings(), &Tiny.page(&settings(), &Results::default()), &here, Some(0.5));
        for part in [
            "50.0 % of a core",
            "# tiny",
            "* everything",
            "`divvy reproduce tiny`",
            "HiGHS 9.9",
            "Some CPU, 2 cores",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn the_index_shows_what_every_page_shows() {
        let folder = Folder::new("index");
        let page = "# diviml-table-1\n\nWhat it is.\n\n| a | b |\n\n![x](x.svg)\n\n## What differs\n\n* much\n\n\
                    * command: `divvy reproduce diviml-table-1` (quick mode)\n";
        fs::write(folder.0.join("diviml-table-1.md"), page).unwrap();
        let text = fs::read_to_string(results_index(&folder.0).unwrap()).unwrap();
        assert!(text.contains("[diviml-table-1](#diviml-table-1)"), "{text}");
        assert!(text.contains("diviml-table-2 (not run)"), "{text}");
        assert!(
            text.contains("(quick mode). [What differs, and how it was made](diviml-table-1.md)."),
            "{text}"
        );
        assert!(text.ends_with("\n\n| a | b |\n\n![x](x.svg)\n"), "{text}");
        assert!(!text.contains("Measured otherwise"), "{text}");
        fs::write(folder.0.join("soak.md"), "# A soak\n\nText.\n").unwrap();
        let text = fs::read_to_string(results_index(&folder.0).unwrap()).unwrap();
        assert!(text.contains("\n* Measured otherwise: [A soak](soak.md).\n"), "{text}");
    }

    #[test]
    fn the_processor_is_the_first_one_named() {
        let text = "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nprocessor\t: 1\nmodel name\t: Other\n";
        assert_eq!(processor(text), "Some CPU @ 2 GHz");
        assert_eq!(processor(""), std::env::consts::ARCH);
    }
}
