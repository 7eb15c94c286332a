//! `divvy profile`: the time of every op on every class of devices, measured on this machine or read from profiles that
//! ONNX Runtime wrote elsewhere.

use divvy::core::units::counted;
use divvy::deploy::profile::read_runtime_profiles;
use divvy::deploy::{ModelOnHardware, ModelProfile, Profiler, runtime};
use divvy::io::file::{self, Kind};

use crate::args::ProfileArgs;
use crate::commands::run::report::NOISY;
use crate::failure::Failure;
use crate::output::{Done, tell};
use crate::progress::{Steps, cancel_on_interrupt_saying};

pub(crate) fn run(args: &ProfileArgs) -> Result<Done, Failure> {
    file::check_replaceable(&args.output, Kind::Json("problem"), args.force)?;
    if let Some(path) = &args.hardware {
        file::check_replaceable(path, Kind::Hardware, args.force)?;
    }
    let model = ModelOnHardware::read(&args.file, &args.on, &args.reading.options()?, args.cold_start)?;
    let profile = if args.from.is_empty() {
        measure(args, model)?
    } else {
        Some(read_runtime_profiles(model, &args.from, args.warm_up)?)
    };
    let Some(profile) = profile else {
        let kept = args.checkpoint();
        let text = format!("stopped; the same command goes on with what is in {}\n", kept.display());
        return Ok(Done { text, passed: false });
    };
    let mut text = describe(&profile);
    if let Some(path) = &args.hardware {
        profile.write_hardware(path)?;
        text.push_str(&format!("  hardware with its links as measured in {}\n", path.display()));
    }
    profile.write(&args.output)?;
    let output = args.output.display();
    let on = args.hardware.as_ref().map_or(args.on.clone(), |path| path.display().to_string());
    text.push_str(&format!(
        "  written to {output}; `divvy plan {} --on {on} --profile {output}` plans with it\n",
        args.file
    ));
    Ok(Done { text, passed: true })
}

/// Measures on this machine; none where it was stopped.
fn measure(args: &ProfileArgs, model: ModelOnHardware) -> Result<Option<ModelProfile>, Failure> {
    let mut warn = |warning: &str| tell(&format!("warning: {warning}"));
    let profiler = Profiler::new(model, runtime(args.onnxruntime.as_deref())?, &args.options(), &mut warn)?;
    let cancelled =
        cancel_on_interrupt_saying("stopping; what is done is kept (Ctrl-C again to quit at once)");
    let steps = Steps::start(args.quiet, profiler.step_count());
    let mut is_first = true;
    let mut begin = |what: &str| {
        if !std::mem::take(&mut is_first) {
            steps.step();
        }
        steps.show(what);
    };
    Ok(profiler.measure(&mut begin, &cancelled)?)
}

/// What was measured, a line each.
fn describe(profile: &ModelProfile) -> String {
    let mut text = describe_ops(profile);
    for cuts in &profile.cuts {
        for style in &cuts.styles {
            let class = &cuts.class;
            let take = if style.pieces == 1 { "takes" } else { "take" };
            let pieces = counted(style.pieces, "piece");
            let (extra, bytes) = (style.extra / 1e3, style.bytes as f64 / 1e6);
            text.push_str(&format!(
                "{class}: {pieces} {take} {extra:.3} ms longer than the whole; {bytes:.2} MB cross\n"
            ));
        }
    }
    for (class, rates) in profile.piece_rates() {
        let (piece, per_mb) = (rates.piece, rates.per_byte * 1e6);
        text.push_str(&format!(
            "{class}: {piece:.1} us a piece besides its ops, {per_mb:.0} us for each MB that crosses\n"
        ));
    }
    for contention in &profile.contention {
        let class = &contention.class;
        let [alone, in_pieces] = [contention.alone, contention.in_pieces].map(|share| 100.0 * (share - 1.0));
        text.push_str(&format!(
            "{class}: {alone:+.1} % alone, {in_pieces:+.1} % with a piece for each device, of what all take for the \
             whole side by side\n"
        ));
    }
    for transfer in &profile.transfers {
        let (from, to, latency) = (&transfer.from, &transfer.to, transfer.latency);
        let beyond = transfer
            .bandwidth
            .map_or("nothing is copied".to_owned(), |bandwidth| format!("then {:.2} GB/s", bandwidth / 1e9));
        let spread = 100.0 * transfer.spread;
        text.push_str(&format!(
            "{from} -> {to}: {latency:.1} us, {beyond}; timings scatter by {spread:.1} %\n"
        ));
    }
    for bus in &profile.cards.buses {
        let (device, rates) = (&bus.device, &bus.rates);
        text.push_str(&format!(
            "{device}: {:.1} GB/s to it from pinned memory, {:.1} back; {:.1} us a copy besides its bytes, {:.1} us from the host's \
             call to a small copy's end\n",
            rates.to_card / 1e9,
            rates.from_card / 1e9,
            rates.each_us,
            rates.handover_us
        ));
    }
    for beside in &profile.cards.beside_copies {
        let (class, more) = (&beside.class, 100.0 * (beside.factor - 1.0));
        let spread = 100.0 * beside.spread;
        text.push_str(&format!(
            "{class}: {more:+.1} % beside copies to cards; timings scatter by {spread:.1} %\n"
        ));
    }
    for handover in &profile.cards.handovers {
        let (class, us, more) = (&handover.class, handover.piece_us, 100.0 * (handover.factor - 1.0));
        text.push_str(&format!(
            "{class}: {us:.0} us a piece between pieces of a card, the way there and back; ops {more:+.1} % beside copies then\n"
        ));
    }
    if !profile.cards.in_place.is_empty() {
        text.push_str(&format!(
            "{} ops timed reading their weights in place\n",
            profile.cards.in_place.len()
        ));
    }
    text
}

/// The times of all ops together, by class and batch size; warns of those that scatter.
fn describe_ops(profile: &ModelProfile) -> String {
    let mut text = String::new();
    for times in &profile.classes {
        let (ms, ops, spread) = (times.whole / 1e3, times.ops.len(), 100.0 * times.spread);
        let (class, batch) = (&times.class, times.batch);
        let size = if batch == 1 { String::new() } else { format!(" for {batch} inputs") };
        text.push_str(&format!(
            "{class}: {ops} ops, {ms:.3} ms in all{size}; timings scatter by {spread:.1} %\n"
        ));
        if times.spread > NOISY {
            tell(&format!(
                "warning: `{class}`: timings scatter by {spread:.0} %, so something else uses the machine\n  hint: close \
                 other programs and profile again"
            ));
        }
    }
    text
}
