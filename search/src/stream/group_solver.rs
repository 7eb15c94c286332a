//! Bounds by programs over groups of devices ([`GroupProgram`]): each device against all others, and every device by itself
//! where there are few.
//!
//! A program refutes a threshold or not; the largest one that it refutes is found by bisection between the bound so far and
//! the best value, which is tried first: what refutes everything below a plan proves it optimal. Once all programs are
//! through, loads are kept in twice as many slots.

use divvy_core::ids::DeviceId;
use divvy_core::problem::Problem;
use divvy_core::units::Time;
use divvy_proof::stream::device_groups::{GroupProgram, MOST_GROUPS};
use divvy_proof::verify::Proven;

/// Slots at first, and at last.
const FIRST_SLOTS: u32 = 32;
const LAST_SLOTS: u32 = 4096;
/// A program is through with its slots when what is open is below this share of the bound.
const FINE: u64 = 2000;
/// At most so many devices are each tried against all others.
const MOST_ALONE: usize = 12;

/// One program, with the least threshold that it did not refute with the present slots.
struct Candidate<'p> {
    program: GroupProgram<'p>,
    open: u64,
    /// Whether it has too many labels for more slots.
    is_full: bool,
}

/// The programs, and how fine they are.
pub(crate) struct GroupSolver<'p> {
    candidates: Vec<Candidate<'p>>,
    slots: u32,
    next: usize,
    programs: u64,
}

impl<'p> GroupSolver<'p> {
    /// None with one device, and where too many tensors are alive at a time.
    pub(crate) fn new(problem: &'p Problem, weights: &[u64]) -> Option<GroupSolver<'p>> {
        let hardware = &problem.hardware;
        let devices: Vec<DeviceId> = hardware.devices().collect();
        let mut divisions: Vec<Vec<Vec<DeviceId>>> = Vec::new();
        let kinds = hardware.interchangeable();
        let first_of_kind = |device: &DeviceId| kinds.iter().all(|kind| !kind[1..].contains(device));
        for &device in devices.iter().filter(|device| first_of_kind(device)).take(MOST_ALONE) {
            if devices.len() > 1 {
                let rest = devices.iter().copied().filter(|&other| other != device).collect();
                divisions.push(vec![vec![device], rest]);
            }
        }
        // Of two devices, one against the other is the same twice.
        divisions.truncate(if devices.len() == 2 { 1 } else { usize::MAX });
        if (3..=MOST_GROUPS).contains(&devices.len()) {
            divisions.push(devices.iter().map(|&device| vec![device]).collect());
        }
        let weights: Vec<u64> = weights.iter().map(|&weight| weight.clamp(1, 1 << 30)).collect();
        let links = link_weights(problem);
        let candidate = |groups: &Vec<Vec<DeviceId>>| {
            let program = GroupProgram::new(problem, groups, &weights, &links).ok()?;
            Some(Candidate { program, open: u64::MAX, is_full: false })
        };
        let candidates: Vec<Candidate<'p>> = divisions.iter().filter_map(candidate).collect();
        (!candidates.is_empty()).then_some(GroupSolver {
            candidates,
            slots: FIRST_SLOTS,
            next: 0,
            programs: 0,
        })
    }

    /// Whether no program would refute more.
    pub(crate) fn is_through(&self) -> bool {
        self.slots > LAST_SLOTS || self.candidates.iter().all(|candidate| candidate.is_full)
    }

    /// The number of programs since the last call.
    pub(crate) fn take_programs(&mut self) -> u64 {
        std::mem::take(&mut self.programs)
    }

    /// Refutes thresholds from `low` to `high` by one candidate; the best proof, if any.
    pub(crate) fn raise(&mut self, low: u64, high: u64, stop: &mut dyn FnMut() -> bool) -> Option<Proven> {
        if self.next == self.candidates.len() {
            self.next = 0;
            self.slots *= 2;
            self.candidates.iter_mut().for_each(|candidate| candidate.open = u64::MAX);
        }
        let slots = self.slots;
        let candidate = &mut self.candidates[self.next];
        self.next += 1;
        if candidate.is_full {
            return None;
        }
        let mut best: Option<Proven> = None;
        let (mut low, mut tried) = (low.max(1), high);
        while low <= tried && tried < candidate.open && !stop() {
            self.programs += 1;
            match Proven::by_device_groups("device-groups", &candidate.program, Time(tried), slots, stop) {
                Ok(Some(proven)) => {
                    best = Some(proven);
                    low = tried + 1;
                }
                Ok(None) => candidate.open = tried,
                Err(_) => {
                    candidate.is_full = !stop();
                    return best;
                }
            }
            let top = candidate.open.min(high.saturating_add(1));
            if top.saturating_sub(low) <= low / FINE {
                break;
            }
            tried = u64::midpoint(low, top - 1);
        }
        best
    }
}

/// One for the link that is on all routes; else one for every link.
fn link_weights(problem: &Problem) -> Vec<u64> {
    let hardware = &problem.hardware;
    let pairs = hardware.devices().flat_map(|from| hardware.devices().map(move |to| (from, to)));
    let routes: Vec<_> = pairs
        .filter(|(from, to)| from != to)
        .filter_map(|(from, to)| hardware.route(from, to))
        .filter(|route| route.bandwidth.is_some())
        .collect();
    let shared = hardware.link_ids().find(|link| routes.iter().all(|route| route.links.contains(link)));
    hardware.link_ids().map(|link| u64::from(shared.is_none_or(|shared| shared == link))).collect()
}
