//! Every command of the guide and of the README is run, in the order of its page, and must print what the page shows.
//!
//! A block of `console` holds commands after `$` and what they print. `[..]` stands for anything within a line, a line
//! `...` for any lines. Nothing shown means that nothing is compared; a command must succeed unless the next line is `? N`,
//! its exit code. Blocks `json FILE` and `toml FILE` are files that the commands after them can read. Pictures of a page that
//! its commands make must be what is kept in `images`; `GUIDE=overwrite` replaces them.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A command of a page and what it is said to print.
struct Shown {
    line: usize,
    command: Vec<String>,
    code: i32,
    output: Vec<String>,
}

/// What a page asks for, in order.
enum Step {
    Write(String, String),
    Run(Shown),
}

fn steps(page: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut lines = page.lines().enumerate();
    while let Some((_, line)) = lines.next() {
        let Some(kind) = line.strip_prefix("```") else { continue };
        let block: Vec<(usize, &str)> = lines.by_ref().take_while(|(_, line)| *line != "```").collect();
        match kind.split_once(' ') {
            None if kind == "console" => steps.extend(commands(&block)),
            Some(("json" | "toml", file)) => {
                let text: Vec<&str> = block.iter().map(|(_, line)| *line).collect();
                steps.push(Step::Write(file.to_owned(), text.join("\n") + "\n"));
            }
            _ => {}
        }
    }
    steps
}

fn commands(block: &[(usize, &str)]) -> Vec<Step> {
    let mut shown: Vec<Shown> = Vec::new();
    let mut open = false;
    for &(number, line) in block {
        if let Some(last) = shown.last_mut().filter(|_| open) {
            last.command.extend(words(line.trim().trim_end_matches('\\')));
            open = line.ends_with('\\');
        } else if let Some(command) = line.strip_prefix("$ ") {
            open = command.ends_with('\\');
            let command = words(command.trim_end_matches('\\'));
            shown.push(Shown { line: number + 1, command, code: 0, output: Vec::new() });
        } else if let Some(last) = shown.last_mut() {
            match line.strip_prefix("? ") {
                Some(code) if last.output.is_empty() => last.code = code.parse().expect("an exit code"),
                _ => last.output.push(line.to_owned()),
            }
        }
    }
    for one in &mut shown {
        while one.output.last().is_some_and(String::is_empty) {
            one.output.pop();
        }
    }
    shown.into_iter().map(Step::Run).collect()
}

/// The words of a command, without what follows `#`.
fn words(line: &str) -> Vec<String> {
    line.split_whitespace().take_while(|word| !word.starts_with('#')).map(str::to_owned).collect()
}

