//! When each device and link of a schedule is busy, as lines of text.
//!
//! Every column is an equal part of the time from beginning to end; the height of its mark is how much of that part the
//! device or link is busy. On a terminal with colours the critical path has one of its own. Below stands how much of the time the
//! path spends where.

use divvy::core::problem::Problem;
use divvy::core::score::{Lane, Score};
use divvy::core::units::Time;
use divvy::io::export::{critical, critical_path};

use super::cut;
use super::screen::Screen;
use crate::view::percent::percent;

/// Lines for devices and for links, at most.
const MOST_DEVICES: usize = 12;
const MOST_LINKS: usize = 6;
/// Columns of a name.
const NAME: usize = 16;

const HEIGHTS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

pub(super) fn lines(problem: &Problem, score: &Score, screen: &Screen) -> Vec<String> {
    let lanes = lanes(score);
    let name = |lane: Lane| match lane {
        Lane::Device(device) => cut(problem.hardware.device_name(device), NAME),
        Lane::Link(link) => cut(&problem.hardware.links()[link.index()].name, NAME),
    };
    let width = lanes.iter().map(|&lane| name(lane).chars().count()).max().unwrap_or(0);
    let columns = screen.width.saturating_sub(width + 6).max(20);
    let marks = critical(problem, score);
    let mut text = vec![format!("  {:width$}  {}", "", axis(score.value, columns))];
    for &lane in &lanes {
        let (busy, path) = (fill(score, lane, columns, None), fill(score, lane, columns, Some(&marks)));
        let cells: Vec<(char, bool)> =
            busy.iter().zip(&path).map(|(&busy, &path)| (height(busy), path > 0.0)).collect();
        // Cells that look alike are painted together.
        let paint = |run: &[(char, bool)]| {
            let marks: String = run.iter().map(|cell| cell.0).collect();
            if run[0].1 { screen.strong(&marks) } else { screen.busy(&marks) }
        };
        let line: String = cells.chunk_by(|a, b| a.1 == b.1).map(paint).collect();
        text.push(format!("  {:width$}  {line}", name(lane)).trim_end().to_owned());
    }
    let hidden = all_lanes(score).len() - lanes.len();
    if hidden > 0 {
        text.push(format!("  ({hidden} more)"));
    }
    text.extend(path_line(problem, score, name));
    text
}

/// Every device and link that does something, devices first.
fn all_lanes(score: &Score) -> Vec<Lane> {
    let mut lanes: Vec<Lane> = score.trace.spans.iter().map(|span| span.lane).collect();
    lanes.sort_unstable();
    lanes.dedup();
    lanes
}

/// Those that are shown: the first devices, and the busiest links.
fn lanes(score: &Score) -> Vec<Lane> {
    let (devices, mut links): (Vec<Lane>, Vec<Lane>) =
        all_lanes(score).into_iter().partition(|lane| matches!(lane, Lane::Device(_)));
    let busy = |lane: &Lane| match lane {
        Lane::Link(link) => score.link_busy[link.index()],
        Lane::Device(_) => Time::ZERO,
    };
    links.sort_by_key(|lane| (std::cmp::Reverse(busy(lane)), *lane));
    devices.into_iter().take(MOST_DEVICES).chain(links.into_iter().take(MOST_LINKS)).collect()
}

/// Beginning, middle and end; without the middle where there is no room.
fn axis(value: Time, columns: usize) -> String {
    let (middle, end) = (Time(value.0 / 2).to_string(), value.to_string());
    if columns < 2 * (middle.len() + end.len()) {
        return format!("0{end:>width$}", width = columns - 1);
    }
    let left = (columns / 2).saturating_sub(1 + middle.len() / 2);
    let right = columns.saturating_sub(1 + left + middle.len() + end.len());
    format!("0{}{middle}{}{end}", " ".repeat(left), " ".repeat(right))
}

