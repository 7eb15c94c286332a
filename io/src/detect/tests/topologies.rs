//! Matrices of `nvidia-smi topo -m`.

use divvy_core::hardware::{Hardware, HardwareSpec};
use divvy_core::input_error::Code;

use super::super::{assumptions, from_topo, gaps};
use super::sound;

const LEGEND: &str = "
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)
  PIX  = Connection traversing at most a single PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks

NIC Legend:

  NIC0: mlx5_0
";

fn names(count: u32, model: &str) -> String {
    (0..count)
        .map(|i| format!("GPU {i}: {model} (UUID: GPU-00000000-0000-0000-0000-00000000000{i})\n"))
        .collect()
}

fn read(text: &str, name: &str) -> (HardwareSpec, Hardware) {
    let spec = from_topo(text).unwrap_or_else(|errors| panic!("{name}: {errors}"));
    let hardware = sound(&spec, name);
    (spec, hardware)
}

/// Bytes per second of the route between two GPUs, in GB.
fn width(hardware: &Hardware, a: u32, b: u32) -> u64 {
    let gpu = |i| hardware.device_named(&format!("gpu{i}")).unwrap();
    hardware.route(gpu(a), gpu(b)).unwrap().bandwidth.unwrap().0 / 1_000_000_000
}

fn buses(spec: &HardwareSpec) -> Vec<Option<&str>> {
    let to_host = spec.links.iter().filter(|link| link.between[0] == "host");
    to_host.map(|link| link.bus.as_deref()).collect()
}

const DGX_1: &str = "\
\tGPU0\tGPU1\tGPU2\tGPU3\tGPU4\tGPU5\tGPU6\tGPU7\tmlx5_0\tmlx5_2\tmlx5_1\tmlx5_3\tCPU Affinity
GPU0\t X \tNV1\tNV1\tNV2\tNV2\tSYS\tSYS\tSYS\tPIX\tSYS\tPHB\tSYS\t0-19,40-59
GPU1\tNV1\t X \tNV2\tNV1\tSYS\tNV2\tSYS\tSYS\tPIX\tSYS\tPHB\tSYS\t0-19,40-59
GPU2\tNV1\tNV2\t X \tNV2\tSYS\tSYS\tNV1\tSYS\tPHB\tSYS\tPIX\tSYS\t0-19,40-59
GPU3\tNV2\tNV1\tNV2\t X \tSYS\tSYS\tSYS\tNV1\tPHB\tSYS\tPIX\tSYS\t0-19,40-59
GPU4\tNV2\tSYS\tSYS\tSYS\t X \tNV1\tNV1\tNV2\tSYS\tPIX\tSYS\tPHB\t20-39,60-79
GPU5\tSYS\tNV2\tSYS\tSYS\tNV1\t X \tNV2\tNV1\tSYS\tPIX\tSYS\tPHB\t20-39,60-79
GPU6\tSYS\tSYS\tNV1\tSYS\tNV1\tNV2\t X \tNV2\tSYS\tPHB\tSYS\tPIX\t20-39,60-79
GPU7\tSYS\tSYS\tSYS\tNV1\tNV2\tNV1\tNV2\t X \tSYS\tPHB\tSYS\tPIX\t20-39,60-79
mlx5_0\tPIX\tPIX\tPHB\tPHB\tSYS\tSYS\tSYS\tSYS\t X \tSYS\tPHB\tSYS\t
";

#[test]
fn a_dgx_1_is_a_cube_of_nvlinks_on_four_buses() {
    let (spec, hardware) = read(&(names(8, "Tesla V100-SXM2-32GB") + DGX_1 + LEGEND), "dgx-1");
    assert_eq!(spec.devices.len(), 8);
    assert!(spec.devices.iter().all(|device| device.class == "v100"));
    // Half of 8 x 6 links, over 16 pairs.
    let nvlinks: Vec<u64> = spec.links[8..].iter().map(|link| link.bandwidth / 25_000_000_000).collect();
    assert_eq!((nvlinks.len(), nvlinks.iter().sum::<u64>()), (16, 24));
    assert_eq!((width(&hardware, 0, 3), width(&hardware, 0, 1), width(&hardware, 0, 7)), (50, 25, 12));
    let expected = ["pcie0", "pcie0", "pcie1", "pcie1", "pcie2", "pcie2", "pcie3", "pcie3"].map(Some);
    assert_eq!(buses(&spec), expected, "the network cards show the switches");
    assert!(spec.switches.is_empty());
    assert!(assumptions(&spec).any(|text| text.starts_with("25 GB/s per NVLink")));
}

