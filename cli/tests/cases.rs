//! Whole command runs: `cases/*.trycmd` read like a terminal. `TRYCMD=overwrite` rewrites what they expect.

#[test]
fn commands_print_what_the_cases_say() {
    trycmd::TestCases::new().case("tests/cases/*.trycmd");
}
