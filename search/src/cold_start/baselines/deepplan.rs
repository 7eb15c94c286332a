//! `deepplan`: one GPU computes, peers on other buses load a share of the weights and forward it (DeepPlan, EuroSys 2023, as
//! SortingHat compares with it): parallel transmission and direct host access, no model parallelism.
//!
//! For each device that may run all ops: one peer on each other bus, with a route that shares no medium with the device's own
//! route to host memory. The weights, in the order of need, are cut into one interval of equal bytes for each bus; the first
//! lands on the device itself, each other on a peer. An op reads in place if the extra time is less than half the time to load
//! what it reads, as it is for embeddings. Every number of peers is tried, with and without in-place reads.
//! O(devices × buses × ops).

use divvy_core::ids::DeviceId;
use divvy_core::problem::Problem;

use crate::budget::StopReason;
use crate::cold_start;
use crate::cold_start::choices::{Choices, PieceChoice};
use crate::cold_start::pieces::Pieces;
use crate::cold_start::to_plan;
use crate::planner::Planner;
use crate::run::Run;

pub(crate) struct DeepPlan;

impl Planner for DeepPlan {
    fn name(&self) -> &'static str {
        "deepplan"
    }

    fn about(&self) -> &'static str {
        "one GPU computes, peers on other buses forward parts of the weights, embeddings are read in place (DeepPlan)"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        cold_start::supports(problem)?;
        let pieces = Pieces::new(problem);
        let computes =
            |d: usize| pieces.has_bus[d] && pieces.pieces.iter().all(|piece| piece.devices.contains(&d));
        if (0..pieces.devices).any(computes) {
            Ok(())
        } else {
            Err("no device with a bus may run every op".to_owned())
        }
    }

    fn in_auto(&self) -> bool {
        false
    }

    fn plan(&self, run: &mut Run<'_>) -> StopReason {
        let pieces = Pieces::new(run.problem);
        let sequence = pieces.sequence();
        for device in (0..pieces.devices).filter(|&d| pieces.has_bus[d]) {
            if pieces.pieces.iter().any(|piece| !piece.devices.contains(&device)) {
                continue;
            }
            let peers = peers(run.problem, &pieces, device);
            for count in (0..=peers.len()).rev() {
                for in_place in [true, false] {
                    if run.budget.is_cancelled() {
                        return StopReason::Cancelled;
                    }
                    if run.budget.is_spent() && run.outcome().best.is_some() {
                        return StopReason::OutOfBudget;
                    }
                    let choices = choices(&pieces, &sequence, device, &peers[..count], in_place);
                    to_plan::offer(run, &pieces, &choices);
                }
            }
        }
        StopReason::Finished
    }
}

/// One peer for each other bus, the one with the widest route; the widest first.
fn peers(problem: &Problem, pieces: &Pieces, device: usize) -> Vec<usize> {
    let route = |peer: usize| problem.hardware.route(DeviceId::new(peer), DeviceId::new(device));
    let own = problem.hardware.host_route(DeviceId::new(device));
    let disjoint =
        |a: usize, b: usize| pieces.load_links[a].iter().all(|link| !pieces.load_links[b].contains(link));
    let direct = |&peer: &usize| {
        let through_host = route(peer).zip(own).is_none_or(|(route, own)| route.shares_medium(own));
        pieces.has_bus[peer] && disjoint(peer, device) && !through_host
    };
    let mut all: Vec<usize> = (0..pieces.devices).filter(|&peer| peer != device).filter(direct).collect();
    all.sort_by_key(|&peer| std::cmp::Reverse(route(peer).and_then(|route| route.bandwidth)));
    let mut chosen: Vec<usize> = Vec::new();
    for peer in all {
        if chosen.iter().all(|&other| disjoint(other, peer)) {
            chosen.push(peer);
        }
    }
    chosen
}

/// The decisions with these peers, and with in-place reads or without.
fn choices(pieces: &Pieces, sequence: &[usize], device: usize, peers: &[usize], in_place: bool) -> Choices {
    let load = |piece: usize| -> f64 {
        let piece = &pieces.pieces[piece];
        piece.first_bundles.iter().map(|&bundle| pieces.bundles[bundle].loads[device]).sum()
    };
    let reads = |piece: usize| {
        let longer = pieces.pieces[piece].in_place[device].map(|(longer, _)| longer);
        in_place && longer.is_some_and(|longer| 2.0 * longer < load(piece))
    };
    let mut landed = vec![false; pieces.bundles.len()];
    let mut bytes = |piece: usize| -> f64 {
        let piece = &pieces.pieces[piece];
        let mut sum = 0.0;
        for &bundle in piece.first_bundles.iter().chain(&piece.other_bundles) {
            sum +=
                if std::mem::replace(&mut landed[bundle], true) { 0.0 } else { pieces.bundles[bundle].bytes };
        }
        sum
    };
    let sizes: Vec<f64> =
        sequence.iter().map(|&piece| if reads(piece) { 0.0 } else { bytes(piece) }).collect();
    let interval = sizes.iter().sum::<f64>() / (peers.len() + 1) as f64;
    let own = PieceChoice { device: device as u16, via: device as u16, in_place: false };
    let mut by_piece = vec![own; sequence.len()];
    let mut before = 0.0;
    for (&piece, size) in sequence.iter().zip(sizes) {
        // A piece belongs to the interval in which its middle lies.
        let index = ((before + size / 2.0) / interval.max(1.0)) as usize;
        let via =
            if index == 0 || peers.is_empty() { device } else { peers[(index - 1).min(peers.len() - 1)] };
        by_piece[piece] = PieceChoice { device: device as u16, via: via as u16, in_place: reads(piece) };
        before += size;
    }
    Choices { sequence: sequence.to_vec(), by_piece }
}
