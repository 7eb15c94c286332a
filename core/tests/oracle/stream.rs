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
    let mut copying = vec![0; model.devices];
    for (t, from, to) in model.transfers(&device_of) {
        let links = &model.ways[from][to].as_ref()?.links;
        for &link in links {
            crossing[link] += model.tensors[t].bytes;
        }
        for end in [from, to] {
            if let Some(width) = model.copy_widths[end].filter(|_| !links.is_empty()) {
                copying[end] += picoseconds(model.tensors[t].bytes, width);
            }
        }
    }
    let busiest_link =
        crossing.iter().zip(&model.link_widths).map(|(&bytes, &width)| picoseconds(bytes, width)).max();
    let load = |d: usize| -> Option<u64> {
        (0..model.ops).filter(|&op| device_of[op] == d).map(|op| model.time(op, d)).sum()
    };
    let loads: Vec<u64> = (0..model.devices).map(load).collect::<Option<_>>()?;
    loads.into_iter().zip(copying).map(|(work, copies)| work + copies).chain(busiest_link).max()
}
