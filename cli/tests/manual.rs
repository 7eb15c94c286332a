//! `divvy man` and `divvy completions` from the outside.

use std::path::Path;
use std::process::{Command, Output};

fn divvy(arguments: &[&str]) -> Output {
    let done = Command::new(env!("CARGO_BIN_EXE_divvy")).args(arguments).output().expect("divvy starts");
    assert!(done.status.success(), "{arguments:?}: {done:?}");
    done
}

#[test]
fn every_command_has_a_manual_page() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("man");
    let _ = std::fs::remove_dir_all(&folder);
    divvy(&["man", "-o", folder.to_str().expect("paths here are text")]);
    let help = divvy(&["--help"]);
    let help = String::from_utf8_lossy(&help.stdout);
    let commands =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names: Vec<&str> =
        commands.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help").collect();
    assert!(names.len() > 9, "{help}");
    for name in names {
        let page = std::fs::read_to_string(folder.join(format!("divvy-{name}.1")));
        let page = page.unwrap_or_else(|cause| panic!("{name}: {cause}"));
        assert!(page.contains(".SH SYNOPSIS"), "{page}");
    }
}

#[test]
fn completions_name_the_commands() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = divvy(&["completions", shell]);
        assert!(String::from_utf8_lossy(&script.stdout).contains("reproduce"), "{shell}");
    }
}
