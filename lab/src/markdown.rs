//! Pages of Markdown: tables with a head, and figures written the same way everywhere.

use crate::figures::Figures;

/// A table. The first column holds names and is set to the left, the others hold figures.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// What it shows.
    pub caption: String,
    /// Heads of the columns.
    pub head: Vec<String>,
    /// Rows, as long as the head.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows.
    pub fn new(caption: &str, head: &[&str]) -> Table {
        let head = head.iter().map(|&name| name.to_owned()).collect();
        Table { caption: caption.to_owned(), head, rows: Vec::new() }
    }

    /// Adds a row.
    pub fn row(&mut self, row: Vec<String>) {
        assert_eq!(row.len(), self.head.len(), "a row of `{}` has one field for each column", self.caption);
        self.rows.push(row);
    }

    /// The table as Markdown, its columns aligned.
    pub fn markdown(&self) -> String {
        let plain = |text: &String| text.replace('|', "\\|").replace('\n', " ");
        let rows: Vec<Vec<String>> = std::iter::once(&self.head)
            .chain(&self.rows)
            .map(|row| row.iter().map(plain).collect())
            .collect();
        let width =
            |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0).max(3);
        let widths: Vec<usize> = (0..self.head.len()).map(width).collect();
        let line = |row: &Vec<String>| {
            let fields = row.iter().zip(&widths).enumerate().map(|(i, (text, &width))| match i {
                0 => format!(" {text:<width$} "),
                _ => format!(" {text:>width$} "),
            });
            format!("|{}|\n", fields.collect::<Vec<_>>().join("|"))
        };
        let rule = widths.iter().enumerate().map(|(i, &width)| match i {
            0 => "-".repeat(width + 2),
            _ => format!("{}:", "-".repeat(width + 1)),
        });
        let rule = format!("|{}|\n", rule.collect::<Vec<_>>().join("|"));
        let body: String = rows[1..].iter().map(line).collect();
        let caption = if self.caption.is_empty() { String::new() } else { format!("{}\n\n", self.caption) };
        format!("{caption}{}{rule}{body}", line(&rows[0]))
    }
}

/// A picture on a page.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Picture {
    /// What tells it from the other pictures of the page; part of its file's name.
    pub name: String,
    /// What it shows.
    pub caption: String,
    /// The picture itself, as a chart of [`divvy_io::svg`] draws it.
    pub svg: String,
}

impl Picture {
    /// A picture.
    pub fn new(name: &str, caption: &str, svg: String) -> Picture {
        Picture { name: name.to_owned(), caption: caption.to_owned(), svg }
    }

    /// The file of the picture on the page of an experiment.
    pub fn file(&self, experiment: &str) -> String {
        format!("{experiment}-{}.svg", self.name)
    }
}

/// What an experiment has to say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    /// Its tables, in order.
    pub tables: Vec<Table>,
    /// Its pictures, below the tables.
    pub pictures: Vec<Picture>,
    /// What the limits were, in words.
    pub limits: String,
    /// What differs from the paper, and how to read the figures.
    pub differs: Vec<String>,
}

/// Figures that a page explains once, below its tables.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notes(Vec<String>);

impl Notes {
    /// The mark of a reason: the same reason has the same mark.
    pub(crate) fn mark(&mut self, reason: &str) -> String {
        let known = self.0.iter().position(|note| note == reason);
        let place = known.unwrap_or_else(|| {
            self.0.push(reason.to_owned());
            self.0.len() - 1
        });
        format!("– ({})", place + 1)
    }

    /// A figure of a cell in milliseconds; where there is none, a mark that leads to the reason.
    pub(crate) fn milliseconds(
        &mut self,
        figures: Option<&Figures>,
        pick: fn(&Figures) -> Option<u64>,
    ) -> String {
        match figures.map(pick) {
            Some(Some(ps)) => milliseconds(ps),
            _ => self.missing(figures),
        }
    }

