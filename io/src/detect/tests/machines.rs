//! Made-up `/proc` and `/sys` folders.

use std::path::{Path, PathBuf};

use divvy_core::hardware::HardwareSpec;

use super::super::machine::detect;
use super::super::probe::{Answer, NoAnswer, Probe};
use super::super::{Detected, assumptions, gaps, this_machine};
use super::sound;

/// A folder that is gone after the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str, files: &[(String, String)]) -> Folder {
        let root = std::env::temp_dir().join(format!("divvy-detect-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&root).unwrap();
        for (path, text) in files {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).unwrap();
            std::fs::write(path, text).unwrap();
        }
        Folder(root)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn no_program(_: &str, _: &[&str]) -> Answer {
    Err(NoAnswer::Absent)
}

fn detected(name: &str, files: &[(String, String)], run: &dyn Fn(&str, &[&str]) -> Answer) -> Detected {
    let folder = Folder::new(name, files);
    let copy_rate = &|threads: u32| Some(10_000_000_000 * u64::from(threads));
    let probe = Probe { root: folder.0.clone(), run, copy_rate, parallelism: 6 };
    let found = detect(&probe, None);
    sound(&found.spec, name);
    found
}

fn file(path: impl Into<String>, text: impl Into<String>) -> (String, String) {
    (path.into(), text.into() + "\n")
}

/// `/proc/cpuinfo` of `threads` threads.
fn cpuinfo(threads: u32, rest: &str) -> (String, String) {
    file("proc/cpuinfo", (0..threads).map(|i| format!("processor\t: {i}\n{rest}\n\n")).collect::<String>())
}

/// Two packages of 28 cores, 112 threads, one NUMA node each.
fn server() -> Vec<(String, String)> {
    let cpus = "sys/devices/system/cpu";
    let nodes = "sys/devices/system/node";
    let xeon = "model name\t: Intel(R) Xeon(R) Platinum 8280 CPU @ 2.70GHz\ncpu MHz\t\t: 3301.224\n\
                flags\t\t: fpu sse sse2 avx avx2 fma avx512f avx512dq";
    let mut files = vec![
        cpuinfo(112, xeon),
        file("proc/meminfo", "MemTotal:       395938152 kB\nMemFree:        1 kB"),
        file("proc/self/status", "Name:\tdivvy\nCpus_allowed_list:\t0-111"),
        file("proc/self/cgroup", "0::/user.slice"),
        file(format!("{cpus}/online"), "0-111"),
        file(format!("{nodes}/node0/cpulist"), "0-27,56-83"),
        file(format!("{nodes}/node0/meminfo"), "Node 0 MemTotal:       197836212 kB"),
        file(format!("{nodes}/node1/cpulist"), "28-55,84-111"),
        file(format!("{nodes}/node1/meminfo"), "Node 1 MemTotal:       198101940 kB"),
        // Memory without threads.
        file(format!("{nodes}/node2/cpulist"), ""),
        file(format!("{nodes}/node2/meminfo"), "Node 2 MemTotal:       500000000 kB"),
    ];
    for cpu in 0..112 {
        let folder = format!("{cpus}/cpu{cpu}");
        files.push(file(format!("{folder}/topology/physical_package_id"), (cpu % 56 / 28).to_string()));
        files.push(file(format!("{folder}/topology/core_id"), (cpu % 28).to_string()));
    }
    for (index, level, kind, size) in [
        (0, 1, "Data", "32K"),
        (1, 1, "Instruction", "32K"),
        (2, 2, "Unified", "1024K"),
        (3, 3, "Unified", "39424K"),
    ] {
        let folder = format!("{cpus}/cpu0/cache/index{index}");
        files.push(file(format!("{folder}/level"), level.to_string()));
        files.push(file(format!("{folder}/type"), kind));
        files.push(file(format!("{folder}/size"), size));
    }
    files
}

#[test]
fn a_server_with_two_numa_nodes() {
    let found = detected("server", &server(), &no_program);
    let spec = &found.spec;
    assert_eq!(found.not_found, [""; 0]);
    let names: Vec<&str> = spec.nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, ["numa0", "numa1"]);
    assert_eq!(spec.nodes[0].memory, Some(202_500_000_000));
    assert_eq!(spec.classes.len(), 1, "both are equal");
    assert_eq!(spec.classes[0].name, "intel-xeon-platinum-8280-28c");
    // 28 cores x 2.7 GHz x 64.
    assert_eq!(spec.classes[0].peak["fp32"], 4_840_000_000_000);
    assert!(spec.classes[0].source.contains("an estimate"), "{}", spec.classes[0].source);
    assert_eq!(spec.classes[0].fast_memory, None);
    assert!(spec.description.contains("56 cores, 112 threads, 2 NUMA nodes"), "{}", spec.description);
    assert!(spec.description.contains("L2 1024 KiB, L3 39424 KiB"), "{}", spec.description);
    assert_eq!(spec.links.len(), 1);
    assert_eq!(assumptions(spec).count(), 2, "the peak, the link between the nodes");
    assert_eq!(gaps(spec).len(), 0, "memory bandwidth is measured");
}

