//! The acceleration region of a network: where splitting a stream over equal devices helps (edge paper, sections V and VI).
//!
//! With N equal devices of η operations per second and links of θ bytes per second, all times scale with 1/η at a fixed ratio
//! θ/η. So one search for each ratio gives the whole plane: the throughput is η times that at one operation per second.
//!
//! Boundaries are ratios. The paper's equations 10 and 11 are necessary conditions if s_min is the smallest *tensor*: whoever
//! uses two devices sends at least that over some link. Its equations 9 and 12 are false as printed; beside them stand
//! corrected forms: a link is busy for at most one period, so N(N−1) links carry at most N(N−1)·θ·Σc/η bytes, and each split of
//! a chain sends at least s_min of them; and S splits use at most min(N, S+1) devices.

use std::time::Duration;

use divvy_core::costs::Profile;
use divvy_core::graph::{Graph, GraphSpec};
use divvy_core::hardware::{ClassSpec, Family, HardwareSpec};
use divvy_core::input_error::{Code, InputErrors};
use divvy_core::problem::{ConstraintsSpec, MemoryRule, Objective, Problem, uniform_hardware};
use divvy_core::units::Time;

use crate::budget::Budget;
use crate::one_device::baseline::Baseline;
use crate::outcome::Status;
use crate::request::Request;
use crate::solve::solve;

/// Operations per second of the devices in the problems solved, results being scaled: the first with which all times of
/// a network fit the clock. A faster one makes all times of a ratio shorter alike.
const DEVICE_RATES: [u64; 3] = [1_000_000_000_000, 1_000_000_000_000_000, 1_000_000_000_000_000_000];
/// Cells for each power of ten.
const PER_DECADE: i32 = 6;
/// The ends of the plane, as powers of ten: rates of devices and of links, as in the paper.
const RATES: (i32, i32) = (8, 11);
const LINKS: (i32, i32) = (6, 10);

/// The network and the limits.
#[derive(Clone, Debug)]
pub struct RegionQuestion {
    /// The network; every op needs its number of operations.
    pub graph: GraphSpec,
    /// The number of equal devices.
    pub devices: u32,
    /// The most device changes along the network.
    pub max_splits: u32,
    /// The time limit for one ratio.
    pub limit: Duration,
}

/// The result at one ratio.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AtRatio {
    /// Link rate by device rate, in bytes per operation.
    pub ratio: f64,
    /// The period in seconds, at one operation per second.
    pub period: f64,
    /// The period of one device.
    pub one_device: f64,
    /// Whether the period is proved or attested to be optimal.
    pub is_optimal: bool,
    /// Nodes of the search.
    pub effort: u64,
}

/// The sizes of a network that boundaries depend on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NetworkSizes {
    /// Operations of the whole network.
    pub work: f64,
    /// Bytes of the smallest tensor between ops.
    pub smallest_tensor: f64,
    /// Bytes of the smallest cut of the canonical order.
    pub smallest_cut: f64,
}

/// The region.
#[derive(Clone, Debug)]
pub struct Region {
    /// The sizes of the network.
    pub sizes: NetworkSizes,
    /// By ratio, ascending.
    pub ratios: Vec<AtRatio>,
    /// The number of equal devices.
    pub devices: u32,
    /// The most device changes along the network.
    pub max_splits: u32,
    /// The name of the network.
    pub name: String,
}

/// Equal devices of a rate, with a link of its own for each pair.
pub fn equal_devices(devices: u32, rate: u64, bandwidth: u64) -> HardwareSpec {
    let peak = [("fp32".to_owned(), rate)].into();
    uniform_hardware(
        devices,
        bandwidth,
        ClassSpec { peak, family: Some(Family::Full), ..ClassSpec::default() },
    )
}

