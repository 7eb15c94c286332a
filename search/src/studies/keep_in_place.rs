//! Placements for changed devices that stay close to the old one: greedy repair, and greedy moves back.

use crate::stream::annealing::LoadedPlacement;
use crate::stream::tables::StreamTables;

/// Repairs a placement: units stay on their old device if they may run there; the others are placed one after the other, the
/// longest first, where the value grows least. None if the result is invalid.
pub(crate) fn repair(tables: &StreamTables, before: &[Option<u8>]) -> Option<Vec<u8>> {
    let (position, mut units) = (tables.positions(), tables.units());
    let may = |unit: &[usize], device: usize| unit.iter().all(|&op| tables.may_run(op, device));
    let time = |unit: &[usize], device: usize| unit.iter().map(|&op| tables.time(op, device)).sum::<u64>();
    let shortest = |unit: &[usize]| {
        let devices = (0..tables.devices).filter(|&device| may(unit, device));
        devices.min_by_key(|&device| time(unit, device))
    };
    let mut device_of = vec![0u8; tables.ops];
    let mut lost = Vec::new();
    units.sort_by_key(|unit| std::cmp::Reverse(shortest(unit).map(|device| time(unit, device))));
    for (u, unit) in units.iter().enumerate() {
        let same = before[unit[0]].filter(|&device| unit.iter().all(|&op| before[op] == Some(device)));
        let kept = same.map(usize::from).filter(|&device| may(unit, device));
        let device = kept.or_else(|| shortest(unit))?;
        unit.iter().for_each(|&op| device_of[op] = device as u8);
        if kept.is_none() {
            lost.push(u);
        }
    }
    let mut now = LoadedPlacement::new(tables, &position, &device_of);
    // Twice, since the first ones are placed while the others are not.
    for &u in lost.iter().chain(&lost) {
        let mut best: Option<(bool, u64, u8)> = None;
        for device in (0..tables.devices).filter(|&device| may(&units[u], device)) {
            units[u].iter().for_each(|&op| now.relocate(op, device as u8));
            let found = (!now.is_valid(), now.value(), device as u8);
            best = Some(best.map_or(found, |best| best.min(found)));
        }
        let (_, _, device) = best?;
        units[u].iter().for_each(|&op| now.relocate(op, device));
    }
    now.is_valid().then_some(now.device_of)
}

/// Moves units back to their old device, those with the most weights first, as long as the value stays within a limit.
pub(crate) fn keep_in_place(
    tables: &StreamTables,
    placement: &[u8],
    before: &[Option<u8>],
    weights: &[u64],
    limit: u64,
) -> Vec<u8> {
    let (position, mut units) = (tables.positions(), tables.units());
    units.sort_by_key(|unit| std::cmp::Reverse(unit.iter().map(|&op| weights[op]).sum::<u64>()));
    let mut now = LoadedPlacement::new(tables, &position, placement);
    let mut is_changed = true;
    while is_changed {
        is_changed = false;
        for unit in &units {
            let here = now.device_of[unit[0]];
            let Some(there) = before[unit[0]].filter(|&there| there != here) else { continue };
            if !unit.iter().all(|&op| tables.may_run(op, usize::from(there))) {
                continue;
            }
            unit.iter().for_each(|&op| now.relocate(op, there));
            if now.is_valid() && now.value() <= limit {
                is_changed = true;
            } else {
                unit.iter().for_each(|&op| now.relocate(op, here));
            }
        }
    }
    now.device_of
}
