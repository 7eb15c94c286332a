//! `docs/dilemma.md` read like a terminal, from the root of the repository. `TRYCMD=overwrite` rewrites what it expects.

#[test]
fn the_walk_through_prints_what_it_says() {
    std::env::set_current_dir("..").expect("the crate is a folder of the repository");
    trycmd::TestCases::new().case("docs/dilemma.md");
}
