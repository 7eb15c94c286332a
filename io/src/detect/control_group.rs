//! What a control group leaves of the machine, version 2 or 1.
//!
//! A group is limited by all groups above it too, as far as they are visible: in a container the first visible one
//! is the container's own.

use super::probe::Probe;

const ROOT: &str = "sys/fs/cgroup";

/// What the process may use; none where nothing limits it.
#[derive(Debug, Default, PartialEq)]
pub(super) struct ControlGroupLimits {
    /// Bytes.
    pub(super) memory: Option<u64>,
    /// Threads' worth of time.
    pub(super) threads: Option<f64>,
}

impl ControlGroupLimits {
    pub(super) fn read(probe: &Probe<'_>) -> ControlGroupLimits {
        let groups = probe.read("proc/self/cgroup").unwrap_or_default();
        let mut limits = ControlGroupLimits::default();
        for folder in folders(&groups, "", ROOT) {
            limits.lower_memory(probe.number(&format!("{folder}/memory.max")));
            limits.lower_threads(probe.line(&format!("{folder}/cpu.max")).and_then(|line| quota(&line)));
        }
        for folder in folders(&groups, "memory", &format!("{ROOT}/memory")) {
            limits.lower_memory(probe.number(&format!("{folder}/memory.limit_in_bytes")));
        }
        for folder in folders(&groups, "cpu", &format!("{ROOT}/cpu")) {
            let field = |name: &str| probe.line(&format!("{folder}/cpu.cfs_{name}_us"));
            let both = field("quota").zip(field("period"));
            limits.lower_threads(both.and_then(|(quota_us, period)| quota(&format!("{quota_us} {period}"))));
        }
        limits
    }

    fn lower_memory(&mut self, bytes: Option<u64>) {
        self.memory = [self.memory, bytes].into_iter().flatten().min();
    }

    fn lower_threads(&mut self, threads: Option<f64>) {
        self.threads = [self.threads, threads].into_iter().flatten().reduce(f64::min);
    }
}

/// The folder of the group that `/proc/self/cgroup` names for a controller (version 2 has one without a name), and
/// all those above it.
fn folders(groups: &str, controller: &str, top: &str) -> Vec<String> {
    let path = groups.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        controllers.split(',').any(|name| name == controller).then_some(path)
    });
    let mut folders = vec![top.to_owned()];
    let names = path.unwrap_or_default().split('/').filter(|name| !["", ".", ".."].contains(name));
    for name in names.take(64) {
        let above = folders.last().map_or("", String::as_str);
        folders.push(format!("{above}/{name}"));
    }
    folders
}

/// Threads from `QUOTA PERIOD` in microseconds; `max` and -1 are no limit.
fn quota(text: &str) -> Option<f64> {
    let (quota, period) = text.split_once(' ')?;
    let (quota, period) = (quota.parse::<u64>().ok()?, period.trim().parse::<u64>().ok()?);
    (quota > 0 && period > 0).then(|| quota as f64 / period as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas() {
        assert_eq!(quota("150000 100000"), Some(1.5));
        for none in ["max 100000", "-1 100000", "0 100000", "100000 0", "5", ""] {
            assert_eq!(quota(none), None, "{none}");
        }
    }

    #[test]
    fn groups_above_count_and_no_path_leaves_the_root() {
        let groups = "4:cpu,cpuacct:/a\n0::/b/../c\n";
        assert_eq!(folders(groups, "", "t"), ["t", "t/b", "t/b/c"]);
        assert_eq!(folders(groups, "cpu", "t"), ["t", "t/a"]);
        assert_eq!(folders(groups, "memory", "t"), ["t"]);
        assert_eq!(folders("garbage", "", "t"), ["t"]);
    }
}
