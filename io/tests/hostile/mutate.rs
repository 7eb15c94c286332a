//! Seeded damage to files: to the structure of a JSON value, and to plain bytes.

use divvy_core::rng::Rng;
use serde_json::{Value, json};

/// Damages a value in one to three places.
pub(crate) fn structure(value: &Value, rng: &mut Rng) -> Value {
    let mut damaged = value.clone();
    for _ in 0..1 + rng.below(3) {
        damage_one(&mut damaged, rng);
    }
    damaged
}

/// Damages a text in one to three places.
pub(crate) fn text(bytes: &[u8], rng: &mut Rng) -> Vec<u8> {
    let mut damaged = bytes.to_vec();
    for _ in 0..1 + rng.below(3) {
        damage_bytes(&mut damaged, rng);
    }
    damaged
}

/// The JSON pointers of all values below `value`, itself included.
pub(crate) fn pointers(value: &Value) -> Vec<String> {
    fn visit(value: &Value, here: &str, found: &mut Vec<String>) {
        found.push(here.to_owned());
        match value {
            Value::Array(items) => {
                for (i, item) in items.iter().enumerate() {
                    visit(item, &format!("{here}/{i}"), found);
                }
            }
            Value::Object(map) => {
                for (key, item) in map {
                    visit(item, &format!("{here}/{}", key.replace('~', "~0").replace('/', "~1")), found);
                }
            }
            _ => {}
        }
    }
    let mut found = Vec::new();
    visit(value, "", &mut found);
    found
}

fn damage_one(value: &mut Value, rng: &mut Rng) {
    let pointers = pointers(value);
    let (here, there) = (rng.pick(&pointers), rng.pick(&pointers));
    let elsewhere = value.pointer(there).cloned().unwrap_or_default();
    let Some(node) = value.pointer_mut(here) else { return };
    match rng.below(8) {
        0..4 => *node = extreme(node, rng),
        4 => *node = elsewhere,
        5 => shrink(node, rng),
        6 => grow(node, rng),
        _ => {
            let moved = std::mem::replace(node, elsewhere);
            if let Some(other) = value.pointer_mut(there) {
                *other = moved;
            }
        }
    }
}

/// A value that no reader may trust, sometimes one near the old.
fn extreme(old: &Value, rng: &mut Rng) -> Value {
    if let Some(number) = old.as_f64().filter(|_| rng.chance(0.4)) {
        let near = [-number, number + 1.0, number - 1.0, number * 1e6, number * 1e12, number / 3.0];
        return json!(*rng.pick(&near));
    }
    match rng.below(5) {
        0 | 1 => {
            json!(*rng.pick(&[0.0, -1.0, -0.0, 0.5, 1e300, -1e300, 1e-300, 5e-324, 4.6e12, 9.2e18, 2e19]))
        }
        2 => json!(*rng.pick(&[
            0,
            1,
            2,
            1000,
            1 << 20,
            1 << 31,
            u64::from(u32::MAX),
            1 << 32,
            (1 << 53) + 1,
            1 << 55,
            1 << 62,
            1 << 63,
            u64::MAX,
        ])),
        3 => Value::from(*rng.pick(&[
            "",
            "x",
            "1",
            "-3 GB/s",
            "1e9 GB",
            "0 B/s",
            "53 s",
            "NaN us",
            "999999999999999999999999 TB",
            "uniform-1024",
            "uniform-0",
            "h200",
            "host",
            "\u{0}",
            "ünïcödé\u{202e}",
        ])),
        _ => match rng.below(7) {
            0 => Value::Null,
            1 => json!(true),
            2 => json!([]),
            3 => json!({}),
            4 => json!([[], {}, null, 1, "x"]),
            5 => (0..60).fold(json!(1), |inner, _| json!([inner])),
            _ => json!("long ".repeat(2000)),
        },
    }
}

/// Takes one entry out.
fn shrink(node: &mut Value, rng: &mut Rng) {
    match node {
        Value::Array(items) if !items.is_empty() => {
            items.remove(rng.below(items.len()));
        }
        Value::Object(map) if !map.is_empty() => {
            let key = map.keys().nth(rng.below(map.len())).cloned().unwrap_or_default();
            map.shift_remove(&key);
        }
        _ => *node = Value::Null,
    }
}

/// Puts one entry in: a copy of another, or a field that no format has.
fn grow(node: &mut Value, rng: &mut Rng) {
    match node {
        Value::Array(items) => {
            let item = if items.is_empty() { json!(0) } else { rng.pick(items).clone() };
            items.insert(rng.below(items.len() + 1), item);
        }
        Value::Object(map) => {
            let copied = map.values().nth(rng.below(map.len().max(1))).cloned().unwrap_or_default();
            map.insert("unheard_of".to_owned(), copied);
        }
        other => *other = json!([other.clone(), other.clone()]),
    }
}

fn damage_bytes(bytes: &mut Vec<u8>, rng: &mut Rng) {
    let at = rng.below(bytes.len() + 1);
    let end = (at + 1 + rng.below(40)).min(bytes.len());
    match rng.below(6) {
        0 => bytes.truncate(at),
        1 if at < bytes.len() => bytes[at] ^= 1 << rng.below(8),
        2 => drop(bytes.drain(at..end)),
        3 => {
            let chunk = bytes[at..end].to_vec();
            let to = rng.below(bytes.len() + 1);
            bytes.splice(to..to, chunk);
        }
        4 => {
            let digits =
                *rng.pick(&["9", "0", "-", ".", "e9", "e999", "999999999999", "NaN", "Infinity", "inf"]);
            bytes.splice(at..at, digits.bytes());
        }
        _ => {
            let marks =
                ["[", "]", "{", "}", "\"", ",", ":", "\n", "=", "[[", "\\u0000", "null", "\u{feff}", "#"];
            bytes.splice(at..at, rng.pick(&marks).bytes());
        }
    }
}