const STATION: &str = "\
        GPU0    GPU1    GPU2    GPU3    CPU Affinity    NUMA Affinity
GPU0     X      NV1     NV1     NV2     0-39            0
GPU1    NV1      X      NV2     NV1     0-39            0
GPU2    NV1     NV2      X      NV1     0-39            0
GPU3    NV2     NV1     NV1      X      0-39            0
";

#[test]
fn a_dgx_station_is_as_the_built_in_one_but_for_its_hidden_buses() {
    let (spec, hardware) = read(&(names(4, "Tesla V100-DGXS-32GB") + STATION), "station");
    let built_in = Hardware::new(crate::presets::hardware("dgx-v100").unwrap().unwrap()).unwrap();
    for a in 0..4 {
        for b in (0..4).filter(|b| *b != a) {
            let (one, other) = (hardware.devices().nth(a).unwrap(), hardware.devices().nth(b).unwrap());
            let here = hardware.route(one, other).unwrap().bandwidth;
            assert_eq!(here, built_in.route(one, other).unwrap().bandwidth, "{a} {b}");
        }
    }
    assert_eq!(buses(&spec), [None; 4]);
    assert!(assumptions(&spec).any(|text| text.starts_with("no two GPUs share a PCIe switch")));
}

fn all_to_all(gpus: u32, entry: &str) -> String {
    let header: String = (0..gpus).map(|i| format!("\t\u{1b}[4mGPU{i}")).collect();
    let cells =
        |i| (0..gpus).map(|j| format!("\t{}", if i == j { " X " } else { entry })).collect::<String>();
    let row = |i| format!("GPU{i}{}\t{}-{}\t{}\t\tN/A\n", cells(i), i / 4 * 24, i / 4 * 24 + 23, i / 4);
    let rows: String = (0..gpus).map(row).collect();
    format!("{header}\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\u{1b}[0m\n{rows}")
}

#[test]
fn eight_a100_are_on_an_nvswitch() {
    let text = names(8, "NVIDIA A100-SXM4-40GB") + &all_to_all(8, "NV12") + LEGEND;
    let (spec, hardware) = read(&text, "p4d");
    assert_eq!(spec.switches, ["nvswitch"]);
    assert_eq!(spec.links.len(), 16, "one to the host and one to the switch each");
    assert_eq!(width(&hardware, 0, 7), 300);
    assert_eq!(hardware.interchangeable().len(), 1);
    assert!(assumptions(&spec).any(|text| text.contains("NUMA nodes 0, 1")));
    assert_eq!(gaps(&spec).len(), 1, "host memory");
}

#[test]
fn four_a100_with_four_nvlinks_to_each_peer_need_no_switch() {
    let (spec, hardware) = read(&(names(4, "NVIDIA A100-SXM4-80GB") + &all_to_all(4, "NV4")), "redstone");
    assert!(spec.switches.is_empty());
    assert_eq!(spec.links.len(), 4 + 6);
    assert_eq!(width(&hardware, 1, 2), 100);
    assert_eq!(spec.classes[0].name, "a100-80gb");
}

#[test]
fn a_bridge_of_a6000_is_slower() {
    let text = names(2, "NVIDIA RTX A6000") + "\tGPU0\tGPU1\nGPU0\t X \tNV4\nGPU1\tNV4\t X \n";
    let (spec, _) = read(&text, "bridge");
    assert_eq!(spec.links[2].bandwidth, 56_250_000_000);
    assert!(assumptions(&spec).any(|text| text.starts_with("14.0625 GB/s per NVLink")));
}

#[test]
fn a_box_with_pcie_only() {
    let text = "\
        GPU0    GPU1    GPU2    GPU3    GPU4    mlx4_0  CPU Affinity
GPU0     X      PIX     PHB     PHB     SYS     PHB     0-9,20-29
GPU1    PIX      X      PHB     PHB     SYS     PHB     0-9,20-29
GPU2    PHB     PHB      X      PXB     SOC     PHB     0-9,20-29
GPU3    PHB     PHB     PXB      X      SYS     PHB     0-9,20-29
GPU4    SYS     SYS     SOC     SYS      X      SYS     10-19,30-39
mlx4_0  PHB     PHB     PHB     PHB     SYS      X
";
    let (spec, hardware) = read(text, "pcie-only");
    assert_eq!(buses(&spec), [Some("pcie0"), Some("pcie0"), Some("pcie1"), Some("pcie1"), None]);
    assert_eq!(width(&hardware, 0, 4), 12);
    assert_eq!(spec.classes.len(), 1);
    assert_eq!(spec.classes[0].name, "unknown-gpu");
    assert_eq!(gaps(&spec).len(), 4, "memory, peak and bandwidth of the GPU, memory of the host");
}