/// The sizes of a network, or the name of an op without a number of operations.
pub fn sizes(graph: &Graph) -> Result<NetworkSizes, String> {
    let mut work = 0.0;
    for op in graph.ops() {
        work += graph.op(op).flops.ok_or_else(|| graph.op_name(op).to_owned())? as f64;
    }
    let moving =
        || graph.tensors().filter(|&t| graph.producer(t).is_some() && !graph.consumers(t).is_empty());
    let smallest_tensor = moving().map(|t| graph.tensor_bytes(t)).min().unwrap_or(0);
    let cut = |at: usize| {
        let crosses = |&t: &divvy_core::ids::TensorId| {
            let begins = graph.producer(t).is_some_and(|op| graph.position(op) < at);
            begins && graph.consumers(t).iter().any(|&op| graph.position(op) >= at)
        };
        moving().filter(crosses).map(|t| u128::from(graph.tensor_bytes(t))).sum::<u128>()
    };
    let smallest_cut = (1..graph.op_count()).map(cut).min().unwrap_or(0);
    Ok(NetworkSizes { work, smallest_tensor: smallest_tensor as f64, smallest_cut: smallest_cut as f64 })
}

/// Solves the problem of every ratio. `watch` gets the number done and the number of all, and returns false to stop.
pub fn region(
    question: &RegionQuestion,
    watch: &mut dyn FnMut(usize, usize) -> bool,
) -> Result<Region, String> {
    let graph = Graph::new(question.graph.clone()).map_err(|errors| errors.to_string())?;
    let sizes = sizes(&graph).map_err(|op| format!("`{op}` does not say how many operations it takes"))?;
    let steps = (LINKS.1 - LINKS.0 + RATES.1 - RATES.0) * PER_DECADE;
    let lowest = f64::from(LINKS.0 - RATES.1);
    let mut ratios = Vec::new();
    for step in 0..=steps {
        if !watch(step as usize, steps as usize + 1) {
            return Err("it was stopped".to_owned());
        }
        let ratio = 10f64.powf(lowest + f64::from(step) / f64::from(PER_DECADE));
        ratios.push(at_ratio(question, &graph, ratio)?);
    }
    Ok(Region {
        sizes,
        ratios,
        devices: question.devices,
        max_splits: question.max_splits,
        name: graph.name().to_owned(),
    })
}

fn at_ratio(question: &RegionQuestion, graph: &Graph, ratio: f64) -> Result<AtRatio, String> {
    let (rate, problem) = equal_devices_problem(question, graph, ratio)?;
    let solved = solve(&problem, &Request::default(), &Budget::new(question.limit), &mut |_| {})
        .map_err(|refused| refused.message)?;
    let value = solved.outcome.value().ok_or("nothing was found within the time")?;
    let Baseline::Device { value: one_device, .. } = solved.baseline else {
        return Err("no single device can run the network".to_owned());
    };
    let at_one = |time: Time| time.as_seconds() * rate as f64;
    Ok(AtRatio {
        ratio,
        period: at_one(value),
        one_device: at_one(one_device),
        is_optimal: solved.outcome.status() == Status::Optimal,
        effort: solved.outcome.nodes,
    })
}

/// The stream over equal devices at a ratio, and the rate of the devices.
fn equal_devices_problem(
    question: &RegionQuestion,
    graph: &Graph,
    ratio: f64,
) -> Result<(u64, Problem), String> {
    let constraints = ConstraintsSpec {
        max_splits: Some(question.max_splits),
        memory_rule: MemoryRule::Weights,
        ..ConstraintsSpec::default()
    };
    let mut refused = String::new();
    for rate in DEVICE_RATES {
        let bandwidth = (ratio * rate as f64).round().max(1.0) as u64;
        let hardware = equal_devices(question.devices, rate, bandwidth);
        let graph = graph.clone();
        match Problem::new(graph, &Profile::default(), hardware, &[], Objective::Stream, &constraints) {
            Ok(problem) => return Ok((rate, problem)),
            Err(errors) if is_too_long(&errors) => refused = errors.to_string(),
            Err(errors) => return Err(errors.to_string()),
        }
    }
    Err(refused)
}

/// Whether times that are too long for the clock are all that is wrong.
fn is_too_long(errors: &InputErrors) -> bool {
    errors.kept().iter().all(|error| error.code == Code::Horizon)
}

/// A boundary in the plane: a ratio of link rate to device rate.
#[derive(Clone, Debug, PartialEq)]
pub struct Boundary {
    /// Its meaning.
    pub name: String,
    /// Link rate by device rate, in bytes per operation.
    pub ratio: f64,
    /// Whether it is printed in the paper.
    pub from_paper: bool,
    /// Whether it is true: proved, or observed in the results.
    pub holds: bool,
}

