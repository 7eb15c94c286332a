//! First fit: each op, along the canonical order, on the device of the op before it, or else on the first that may take it.
//!
//! It gives a plan at once where memory is short and nothing else is known: devices are filled one after the other. Their
//! order is every one of few devices, else every rotation of those with most memory first. O(ops × devices) for each.

use crate::stream::partial_placement::PartialPlacement;
use crate::stream::tables::StreamTables;

/// The most devices whose every order is tried.
const FEW: usize = 4;

/// The best placement found; none if no order of the devices gives one.
pub(crate) fn first_fit(tables: &StreamTables, is_over: &mut dyn FnMut() -> bool) -> Option<Vec<u8>> {
    let empty = PartialPlacement::empty(tables)?;
    let mut best: Option<(u64, Vec<u8>)> = None;
    for order in orders(&tables.memory_limits) {
        if is_over() {
            break;
        }
        let placed = fill(tables, &empty, &order).filter(|placed| placed.is_plan(tables));
        best = best.into_iter().chain(placed.map(|placed| (placed.value(tables), placed.device_of))).min();
    }
    best.map(|(_, device_of)| device_of)
}

fn orders(memory_limits: &[Option<u64>]) -> Vec<Vec<usize>> {
    let mut devices: Vec<usize> = (0..memory_limits.len()).collect();
    devices.sort_by_key(|&device| std::cmp::Reverse(memory_limits[device].unwrap_or(u64::MAX)));
    if devices.len() > FEW {
        return (0..devices.len()).map(|by| [&devices[by..], &devices[..by]].concat()).collect();
    }
    let mut orders = vec![Vec::new()];
    for device in devices {
        let longer = |order: &Vec<usize>| {
            let at = 0..=order.len();
            at.map(|at| [&order[..at], &[device], &order[at..]].concat()).collect::<Vec<_>>()
        };
        orders = orders.iter().flat_map(longer).collect();
    }
    orders
}

fn fill(tables: &StreamTables, empty: &PartialPlacement, order: &[usize]) -> Option<PartialPlacement> {
    let mut placement = empty.clone();
    let mut device = *order.first()?;
    while placement.placed < tables.ops {
        let before = (placement.loads.clone(), placement.splits);
        let others = order.iter().copied().filter(|&other| other != device);
        device = std::iter::once(device).chain(others).find(|&device| {
            let fits = placement.place(tables, device);
            if !fits {
                (placement.loads, placement.splits) = before.clone();
            }
            fits
        })?;
    }
    Some(placement)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_of_few_devices() {
        let counts = [1, 2, 3, 4, 6].map(|devices| orders(&vec![None; devices]).len());
        assert_eq!(counts, [1, 2, 6, 24, 6]);
        assert_eq!(orders(&[Some(1), None, Some(2)]).len(), 6);
        let most_first = orders(&[Some(1), Some(3), Some(2), Some(4), Some(5)]);
        assert_eq!(most_first[0], [4, 3, 1, 2, 0]);
    }
}
