//! The fitted figures, compiled in. `efficiencies.tsv` is written by `scripts/fit_estimates.py`; a test reads all of it.

use std::sync::LazyLock;

use crate::estimate::op_group::OpGroup;
use crate::hardware::Family;

const TEXT: &str = include_str!("efficiencies.tsv");

static TABLE: LazyLock<Vec<FamilyTable>> =
    LazyLock::new(|| Family::ALL.iter().filter_map(|&family| FamilyTable::read(TEXT, family)).collect());

/// Nine of ten times turn out between `low` and `high` times what was said of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ErrorBand {
    /// The least factor.
    pub low: f64,
    /// The largest factor.
    pub high: f64,
}

/// How many times longer a group of ops takes than the data sheet says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) arithmetic: f64,
    pub(super) memory: f64,
    /// Of the class's launch time.
    pub(super) launches: f64,
}

/// The figures of a family.
pub(super) struct FamilyTable {
    family: Family,
    rows: Vec<Row>,
    /// The peak rate of one core; none where width does not count.
    pub(super) one_core: Option<f64>,
    /// Origin, class or `*` for all of the family, and how far times were off.
    bands: Vec<(String, String, ErrorBand)>,
}

/// The figures of a family; none where nothing was measured.
pub(super) fn of(family: Family) -> Option<&'static FamilyTable> {
    TABLE.iter().find(|table| table.family == family)
}

impl FamilyTable {
    /// Reads the lines of a family; none unless every group has one.
    pub(super) fn read(text: &str, family: Family) -> Option<FamilyTable> {
        let lines = || text.lines().map(|line| line.split('\t').collect::<Vec<_>>());
        let own =
            |line: &Vec<&str>, what: &str| line.len() > 2 && line[0] == what && line[1] == family.name();
        let figure = |line: &[&str], at: usize| line.get(at)?.parse::<f64>().ok();
        let row = |group: &OpGroup| {
            let line = lines().find(|line| own(line, "op") && line[2] == group.name())?;
            let (arithmetic, memory, launches) = (figure(&line, 3)?, figure(&line, 4)?, figure(&line, 5)?);
            Some(Row { arithmetic, memory, launches })
        };
        let rows = OpGroup::ALL.iter().map(row).collect::<Option<Vec<Row>>>()?;
        let one_core = lines().find(|line| own(line, "one-core")).and_then(|line| figure(&line, 2));
        let bands = lines().filter(|line| own(line, "band")).filter_map(|line| {
            let band = ErrorBand { low: figure(&line, 4)?, high: figure(&line, 5)? };
            Some((line[2].to_owned(), line[3].to_owned(), band))
        });
        Some(FamilyTable { family, rows, one_core, bands: bands.collect() })
    }

    pub(super) fn row(&self, group: OpGroup) -> Row {
        let index = OpGroup::ALL.iter().position(|&one| one == group).unwrap_or(0);
        self.rows[index]
    }

    pub(super) fn estimated(&self, class: &str) -> Option<ErrorBand> {
        self.band("estimated", class)
    }

    pub(super) fn scaled(&self, class: &str) -> Option<ErrorBand> {
        self.band("scaled", class)
    }

    fn band(&self, origin: &str, class: &str) -> Option<ErrorBand> {
        let found = self.bands.iter().find(|(of, name, _)| of == origin && (name == class || name == "*"));
        found.map(|(.., band)| *band)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_used_and_sound() {
        let lines = TEXT.lines().filter(|line| !line.starts_with('#')).count();
        let mut used = 0;
        for family in [Family::X86, Family::Nvidia] {
            let table = of(family).expect("it has figures");
            used += table.rows.len() + table.bands.len() + usize::from(table.one_core.is_some());
            for row in &table.rows {
                for figure in [row.arithmetic, row.memory, row.launches] {
                    assert!((0.01..=300.0).contains(&figure), "{row:?}");
                }
            }
            for (.., band) in &table.bands {
                assert!(band.low > 0.0 && band.low < 1.0 && band.high > 1.0, "{band:?}");
            }
        }
        assert_eq!(used, lines);
    }
}
