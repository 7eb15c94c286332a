//! What a report tells to try next, tried; and colours on pipes and where they were asked for.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// A name that a shell would take apart if it were not quoted.
const MODEL_FILE: &str = "the model's file.json";
/// A chain of ops with FLOPs, so that any hardware will do; the last makes the network's output.
const MODEL: &str = r#"{
  "divvy": "problem", "version": 1, "name": "chain",
  "graph": {
    "ops": { "name": ["first op", "b", "c", "d"], "flops": [9000000, 8000000, 9000000, 8000000] },
    "tensors": {
      "bytes": [100, 100, 100, 100], "producer": [0, 1, 2, 3], "consumers": [[1], [2], [3], []], "outputs": [3]
    }
  }
}"#;

const HARDWARE: &str = r#"
name = "two boards"

[class.board]
peak = { fp32 = "1 GFLOP/s" }

[[device]]
name = "left board"
class = "board"

[[device]]
name = "right"
class = "board"

[[link]]
between = ["left board", "right"]
bandwidth = "10 kB/s"
"#;

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("report").join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("it can be made");
    std::fs::write(folder.join(MODEL_FILE), MODEL).expect("it can be written");
    std::fs::write(folder.join("my boards.toml"), HARDWARE).expect("it can be written");
    folder
}

fn divvy(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_divvy"))
        .args(arguments)
        .current_dir(folder)
        .env_remove("NO_COLOR")
        .env_remove("CLICOLOR_FORCE")
        .output()
        .expect("divvy starts")
}

/// The data inside of a report.
fn data(path: &Path) -> Value {
    let html = std::fs::read_to_string(path).expect("the report was written");
    let mark = "application/json\">";
    let start = html.find(mark).expect("it holds data") + mark.len();
    let end = start + html[start..].find("</script>").expect("data end");
    serde_json::from_str(&html[start..end]).expect("data are JSON")
}

fn commands(data: &Value) -> Vec<String> {
    let of = |advice: &Value| -> Vec<String> {
        let list = advice["commands"].as_array().expect("a list");
        list.iter().map(|line| line.as_str().expect("text").to_owned()).collect()
    };
    let next = data["next"].as_array().expect("a list").iter().flat_map(of);
    let losses = data["losses"].as_array().expect("a list").iter().flat_map(|loss| of(&loss["advice"]));
    next.chain(losses).collect()
}

/// Runs lines as a shell would, with this divvy and less time.
fn try_them(folder: &Path, lines: &[String]) {
    let program = Path::new(env!("CARGO_BIN_EXE_divvy"));
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", program.parent().expect("it is in a folder").display());
    for line in lines {
        let quick = match line.replace("--time 2m", "--time 300ms") {
            line if line.starts_with("divvy plan") && !line.contains("--time") => line + " --time 300ms",
            line => line,
        };
        let output = Command::new("sh").args(["-c", &quick]).current_dir(folder).env("PATH", &path).output();
        let output = output.expect("sh starts");
        assert!(output.status.success(), "{line}\n{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn every_command_that_a_report_gives_works() {
    let objectives: [&[&str]; 4] = [
        &["--objective", "stream"],
        &["--objective", "latency", "--links", "in-turn", "--pin", "first op=left board"],
        &["--stages", "2", "--memory-limit", "right=1GB"],
        &["--objective", "batch", "--inputs", "2"],
    ];
    for (number, objective) in objectives.into_iter().enumerate() {
        let folder = folder(&format!("commands-{number}"));
        let plan = ["plan", MODEL_FILE, "--on", "my boards.toml", "--time", "1s", "-q", "-o", "a plan.json"];
        let made = divvy(&folder, &[&plan[..], objective, &["--report", "a plan.html"]].concat());
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let from_plan = commands(&data(&folder.join("a plan.html")));
        assert!(from_plan.len() > 2, "{from_plan:?}");
        let again = divvy(&folder, &["report", "a plan.json", "-o", "again.html"]);
        assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stderr));
        let from_file = commands(&data(&folder.join("again.html")));
        assert_eq!(from_file.len(), from_plan.len(), "the plan file knows as much: {from_file:?}");
        try_them(&folder, &from_plan);
        try_them(&folder, &from_file);
    }
}

#[test]
fn what_a_stream_keeps_without_a_device_is_a_plan() {
    let folder = folder("losses");
    let plan = ["plan", MODEL_FILE, "--on", "my boards.toml", "--objective", "stream", "--time", "1s", "-q"];
    let made = divvy(&folder, &[&plan[..], &["-o", "plan.json", "--report", "plan.html"]].concat());
    assert!(made.status.success());
    let data = data(&folder.join("plan.html"));
    for loss in data["losses"].as_array().expect("a list") {
        // All four ops on the one board that is left, and both are alike.
        assert_eq!(loss["value"], data["one_device"]["value"], "{loss}");
        assert_ne!(loss["to"], loss["device"]);
    }
    let pinned = divvy(
        &folder,
        &[&plan[..], &["--pin", "b=right", "-o", "pinned.json", "--report", "pinned.html"]].concat(),
    );
    assert!(pinned.status.success());
    let data = self::data(&folder.join("pinned.html"));
    let right = data["losses"].as_array().expect("a list").iter().find(|loss| loss["device"] == 1);
    assert_eq!(right.expect("it has b")["only_there"], 1, "op b can run nowhere else");
}

#[test]
fn pipes_have_no_colours_unless_they_were_asked_for() {
    let folder = folder("colours");
    let plan = ["plan", MODEL_FILE, "--on", "my boards.toml", "--time", "300ms", "-q"];
    let printed = |arguments: &[&str], set: &[(&str, &str)]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_divvy"));
        command.args(arguments).current_dir(&folder).env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE");
        let output = command.envs(set.iter().copied()).output().expect("divvy starts");
        (String::from_utf8(output.stdout).expect("text"), String::from_utf8(output.stderr).expect("text"))
    };
    let (plain, _) = printed(&plan, &[]);
    assert!(!plain.contains('\x1b'), "{plain}");
    let (coloured, _) = printed(&[&plan[..], &["--color", "always"]].concat(), &[("NO_COLOR", "1")]);
    assert!(coloured.contains("\x1b[1mfinish "), "{coloured}");
    let (forced, _) = printed(&plan, &[("CLICOLOR_FORCE", "1")]);
    assert_eq!(forced, coloured);
    let (never, _) = printed(&[&plan[..], &["--color", "never"]].concat(), &[("CLICOLOR_FORCE", "1")]);
    assert_eq!(never, plain);
    let (json, _) = printed(&[&plan[..], &["--json", "--color", "always"]].concat(), &[]);
    assert!(!json.contains('\x1b'), "{json}");
    let (_, fault) = printed(&["plan", "nothing.json", "--color", "always"], &[]);
    assert!(fault.starts_with("\x1b[1;31merror:\x1b[0m "), "{fault}");
    let (_, fault) = printed(&["plan", "nothing.json"], &[]);
    assert!(fault.starts_with("error: "), "{fault}");
}