#[test]
fn one_gpu_and_gpus_that_are_not_numbered_from_zero() {
    let text = "GPU 0: NVIDIA H200 (UUID: GPU-1)\r\n\tGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\r\nGPU0\t X \t0-15\t0\t\tN/A\r\n";
    let (spec, _) = read(text, "one");
    assert_eq!((spec.devices.len(), spec.links.len()), (1, 1));
    assert_eq!(spec.links[0].bandwidth, 55_000_000_000);
    let (spec, _) = read("\tGPU2\tGPU5\nGPU5\tPIX\tX\nGPU2\tX\tPIX\n", "gaps");
    let names: Vec<&str> = spec.devices.iter().map(|device| device.name.as_str()).collect();
    assert_eq!(names, ["gpu2", "gpu5"]);
    // Classes side by side, two of them unknown.
    let text = "GPU 0: Tesla T4 (UUID: x)\nGPU 1: NVIDIA L4\n  MIG 1g.5gb Device 0: (UUID: y)\n\
                GPU0 GPU1 GPU2\nGPU0 X SYS SYS\nGPU1 SYS X SYS\nGPU2 SYS SYS X\n";
    let classes: Vec<String> = read(text, "mixed").0.classes.into_iter().map(|class| class.name).collect();
    assert_eq!(classes, ["t4", "nvidia-l4", "unknown-gpu"]);
}

#[test]
fn faults_have_codes_places_and_fixes() {
    let header = "GPU0 GPU1\n";
    let many: String = (0..200).map(|i| format!("GPU{i} ")).collect();
    let cards: String = (0..2000).map(|i| format!("mlx5_{i} ")).collect();
    for (text, code) in [
        (String::new(), Code::Format),
        ("\0\u{1b}[\u{1b}[31".to_owned(), Code::Format),
        ("GPU0 X NV1\nGPU1 NV1 X\n".to_owned(), Code::Format),
        (LEGEND.to_owned(), Code::Format),
        (format!("{header}GPU0 X\nGPU1 NV1 X\n"), Code::Length),
        (format!("{header}GPU0\nGPU1\n"), Code::Length),
        (format!("{header}GPU0 X what\nGPU1 NV1 X\n"), Code::Type),
        (format!("{header}GPU0 X NV99999999999\nGPU1 NV1 X\n"), Code::Type),
        (format!("{header}GPU0 X NV0\nGPU1 NV0 X\n"), Code::Range),
        (format!("{header}GPU0 X NV65\nGPU1 NV65 X\n"), Code::Range),
        (format!("{header}GPU0 X NV1\nGPU1 NV2 X\n"), Code::Contradiction),
        (format!("{header}GPU0 NV1 X\nGPU1 NV1 X\n"), Code::Contradiction),
        (format!("{header}GPU0 X NV1\n"), Code::Missing),
        (format!("{header}GPU0 X NV1\nGPU0 X NV1\nGPU1 NV1 X\n"), Code::DuplicateName),
        (format!("{header}GPU0 X NV1\nGPU1 NV1 X\nGPU2 SYS SYS X\n"), Code::Dangling),
        ("GPU0 GPU0\nGPU0 X X\n".to_owned(), Code::DuplicateName),
        (many, Code::TooLarge),
        (format!("GPU0 {cards}"), Code::TooLarge),
        ("x".repeat(5 << 20), Code::TooLarge),
    ] {
        let start: String = text.chars().take(60).collect();
        let errors = from_topo(&text).expect_err(&start);
        assert_eq!(errors.kept()[0].code, code, "{start}: {errors}");
        assert!(errors.kept().iter().all(|error| !error.fix.is_empty() && !error.place.is_empty()));
    }
}

#[test]
fn no_cut_and_no_flipped_byte_makes_it_panic() {
    let whole = names(8, "Tesla V100-SXM2-32GB") + DGX_1 + LEGEND;
    for end in (0..whole.len()).step_by(7) {
        let _ = from_topo(&whole[..end]);
    }
    for at in (0..whole.len()).step_by(11) {
        for byte in [b'\n', b' ', b'9', b'X', 0x1b] {
            let mut bytes = whole.clone().into_bytes();
            bytes[at] = byte;
            if let Ok(spec) = from_topo(&String::from_utf8_lossy(&bytes)) {
                Hardware::new(spec).unwrap();
            }
        }
    }
    let (spec, _) = read(&all_to_all(128, "NV18"), "most");
    assert_eq!(spec.devices.len(), 128);
}