#[test]
fn a_server_with_gpus() {
    let mut files = server();
    for (bus, node) in [("3b", 0), ("5e", 0), ("af", 1), ("d8", 1)] {
        let folder = format!("sys/bus/pci/devices/0000:{bus}:00.0");
        files.push(file(format!("{folder}/numa_node"), node.to_string()));
        files.push(file(format!("{folder}/max_link_speed"), "8.0 GT/s PCIe"));
        files.push(file(format!("{folder}/max_link_width"), "16"));
    }
    let smi = |program: &str, arguments: &[&str]| -> Answer {
        assert_eq!(program, "nvidia-smi");
        if arguments[0] != "topo" {
            let line = |(i, bus)| format!("{i}, Tesla T4, 15360 MiB, 00000000:{bus}:00.0\n");
            return Ok(["3B", "5E", "AF", "D8"].into_iter().enumerate().map(line).collect());
        }
        Ok("\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\tNUMA Affinity\n\
            GPU0\t X \tPIX\tSYS\tSYS\t0-27,56-83\t0\n\
            GPU1\tPIX\t X \tSYS\tSYS\t0-27,56-83\t0\n\
            GPU2\tSYS\tSYS\t X \tNODE\t28-55,84-111\t1\n\
            GPU3\tSYS\tSYS\tNODE\t X \t28-55,84-111\t1\n"
            .to_owned())
    };
    let found = detected("gpus", &files, &smi);
    let spec = &found.spec;
    let devices: Vec<(&str, &str)> =
        spec.devices.iter().map(|d| (d.name.as_str(), d.node.as_deref().unwrap_or("none"))).collect();
    let expected = [
        ("cpu0", "numa0"),
        ("cpu1", "numa1"),
        ("gpu0", "numa0"),
        ("gpu1", "numa0"),
        ("gpu2", "numa1"),
        ("gpu3", "numa1"),
    ];
    assert_eq!(devices, expected);
    let buses: Vec<Option<&str>> = spec.links[1..].iter().map(|link| link.bus.as_deref()).collect();
    assert_eq!(buses, [Some("pcie0"), Some("pcie0"), None, None]);
    assert!(spec.links[1..].iter().all(|link| link.bandwidth == 12_000_000_000));
    assert!(spec.description.ends_with("; 4 x Tesla T4."), "{}", spec.description);
}

#[test]
fn nvidia_smi_that_fails_hangs_or_talks_nonsense_is_no_gpu() {
    for answer in [Err(NoAnswer::Failed), Err(NoAnswer::TimedOut), Ok("No devices were found\n".to_owned())] {
        let found = detected("broken-smi", &server(), &|_, _| answer.clone());
        assert_eq!(found.spec.devices.len(), 2);
        assert!(found.not_found[0].starts_with("GPUs: "), "{:?}", found.not_found);
    }
    // A list, but no matrix; a name that the catalogue does not have; a driver without memory.
    let smi = |_: &str, arguments: &[&str]| match arguments[0] {
        "topo" => Ok("garbage".to_owned()),
        _ => Ok("1, NVIDIA GeForce RTX 4090, [N/A], nonsense\n0, Odd, name, 8192 MiB, 00000000:01:00.0\n"
            .to_owned()),
    };
    let found = detected("list-only", &server(), &smi);
    let classes: Vec<&str> = found.spec.classes[1..].iter().map(|class| class.name.as_str()).collect();
    assert_eq!(classes, ["odd-name", "nvidia-geforce-rtx-4090"]);
    assert_eq!(found.spec.classes[1].memory, Some(8 << 30));
    assert!(found.not_found[0].contains("topo -m"));
    assert!(gaps(&found.spec).iter().any(|gap| gap.contains("rtx-4090`: peak")));
}

#[test]
fn a_laptop() {
    let cpus = "sys/devices/system/cpu";
    let ryzen = "model name\t: AMD Ryzen 7 PRO 4750U with Radeon Graphics\ncpu MHz\t: 1397.2\nflags\t: sse sse2 avx avx2 fma\n\
                 physical id\t: 0";
    let mut files = vec![
        cpuinfo(16, ryzen),
        file("proc/meminfo", "MemTotal:       15717184 kB"),
        file(format!("{cpus}/online"), "0-15"),
        file("sys/devices/system/node/node0/cpulist", "0-15"),
        file("sys/devices/system/node/node0/meminfo", "Node 0 MemTotal:       15717184 kB"),
    ];
    for cpu in 0..16 {
        files.push(file(format!("{cpus}/cpu{cpu}/topology/core_id"), (cpu / 2).to_string()));
        files.push(file(format!("{cpus}/cpu{cpu}/cpufreq/cpuinfo_max_freq"), "1700000"));
    }
    let spec = detected("laptop", &files, &no_program).spec;
    assert_eq!(spec.nodes.len(), 1);
    assert_eq!((spec.nodes[0].name.as_str(), spec.nodes[0].memory), ("host", Some(16_000_000_000)));
    assert_eq!(spec.devices[0].name, "cpu");
    // 8 cores x 1.7 GHz x 32.
    assert_eq!(spec.classes[0].peak["fp32"], 435_000_000_000);
    assert!(spec.classes[0].source.contains("highest clock"), "{}", spec.classes[0].source);
}

