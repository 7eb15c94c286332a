//! Checks of generator options: ranges, sizes, names of choices.

use std::fmt::Display;

use crate::input_error::{Code, InputError, InputErrors};

/// The most ops: a mistyped option must not exhaust the memory.
pub(super) const MOST_OPS: u64 = 2_000_000;

/// The most random draws, one for each edge or each pair of ops.
pub(super) const MOST_DRAWS: u64 = 10_000_000;

/// Reports `value` if it is not within `least` and `most`.
pub(super) fn check_range<T: PartialOrd + Display + Copy>(
    option: &str,
    value: T,
    least: T,
    most: T,
    errors: &mut InputErrors,
) {
    // Written so that NaN is out of range.
    if !(value >= least && value <= most) {
        let fix = format!("give a value from {least} to {most}");
        errors.add(Code::Range, option, format!("{value} is out of range"), fix);
    }
}

/// Reports that the options together ask for too much.
pub(super) fn check_size(option: &str, what: &str, count: u64, most: u64, errors: &mut InputErrors) {
    if count > most {
        let message = format!("this makes {count} {what}, and at most {most} are generated");
        errors.add(Code::Range, option, message, "ask for a smaller network");
    }
}

/// The choice called `name`; case, hyphens and underscores do not matter.
pub(super) fn choose<T: Copy>(option: &str, name: &str, choices: &[(&str, T)]) -> Result<T, InputErrors> {
    let plain = |text: &str| -> String {
        text.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
    };
    let found = choices.iter().find(|(choice, _)| plain(choice) == plain(name));
    found.map(|&(_, value)| value).ok_or_else(|| {
        let known: Vec<&str> = choices.iter().map(|&(choice, _)| choice).collect();
        let fix = format!("choose one of {}", known.join(", "));
        InputError::new(Code::UnknownName, option, format!("there is no `{name}`"), fix).into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_however_they_are_spelt() {
        let choices = [("gpt2-xl", 1), ("open-llama-3b", 2)];
        assert_eq!(choose("--name", "GPT2_XL", &choices).unwrap(), 1);
        assert_eq!(choose("--name", "OpenLLaMA-3B", &choices).unwrap(), 2);
        let errors = choose("--name", "gpt5", &choices).unwrap_err();
        assert_eq!(errors.kept()[0].code, Code::UnknownName);
        assert!(errors.kept()[0].fix.contains("open-llama-3b"));
    }
}
