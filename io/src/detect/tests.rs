//! Tests on machines and matrices that are made up, but look like real ones.

mod machines;
mod topologies;

use divvy_core::hardware::{Hardware, HardwareSpec};

use super::to_toml;
use crate::{hardware_source, presets};

/// Reads a description as a hardware file is read.
fn read_again(text: &str, name: &str) -> HardwareSpec {
    let path = std::env::temp_dir().join(format!("divvy-detect-{}-{name}.toml", std::process::id()));
    std::fs::write(&path, text).unwrap();
    let read = hardware_source::find(path.to_str().unwrap()).map(|(spec, _)| spec);
    std::fs::remove_file(&path).unwrap();
    read.unwrap_or_else(|error| panic!("{name}: {error}\n{text}"))
}

/// The description is sound, and the same when written and read again.
fn sound(spec: &HardwareSpec, name: &str) -> Hardware {
    assert_eq!(read_again(&to_toml(spec), name), *spec, "{name}");
    Hardware::new(spec.clone()).unwrap_or_else(|errors| panic!("{name}: {errors}"))
}

#[test]
fn every_preset_survives_writing_and_reading() {
    for name in presets::names().into_iter().map(|name| if name == "uniform-K" { "uniform-3" } else { name })
    {
        let spec = presets::hardware(name).unwrap().unwrap();
        sound(&spec, name);
    }
}

#[test]
fn odd_names_and_texts_survive() {
    let mut spec = presets::hardware("cpu-t4-a100").unwrap().unwrap();
    spec.name = "quote \" backslash \\ é".to_owned();
    spec.description = String::new();
    spec.sources = vec!["'''".to_owned(), "\"\"\"".to_owned(), "# no comment".to_owned()];
    spec.classes[1].name = "a class.with \"all\"".to_owned();
    spec.classes[1].peak.insert("odd format".to_owned(), 12_345_678_901_234);
    spec.classes[1].batch_sizes = vec![1, 4];
    spec.classes[1].fast_memory = Some(0);
    spec.devices[1].class = spec.classes[1].name.clone();
    spec.devices[1].relay = true;
    spec.devices[2].peer_copies = true;
    spec.classes[0].piece = divvy_core::units::Time(5_250_000);
    spec.devices[0].piece = Some(divvy_core::units::Time(4_000_000));
    spec.links[0].half_duplex = true;
    spec.links[1].latency = divvy_core::units::Time(1_234_567);
    spec.links[1].bandwidth = 1_000_000_007;
    sound(&spec, "odd");
}

#[test]
fn what_is_not_known_is_a_comment() {
    let mut spec = presets::hardware("h200-cpu").unwrap().unwrap();
    spec.classes[0].peak.clear();
    let text = to_toml(&spec);
    assert!(text.contains("# Fill in: peak rates are not known"), "{text}");
    assert!(text.contains("# Fill in: memory is not known"), "the host's: {text}");
    assert_eq!(super::gaps(&spec).len(), 2);
}
