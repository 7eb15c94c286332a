//! `divvy completions` and `divvy man`: made from the command line's own description, so that they cannot lag behind.

use clap::CommandFactory;
use clap_mangen::Man;

use crate::args::{Args, CompletionsArgs, ManArgs};
use crate::failure::Failure;

pub(crate) fn completions(args: &CompletionsArgs) -> String {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Args::command(), "divvy", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

pub(crate) fn run(args: &ManArgs) -> Result<String, Failure> {
    let Some(folder) = &args.output else { return Ok(page()) };
    let written =
        std::fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(Args::command(), folder));
    written.map_err(|cause| divvy::io::Error::Unwritable { path: folder.display().to_string(), cause })?;
    Ok(format!("a manual page for each command in {}\n", folder.display()))
}

fn page() -> String {
    let mut text = Vec::new();
    // Writing into memory cannot fail.
    Man::new(Args::command()).render(&mut text).expect("memory takes everything");
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_lists_every_command() {
        let text = page();
        for part in [".SH NAME", ".SH SYNOPSIS", "divvy\\-plan(1)", "divvy\\-diff(1)", "divvy\\-reproduce(1)"]
        {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn every_shell_completes_every_command() {
        for shell in [clap_complete::Shell::Bash, clap_complete::Shell::Zsh, clap_complete::Shell::Fish] {
            let script = completions(&CompletionsArgs { shell });
            for command in ["inspect", "plan", "export", "diff", "reproduce"] {
                assert!(script.contains(command), "{shell}: {command}");
            }
        }
    }
}
