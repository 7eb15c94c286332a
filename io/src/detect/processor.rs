//! The processor of this machine: threads, cores, clocks, vector width, caches.
//!
//! Read from `/proc/cpuinfo` and `/sys/devices/system/cpu`. What cannot be found stays none. Only threads that this
//! process may use count.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::probe::Probe;

/// The most threads that are looked at.
const MOST_THREADS: usize = 1 << 14;

const CPUS: &str = "sys/devices/system/cpu";

/// A hardware thread.
pub(super) struct Thread {
    /// Its number.
    pub(super) number: u32,
    /// Package and core that it is part of.
    core: (u64, u64),
    /// Its clock in kHz.
    clock: Option<u64>,
}

/// What is known of the processor.
pub(super) struct Processor {
    /// Model name.
    pub(super) model: Option<String>,
    /// Threads that may be used, by number.
    pub(super) threads: Vec<Thread>,
    /// fp32 operations per cycle and core, and the instructions they are by.
    pub(super) vector: Option<(u32, &'static str)>,
    /// Which clock was found.
    pub(super) clock: Option<&'static str>,
    /// Caches of the first core.
    pub(super) caches: Vec<String>,
    /// Whether anything said which threads there are.
    pub(super) is_known: bool,
}

impl Processor {
    pub(super) fn read(probe: &Probe<'_>) -> Processor {
        let info = probe.read("proc/cpuinfo").unwrap_or_default();
        let blocks = blocks(&info);
        let common = |keys: &[&str]| {
            keys.iter().find_map(|key| blocks.iter().find_map(|block| block.get(key).copied()))
        };
        let online = probe.line(&format!("{CPUS}/online")).map_or(Vec::new(), |text| list(&text));
        let is_known = !online.is_empty() || !blocks.is_empty();
        let mut numbers = match online {
            _ if !online.is_empty() => online,
            _ if !blocks.is_empty() => (0..blocks.len() as u32).collect(),
            _ => (0..probe.parallelism.min(MOST_THREADS as u32)).collect(),
        };
        let allowed: BTreeSet<u32> = allowed(probe).into_iter().collect();
        if numbers.iter().any(|number| allowed.contains(number)) {
            numbers.retain(|number| allowed.contains(number));
        }
        let model = common(&["model name", "Model", "Processor", "cpu model", "cpu"]).map(str::to_owned);
        // Base clocks first: what all cores hold together is what counts.
        let named = model.as_deref().and_then(clock_in_name);
        let current = common(&["cpu MHz"]).and_then(|mhz| mhz.parse::<f64>().ok());
        let current = current.filter(|mhz| (1.0..1e5).contains(mhz)).map(|mhz| (mhz * 1e3) as u64);
        let own = |number: u32, file: &str| {
            probe
                .number(&format!("{CPUS}/cpu{number}/cpufreq/{file}"))
                .filter(|khz| (1..100_000_000).contains(khz))
        };
        let first = numbers.first().copied().unwrap_or(0);
        let clock = match () {
            () if own(first, "base_frequency").is_some() => Some("base clock"),
            () if named.is_some() => Some("clock in its name"),
            () if own(first, "cpuinfo_max_freq").is_some() => Some("highest clock"),
            () if current.is_some() => Some("clock when asked"),
            () => None,
        };
        let clock_of = |number: u32| match clock? {
            "base clock" => own(number, "base_frequency").or_else(|| own(first, "base_frequency")),
            "clock in its name" => named,
            "highest clock" => own(number, "cpuinfo_max_freq").or_else(|| own(first, "cpuinfo_max_freq")),
            _ => current,
        };
        let by_number: HashMap<u32, &BTreeMap<&str, &str>> =
            blocks.iter().filter_map(|block| Some((block.get("processor")?.parse().ok()?, block))).collect();
        let thread = |&number: &u32| {
            let topology = |file: &str| probe.number(&format!("{CPUS}/cpu{number}/topology/{file}"));
            let told = |key: &str| by_number.get(&number)?.get(key)?.parse::<u64>().ok();
            let package = topology("physical_package_id").or_else(|| told("physical id")).unwrap_or(0);
            let core = topology("core_id").or_else(|| told("core id")).unwrap_or(u64::from(number));
            Thread { number, core: (package, core), clock: clock_of(number) }
        };
        Processor {
            threads: numbers.iter().map(thread).collect(),
            vector: common(&["flags", "Features"]).and_then(vector),
            caches: caches(probe, first),
            model,
            clock,
            is_known,
        }
    }