impl Region {
    /// The boundaries by formula, and those observed in the results.
    pub fn boundaries(&self) -> Vec<Boundary> {
        let NetworkSizes { work, smallest_tensor, smallest_cut } = self.sizes;
        let (n, s) = (f64::from(self.devices), f64::from(self.max_splits));
        let line = |name: String, ratio: f64, from_paper, holds| Boundary { name, ratio, from_paper, holds };
        let mut all = vec![
            line(
                "(10) with the smallest tensor: no help left of it".into(),
                smallest_tensor / work,
                false,
                true,
            ),
            line("paper's (10), smallest cut".into(), smallest_cut / work, true, self.devices == 2),
            line(format!("paper's (9) at S = {s}, false as printed"), s * smallest_cut / work, true, false),
            line(
                format!("(9) corrected for chains, S = {s}"),
                s * smallest_tensor / (n * (n - 1.0) * work),
                false,
                true,
            ),
            line(
                "paper's (12), false as printed: links limit left of it".into(),
                n.min(s) * smallest_cut / work,
                true,
                false,
            ),
            line(
                "(12) corrected: links limit left of it".into(),
                n.min(s + 1.0) * smallest_tensor / work,
                false,
                true,
            ),
        ];
        let first = |name: &str, is: &dyn Fn(&AtRatio) -> bool| {
            let at = self.ratios.iter().find(|at| is(at))?;
            Some(line(name.to_owned(), at.ratio, false, true))
        };
        let shortest = self.ratios.iter().map(|at| at.period).fold(f64::INFINITY, f64::min);
        let most = self.ratios.iter().map(|at| at.effort).max().unwrap_or(0) as f64;
        all.extend(first("seen: splitting helps from here", &|at| at.period < at.one_device));
        all.extend(first("seen: faster links no longer help", &|at| at.period <= shortest * (1.0 + 1e-9)));
        all.extend(first("seen: most effort", &|at| at.effort as f64 >= 0.999 * most));
        all
    }

    /// The rates of links, and those of devices, ascending.
    pub fn axes(&self) -> (Vec<f64>, Vec<f64>) {
        let spread = |(low, high): (i32, i32)| -> Vec<f64> {
            let step = |i| 10f64.powf(f64::from(low) + f64::from(i) / f64::from(PER_DECADE));
            (0..=(high - low) * PER_DECADE).map(step).collect()
        };
        (spread(LINKS), spread(RATES))
    }

    /// The result of a cell, by the indices of its link and device rates on the axes.
    pub fn at(&self, link: usize, rate: usize) -> &AtRatio {
        let rates = ((RATES.1 - RATES.0) * PER_DECADE) as usize;
        &self.ratios[link + rates - rate]
    }
}

/// Whether splitting helps on given hardware, and how fast its links would have to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verdict {
    /// The period of the best single device over that of the best plan.
    pub speedup: f64,
    /// The largest factor on all bandwidths at which splitting was shown not to help.
    pub cannot_at: Option<f64>,
    /// The smallest factor on all bandwidths at which a plan was found that helps.
    pub helps_at: Option<f64>,
    /// The smallest factor that was looked at, where times with slower links are too long for the clock.
    pub slowest: Option<f64>,
    /// Bytes per second, if all links have the same bandwidth.
    pub bandwidth: Option<u64>,
}

/// The largest power of two by which bandwidths are scaled.
const FARTHEST: i32 = 40;
/// The steps of bisection.
const HALVINGS: u32 = 7;

