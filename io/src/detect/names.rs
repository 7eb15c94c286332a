//! Model names: which class of the catalogue a GPU is, and names for classes that the catalogue does not have.

use divvy_core::hardware::{ClassSpec, DeviceKind};

use super::ASSUMED;

const GB: u64 = 1_000_000_000;

/// What is known of a family of GPUs beside its class.
pub(super) struct Family {
    /// The word of the model name that tells it.
    word: &'static str,
    /// Classes of the catalogue; which one, the memory decides.
    classes: &'static [&'static str],
    /// NVLinks of one GPU.
    pub(super) links: u32,
    /// Bytes per second of one NVLink, each way.
    pub(super) link_rate: u64,
    /// Bytes per second that large copies reach over its 16 lanes of PCIe.
    pub(super) pcie: u64,
    /// Which PCIe that is.
    pub(super) pcie_name: &'static str,
}

const FAMILIES: [Family; 5] = [
    Family {
        word: "H200",
        classes: &["h200"],
        links: 18,
        link_rate: 25 * GB,
        pcie: 55 * GB,
        pcie_name: "PCIe 5.0 x16",
    },
    Family {
        word: "A100",
        classes: &["a100", "a100-80gb"],
        links: 12,
        link_rate: 25 * GB,
        pcie: 25 * GB,
        pcie_name: "PCIe 4.0 x16",
    },
    Family {
        word: "A6000",
        classes: &["a6000"],
        links: 4,
        link_rate: 14_062_500_000,
        pcie: 25 * GB,
        pcie_name: "PCIe 4.0 x16",
    },
    Family {
        word: "V100",
        classes: &["v100"],
        links: 6,
        link_rate: 25 * GB,
        pcie: 12 * GB,
        pcie_name: "PCIe 3.0 x16",
    },
    Family {
        word: "T4",
        classes: &["t4"],
        links: 0,
        link_rate: 25 * GB,
        pcie: 12 * GB,
        pcie_name: "PCIe 3.0 x16",
    },
];

/// A GPU of no known family: no GPU has more links than 18, and none has a slower PCIe by now.
const UNKNOWN: Family = Family {
    word: "",
    classes: &[],
    links: 18,
    link_rate: 25 * GB,
    pcie: 12 * GB,
    pcie_name: "PCIe 3.0 x16, for want of a model name that divvy knows",
};

/// The family that a model name tells.
pub(super) fn family(name: Option<&str>) -> &'static Family {
    let words: Vec<String> = name.map_or(Vec::new(), |name| {
        let words = name.split(|c: char| !c.is_ascii_alphanumeric());
        words.map(str::to_ascii_uppercase).collect()
    });
    let has = |word: &str| words.iter().any(|known| known == word);
    // The NVL boards are other products: fewer FLOP/s, other links.
    let found = FAMILIES.iter().find(|family| has(family.word) && !has("NVL"));
    found.unwrap_or(&UNKNOWN)
}

/// The class of a GPU by its model name and, where known, its memory in bytes. What had to be assumed is pushed on
/// `sources`.
pub(super) fn gpu_class(
    name: Option<&str>,
    memory: Option<u64>,
    catalogue: &[ClassSpec],
    sources: &mut Vec<String>,
) -> ClassSpec {
    let family = family(name);
    let known: Vec<&ClassSpec> =
        family.classes.iter().filter_map(|known| catalogue.iter().find(|c| c.name == *known)).collect();
    let (Some(name), Some(first)) = (name, known.first()) else { return unknown(name, memory, catalogue) };
    // Vendors' gigabytes: in the name, or what the board reports, which is in powers of two and up to 7 % off.
    let size =
        gigabytes_in(name).or_else(|| memory.map(|bytes| (bytes as f64 / f64::from(1 << 30)).round() as u64));
    let Some(size) = size.filter(|size| *size > 0) else {
        if known.len() > 1 {
            let gigabytes = first.memory.unwrap_or(0) / GB;
            sources.push(format!("{ASSUMED}a `{name}` has {gigabytes} GB; the name does not say"));
        }
        return (*first).clone();
    };
    let is_near = |class: &&&ClassSpec| {
        class.memory.is_none_or(|bytes| (bytes as f64 / (size * GB) as f64 - 1.0).abs() < 0.12)
    };
    let class = match known.iter().find(is_near) {
        Some(class) => (*class).clone(),
        None => ClassSpec {
            name: format!("{}-{size}gb", first.name),
            memory: Some(size * GB),
            source: format!("Class {} with {size} GB. {}", first.name, first.source),
            ..(*first).clone()
        },
    };
    // The catalogue's figures are those of SXM modules where a GPU comes both ways.
    if ["V100", "A100"].contains(&family.word) && name.to_ascii_uppercase().contains("PCIE") {
        let text = format!("{ASSUMED}a `{name}` is as fast as the SXM module that class {} is", class.name);
        if !sources.contains(&text) {
            sources.push(text);
        }
    }
    class
}

