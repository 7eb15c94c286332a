//! Random evidence of every kind for a problem: all paths, all single ops, devices and links, some weights, some searches.

use divvy_core::ids::{DeviceId, LinkId, OpId};
use divvy_core::problem::Objective;
use divvy_core::rng::Rng;
use divvy_core::units::Time;
use divvy_proof::evidence::{
    CaseRegion, CaseTree, ChainStage, DevicePair, Evidence, ForcedPair, IntervalRow, PricedEdge, ProofStep,
    RowMultiple, WorkWindow,
};

use divvy_testing::oracle::model::Model;

/// Whatever evidence could be offered, sensible for the objective or not.
pub(crate) fn all(model: &Model, rng: &mut Rng) -> Vec<Evidence> {
    let mut all: Vec<Evidence> =
        chains(model).into_iter().map(|ops| Evidence::CriticalPath { ops }).collect();
    all.extend(OpId::all(model.ops).map(|op| Evidence::Op { op }));
    all.extend(DeviceId::all(model.devices).map(|device| Evidence::DeviceLoad { device }));
    all.extend(LinkId::all(model.link_widths.len()).map(|link| Evidence::LinkLoad { link }));
    all.extend(weights(model.devices, rng).into_iter().map(|weights| Evidence::Area { weights }));
    for weights in weights(model.link_widths.len(), rng) {
        let left = [0, rng.between(0, 8), rng.between(0, 40), rng.between(0, 100)];
        for left in left {
            let (mut shares, mut steps) = (Vec::new(), Vec::new());
            if let Evidence::FrontierSearch { weights, steps: searches } = frontier_search(model, rng)
                && rng.chance(0.3)
            {
                (shares, steps) = (weights, searches);
            }
            all.push(Evidence::LastLoads { weights: weights.clone(), left_ps: Time(left), shares, steps });
        }
    }
    for chain in chains(model) {
        let links = (0..model.link_widths.len()).map(|_| rng.between(0, 4)).collect();
        let (kernels, shared) = (rng.between(0, 4), rng.chance(0.5));
        all.push(Evidence::SegmentPrices { links, kernels, chain, shared });
    }
    all.extend((0..4).map(|_| frontier_search(model, rng)));
    all.extend((0..12).map(|_| interval_lp(model, rng)));
    all.extend((0..12).map(|_| colocation(model, rng)));
    all.extend((0..12).map(|_| division_lp(model, rng)));
    all.extend((0..24).map(|_| division_cases(model, rng)));
    all.extend((0..12).map(|_| chain_dp(model, rng)));
    all.extend((0..24).map(|_| link_prices(model, rng)));
    all.extend((0..24).map(|_| device_groups(model, rng)));
    all
}

/// Random weights, flows along edges, some with prices, windows between the ends of paths, and prices of memory; of a stream
/// weights and memory only.
fn division_lp(model: &Model, rng: &mut Rng) -> Evidence {
    let most = *rng.pick(&[0, 1, 4]);
    let weights = (0..model.devices).map(|_| rng.between(0, most)).collect();
    let chains = chains(model);
    let flows = flows(model, &chains, rng);
    let mut windows = Vec::new();
    for _ in 0..rng.below(4) {
        let chain = rng.pick(&chains);
        let (first, last) = (chain[0], chain[chain.len() - 1]);
        // A chain of one op has but one end in the network.
        let from = (chain.len() > 1 && rng.chance(0.7)).then_some(first);
        let to = rng.chance(0.7).then_some(last);
        let device = DeviceId(rng.below(model.devices) as u32);
        windows.push(WorkWindow { from, to, device, times: rng.between(0, 4) });
    }
    let is_priced = rng.chance(0.5);
    let dearest = *rng.pick(&[3, 1_000, 300_000]);
    let price =
        |device: usize, rng: &mut Rng| model.memory_limits[device].map_or(0, |_| rng.between(0, dearest));
    let memory = (0..if is_priced { model.devices } else { 0 }).map(|device| price(device, rng)).collect();
    let is_period = model.objective == Objective::Stream;
    let (flows, windows) = if is_period { (Vec::new(), Vec::new()) } else { (flows, windows) };
    Evidence::DivisionLp { weights, flows, windows, memory }
}