/// Finds how fast links must be for splitting to help. Faster links never hurt, so there is one boundary: steps in powers of
/// two, then bisection.
pub fn verdict(problem: &Problem, limit: Duration) -> Result<Verdict, String> {
    let spec = problem.hardware.spec();
    let mut bandwidths: Vec<u64> = spec.links.iter().map(|link| link.bandwidth).collect();
    bandwidths.extend(spec.buses.iter().map(|bus| bus.bandwidth));
    bandwidths.sort_unstable();
    bandwidths.dedup();
    let bandwidth = if let [bandwidth] = bandwidths[..] { Some(bandwidth) } else { None };
    let mut verdict = Verdict { speedup: 1.0, cannot_at: None, helps_at: None, slowest: None, bandwidth };
    let now = decide(problem, limit)?;
    verdict.speedup = now.0;
    let mut step: i32 = match now.1 {
        Some(true) => -1,
        _ => 1,
    };
    let note = |factor: f64, helps: Option<bool>, verdict: &mut Verdict| match helps {
        Some(true) => {
            verdict.helps_at = Some(verdict.helps_at.map_or(factor, |known: f64| known.min(factor)));
        }
        Some(false) => {
            verdict.cannot_at = Some(verdict.cannot_at.map_or(factor, |known: f64| known.max(factor)));
        }
        None => {}
    };
    note(1.0, now.1, &mut verdict);
    let direction = step;
    while step.abs() <= FARTHEST && (verdict.helps_at.is_none() || verdict.cannot_at.is_none()) {
        let (factor, changed) = match with_links(problem, 2f64.powi(step))? {
            Some(changed) => (2f64.powi(step), changed),
            None => {
                let slowest = slowest_links(problem, step)?;
                verdict.slowest = Some(slowest.0);
                slowest
            }
        };
        note(factor, decide(&changed, limit)?.1, &mut verdict);
        if verdict.slowest.is_some() {
            break;
        }
        step += direction * step.abs();
    }
    for _ in 0..HALVINGS {
        let Some((low, high)) = verdict.cannot_at.zip(verdict.helps_at) else { break };
        let middle = (low * high).sqrt();
        let Some(changed) = with_links(problem, middle)? else { break };
        let helps = decide(&changed, limit)?.1;
        if helps.is_none() {
            break;
        }
        note(middle, helps, &mut verdict);
    }
    Ok(verdict)
}

/// The slowest links, in whole powers of two above `too_slow`, with which all times fit the clock.
fn slowest_links(problem: &Problem, too_slow: i32) -> Result<(f64, Problem), String> {
    let (mut too_slow, mut step, mut slowest) = (too_slow, 0, problem.clone());
    while step - too_slow > 1 {
        let middle = too_slow + (step - too_slow) / 2;
        match with_links(problem, 2f64.powi(middle))? {
            Some(changed) => (step, slowest) = (middle, changed),
            None => too_slow = middle,
        }
    }
    Ok((2f64.powi(step), slowest))
}

/// The problem with all bandwidths scaled by a factor; none where times become too long for the clock.
fn with_links(problem: &Problem, factor: f64) -> Result<Option<Problem>, String> {
    let spec = problem.to_spec();
    let mut hardware = problem.hardware.spec().clone();
    let scaled = |bandwidth: u64| (bandwidth as f64 * factor).round().clamp(1.0, 1e18) as u64;
    hardware.links.iter_mut().for_each(|link| link.bandwidth = scaled(link.bandwidth));
    hardware.buses.iter_mut().for_each(|bus| bus.bandwidth = scaled(bus.bandwidth));
    let changed = Problem::new(
        problem.graph.clone(),
        &spec.profile,
        hardware,
        &[],
        problem.objective,
        &spec.constraints,
    );
    match changed {
        Ok(changed) => Ok(Some(changed)),
        Err(errors) if is_too_long(&errors) => Ok(None),
        Err(errors) => Err(errors.to_string()),
    }
}

/// The speed-up, and whether splitting helps, if that is known.
fn decide(problem: &Problem, limit: Duration) -> Result<(f64, Option<bool>), String> {
    let solved = solve(problem, &Request::default(), &Budget::new(limit), &mut |_| {})
        .map_err(|refused| refused.message)?;
    let Baseline::Device { value: alone, .. } = solved.baseline else {
        return Err("no single device can run the network within its limits: splitting is needed".to_owned());
    };
    let value = solved.outcome.value().unwrap_or(alone);
    let speedup = alone.0 as f64 / value.0.max(1) as f64;
    let helps = match solved.outcome.status() {
        _ if value < alone => Some(true),
        Status::Optimal => Some(false),
        _ => None,
    };
    Ok((speedup, helps))
}

#[cfg(test)]
mod tests {
    use super::*;
    use divvy_core::graph::{OpSpec, TensorSpec};

