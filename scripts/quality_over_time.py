#!/usr/bin/env python3
"""How good plans and bounds are after 0.3, 1, 10 and 30 seconds: models x hardware x objectives, as a table.

    quality_over_time.py [--models FOLDER] [--jobs N]                             all at once
    quality_over_time.py --models FOLDER --prepare CASES                          1. make the problems of all cases
    quality_over_time.py --prepared CASES --divvy ./divvy --jobs 16 --out O.json  2. measure them, on another machine
    quality_over_time.py --from O.json --page docs/results/quality-over-time.md   3. make the page

Every case is planned by `divvy plan FILE --time T` once for each T, in a run of its own, by `auto` on one thread. A case
whose value at 1 s is more than 3 % (batch: 5 %) above the one at the longest time falls short. `--jobs` plans so many at
a time, each pinned to a core of its own.

Models are those of `scripts/real_models.py` in FOLDER (those missing there are downloaded, but for `--offline`), and the
bundled ones. CASES is a folder of problem files, a few MB in all: measuring needs Python, the program, and nothing else.
Sizes that a model leaves open are those that `divvy inspect` suggests.

`--out` is written as results come; a run that was stopped goes on with the same `--out`. Exit status: 1 where a run failed.
"""

import argparse
import gzip
import itertools
import json
import os
import pathlib
import queue
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Kinds of networks that differ: how many ops, how wide, convolutions, attention, LSTM, detectors, int8.
REAL = [
    "page-layout",
    "page-orientation",
    "ocr-v6-rec",
    "ocr-v4-det",
    "yolov8-nude",
    "captcha-det",
    "smart-turn-int8",
    "phonemes-bert",
    "magika",
    "silero-vad-16k-flat",
    "light-densenet121",
    "captcha",
    "centerface",
]
MAKESPAN_OR_PERIOD = ["latency", "batch", "pipeline", "stream"]
# Hardware, and the objectives measured on it.
HARDWARE = {
    "edge-wifi": MAKESPAN_OR_PERIOD,
    "edge-ethernet": MAKESPAN_OR_PERIOD,
    "two-pcs-ethernet": ["latency", "stream"],
    "h200-cpu": ["cold-start"],
    "a6000-3": ["cold-start"],
    "dgx-v100-mixed": ["cold-start"],
}
ALL = [*MAKESPAN_OR_PERIOD, "cold-start"]
# Whose times are for one input only.
ONE_INPUT = [objective for objective in ALL if objective != "batch"]
# Bundled models: hardware (none: the file's own) and objectives.
BUNDLED = [
    ("resnet50.onnx", "edge-wifi", MAKESPAN_OR_PERIOD),
    ("mobilenet_v2.onnx", "edge-ethernet", MAKESPAN_OR_PERIOD),
    ("googlenet.onnx", "edge-wifi", MAKESPAN_OR_PERIOD),
    ("googlenet.json.gz", "h200-cpu", ONE_INPUT),
    ("gpt2-large-1x32.json.gz", "h200-cpu", ONE_INPUT),
    ("gpt2-large-1x32.json.gz", "a6000-3", ["cold-start"]),
    ("er10-wdep2-5-modules.json.gz", None, ["latency", "pipeline", "stream"]),
    ("layered-54.json.gz", "uniform-4", ["latency", "pipeline", "stream"]),
]
INPUTS = 8
# The most that a value at 1 s may be above the last one.
ALLOWED = {"latency": 0.03, "batch": 0.05, "pipeline": 0.03, "stream": 0.03, "cold-start": 0.03}
PATIENCE = 600


def wanted(only, name):
    return not only or any(text in name for text in only)


def command_output(command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=PATIENCE)
    if done.returncode != 0:
        lines = (done.stderr.strip() or done.stdout.strip() or f"exit status {done.returncode}").splitlines()
        raise RuntimeError(next((line for line in lines if line.startswith("error")), lines[-1]))
    return done.stdout


def sources(options):
    """Model name, file, hardware, objective of every case."""
    sys.path.insert(0, str(ROOT / "scripts"))
    import real_models

    for name in REAL:
        if not any(wanted(options.only, f"{name}.{h}.{o}") for h, all_of in HARDWARE.items() for o in all_of):
            continue
        listed = [model for *_, found in real_models.listed(options.models, name) for model in found if model.name == name]
        if not listed or not listed[0].path.is_file():
            listed = [] if options.offline else [m for m in real_models.models(options.models, name) if m.name == name]
        if not listed:
            print(f"left out: {name} is not in {options.models}", file=sys.stderr)
            continue
        for hardware, objectives in HARDWARE.items():
            for objective in objectives:
                yield name, listed[0].path, hardware, objective
    for file, hardware, objectives in BUNDLED:
        for objective in objectives:
            yield file.split(".")[0] + (".onnx" if file == "googlenet.onnx" else ""), ROOT / "models" / file, hardware, objective