#[test]
fn an_arm_board_with_two_kinds_of_cores() {
    let info = "BogoMIPS\t: 48.00\nFeatures\t: fp asimd evtstrm aes\nCPU part\t: 0xd03";
    let mut files = vec![cpuinfo(6, info), file("proc/meminfo", "MemTotal:        3919832 kB")];
    files[0].1.push_str("\nModel\t\t: Some Board, rev 1\n");
    for cpu in 0..6 {
        let clock = if cpu < 4 { "1400000" } else { "1800000" };
        files.push(file(format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/cpuinfo_max_freq"), clock));
    }
    let spec = detected("board", &files, &no_program).spec;
    assert_eq!(spec.classes[0].name, "some-board-rev-1-6c");
    // (4 x 1.4 + 2 x 1.8) GHz x 16.
    assert_eq!(spec.classes[0].peak["fp32"], 147_000_000_000);
}

#[test]
fn a_container_gets_what_its_control_group_leaves() {
    let mut files = server();
    files.push(file("sys/fs/cgroup/memory.max", "max"));
    files.push(file("sys/fs/cgroup/user.slice/memory.max", "40000000000"));
    files.push(file("sys/fs/cgroup/user.slice/cpu.max", "1400000 100000"));
    let spec = detected("container", &files, &no_program).spec;
    let memory: u64 = spec.nodes.iter().filter_map(|node| node.memory).sum();
    assert!((39_700_000_000..=40_000_000_000).contains(&memory), "{memory}");
    // 7 threads' time on each node: 7 cores x 2.7 GHz x 64.
    assert_eq!(spec.classes[0].peak["fp32"], 1_210_000_000_000);
    assert!(spec.description.contains("leaves the time of 14 threads"), "{}", spec.description);

    // Threads of one node only, and limits that are above what there is; version 1.
    let mut files = server();
    files.retain(|(path, _)| path != "proc/self/status" && path != "proc/self/cgroup");
    files.push(file("proc/self/status", "Cpus_allowed_list:\t0-3,56-59"));
    files.push(file("proc/self/cgroup", "5:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc"));
    files.push(file("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712"));
    files.push(file("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1"));
    files.push(file("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000"));
    let spec = detected("pinned", &files, &no_program).spec;
    assert_eq!(spec.nodes.len(), 1);
    assert_eq!(spec.classes[0].name, "intel-xeon-platinum-8280-4c");
}

#[test]
fn nothing_at_all_is_one_cpu_with_gaps() {
    let found = detected("nothing", &[], &no_program);
    assert_eq!(found.spec.devices.len(), 1);
    assert_eq!(found.spec.classes[0].name, "detected-cpu-6c");
    assert_eq!(found.not_found.len(), 5, "{:?}", found.not_found);
    assert_eq!(gaps(&found.spec).len(), 2);
}

#[test]
fn files_of_nonsense_change_nothing_but_the_figures() {
    let nonsense = ["", "\0\0\u{fffd}", "-1", "99999999999999999999999999", "0-4294967295", ":::", "max max"];
    for (i, text) in nonsense.iter().enumerate() {
        let mut files = server();
        for (_, content) in &mut files {
            *content = (*text).to_owned();
        }
        files.push(file("sys/fs/cgroup/memory.max", *text));
        files.push(file("sys/fs/cgroup/cpu.max", *text));
        detected(&format!("nonsense-{i}"), &files, &|_, _| Ok((*text).to_owned()));
    }
    let absurd = "model name : X @ 99.9GHz\ncpu MHz : 1e308\nflags : avx512f";
    let mut files = vec![cpuinfo(3, absurd), file("proc/meminfo", "MemTotal: 18446744073709551615 kB")];
    files.push(file("sys/fs/cgroup/cpu.max", "1 18446744073709551615"));
    files.push(file("sys/fs/cgroup/memory.max", "0"));
    detected("absurd", &files, &no_program);
}

#[test]
fn the_running_machine_is_sound() {
    let spec: HardwareSpec = this_machine(None).spec;
    sound(&spec, "this-machine");
    assert!(!spec.devices.is_empty() && !spec.nodes.is_empty());
}
