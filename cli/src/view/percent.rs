//! Shares in percent.

use divvy::core::units::show_count;

/// A share, to the nearest digit shown; 0 % and 100 % are exact.
pub(crate) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    let scale = percent_scale(percent);
    let nearest = (percent * scale).round() / scale;
    match percent {
        0.0 => "0 %".to_owned(),
        _ if nearest == 0.0 => "<0.001 %".to_owned(),
        p if p < 100.0 && nearest >= 100.0 => "99.9 %".to_owned(),
        _ => show_percent(nearest),
    }
}

/// A share that is claimed not to be exceeded, so rounded up.
pub(crate) fn percent_at_most(share: f64) -> String {
    let scale = percent_scale(share * 100.0);
    // What floating point adds to a round number is not worth a digit.
    show_percent((share * 100.0 * scale - 1e-6).ceil() / scale)
}

/// Three digits, and no more than three decimals.
pub(crate) fn percent_scale(percent: f64) -> f64 {
    match percent {
        p if p >= 100.0 => 1.0,
        p if p >= 10.0 => 10.0,
        p if p >= 1.0 => 100.0,
        _ => 1000.0,
    }
}

pub(crate) fn show_percent(percent: f64) -> String {
    if percent >= 100.0 {
        return format!("{} %", show_count(percent as u128));
    }
    format!("{percent:.*} %", percent_scale(percent).log10() as usize)
}