/// The share of each column that a lane is busy, overlaps counted once; only with marked spans where there are marks.
fn fill(score: &Score, lane: Lane, columns: usize, marks: Option<&[bool]>) -> Vec<f64> {
    let value = u128::from(score.value.0);
    let mut spans: Vec<(u64, u64)> = (score.trace.spans.iter().enumerate())
        .filter(|(i, span)| span.lane == lane && marks.is_none_or(|marks| marks[*i]))
        .map(|(_, span)| (span.start.0, span.end.0.min(score.value.0)))
        .collect();
    spans.sort_unstable();
    let mut shares = vec![0.0; columns];
    let mut until = 0;
    for (start, end) in spans {
        let start = start.max(until);
        until = until.max(end);
        if start >= end {
            continue;
        }
        let column = |at: u64| (u128::from(at) * columns as u128 / value) as usize;
        for (i, share) in
            shares.iter_mut().enumerate().take(column(end).min(columns - 1) + 1).skip(column(start))
        {
            let edge = |i: usize| i as f64 * value as f64 / columns as f64;
            let overlap = (end as f64).min(edge(i + 1)) - (start as f64).max(edge(i));
            *share += overlap.max(0.0) * columns as f64 / value as f64;
        }
    }
    shares
}

/// The mark of a share; what is there at all is seen.
fn height(share: f64) -> char {
    let eighths = (share * 8.0).round() as usize;
    HEIGHTS[if share > 1e-9 { eighths.clamp(1, 8) } else { 0 }]
}

/// How much of the time the critical path spends where; a transfer over several links counts for the first.
fn path_line(problem: &Problem, score: &Score, name: impl Fn(Lane) -> String) -> Option<String> {
    let mut time: Vec<(Lane, u64)> = Vec::new();
    let steps = critical_path(problem, score);
    for span in steps.iter().filter_map(|step| score.trace.spans.get(*step.first()?)) {
        let length = span.end.0 - span.start.0;
        match time.iter_mut().find(|(lane, _)| *lane == span.lane) {
            Some((_, sum)) => *sum += length,
            None => time.push((span.lane, length)),
        }
    }
    time.retain(|&(_, length)| length > 0);
    time.sort_by_key(|&(lane, length)| (std::cmp::Reverse(length), lane));
    let part = |&(lane, length): &(Lane, u64)| {
        format!("{} on {}", percent(length as f64 / score.value.0 as f64), name(lane))
    };
    let parts: Vec<String> = time.iter().take(4).map(part).collect();
    let more = if time.len() > 4 { ", …" } else { "" };
    (!parts.is_empty()).then(|| format!("  critical path: {}{more}", parts.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use divvy::core::ids::{DeviceId, LinkId, OpId};
    use divvy::core::score::{Activity, Span};

    fn score(spans: &[(Lane, u64, u64)]) -> Score {
        let mut score = Score { value: Time(100), link_busy: vec![Time(5); 9], ..Score::default() };
        let span = |&(lane, start, end): &(Lane, u64, u64)| Span {
            lane,
            what: Activity::Op(OpId(0), 1),
            start: Time(start),
            end: Time(end),
        };
        score.trace.spans = spans.iter().map(span).collect();
        score
    }

    const GPU: Lane = Lane::Device(DeviceId(0));

    #[test]
    fn columns_show_the_share_that_is_busy() {
        let line = |spans: &[(Lane, u64, u64)]| -> String {
            fill(&score(spans), GPU, 10, None).into_iter().map(height).collect()
        };
        assert_eq!(line(&[(GPU, 0, 50)]), "█████     ");
        assert_eq!(line(&[(GPU, 25, 30), (GPU, 90, 100)]), "  ▄      █");
        // Overlapping transfers count once, and the shortest is seen.
        assert_eq!(line(&[(GPU, 0, 20), (GPU, 10, 20), (GPU, 99, 100)]), "██       ▁");
        assert_eq!(line(&[(GPU, 7, 7)]), " ".repeat(10));
    }

    #[test]
    fn the_axis_is_as_wide_as_the_lines() {
        for columns in [20, 61, 120] {
            assert_eq!(axis(Time(123_456_789), columns).chars().count(), columns);
        }
    }

    #[test]
    fn many_links_are_cut_to_the_busiest() {
        let spans: Vec<(Lane, u64, u64)> = (0..9).map(|link| (Lane::Link(LinkId(link)), 0, 5)).collect();
        let mut score = score(&spans);
        score.link_busy[8] = Time(50);
        let shown = lanes(&score);
        assert_eq!(shown.len(), MOST_LINKS);
        assert_eq!(shown[0], Lane::Link(LinkId(8)));
    }
}
