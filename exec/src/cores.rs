//! Sets of CPU cores, and threads pinned to them.

use std::fmt;
use std::str::FromStr;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Some cores of this machine, by the numbers that the system gives them; ascending, each once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cores(Vec<usize>);

impl Cores {
    /// The cores that this process may use.
    pub fn allowed() -> Cores {
        let set = sched_getaffinity(None);
        let cores = |set: CpuSet| (0..CpuSet::MAX_CPU).filter(|&core| set.is_set(core)).collect();
        Cores(set.map_or_else(|_| vec![0], cores))
    }

    /// Those that are in any of some sets.
    pub fn all_of<'a>(sets: impl Iterator<Item = &'a Cores>) -> Cores {
        let mut all: Vec<usize> = sets.flat_map(|set| set.0.iter().copied()).collect();
        all.sort_unstable();
        all.dedup();
        Cores(all)
    }

    /// How many.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Whether all of them may be used.
    pub fn are_within(&self, allowed: &Cores) -> bool {
        self.0.iter().all(|core| allowed.0.contains(core))
    }

    /// Whether a core is in both.
    pub fn overlap(&self, other: &Cores) -> bool {
        self.0.iter().any(|core| other.0.contains(core))
    }

    /// The first of them, alone.
    pub fn first(&self) -> Cores {
        Cores(self.0.iter().take(1).copied().collect())
    }

    /// The last of them, alone.
    pub fn last(&self) -> Cores {
        Cores(self.0.last().copied().into_iter().collect())
    }

    /// Those after the first.
    pub fn others(&self) -> impl Iterator<Item = usize> {
        self.0.iter().skip(1).copied()
    }

    /// Does something that may pin the calling thread, and lets it use the cores that it could use before.
    pub(crate) fn back_after<Result>(work: impl FnOnce() -> Result) -> Result {
        let before = sched_getaffinity(None);
        let result = work();
        if let Ok(before) = before {
            let _ = sched_setaffinity(None, &before);
        }
        result
    }

    /// Divides them into `parts` runs of nearly equal length; with fewer cores than parts, parts share cores.
    pub fn divided(&self, parts: usize) -> Vec<Cores> {
        let count = self.count();
        let part = |i: usize| {
            if count < parts {
                return Cores(vec![self.0[i % count]]);
            }
            Cores(self.0[i * count / parts..(i + 1) * count / parts].to_vec())
        };
        (0..parts).map(part).collect()
    }

    /// Pins the calling thread, and those that it will start, to these cores.
    pub fn pin_this_thread(&self) -> std::io::Result<()> {
        let mut set = CpuSet::new();
        for &core in &self.0 {
            set.set(core);
        }
        Ok(sched_setaffinity(None, &set)?)
    }
}

impl fmt::Display for Cores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list: Vec<String> = self.0.iter().map(usize::to_string).collect();
        f.write_str(&list.join(","))
    }
}

impl FromStr for Cores {
    type Err = String;

    /// Reads `0`, `0-3` or `0,2-4`.
    fn from_str(text: &str) -> Result<Cores, String> {
        let fault = || format!("`{text}` is not a list of cores; write 0, 0-3 or 0,2-4, say");
        let mut cores = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (first.trim().parse::<usize>(), last.trim().parse::<usize>());
            match (first, last) {
                (Ok(first), Ok(last)) if first <= last && last < CpuSet::MAX_CPU => {
                    cores.extend(first..=last);
                }
                _ => return Err(fault()),
            }
        }
        cores.sort_unstable();
        cores.dedup();
        Ok(Cores(cores))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_divided() {
        let cores: Cores = "0,2-4".parse().unwrap();
        assert_eq!(cores.to_string(), "0,2,3,4");
        let parts: Vec<String> = cores.divided(2).iter().map(Cores::to_string).collect();
        assert_eq!(parts, ["0,2", "3,4"]);
        assert_eq!(cores.divided(5)[4].to_string(), "0", "cores are shared if there are too few");
        assert_eq!(Cores::all_of(cores.divided(3).iter().chain([&cores])), cores);
        assert!("3-1".parse::<Cores>().is_err() && "x".parse::<Cores>().is_err());
        assert!("99999999".parse::<Cores>().is_err());
    }

    #[test]
    fn a_pinned_thread_may_use_its_cores_only() {
        let first = Cores::allowed().divided(Cores::allowed().count())[0].clone();
        let pinned = std::thread::spawn(move || {
            first.pin_this_thread().unwrap();
            (Cores::allowed(), first)
        });
        let (now, wanted) = pinned.join().unwrap();
        assert_eq!(now, wanted);
    }
}