/// Some flows along chains of two ops.
fn flows(model: &Model, chains: &[Vec<OpId>], rng: &mut Rng) -> Vec<PricedEdge> {
    let edges: Vec<(OpId, OpId)> =
        chains.iter().filter(|chain| chain.len() == 2).map(|chain| (chain[0], chain[1])).collect();
    let sizes = model.batch_sizes_of_classes();
    let most_price = *rng.pick(&[2, 20, 1000]);
    let mut flows = Vec::new();
    for _ in 0..if edges.is_empty() { 0 } else { rng.below(5) } {
        let &(from, to) = rng.pick(&edges);
        let price = |rng: &mut Rng| rng.between(0, 2 * most_price) as i64 - most_price as i64;
        let prices = if rng.chance(0.7) { (0..sizes).map(|_| price(rng)).collect() } else { Vec::new() };
        flows.push(PricedEdge { from, to, times: rng.between(0, 4), prices });
    }
    flows
}

/// A random solution of the division LP, and one or two regions with a case tree, which often branches on whole ops.
fn division_cases(model: &Model, rng: &mut Rng) -> Evidence {
    let Evidence::DivisionLp { weights, flows, windows, .. } = division_lp(model, rng) else {
        unreachable!("it draws a division LP")
    };
    let cut = rng.below(model.ops + 1);
    let (first, second) = model.order.split_at(cut);
    let mut parts = Vec::new();
    for ops in [first, second] {
        if !ops.is_empty() && rng.chance(0.8) {
            let ops: Vec<OpId> = ops.iter().map(|&op| OpId::new(op)).collect();
            let inside = |chain: &&Vec<OpId>| chain.iter().all(|op| ops.contains(op));
            let chains: Vec<Vec<OpId>> = chains(model).iter().filter(inside).cloned().collect();
            let mut walk = Vec::new();
            case_tree(model, &ops, &chains, &mut Vec::new(), &mut Vec::new(), &mut walk, rng);
            parts.push(CaseRegion { ops, walk });
        }
    }
    Evidence::DivisionCases { weights, flows, windows, parts }
}

/// Appends a random case tree to a walk, given the ranges by op and class and the orders on the path from its root.
fn case_tree(
    model: &Model,
    ops: &[OpId],
    chains: &[Vec<OpId>],
    ranges: &mut Vec<(OpId, usize, u32, u32)>,
    turns: &mut Vec<(OpId, OpId)>,
    walk: &mut Vec<CaseTree>,
    rng: &mut Rng,
) {
    let inputs = if let Objective::Batch { inputs } = model.objective { inputs } else { 4 };
    let depth = ranges.len() + turns.len();
    if rng.chance(0.9 / (1.0 + depth as f64 / 3.0)) {
        let whole: Vec<(OpId, usize)> = ranges
            .iter()
            .filter(|range| range.2 == inputs && !ranges.iter().any(|r| r.0 == range.0 && r.3 < inputs))
            .map(|range| (range.0, range.1))
            .collect();
        let pair = whole.iter().flat_map(|a| whole.iter().map(move |b| (a, b)));
        let pairs: Vec<_> = pair.filter(|(a, b)| a.0 < b.0 && a.1 == b.1).collect();
        if !pairs.is_empty() && rng.chance(0.6) {
            let (first, second) = (rng.pick(&pairs).0.0, rng.pick(&pairs).1.0);
            if first != second {
                walk.push(CaseTree::Order { first, second });
                for turn in [(first, second), (second, first)] {
                    turns.push(turn);
                    case_tree(model, ops, chains, ranges, turns, walk, rng);
                    turns.pop();
                }
                return;
            }
        }
        let op = *rng.pick(ops);
        let class = model.class_of[rng.below(model.devices)];
        let least = if rng.chance(0.7) { inputs } else { rng.between(1, u64::from(inputs)) as u32 };
        if !ranges.iter().any(|range| (range.0, range.1) == (op, class)) {
            walk.push(CaseTree::Split { op, class, least });
            for range in [(op, class, least, inputs), (op, class, 0, least - 1)] {
                ranges.push(range);
                case_tree(model, ops, chains, ranges, turns, walk, rng);
                ranges.pop();
            }
            return;
        }
    }
    let windows = (0..if chains.is_empty() { 0 } else { rng.below(4) }).filter_map(|_| {
        let chain = rng.pick(chains);
        let (from, to) = (Some(chain[0]), Some(chain[chain.len() - 1]));
        let device = DeviceId(rng.below(model.devices) as u32);
        let times = rng.between(0, 4);
        (chain.len() > 1).then_some(WorkWindow { from, to, device, times })
    });
    let windows = windows.collect();
    let turns = turns.iter().map(|&(from, to)| DevicePair { from, to, times: rng.between(0, 4) }).collect();
    walk.push(CaseTree::Priced { flows: flows(model, chains, rng), windows, turns });
}