def prepare(options, folder):
    """Writes the problem of every case into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    dims = {}
    with tempfile.TemporaryDirectory() as work:
        plan = pathlib.Path(work) / "plan.json"
        for model, file, hardware, objective in sources(options):
            case = f"{model}.{hardware or 'own'}.{objective}"
            if not wanted(options.only, case):
                continue
            try:
                if file not in dims:
                    seen = json.loads(command_output([options.divvy, "inspect", file, "--json"]))
                    dims[file] = {d["name"]: d["suggested"] for d in seen.get("open_dimensions", []) if d.get("name")}
                words = [options.divvy, "plan", file, "--objective", objective, "--time", "20ms", "--quiet", "-o", plan]
                words += ["--on", hardware] if hardware else []
                words += ["--inputs", INPUTS] if objective == "batch" else []
                words += [word for name, size in dims[file].items() for word in ("--dim", f"{name}={size}")]
                plan.unlink(missing_ok=True)
                command_output(words)
                problem = json.loads(plan.read_text())["problem"]
            except (OSError, RuntimeError, ValueError, subprocess.TimeoutExpired) as error:
                print(f"left out: {case}: {error}", file=sys.stderr)
                continue
            row = {"model": model, "hardware": hardware or "own", "objective": objective, "problem": problem}
            with gzip.GzipFile(folder / f"{case}.json.gz", "wb", mtime=0) as packed:
                packed.write(json.dumps(row).encode())


def measure(options, folder):
    """Plans every case for every time, several at once; results by case and time."""
    results = json.loads(options.out.read_text()) if options.out and options.out.is_file() else {}
    work = tempfile.TemporaryDirectory()
    tasks = []
    for file in sorted(folder.glob("*.json.gz")):
        case = file.name.removesuffix(".json.gz")
        if not wanted(options.only, case):
            continue
        row = json.loads(gzip.decompress(file.read_bytes()))
        problem = pathlib.Path(work.name) / f"{case}.json"
        problem.write_text(json.dumps(row.pop("problem")))
        kept = results.setdefault(case, {**row, "runs": {}})
        tasks += [(t, case, problem) for t in options.times if f"{t:g}" not in kept["runs"] or "fault" in kept["runs"][f"{t:g}"]]
    # The longest first, so that no core is left with one of them at the end.
    tasks.sort(key=lambda task: (-task[0], task[1]))
    left = queue.SimpleQueue()
    for task in tasks:
        left.put(task)
    lock, done, begun = threading.Lock(), itertools.count(1), time.monotonic()

    def one(core):
        while True:
            try:
                seconds, case, problem = left.get_nowait()
            except queue.Empty:
                return
            run = planned(options.divvy, problem, seconds, core)
            with lock:
                results[case]["runs"][f"{seconds:g}"] = run
                number = next(done)
                said = run.get("fault") or f"{run['value']} {run['bound']} {run['found_by']}"
                print(f"{number}/{len(tasks)} {time.monotonic() - begun:.0f}s {case} {seconds:g}s: {said}", flush=True)
                if options.out:
                    fresh = options.out.with_suffix(".new")
                    fresh.write_text(json.dumps(results, indent=1))
                    fresh.replace(options.out)

    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [None] * options.jobs
    if options.jobs > len(cores):
        sys.exit(f"--jobs {options.jobs}: there are {len(cores)} cores, and a job needs one of its own")
    threads = [threading.Thread(target=one, args=(cores[i] if options.jobs > 1 else None,)) for i in range(options.jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    work.cleanup()
    return results


def planned(divvy, problem, seconds, core):
    """What one run comes to: value and bounds in picoseconds."""
    words = [str(divvy), "plan", str(problem), "--time", f"{round(seconds * 1000)}ms", "--json", "--quiet"]
    pin = (lambda: os.sched_setaffinity(0, {core})) if core is not None else None
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, preexec_fn=pin)
        out = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return {"fault": f"{type(error).__name__}: {error}"}
    return {
        "value": out.get("value_ps"),
        "bound": out.get("lower_bound_ps"),
        "status": out.get("status"),
        "found_by": out.get("found_by"),
        "proved_by": (out.get("won_by") or {}).get("lower_bound") or (out.get("won_by") or {}).get("verified_lower_bound"),
        "seconds": out.get("seconds"),
    }


def rows(results, times):
    """Cases with a plan at the longest time, each with its ratios: value and bound, by time, over those of that time."""
    for case, row in sorted(results.items()):
        last = row["runs"].get(f"{times[-1]:g}", {})
        if not last.get("value"):
            continue
        ratios = {}
        for t in times:
            run = row["runs"].get(f"{t:g}", {})
            value = run["value"] / last["value"] if run.get("value") else None
            bound = (run.get("bound") or 0) / last["bound"] if last.get("bound") else None
            ratios[t] = (value, bound)
        yield case, row, last, ratios


def short(results, times):
    """The cases whose value at 1 s falls short, the worst first."""
    found = []
    for case, row, _, ratios in rows(results, times):
        value, _ = ratios.get(1.0, (1.0, None))
        if value is None or value > 1 + ALLOWED[row["objective"]]:
            found.append((value or float("inf"), case))
    return sorted(found, reverse=True)


def percent(ratio):
    if ratio is None:
        return "none"
    return f"{100 * (ratio - 1):+.1f}" if abs(ratio - 1) >= 0.0005 else "0"


def page(results, times):
    last = times[-1]
    early = times[:-1]
    lines = [
        "# Quality over time",
        "",
        f"Value and bound after {', '.join(f'{t:g}' for t in early)} s in percent above (+) or below (-) those after "
        f"{last:g} s. Every number is a run of its own of `divvy plan --time`, by `auto` on one core. A value is to be at most 3 % "
        "(batch: 5 %) above its last one after 1 s. Made by `scripts/quality_over_time.py`.",
        "",
        f"| objective | cases | within, at 1 s | " + " | ".join(f"value: median, worst at {t:g} s" for t in early) + " | "
        + " | ".join(f"bound: median, worst at {t:g} s" for t in early) + f" | median gap at {last:g} s |",
        "|---|" + "---|" * (3 + 2 * len(early)),
    ]
    by_objective = {}
    for case, row, final, ratios in rows(results, times):
        by_objective.setdefault(row["objective"], []).append((case, row, final, ratios))
    for objective in [o for o in ALL if o in by_objective]:
        found = by_objective[objective]
        values = {t: [ratios[t][0] if ratios[t][0] else float("inf") for *_, ratios in found] for t in early}
        bounds = {t: [ratios[t][1] for *_, ratios in found if ratios[t][1] is not None] for t in early}
        within = f"{sum(v <= 1 + ALLOWED[objective] for v in values[1.0])} of {len(found)}" if 1.0 in values else ""
        gaps = [final["value"] / final["bound"] - 1 for _, _, final, _ in found if final.get("bound")]
        cells = [objective, str(len(found)), within]
        cells += [f"{percent(statistics.median(values[t]))}, {percent(max(values[t]))}" for t in early]
        cells += [f"{percent(statistics.median(bounds[t]))}, {percent(min(bounds[t]))}" if bounds[t] else "" for t in early]
        cells += [f"{100 * statistics.median(gaps):.1f} %" if gaps else ""]
        lines.append("| " + " | ".join(cells) + " |")
    for objective in [o for o in ALL if o in by_objective]:
        lines += ["", f"## {objective}", ""]
        lines += [
            f"| model | hardware | value at {last:g} s | gap | " + " | ".join(f"value {t:g} s" for t in early) + " | "
            + " | ".join(f"bound {t:g} s" for t in early) + " | found by |",
            "|---|---|---:|---:|" + "---:|" * (2 * len(early)) + "---|",
        ]
        for _, row, final, ratios in by_objective[objective]:
            gap = f"{100 * (final['value'] / final['bound'] - 1):.1f} %" if final.get("bound") else ""
            cells = [row["model"], row["hardware"], f"{final['value'] / 1e9:,.3f} ms", gap]
            cells += [percent(ratios[t][0]) for t in early] + [percent(ratios[t][1]) for t in early]
            lines.append("| " + " | ".join([*cells, final.get("found_by") or ""]) + " |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR") or "target")
    parser.add_argument("--divvy", type=pathlib.Path, default=ROOT / target / "release" / "divvy", help="the program")
    parser.add_argument("--models", type=pathlib.Path, default=ROOT / target / "real-models", help="where models lie")
    parser.add_argument("--offline", action="store_true", help="download no model")
    parser.add_argument("--prepare", type=pathlib.Path, metavar="CASES", help="make the problems, and no more")
    parser.add_argument("--prepared", type=pathlib.Path, metavar="CASES", help="measure problems made before")
    parser.add_argument("--times", default="0.3,1,10,30", help="seconds, by commas [default: 0.3,1,10,30]")
    parser.add_argument("--jobs", type=int, default=1, help="how many plan at a time, a core for each [default: 1]")
    parser.add_argument("--only", action="append", metavar="TEXT", help="cases with this in MODEL.HARDWARE.OBJECTIVE")
    parser.add_argument("--out", type=pathlib.Path, help="results as JSON; goes on with what is there")
    parser.add_argument("--from", dest="read", type=pathlib.Path, metavar="JSON", help="results of before; measures nothing")
    parser.add_argument("--page", type=pathlib.Path, help="the page to write [default: standard output]")
    options = parser.parse_args()
    options.times = sorted(float(text) for text in options.times.split(","))
    options.divvy = options.divvy.resolve()
    if options.prepare:
        prepare(options, options.prepare)
        print(f"{len(list(options.prepare.glob('*.json.gz')))} cases in {options.prepare}")
        return 0
    if options.read:
        results = json.loads(options.read.read_text())
    else:
        with tempfile.TemporaryDirectory() as work:
            folder = options.prepared or pathlib.Path(work)
            if not options.prepared:
                prepare(options, folder)
            results = measure(options, folder)
    text = page(results, options.times)
    if options.page:
        options.page.write_text(text)
    else:
        print(text)
    for value, case in short(results, options.times):
        print(f"falls short at 1 s: {case}: {percent(value)} %")
    faults = [(c, t, run["fault"]) for c, row in results.items() for t, run in row["runs"].items() if "fault" in run]
    for case, t, fault in faults:
        print(f"failed: {case} {t} s: {fault}")
    return int(bool(faults) or not results)


if __name__ == "__main__":
    sys.exit(main())
