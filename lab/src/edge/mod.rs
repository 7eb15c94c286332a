//! "DNN Partitioning for Inference Throughput Acceleration at the Edge" (IEEE Access 2023): its simulations and set-ups.
//!
//! The network is YOLOv2 in the paper's scale (`divvy generate yolov2 --paper-scale`). `branch-and-bound` is the paper's
//! Algorithm 1; since YOLOv2 has a skip, it prunes by transfers that are decided, not by the padded list.

pub(crate) mod figure5;
pub(crate) mod figure6;
pub(crate) mod figure8;
pub(crate) mod table2;
pub(crate) mod unlike;
pub(crate) mod unlike_networks;

use crate::cells::{Cell, Work};
use crate::figures::Figures;
use crate::instances::{EdgeNetwork, Instance};
use crate::markdown::number;
use crate::{Mode, Settings};

const PAPER: &str = "DNN Partitioning for Inference Throughput Acceleration at the Edge";

/// Bytes in the smallest cut per operation of YOLOv2: the paper's, and by construction that of the scaled network.
const SMALLEST_CUT_PER_WORK: f64 = 1.64e-3;

const MEGA: u64 = 1_000_000;

fn cell(
    rates: Vec<u64>,
    link: u64,
    max_splits: Option<u32>,
    planner: &'static str,
    settings: &Settings,
) -> Cell {
    let instance = Instance::Edge(EdgeNetwork { rates, link, max_splits });
    Cell { instance, work: Work::Plan(planner), limit: settings.limit(20, 120) }
}

/// Inferences per second.
fn throughput(figures: Option<&Figures>) -> Option<f64> {
    let ps = figures?.value_ps.filter(|&ps| ps > 0)?;
    Some(1e12 / ps as f64)
}

fn speedup(figures: Option<&Figures>) -> Option<f64> {
    let figures = figures?;
    Some(figures.one_device_ps? as f64 / figures.value_ps.filter(|&ps| ps > 0)? as f64)
}

fn is_optimal(figures: Option<&Figures>) -> bool {
    figures.is_some_and(|figures| figures.value_ps.is_some() && figures.value_ps == figures.bound_ps)
}

fn shown(value: Option<f64>) -> String {
    value.map_or("–".to_owned(), number)
}

/// A remark for cells that were not run, and one for those that were not solved to the end.
fn remarks<'a>(all: impl Iterator<Item = Option<&'a Figures>>) -> Vec<String> {
    let (mut missing, mut open, mut count) = (0, 0, 0);
    for figures in all {
        count += 1;
        missing += usize::from(figures.is_none());
        open += usize::from(figures.is_some() && !is_optimal(figures));
    }
    let mut lines = Vec::new();
    if missing > 0 {
        lines.push(format!("{missing} of {count} runs: not run yet."));
    }
    if open > 0 {
        lines.push(format!(
            "{open} of {count} runs ended at their limit without a proof that nothing is better."
        ));
    }
    lines
}

fn limits(settings: &Settings) -> String {
    format!("{:?} a run", settings.limit(20, 120))
}

fn quick(mode: Mode, quick: &'static str, full: &'static str) -> &'static str {
    match mode {
        Mode::Quick => quick,
        Mode::Full => full,
    }
}