fn unknown(name: Option<&str>, memory: Option<u64>, catalogue: &[ClassSpec]) -> ClassSpec {
    let label = name.map(slug).filter(|slug| !slug.is_empty());
    let is_taken = |label: &String| catalogue.iter().any(|class| class.name == *label);
    let label = label.map(|label| if is_taken(&label) { format!("{label}-detected") } else { label });
    ClassSpec {
        name: label.unwrap_or_else(|| "unknown-gpu".to_owned()),
        kind: DeviceKind::Gpu,
        memory,
        source: match (name, memory) {
            (Some(name), Some(_)) => format!("{name}; its memory: nvidia-smi"),
            (Some(name), None) => name.to_owned(),
            _ => "The model is not known".to_owned(),
        },
        ..ClassSpec::default()
    }
}

/// The size in a name such as `A100-SXM4-40GB`.
fn gigabytes_in(name: &str) -> Option<u64> {
    let mut words = name.split(|c: char| !c.is_ascii_alphanumeric());
    let size: u64 = words.find_map(|word| word.strip_suffix("GB")?.parse().ok())?;
    (1..1 << 20).contains(&size).then_some(size)
}

/// A class name made of a model name: lower case, words joined by `-`, no marks and no clock.
pub(super) fn slug(model: &str) -> String {
    let model = model.split('@').next().unwrap_or_default();
    let model = model.replace("(R)", " ").replace("(TM)", " ").replace("(r)", " ").replace("(tm)", " ");
    let words = model.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let words =
        words.filter(|word| !["CPU", "Processor", "Core"].contains(word)).map(str::to_ascii_lowercase);
    let mut slug = String::new();
    for word in words {
        if slug.len() + word.len() > 40 {
            break;
        }
        if !slug.is_empty() {
            slug.push('-');
        }
        slug.push_str(&word);
    }
    slug
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets::catalogue;

    fn class(name: &str, mib: Option<u64>) -> (String, usize) {
        let mut sources = Vec::new();
        let class = gpu_class(Some(name), mib.map(|mib| mib << 20), &catalogue(), &mut sources);
        (class.name, sources.len())
    }

    #[test]
    fn known_names_are_classes_of_the_catalogue() {
        for (name, mib, expected, assumed) in [
            ("NVIDIA H200", Some(143_771), "h200", 0),
            ("NVIDIA A100-SXM4-40GB", None, "a100", 0),
            ("NVIDIA A100-SXM4-80GB", Some(81_920), "a100-80gb", 0),
            ("NVIDIA A100 80GB PCIe", Some(81_920), "a100-80gb", 1),
            ("A100-SXM", None, "a100", 1),
            ("Tesla V100-SXM2-32GB", None, "v100", 0),
            ("Tesla V100-SXM2-16GB", Some(16_160), "v100-16gb", 0),
            ("Tesla T4", Some(15_360), "t4", 0),
            ("NVIDIA RTX A6000", Some(49_140), "a6000", 0),
            ("NVIDIA GeForce RTX 4090", Some(24_564), "nvidia-geforce-rtx-4090", 0),
            ("NVIDIA GH200 480GB", None, "nvidia-gh200-480gb", 0),
            ("NVIDIA H200 NVL", None, "nvidia-h200-nvl", 0),
            ("cpu", None, "cpu-detected", 0),
            ("???", None, "unknown-gpu", 0),
        ] {
            assert_eq!(class(name, mib), (expected.to_owned(), assumed), "{name}");
        }
    }

    #[test]
    fn names_of_processors_become_names_of_classes() {
        assert_eq!(slug("Intel(R) Xeon(R) Platinum 8280 CPU @ 2.70GHz"), "intel-xeon-platinum-8280");
        assert_eq!(slug("AMD EPYC 7742 64-Core Processor"), "amd-epyc-7742-64");
        assert_eq!(slug("©"), "");
    }
}