    /// How many times as fast as the base a cell is; where it has no value, a mark that leads to the reason.
    pub(crate) fn factor(&mut self, base: Option<u64>, figures: Option<&Figures>) -> String {
        match figures.map(|figures| figures.value_ps) {
            Some(Some(ps)) => factor(base.map(|base| base as f64 / ps as f64)),
            _ => self.missing(figures),
        }
    }

    /// The mark of what a cell has no figure for.
    fn missing(&mut self, figures: Option<&Figures>) -> String {
        match figures.map(|figures| figures.reason.as_deref()) {
            Some(Some(reason)) => self.mark(reason),
            Some(None) => self.mark("nothing was found within the limit"),
            None => self.mark("not run yet"),
        }
    }

    /// The reasons, one for each mark.
    pub(crate) fn lines(self) -> Vec<String> {
        self.0.into_iter().enumerate().map(|(i, note)| format!("– ({}): {note}.", i + 1)).collect()
    }
}

/// Picoseconds as milliseconds, in four digits.
pub(crate) fn milliseconds(ps: u64) -> String {
    number(ps as f64 / 1e9)
}

/// A gap or share in percent.
pub(crate) fn percent(share: Option<f64>) -> String {
    match share {
        None => "–".to_owned(),
        Some(0.0) => "0 %".to_owned(),
        Some(1.0) => "100 %".to_owned(),
        Some(share) if share.abs() < 5e-4 => "<0.1 %".to_owned(),
        Some(share) => format!("{:.1} %", share * 100.0),
    }
}

/// Seconds, in a few digits.
pub(crate) fn seconds(seconds: Option<f64>) -> String {
    seconds.map_or("–".to_owned(), |seconds| format!("{} s", number(seconds)))
}

/// How many times larger, in two or three digits.
pub(crate) fn factor(factor: Option<f64>) -> String {
    match factor {
        None => "–".to_owned(),
        Some(factor) if factor >= 100.0 => format!("{factor:.0}×"),
        Some(factor) if factor >= 10.0 => format!("{factor:.1}×"),
        Some(factor) => format!("{factor:.2}×"),
    }
}

/// A number in about four digits.
pub(crate) fn number(value: f64) -> String {
    let decimals = match value.abs() {
        v if v >= 100.0 => 1,
        v if v >= 10.0 => 2,
        v if v >= 1.0 => 3,
        _ => 4,
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_bars_escaped() {
        let mut table = Table::new("Caption.", &["model", "ms"]);
        table.row(vec!["a|b".into(), "1.5".into()]);
        table.row(vec!["sdep, 2-chan".into(), "–".into()]);
        let expected = "Caption.\n\n\
            | model        |  ms |\n\
            |--------------|----:|\n\
            | a\\|b         | 1.5 |\n\
            | sdep, 2-chan |   – |\n";
        assert_eq!(table.markdown(), expected);
    }

    #[test]
    fn what_is_missing_says_why_once() {
        let mut notes = Notes::default();
        let refused = Figures { reason: Some("too large".into()), ..Figures::default() };
        let value = |figures: &Figures| figures.value_ps;
        assert_eq!(notes.milliseconds(Some(&refused), value), "– (1)");
        assert_eq!(notes.milliseconds(None, value), "– (2)");
        assert_eq!(notes.milliseconds(Some(&refused), value), "– (1)");
        let good = Figures { value_ps: Some(79_100_000_000), ..Figures::default() };
        assert_eq!(notes.milliseconds(Some(&good), value), "79.10");
        assert_eq!(notes.lines(), ["– (1): too large.", "– (2): not run yet."]);
    }

    #[test]
    fn figures_have_few_digits() {
        assert_eq!([0.01234, 1.2345, 12.345, 1907.12].map(number), ["0.0123", "1.234", "12.35", "1907.1"]);
        assert_eq!(percent(Some(0.0)), "0 %");
        assert_eq!(percent(Some(0.0001)), "<0.1 %");
        assert_eq!(percent(Some(0.0567)), "5.7 %");
        assert_eq!(factor(Some(395.03)), "395×");
        assert_eq!(factor(Some(0.5)), "0.50×");
    }
}
