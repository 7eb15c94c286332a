//! The matrix that `nvidia-smi topo -m` prints: how any two GPUs, and GPUs and network cards, are joined.
//!
//! | entry | meaning | here |
//! |---|---|---|
//! | `X` | itself | |
//! | `NV#` | # NVLinks | a count |
//! | `PIX`, `PXB`, `PSB` | over PCIe switches only | one group |
//! | `PHB`, `NODE`, `SYS`, `SOC` | through the host | nothing |
//!
//! NVLinks hide what PCIe there is between two GPUs. Network cards show it all the same: two GPUs that reach one card
//! over switches only are behind the same switch. Colours, the legend and rows of network cards are skipped.

use divvy_core::units::{counted, counted_as};
use std::collections::BTreeMap;

use divvy_core::input_error::{Code, InputErrors};

use super::MOST_GPUS;

/// The most columns, network cards among them.
const MOST_COLUMNS: usize = 1024;

/// The most NVLinks between two GPUs.
const MOST_NVLINKS: u32 = 64;

const ENTRIES: &str = "entries are X, NV#, PIX, PXB, PHB, NODE and SYS";

/// How the GPUs are joined; everything is by row.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Matrix {
    /// Numbers of the GPUs.
    pub(super) gpus: Vec<u32>,
    /// NVLinks between two of them.
    pub(super) nvlinks: Vec<Vec<u32>>,
    /// Which PCIe switch it is behind, if others are too.
    pub(super) groups: Vec<Option<usize>>,
    /// The NUMA node it is next to.
    pub(super) numa: Vec<Option<u32>>,
}