/// Whether a line is as shown.
fn line_fits(shown: &str, line: &str) -> bool {
    let mut parts = shown.split("[..]");
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = line.strip_prefix(first) else { return false };
    let mut last = first;
    let mut wild = false;
    for part in parts {
        wild = true;
        last = part;
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.is_empty() || (wild && (last.is_empty() || line.ends_with(last)))
}

fn fits(shown: &[String], printed: &[&str]) -> bool {
    match (shown.first(), printed.first()) {
        (None, _) => printed.iter().all(|line| line.is_empty()),
        (Some(line), _) if line == "..." => {
            (0..=printed.len()).any(|skipped| fits(&shown[1..], &printed[skipped..]))
        }
        (Some(_), None) => false,
        (Some(line), Some(first)) => line_fits(line, first.trim_end()) && fits(&shown[1..], &printed[1..]),
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Pages that need the library of ONNX Runtime; `./check` installs it.
const WITH_RUNTIME: [&str; 1] = ["running.md"];

/// Runs a page of the guide.
fn run(name: &str) {
    let library = divvy::exec::backends::library::find(None);
    if let (Err(absent), true) = (&library, WITH_RUNTIME.contains(&name)) {
        return divvy_testing::skipped::skip(&format!("docs/guide/{name}"), absent);
    }
    let (page, folder) = play(&format!("docs/guide/{name}"), &[]);
    compare_pictures(&page, &folder);
}

/// Runs a page in a folder of its own, where the bundled models are. Every `divvy plan` is given further arguments.
fn play(path: &str, plan_arguments: &[&str]) -> (String, PathBuf) {
    let library = divvy::exec::backends::library::find(None);
    let page = std::fs::read_to_string(root().join(path)).expect("the page is there");
    let name = path.rsplit('/').next().unwrap_or(path);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("guide").join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(folder.join("models")).expect("it can be made");
    for model in std::fs::read_dir(root().join("models")).expect("models are there") {
        let model = model.expect("it reads");
        std::fs::copy(model.path(), folder.join("models").join(model.file_name())).expect("it can be copied");
    }
    let steps = steps(&page);
    assert!(!steps.is_empty(), "{path} has nothing to run");
    for step in steps {
        match step {
            Step::Write(file, text) => std::fs::write(folder.join(file), text).expect("it can be written"),
            Step::Run(shown) => {
                let (program, arguments) = shown.command.split_first().expect("a command has a name");
                let place = format!("{path}:{}", shown.line);
                let plans = arguments.first().is_some_and(|command| command == "plan");
                let further = if plans { plan_arguments } else { &[] };
                assert_eq!(program, "divvy", "{place}");
                let done = Command::new(env!("CARGO_BIN_EXE_divvy"))
                    .args(arguments)
                    .args(further)
                    .envs(library.iter().map(|path| (divvy::exec::backends::library::VARIABLE, path)))
                    .current_dir(&folder)
                    .output()
                    .expect("divvy starts");
                let mut printed = String::from_utf8_lossy(&done.stdout).into_owned();
                printed.push_str(&String::from_utf8_lossy(&done.stderr));
                assert_eq!(done.status.code(), Some(shown.code), "{place}: {printed}");
                let lines: Vec<&str> = printed.lines().collect();
                assert!(shown.output.is_empty() || fits(&shown.output, &lines), "{place} prints\n{printed}");
            }
        }
    }
    (page, folder)
}

/// Pictures that the commands of a page have made again must not differ from those that it shows.
fn compare_pictures(page: &str, folder: &Path) {
    for part in page.split("](images/").skip(1) {
        let name = part.split(')').next().expect("a link ends");
        let (kept, made) = (root().join("docs/guide/images").join(name), folder.join(name));
        let made = std::fs::read_to_string(made).unwrap_or_else(|_| panic!("no command makes {name}"));
        if std::env::var("GUIDE").is_ok_and(|what| what == "overwrite") {
            std::fs::write(&kept, &made).expect("it can be written");
        }
        let kept = std::fs::read_to_string(kept).expect("the picture is there");
        assert_eq!(kept, made, "{name}: GUIDE=overwrite replaces it");
    }
}

macro_rules! pages {
    ($($test:ident: $page:literal,)*) => {
        $(
            #[test]
            fn $test() {
                run($page);
            }
        )*

        #[test]
        fn no_page_is_left_out() {
            let mut pages: Vec<String> = std::fs::read_dir(root().join("docs/guide"))
                .expect("the guide is there")
                .map(|entry| entry.expect("it reads").file_name().to_string_lossy().into_owned())
                .filter(|name| name.ends_with(".md") && name != "README.md")
                .collect();
            pages.sort();
            let mut tested = vec![$($page.to_owned()),*];
            tested.sort();
            assert_eq!(pages, tested);
        }
    };
}

pages! {
    quick_start: "quick-start.md",
    objectives: "objectives.md",
    reading_the_report: "reading-the-report.md",
    hardware_files: "hardware-files.md",
    profiles: "profiles.md",
    running: "running.md",
    gpus: "gpus.md",
    certificates: "certificates.md",
    exports: "exports.md",
    streams: "streams.md",
}

/// Its plan is proved in a second or two; a busy machine is given more than the ten seconds of a user. Progress is no part of
/// the page.
#[test]
fn readme() {
    play("README.md", &["--time", "5m", "--quiet"]);
}

#[test]
fn lines_are_compared_with_room_for_what_varies() {
    assert!(line_fits("finish [..] us: optimal", "finish 54.50 us: optimal"));
    assert!(line_fits("plain", "plain") && line_fits("open [..]", "open end"));
    assert!(!line_fits("plain", "plainer") && !line_fits("finish [..] us", "finish 3 ms"));
    let shown = ["a", "...", "d"].map(str::to_owned);
    assert!(fits(&shown, &["a", "b", "c", "d"]) && fits(&shown, &["a", "d"]) && !fits(&shown, &["a", "b"]));
}