/// A random chain, some of whose ops form a branch, with other paths between the same two ops beside them.
fn chain_dp(model: &Model, rng: &mut Rng) -> Evidence {
    let chains = chains(model);
    let chain = rng.pick(&chains).clone();
    let list = |rng: &mut Rng| (0..model.devices).map(|_| rng.between(0, 3)).collect::<Vec<u64>>();
    let mut stages: Vec<ChainStage> = Vec::new();
    let mut passed: Vec<OpId> = Vec::new();
    let mut used = chain.clone();
    for (place, &op) in chain.iter().enumerate() {
        let is_last = place + 1 == chain.len();
        if !stages.is_empty() && !is_last && rng.chance(0.4) {
            passed.push(op);
            continue;
        }
        let mut branches = vec![std::mem::take(&mut passed)];
        if let Some(before) = stages.last().map(|stage| stage.op) {
            for other in chains.iter().filter(|other| other.len() > 2) {
                let inside = &other[1..other.len() - 1];
                let joins = other[0] == before && other[other.len() - 1] == op;
                if joins && inside.iter().all(|op| !used.contains(op)) && rng.chance(0.8) {
                    used.extend(inside);
                    branches.push(inside.to_vec());
                }
            }
        } else {
            branches.clear();
        }
        let (shares, lists) = (list(rng), rng.below(4).saturating_sub(1));
        let weights = (0..lists).map(|_| list(rng)).collect();
        stages.push(ChainStage { op, branches, shares, weights });
    }
    let most = *rng.pick(&[40, 400, 1 << 40]);
    let limit_ps = Time(rng.between(1, most));
    let shares = if rng.chance(0.3) { Vec::new() } else { list(rng) };
    Evidence::ChainDp { stages, limit_ps, width: *rng.pick(&[1, 2, 5, 100]), shares }
}

/// Random unions at a random threshold, few enough that some hold.
fn colocation(model: &Model, rng: &mut Rng) -> Evidence {
    let op = |rng: &mut Rng| OpId(rng.below(model.ops) as u32);
    let unions = (0..rng.below(3))
        .map(|_| ForcedPair { one: op(rng), other: op(rng), by_cut: rng.chance(0.5) })
        .collect();
    let most = *rng.pick(&[1, 3, 10]);
    let weights = (0..model.devices).map(|_| rng.between(0, most)).collect();
    Evidence::Colocation {
        threshold_ps: Time(rng.between(0, 40)),
        unions,
        weights,
        rounding: rng.below(5) as u32,
    }
}

/// Random prices at a random threshold, with one link that counts or several.
fn link_prices(model: &Model, rng: &mut Rng) -> Evidence {
    let links = model.link_widths.len();
    let one = rng.below(links.max(1));
    let is_one = rng.chance(0.5);
    let weights = (0..links).map(|link| if is_one { u64::from(link == one) } else { rng.between(0, 3) });
    let weights = weights.collect();
    let most = *rng.pick(&[5, 100, 2000]);
    let prices = (0..model.ops).map(|_| rng.between(0, most) as i64 - (most / 10) as i64).collect();
    Evidence::LinkPrices { threshold_ps: Time(rng.between(0, 40)), weights, prices }
}

/// A random division of the devices with random weights, at a random threshold, as coarse as it may be or not.
fn device_groups(model: &Model, rng: &mut Rng) -> Evidence {
    let count = 2 + rng.below(3);
    let mut groups = vec![Vec::new(); count];
    for device in 0..model.devices {
        groups[rng.below(count)].push(DeviceId(device as u32));
    }
    groups.retain(|group: &Vec<DeviceId>| !group.is_empty());
    let most = *rng.pick(&[1, 3, 1000]);
    let weights = (0..model.devices).map(|_| rng.between(0, most)).collect();
    let links = (0..model.link_widths.len()).map(|_| rng.between(0, 2)).collect();
    let slots = 1 << rng.below(13);
    Evidence::DeviceGroups { threshold_ps: Time(rng.between(0, 60)), groups, weights, links, slots }
}