impl Matrix {
    /// The row of a GPU.
    pub(super) fn row_of(&self, gpu: u32) -> Option<usize> {
        self.gpus.iter().position(|known| *known == gpu)
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Entry {
    Itself,
    NvLinks(u32),
    Switches,
    Host,
}

impl Entry {
    fn read(text: &str) -> Option<Entry> {
        match text {
            "X" => Some(Entry::Itself),
            "PIX" | "PXB" | "PSB" => Some(Entry::Switches),
            "PHB" | "NODE" | "SYS" | "SOC" => Some(Entry::Host),
            _ => text.strip_prefix("NV")?.parse().ok().map(Entry::NvLinks),
        }
    }
}

/// Gives everything with the label of `b` that of `a`, or the other way round: the lower label stays.
pub(super) fn merge(labels: &mut [usize], a: usize, b: usize) {
    let (low, high) = (labels[a].min(labels[b]), labels[a].max(labels[b]));
    labels.iter_mut().filter(|label| **label == high).for_each(|label| *label = low);
}

/// The text without the sequences that set colours.
fn plain(line: &str) -> String {
    let mut plain = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once('\u{1b}') {
        plain.push_str(before);
        let codes = after.strip_prefix('[').unwrap_or(after);
        let end = codes.find(|c: char| c.is_ascii_alphabetic()).map_or(codes.len(), |end| end + 1);
        rest = &codes[end..];
    }
    plain.push_str(rest);
    plain
}

fn gpu_number(word: &str) -> Option<u32> {
    word.strip_prefix("GPU").filter(|digits| digits.len() < 6)?.parse().ok()
}

/// Models by number, from lines such as `GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-…)`.
pub(super) fn names(text: &str) -> BTreeMap<u32, String> {
    let name = |line: &str| {
        let (number, name) = line.trim().strip_prefix("GPU ")?.split_once(':')?;
        let name = name.split_once("(UUID").map_or(name, |(name, _)| name).trim();
        let name: String = name.chars().filter(|c| !c.is_control()).take(100).collect();
        Some((number.trim().parse().ok()?, name)).filter(|(_, name)| !name.is_empty())
    };
    text.lines().filter_map(|line| name(&plain(line))).collect()
}

/// A row: the line it is in, what it says of each column, its NUMA node.
struct Row {
    line: usize,
    entries: Vec<Entry>,
    numa: Option<u32>,
}

/// Reads the matrix; every fault is noted.
pub(super) fn read(text: &str) -> Result<Matrix, InputErrors> {
    let mut errors = InputErrors::default();
    let lines: Vec<(usize, String)> =
        text.lines().enumerate().map(|(i, line)| (i + 1, plain(line))).collect();
    let is_header = |line: &str| {
        let mut words = line.split_whitespace();
        words.next().and_then(gpu_number).is_some() && words.next().and_then(Entry::read).is_none()
    };
    let Some(start) = lines.iter().position(|(_, line)| is_header(line)) else {
        let fix = "save what `nvidia-smi topo -m` prints, with its first line";
        errors.add(Code::Format, "file", "there is no line that names the columns GPU0, GPU1, …", fix);
        return Err(errors);
    };
    let (line, header) = (lines[start].0, lines[start].1.as_str());
    let is_label = |word: &&str| !["CPU", "NUMA", "GPU", "Affinity"].contains(word);
    let columns: Vec<&str> = header.split_whitespace().take_while(is_label).collect();
    let gpus: Vec<(usize, u32)> =
        columns.iter().enumerate().filter_map(|(i, word)| Some((i, gpu_number(word)?))).collect();
    check_columns(line, &columns, &gpus, &mut errors);
    if !errors.is_empty() {
        return Err(errors);
    }
    let has_numa = header.contains("NUMA Affinity");
    let mut rows: BTreeMap<u32, Row> = BTreeMap::new();
    for (line, text) in &lines[start + 1..] {
        let mut words = text.split_whitespace();
        let Some(gpu) = words.next().and_then(gpu_number) else { continue };
        let words: Vec<&str> = words.take(columns.len() + 3).collect();
        let place = format!("line {line}");
        if gpus.iter().all(|(_, known)| *known != gpu) {
            errors.add(Code::Dangling, place, format!("GPU{gpu} has no column"), "give the whole matrix");
        } else if let Some(first) = rows.get(&gpu).map(|row| row.line) {
            let message = format!("GPU{gpu} has a row in line {first} already");
            errors.add(Code::DuplicateName, place, message, "give the matrix of one machine, once");
        } else {
            let entries = entries(&place, &words, &columns, &mut errors);
            let numa = words.get(columns.len() + 1).filter(|_| has_numa).and_then(|numa| numa.parse().ok());
            rows.insert(gpu, Row { line: *line, entries, numa });
        }
    }
    for (_, gpu) in gpus.iter().filter(|(_, gpu)| !rows.contains_key(gpu)) {
        let message = format!("GPU{gpu} has a column and no row");
        errors.add(Code::Missing, format!("line {line}"), message, "give the whole matrix");
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let rows: Vec<Row> = gpus.iter().filter_map(|(_, gpu)| rows.remove(gpu)).collect();
    check_symmetry(&rows, &gpus, &mut errors);
    errors.into_result(matrix(&rows, &gpus, columns.len()))
}

fn check_columns(line: usize, columns: &[&str], gpus: &[(usize, u32)], errors: &mut InputErrors) {
    let place = || format!("line {line}");
    if gpus.len() > MOST_GPUS || columns.len() > MOST_COLUMNS {
        let message = format!("{} GPUs and {} columns are too many", gpus.len(), columns.len());
        let fix = format!("give the matrix of one machine: at most {MOST_GPUS} GPUs, {MOST_COLUMNS} columns");
        errors.add(Code::TooLarge, place(), message, fix);
        return;
    }
    for (i, (_, gpu)) in gpus.iter().enumerate() {
        if gpus[..i].iter().any(|(_, other)| other == gpu) {
            let message = format!("GPU{gpu} has two columns");
            errors.add(Code::DuplicateName, place(), message, "give the matrix of one machine, once");
        }
    }
}

fn entries(place: &str, words: &[&str], columns: &[&str], errors: &mut InputErrors) -> Vec<Entry> {
    if words.len() < columns.len() {
        let message = format!(
            "{} for {}",
            counted_as(words.len(), "entry", "entries"),
            counted(columns.len(), "column")
        );
        errors.add(Code::Length, place, message, "give the whole row");
    }
    let mut entries = Vec::new();
    for (word, column) in words.iter().zip(columns) {
        let entry = Entry::read(word).unwrap_or_else(|| {
            let word: String = word.chars().take(20).collect();
            errors.add(Code::Type, place, format!("`{word}` below {column} is no entry"), ENTRIES);
            Entry::Host
        });
        if matches!(entry, Entry::NvLinks(count) if count == 0 || count > MOST_NVLINKS) {
            let message = format!("`{word}` below {column}: no two GPUs have so many NVLinks");
            errors.add(Code::Range, place, message, format!("give NV1 to NV{MOST_NVLINKS}"));
        }
        entries.push(entry);
    }
    entries
}

fn check_symmetry(rows: &[Row], gpus: &[(usize, u32)], errors: &mut InputErrors) {
    for (i, row) in rows.iter().enumerate() {
        let place = || format!("line {}", row.line);
        for (j, (column, other)) in gpus.iter().enumerate() {
            let entry = row.entries[*column];
            if (i == j) != (entry == Entry::Itself) {
                let message = format!("GPU{} and GPU{other}: X belongs on the diagonal", gpus[i].1);
                errors.add(Code::Contradiction, place(), message, "give the matrix as it was printed");
            } else if j < i && entry != rows[j].entries[gpus[i].0] {
                let message =
                    format!("GPU{} and GPU{other} are joined otherwise in line {}", gpus[i].1, rows[j].line);
                errors.add(Code::Contradiction, place(), message, "give the matrix as it was printed");
            }
        }
    }
}

fn matrix(rows: &[Row], gpus: &[(usize, u32)], columns: usize) -> Matrix {
    let mut labels: Vec<usize> = (0..rows.len()).collect();
    for column in 0..columns {
        let is_behind = |row: usize| rows[row].entries[column] == Entry::Switches;
        let itself = gpus.iter().position(|(own, _)| *own == column);
        let members: Vec<usize> =
            (0..rows.len()).filter(|&row| is_behind(row) || itself == Some(row)).collect();
        for pair in members.windows(2) {
            merge(&mut labels, pair[0], pair[1]);
        }
    }
    let is_shared = |label: usize| labels.iter().filter(|other| **other == label).count() > 1;
    let count = |row: &Row, column: usize| match row.entries[column] {
        Entry::NvLinks(count) => count,
        _ => 0,
    };
    Matrix {
        gpus: gpus.iter().map(|(_, gpu)| *gpu).collect(),
        nvlinks: rows
            .iter()
            .map(|row| gpus.iter().map(|(column, _)| count(row, *column)).collect())
            .collect(),
        groups: labels.iter().map(|&label| is_shared(label).then_some(label)).collect(),
        numa: rows.iter().map(|row| row.numa).collect(),
    }
}