    /// The cores that some of the threads are of, each with its clock in kHz.
    pub(super) fn cores(threads: &[&Thread]) -> BTreeMap<(u64, u64), Option<u64>> {
        let mut cores = BTreeMap::new();
        for thread in threads {
            let clock: &mut Option<u64> = cores.entry(thread.core).or_default();
            *clock = thread.clock.max(*clock);
        }
        cores
    }
}

/// `key : value` lines of `/proc/cpuinfo`, one table for each thread.
fn blocks(info: &str) -> Vec<BTreeMap<&str, &str>> {
    let mut blocks: Vec<BTreeMap<&str, &str>> = Vec::new();
    for line in info.lines() {
        let Some((key, value)) = line.split_once(':') else { continue };
        let (key, value) = (key.trim(), value.trim());
        if key == "processor" && blocks.len() < MOST_THREADS {
            blocks.push(BTreeMap::new());
        }
        if let Some(block) = blocks.last_mut().filter(|_| !value.is_empty()) {
            block.entry(key).or_insert(value);
        }
    }
    blocks
}

/// Numbers written as `0-3,8`; what is not a number is skipped.
pub(super) fn list(text: &str) -> Vec<u32> {
    let mut numbers = Vec::new();
    for part in text.trim().split(',') {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        let (Ok(low), Ok(high)) = (low.trim().parse::<u32>(), high.trim().parse::<u32>()) else { continue };
        numbers.extend((low..=high).take(MOST_THREADS.saturating_sub(numbers.len())));
    }
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// The threads that this process may run on.
fn allowed(probe: &Probe<'_>) -> Vec<u32> {
    let status = probe.read("proc/self/status").unwrap_or_default();
    status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).map_or(Vec::new(), list)
}

/// kHz from a name such as `Intel(R) Xeon(R) Gold 6138 CPU @ 2.00GHz`.
fn clock_in_name(model: &str) -> Option<u64> {
    let ghz: f64 = model.rsplit_once('@')?.1.trim().strip_suffix("GHz")?.trim().parse().ok()?;
    (0.01..100.0).contains(&ghz).then_some((ghz * 1e6).round() as u64)
}

/// fp32 operations per cycle and core by the widest instructions: lanes × multiply and add × units.
fn vector(flags: &str) -> Option<(u32, &'static str)> {
    let flags: BTreeSet<&str> = flags.split_whitespace().collect();
    let has = |flag: &str| flags.contains(flag);
    match () {
        () if has("avx512f") => Some((64, "AVX-512, two units")),
        () if has("avx2") && has("fma") => Some((32, "AVX2 with FMA")),
        () if has("avx") => Some((16, "AVX")),
        () if has("sse") || has("sse2") => Some((8, "SSE")),
        () if has("asimd") || has("neon") => Some((16, "NEON")),
        () => None,
    }
}

fn caches(probe: &Probe<'_>, cpu: u32) -> Vec<String> {
    let folder = format!("{CPUS}/cpu{cpu}/cache");
    let cache = |index: u32| {
        let field =
            |name: &str| probe.line(&format!("{folder}/index{index}/{name}")).filter(|s| s.len() < 32);
        let size = field("size")?.replace('K', " KiB").replace('M', " MiB");
        let kind = match field("type")?.as_str() {
            "Data" => " data",
            "Instruction" => " instruction",
            _ => "",
        };
        Some(format!("L{}{kind} {size}", field("level")?))
    };
    probe.numbered(&folder, "index").into_iter().take(16).filter_map(cache).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_numbers() {
        assert_eq!(list("0-3,8\n"), [0, 1, 2, 3, 8]);
        assert_eq!(list("7-5,x,,-"), [0; 0]);
        assert!(list("0-4294967295,0-4294967295").len() <= MOST_THREADS);
    }

    #[test]
    fn clocks_and_vectors() {
        assert_eq!(clock_in_name("Intel(R) Xeon(R) Gold 6138 CPU @ 2.00GHz"), Some(2_000_000));
        assert_eq!(clock_in_name("AMD EPYC 7742 64-Core Processor"), None);
        assert_eq!(clock_in_name("odd @ -3GHz"), None);
        assert_eq!(vector("sse sse2 avx avx2 fma").map(|v| v.0), Some(32));
        assert_eq!(vector("sse avx avx2").map(|v| v.0), Some(16));
        assert_eq!(vector("fp asimd evtstrm").map(|v| v.0), Some(16));
        assert_eq!(vector("fpu"), None);
    }
}