/// A random sequence of frontier searches, narrow and often incomplete.
fn frontier_search(model: &Model, rng: &mut Rng) -> Evidence {
    let lists = rng.below(3);
    let weights = (0..lists).map(|_| (0..model.devices).map(|_| rng.between(0, 5)).collect()).collect();
    let mut step = |_| {
        let most = 1 << rng.between(1, 60);
        let (width, limit_ps) = (rng.between(1, 6) as u32, Time(rng.between(0, most)));
        if rng.chance(0.5) {
            let (window, ops) = (rng.between(0, 5) as u32, rng.between(0, 6) as u32);
            ProofStep::Tails { window, width, limit_ps, ops }
        } else {
            ProofStep::Whole { width, limit_ps, levels: rng.between(0, 6) as u32 }
        }
    };
    let steps = (0..3).map(&mut step).collect();
    Evidence::FrontierSearch { weights, steps }
}

/// Random rows of the interval LP with random multipliers, and tails so that no start keeps a positive factor.
pub(crate) fn interval_lp(model: &Model, rng: &mut Rng) -> Evidence {
    let chains = chains(model);
    let device = |rng: &mut Rng| DeviceId(rng.below(model.devices) as u32);
    let most_price = *rng.pick(&[3, 1000, 1 << 45]);
    let mut rows = Vec::new();
    for _ in 0..rng.between(1, 8) {
        let chain = rng.pick(&chains);
        let (first, last) = (chain[0], chain[chain.len() - 1]);
        let row = match rng.below(6) {
            0 => IntervalRow::Head { op: first },
            1 => IntervalRow::Tail { op: first },
            2 => IntervalRow::Between {
                from: None,
                to: Some(first).filter(|_| rng.chance(0.5)),
                device: device(rng),
            },
            3 => IntervalRow::Between { from: Some(first), to: None, device: device(rng) },
            4 if first != last => {
                IntervalRow::Between { from: Some(first), to: Some(last), device: device(rng) }
            }
            _ if first != last => {
                let prices = (0..model.devices).map(|_| rng.between(0, most_price)).collect();
                IntervalRow::Gap { from: first, to: last, prices }
            }
            _ => IntervalRow::Tail { op: last },
        };
        rows.push(RowMultiple { times: rng.between(0, 5), row });
    }
    let mut left = vec![0i64; model.ops];
    for RowMultiple { times, row } in &rows {
        let (earlier, later) = match row {
            IntervalRow::Head { op } => (None, Some(*op)),
            IntervalRow::Tail { op } => (Some(*op), None),
            IntervalRow::Between { from, to, .. } => (*from, *to),
            IntervalRow::Gap { from, to, .. } => (Some(*from), Some(*to)),
        };
        left[later.map_or(0, OpId::index)] += later.map_or(0, |_| *times as i64);
        left[earlier.map_or(0, OpId::index)] -= earlier.map_or(0, |_| *times as i64);
    }
    let with_heads = rng.chance(0.7);
    for (op, left) in OpId::all(model.ops).zip(left) {
        let row = if left > 0 { IntervalRow::Tail { op } } else { IntervalRow::Head { op } };
        if left > 0 || with_heads {
            rows.push(RowMultiple { times: left.unsigned_abs(), row });
        }
    }
    let weights =
        (0..rng.below(3)).map(|_| (0..model.devices).map(|_| rng.between(0, 9)).collect()).collect();
    let step = ProofStep::Tails { window: 2, width: 2, limit_ps: Time(1 << 60), ops: 2 };
    Evidence::IntervalLp { weights, steps: if rng.chance(0.3) { vec![step] } else { Vec::new() }, rows }
}

/// Every path of the graph.
pub(crate) fn chains(model: &Model) -> Vec<Vec<OpId>> {
    let joined =
        |a: usize, b: usize| model.tensors.iter().any(|t| t.maker == Some(a) && t.readers.contains(&b));
    let mut chains: Vec<Vec<OpId>> = OpId::all(model.ops).map(|op| vec![op]).collect();
    let mut next = 0;
    while let Some(chain) = chains.get(next).cloned() {
        let last = chain[chain.len() - 1].index();
        for op in OpId::all(model.ops).filter(|op| joined(last, op.index())) {
            chains.push([&chain[..], &[op]].concat());
        }
        next += 1;
    }
    chains
}

/// Unit vectors, all ones, and a few random vectors.
fn weights(count: usize, rng: &mut Rng) -> Vec<Vec<u64>> {
    let mut vectors: Vec<Vec<u64>> =
        (0..count).map(|i| (0..count).map(|j| u64::from(i == j)).collect()).collect();
    vectors.push(vec![1; count]);
    for most in [2, 5, 1 << 32] {
        vectors.push((0..count).map(|_| rng.between(0, most)).collect());
    }
    vectors
}
