//! The known name that a misspelt one most likely means: edit distance (optimal string alignment), else a common prefix, else
//! a substring.

/// The name nearest to `name`: within a third of its letters by edit distance, else with at least half of it as a common
/// prefix, else with `name` in it.
pub fn closest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let letters = |text: &str| text.to_lowercase().chars().collect::<Vec<char>>();
    let wanted = letters(name);
    if wanted.is_empty() {
        return None;
    }
    let most = (wanted.len() / 3).max(1);
    let misspelt = known.iter().filter_map(|&other| Some((distance(&wanted, &letters(other), most)?, other)));
    if let Some((_, nearest)) = misspelt.min_by_key(|(distance, _)| *distance) {
        return Some(nearest);
    }
    let shared = |other: &str| wanted.iter().zip(letters(other)).take_while(|(a, b)| **a == *b).count();
    let begun = known.iter().map(|&other| (shared(other), other)).filter(|(n, _)| 2 * n >= wanted.len());
    // Of names with equal prefixes, the shortest adds least.
    let longest = begun.max_by_key(|(n, other)| (*n, std::cmp::Reverse(other.len())));
    let lower = name.to_lowercase();
    longest
        .map(|(_, other)| other)
        .or_else(|| known.iter().copied().find(|other| other.to_lowercase().contains(&lower)))
}

/// The number of letters to insert, drop, replace or swap with their neighbour, if it is no more than `most`.
fn distance(a: &[char], b: &[char], most: usize) -> Option<usize> {
    if a.len().abs_diff(b.len()) > most {
        return None;
    }
    // Long names of one network mostly differ in a few letters in the middle, so equal ends are cut off.
    let same_start = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let (a, b) = (&a[same_start..], &b[same_start..]);
    let same_end = a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count();
    let (a, b) = (&a[..a.len() - same_end], &b[..b.len() - same_end]);
    let mut before_last = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before_last[j - 2] + 1);
            }
        }
        // A swap looks back two rows.
        let least = |row: &[usize]| row.iter().copied().min().unwrap_or(0);
        if least(&row) > most && least(&last) > most {
            return None;
        }
        before_last = std::mem::replace(&mut last, row);
    }
    (last[b.len()] <= most).then_some(last[b.len()])
}

#[cfg(test)]
mod tests {
    use super::closest;

    #[test]
    fn typos_prefixes_and_substrings_are_recognised() {
        let known = ["cpu-t4-a100", "dgx-v100", "dgx-v100-mixed", "h200-cpu", "edge-wifi"];
        let means = |name: &str| closest(name, &known);
        assert_eq!(means("h100-cpu"), Some("h200-cpu"));
        assert_eq!(means("H200-CUP"), Some("h200-cpu"));
        assert_eq!(means("dgx"), Some("dgx-v100"));
        assert_eq!(means("a100"), Some("cpu-t4-a100"));
        for nothing_like_it in ["", "tpu", "raspberry"] {
            assert_eq!(means(nothing_like_it), None, "{nothing_like_it}");
        }
    }
}
