//! `stream` from its definition: sums of times per device, sums of bytes per link.

use divvy_core::ids::OpId;
use divvy_core::plan::StreamPlan;

use super::model::Model;
use super::routes::picoseconds;

pub(crate) fn score(model: &Model, plan: &StreamPlan) -> Option<u64> {
    let lists: Vec<_> =
        plan.device_of.iter().enumerate().map(|(op, d)| (d.index(), vec![OpId::new(op)])).collect();
    let device_of = model.placed(&lists)?;
    let changes = model.order.windows(2).filter(|pair| device_of[pair[0]] != device_of[pair[1]]).count();
    let (fewest, most) = model.splits;
    if !(fewest..=most).contains(&(changes as u32)) || !model.resident_fits(&device_of) {
        return None;
    }
    let mut crossing = vec![0; model.link_widths.len()];
    for (t, from, to) in model.transfers(&device_of) {
        for &link in &model.ways[from][to].as_ref()?.links {
            crossing[link] += model.tensors[t].bytes;
        }
    }
    let busiest_link =
        crossing.iter().zip(&model.link_widths).map(|(&bytes, &width)| picoseconds(bytes, width)).max();
    let load = |d: usize| -> Option<u64> {
        (0..model.ops).filter(|&op| device_of[op] == d).map(|op| model.time(op, d)).sum()
    };
    let loads: Vec<u64> = (0..model.devices).map(load).collect::<Option<_>>()?;
    loads.into_iter().chain(busiest_link).max()
}