    /// Two ops of 1000 operations each with 10 bytes between them.
    fn pair() -> GraphSpec {
        let op = |name: &str| OpSpec { name: name.into(), flops: Some(1000), ..OpSpec::default() };
        let tensor = TensorSpec {
            name: "t".into(),
            bytes: 10,
            producer: Some(0),
            consumers: vec![1],
            ..TensorSpec::default()
        };
        GraphSpec {
            name: "pair".into(),
            ops: vec![op("a"), op("b")],
            tensors: vec![tensor],
            ..GraphSpec::default()
        }
    }

    #[test]
    fn two_ops_pay_from_the_boundary_of_equation_10_on() {
        let question =
            RegionQuestion { graph: pair(), devices: 2, max_splits: 3, limit: Duration::from_secs(5) };
        let region = region(&question, &mut |_, _| true).unwrap();
        let boundary = region.sizes.smallest_tensor / region.sizes.work;
        assert!((boundary - 10.0 / 2000.0).abs() < 1e-12);
        for at in &region.ratios {
            assert!(at.is_optimal, "{at:?}");
            assert_eq!(at.period < at.one_device, at.ratio > boundary, "{at:?}");
        }
        let (links, rates) = region.axes();
        assert_eq!((links.len(), rates.len()), (25, 19));
        assert_eq!(region.at(0, 0).ratio, region.ratios[rates.len() - 1].ratio);
    }

    #[test]
    fn the_verdict_brackets_the_boundary() {
        // 2000 operations at 1e9 per second take 2 us on one device; 10 bytes in 2 us are 5 MB/s.
        let hardware = equal_devices(2, 1_000_000_000, 1_000_000);
        let graph = Graph::new(pair()).unwrap();
        let constraints = ConstraintsSpec::default();
        let problem =
            Problem::new(graph, &Profile::default(), hardware, &[], Objective::Stream, &constraints).unwrap();
        let verdict = verdict(&problem, Duration::from_secs(5)).unwrap();
        assert_eq!(verdict.bandwidth, Some(1_000_000));
        let (low, high) = (verdict.cannot_at.unwrap(), verdict.helps_at.unwrap());
        assert!(low <= 5.0 && 5.0 < high && high / low < 1.1, "{low} {high}");
    }

    /// The pair with so many bytes between the two, and an op that nothing holds to them.
    fn pair_and_one(bytes: u64) -> GraphSpec {
        let mut graph = pair();
        graph.tensors[0].bytes = bytes;
        graph.ops.push(OpSpec { name: "alone".into(), ..graph.ops[0].clone() });
        graph
    }

    #[test]
    fn links_are_slowed_only_as_far_as_the_clock_goes() {
        let hardware = equal_devices(2, 1_000_000_000, 1_000_000);
        let graph = Graph::new(pair_and_one(1_000_000_000)).unwrap();
        let constraints = ConstraintsSpec::default();
        let problem =
            Problem::new(graph, &Profile::default(), hardware, &[], Objective::Stream, &constraints).unwrap();
        let verdict = verdict(&problem, Duration::from_secs(5)).unwrap();
        // The op that stands alone runs beside the two whatever the links.
        assert_eq!((verdict.speedup, verdict.cannot_at), (1.5, None));
        let slowest = verdict.slowest.unwrap();
        assert_eq!(verdict.helps_at, Some(slowest));
        assert!(with_links(&problem, slowest / 2.0).unwrap().is_none(), "{slowest}");
    }

    #[test]
    fn large_tensors_have_a_region_too() {
        let graph = pair_and_one(100_000_000_000_000);
        let question = RegionQuestion { graph, devices: 2, max_splits: 3, limit: Duration::from_secs(5) };
        let region = region(&question, &mut |_, _| true).unwrap();
        let slowest = region.ratios[0];
        let rate =
            equal_devices_problem(&question, &Graph::new(question.graph.clone()).unwrap(), slowest.ratio);
        assert!(rate.unwrap().0 > DEVICE_RATES[0], "the first rate is enough, and tests nothing");
        for at in &region.ratios {
            assert!((at.one_device / at.period - 1.5).abs() < 1e-3, "{at:?}");
        }
    }
}
