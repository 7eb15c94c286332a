#!/usr/bin/env python3
"""Measures what running plans costs and gains on two cores of this machine, and writes a page of it.

    cargo build --release && cargo build --release --package divvy-exec --example plain
    measure_runs.py --divvy target/release/divvy --plain target/release/examples/plain -o running.md

Everything that is compared is run in turns, so that what else the machine does falls on all of it. `--only part` runs one of
overhead, gain, prediction and soak; a page needs all four.

Needs the packages onnx and onnxruntime (scripts/python.sh), and two cores.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import onnxruntime

import light_models

CASES = ["squeezenet", "inception_v1", "resnet50", "densenet121", "shufflenet"]
OBJECTIVES = ["latency", "pipeline", "stream"]
SOAK_ITEMS = 100_000
# How long the whole model is timed at least, and how long each plan is searched for.
PROFILE_SECONDS = 2
PLAN_SECONDS = 2
# How many turns of everything that is compared there are in a round.
TURNS = 3
HARDWARE = (pathlib.Path(__file__).resolve().parent.parent / "testing/src/pair.toml").read_text()


class Bench:
    def __init__(self, options, folder):
        self.divvy_path, self.plain_path, self.build = options.divvy, options.plain, options.build
        self.seconds, self.rounds, self.repeat, self.cases = options.seconds, options.rounds, options.repeat, options.cases
        self.folder = pathlib.Path(folder)
        self.hardware = self.folder / "pair.toml"
        self.hardware.write_text(HARDWARE)
        # The same with what cuts were measured to cost.
        self.measured = self.folder / "measured.toml"
        self.environment = dict(os.environ)
        package = pathlib.Path(onnxruntime.__file__).parent / "capi"
        self.environment.setdefault("ORT_DYLIB_PATH", str(next(package.glob("libonnxruntime.so.*"))))
        self.cores = sorted(os.sched_getaffinity(0))[:2]

    def model(self, case):
        return light_models.FOLDER / f"light_{case}.onnx"

    def start(self, *command):
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=self.environment)

    def output(self, *command):
        process = self.start(*command)
        text = process.communicate()[0]
        if process.returncode != 0:
            raise SystemExit(f"{' '.join(map(str, command))}: exit code {process.returncode}")
        return text

    def plain(self, what, case, cores, seconds=None):
        path, seconds = str(self.model(case)), str(seconds or self.seconds)
        return self.start(self.plain_path, what, path, ",".join(map(str, cores)), seconds)

    def divvy(self, *arguments):
        return self.output(self.divvy_path, *map(str, arguments))

    def plan(self, model, objective, profile, plan, *more):
        # More splits than that cost more copies between layouts than any balance gains.
        limit = ["--max-splits", "3"] if objective == "stream" else []
        question = ["--on", self.measured if profile else self.hardware, "--objective", objective, "--time", f"{PLAN_SECONDS}s", "--quiet", "--json", *limit]
        times = ["--profile", profile] if profile else []
        return json.loads(self.divvy("plan", model, *question, *times, "-o", plan, *more))

    def profile(self, model, profile):
        """Measures a model, a short one as often as fills a while: a moment says little of a machine."""
        what = ["--on", self.hardware, "--hardware", self.measured, "--quiet", "-o", profile]
        self.divvy("profile", model, *what, "--repeat", "10")
        alone_ps = json.loads(pathlib.Path(profile).read_text())["costs"]["whole_model"][0]["time"]
        items = round(PROFILE_SECONDS * 1e12 / alone_ps)
        return self.divvy("profile", model, *what, "--repeat", max(self.repeat, min(items, 20 * self.repeat)))

    def run(self, plan, *more):
        return json.loads(self.divvy("run", plan, "--json", *more))


def report_of(process):
    text = process.communicate()[0]
    if process.returncode != 0:
        raise SystemExit(f"{process.args}: exit code {process.returncode}")
    return json.loads(text)


def error_of(run):
    """How far a prediction is from the undisturbed time, over that."""
    return run["predicted_us"] / run["undisturbed_us"] - 1


def rate(report):
    return report["items"] / report["seconds"]


def overhead(bench):
    """A one-stage program against ONNX Runtime alone, on one core and on two."""
    rows = []
    for case in bench.cases:
        for cores in (bench.cores[:1], bench.cores):
            found = report_of(bench.plain("overhead", case, cores, 4 * bench.seconds))
            rows.append((case, len(cores), found["alone_us"], found["through_us"], found["ratio"] - 1))
            print(rows[-1], file=sys.stderr, flush=True)
    return rows


def gain(bench):
    """Plans for two devices of a core each against two processes of a core each, and against one of two threads."""
    rows = []
    for case in bench.cases:
        model, profile = bench.model(case), bench.folder / "times.json"
        bench.profile(model, profile)
        plans = {objective: bench.folder / f"{objective}.json" for objective in ("pipeline", "stream")}
        for objective, plan in plans.items():
            bench.plan(model, objective, profile, plan)
        # The whole model on one device: two such processes are what two copies of divvy's own pieces would reach.
        alone = bench.folder / "alone.json"
        bench.plan(model, "pipeline", profile, alone, "--planner", "one-device")
        first, second = (str(core) for core in bench.cores)
        places = [("--cores", f"core1={mine}", "--cores", f"core2={other}") for mine, other in ((first, second), (second, first))]
        apart, copies, threads, errors = [], [], [], []
        split = {objective: [] for objective in plans}
        # Many short turns: how fast the machine is changes within seconds.
        seconds = bench.seconds / 2
        for _ in range(TURNS * bench.rounds):
            both = [bench.plain("rate", case, [core], seconds) for core in bench.cores]
            apart.append(sum(rate(report_of(process)) for process in both))
            both = [bench.start(bench.divvy_path, "run", alone, "--json", "--as-is", "--no-compare", "--duration", f"{seconds}s", *place) for place in places]
            copies.append(sum(report_of(process)["throughput_per_s"] for process in both))
            for objective, plan in plans.items():
                # Without turns of the whole model, like the processes that it is compared with.
                run = bench.run(plan, "--duration", f"{seconds}s", "--as-is", "--no-compare")
                split[objective].append(run["throughput_per_s"])
            threads.append(rate(report_of(bench.plain("rate", case, bench.cores, seconds))))
        learned = bench.folder / "learned-pipeline.json"
        for _ in range(1 + bench.rounds):
            run = bench.run(plans["pipeline"], "--duration", f"{bench.seconds}s", "--no-compare", "--learn", learned)
            errors.append(error_of(run))
            # The next run is predicted from this one.
            bench.plan(model, "pipeline", learned, plans["pipeline"])
        middle = statistics.median
        share = {objective: middle(a / b for a, b in zip(rates, apart)) for objective, rates in split.items()}
        row = [case, *map(middle, (apart, copies, split["pipeline"], split["stream"], threads))]
        of_copies = middle(a / b for a, b in zip(split["pipeline"], copies))
        rows.append((*row, share["pipeline"], share["stream"], of_copies, middle(errors[1:])))
        print(rows[-1], file=sys.stderr, flush=True)
    return rows


def prediction(bench):
    """What plans were predicted to take and what they took, from a profile just before, and then from that run."""
    rows, enough = [], ["--duration", f"{bench.seconds}s", "--no-compare"]
    for case in bench.cases:
        model, profile, plan = bench.model(case), bench.folder / "times.json", bench.folder / "plan.json"
        learned, founds = bench.folder / "learned.json", {objective: [] for objective in OBJECTIVES}
        for _ in range(bench.rounds):
            # The speed of a machine changes by the minute: each prediction is from a profile of its own.
            bench.profile(model, profile)
            for objective in OBJECTIVES:
                bench.plan(model, objective, profile, plan)
                first = bench.run(plan, *enough, "--learn", learned)
                bench.plan(model, objective, learned, plan)
                founds[objective].append((first, error_of(bench.run(plan, *enough))))
        for objective, pairs in founds.items():
            errors = [(error_of(found), found) for found, _ in pairs]
            error, middle = min(errors, key=lambda pair: abs(pair[0] - statistics.median(error for error, _ in errors)))
            spread = max(error for error, _ in errors) - min(error for error, _ in errors)
            row = (case, objective, len(middle["stages"]), middle["predicted_us"], middle["undisturbed_us"], error)
            rows.append((*row, spread, statistics.median(after for _, after in pairs), middle["measured_us"]))
            print(rows[-1], file=sys.stderr, flush=True)
    return rows


def resident(pid):
    try:
        lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return None
    found = [int(line.split()[1]) for line in lines if line.startswith("VmRSS")]
    return found[0] if found else None


def soak(bench, items=SOAK_ITEMS):
    """Many items through a pipeline of two stages, every one verified, memory looked at all the while."""
    model = pathlib.Path(__file__).resolve().parent.parent / "exec/tests/data/whole.onnx"
    plan = bench.folder / "soak.json"
    pins = ["--dim", "n=1", "--pin", "first=core1", "--pin", "last=core2", "--granularity", "op", "--planner", "one-device"]
    bench.plan(model, "pipeline", None, plan, *pins)
    process = bench.start(bench.divvy_path, "run", str(plan), "--repeat", str(items), "--verify", "--no-compare", "--json")
    sizes = []
    while process.poll() is None:
        sizes.append(resident(process.pid))
        time.sleep(0.02)
    found = json.loads(process.stdout.read())
    if process.returncode != 0:
        raise SystemExit("the soak failed")
    sizes = [size for size in sizes if size]
    quarter = len(sizes) // 4
    early, late = statistics.median(sizes[quarter : 2 * quarter]), statistics.median(sizes[3 * quarter :])
    row = (found["items"], len(found["stages"]), found["seconds"], early / 1024, late / 1024, found["largest_difference"])
    print(row, file=sys.stderr, flush=True)
    return row


def page(results, bench):
    percent = lambda share: f"{100 * share:+.1f} %"
    lines = [
        "# Running plans on two cores",
        "",
        f"Made by `scripts/measure_runs.py` with a {bench.build} build of divvy and ONNX Runtime {onnxruntime.__version__}, on two cores of {machine()}. The load of the"
        f" machine was {results['load'][0]:.1f} at the start and {results['load'][1]:.1f} at the end: above 2, others were using the"
        " same cores, and figures scatter.",
        "",
        "## A one-stage plan against ONNX Runtime alone",
        "",
        "In turns of at least 40 ms, with 60 ms of rest between them: the runtime's threads look for work for some 35 ms after a run. The overhead is the median over pairs of neighbours.",
        "",
        "| model | cores | alone | through divvy | overhead |",
        "|---|---|---|---|---|",
    ]
    for case, cores, alone, through, share in results["overhead"]:
        lines.append(f"| {case} | {cores} | {alone / 1e3:.2f} ms | {through / 1e3:.2f} ms | {percent(share)} |")
    lines += [
        "",
        "## Two devices against two processes and against two threads",
        "",
        "Items per second, medians over rounds in which all take turns. A share is that in what two processes of ONNX Runtime reach"
        " together, round by round. *Two copies* are two processes of divvy that run the whole model on one core each, and *of copies* the pipeline's share"
        " in what they reach: divvy writes normalisations over neighbouring channels (Inception v1 has two) as quicker operators, of which this share has"
        " nothing. The prediction is that of a two-stage plan made from the round before. A `stream` plan (at most three splits) may give a device several pieces.",
        "",
        "| model | two processes | two copies | pipeline | stream | two threads | share of pipeline | share of stream | of copies | pipeline off by |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for case, *rates, share, share_of_stream, of_copies, error in results["gain"]:
        shares = f"{share:.2f} | {share_of_stream:.2f} | {of_copies:.2f}"
        lines.append(f"| {case} | {' | '.join(f'{rate:.1f}' for rate in rates)} | {shares} | {percent(error)} |")
    rows = results["prediction"]
    first = statistics.median(abs(row[5]) for row in rows)
    settled = statistics.median(abs(row[7]) for row in rows)
    worst = max(rows, key=lambda row: abs(row[5]))
    by_clock = statistics.median(abs(row[3] / row[8] - 1) for row in rows)
    lines += [
        "",
        "## Prediction against measurement",
        "",
        "`stream` with at most three splits. *From the profile* is the error of a plan made from a profile measured just before it ran: op times,"
        " what cuts cost, and what devices take beside each other. *Undisturbed* is without the time for which others had the cores and at the speed of the profile, for which the run takes"
        " turns with the whole model (docs/guide/running.md), and errors are from it; *measured* is the median by the wall clock. The row is the middle one of several rounds, each with a"
        " profile of its own, and *spread* how far the errors of the rounds are apart. *Learned* is the error of a plan made from"
        f" what that run measured (`--learn`). Medians of the absolute errors: {100 * first:.1f} % from the profile, {100 * settled:.1f} %"
        f" learned, and {100 * by_clock:.1f} % from the profile against the wall clock; the worst from the profile is {worst[0]}, {worst[1]}, {percent(worst[5])}. A profile has one rate for what a byte costs that"
        " crosses a cut; what it costs in truth depends on the layouts on both sides, so that plans of many short pieces are off. A pipeline takes longer than its slower"
        " stage where the times of stages scatter, since each then waits for the other now and then: its stages alone are off by less.",
        "",
        "| model | plan | stages | predicted | undisturbed | measured | from the profile | spread | learned |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for case, objective, stages, predicted, measured, before, spread, after, wall in rows:
        times = f"{predicted / 1e3:.2f} ms | {measured / 1e3:.2f} ms | {wall / 1e3:.2f} ms"
        lines.append(f"| {case} | {objective} | {stages} | {times} | {percent(before)} | {100 * spread:.1f} % | {percent(after)} |")
    items, stages, seconds, early, late, difference = results["soak"]
    lines += [
        "",
        "## Hand-over and soak",
        "",
        *(f"* {line.strip()}" for line in results["transfers"]),
        f"* {items} items through {stages} stages in {seconds:.1f} s, each compared with the whole model (largest difference"
        f" {difference:.1e}); resident memory {early:.1f} MiB in the second quarter of the run, {late:.1f} MiB in the last.",
        "",
    ]
    return "\n".join(lines)


def machine():
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"a machine of {len(names)} (`{names[0]}`)" if names else "an unknown machine"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--divvy", required=True, help="the program")
    parser.add_argument("--plain", required=True, help="the example `plain` of the package divvy-exec")
    parser.add_argument("-o", "--output", help="the page; without it results go to standard output as JSON")
    parser.add_argument("--only", help="overhead, gain, prediction or soak")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=CASES, metavar="CASE", help="networks; all if not given")
    parser.add_argument("--build", default="release", help="how the two programs were built, for the page")
    parser.add_argument("--seconds", type=float, default=4, help="length of each run of a rate")
    parser.add_argument("--rounds", type=int, default=5, help="turns that are taken; at least 2")
    parser.add_argument("--repeat", type=int, default=60, help="items of each run that is predicted")
    options = parser.parse_args()
    parts = {"overhead": overhead, "gain": gain, "prediction": prediction, "soak": soak}
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options, folder)
        if len(bench.cores) < 2:
            raise SystemExit("two cores are needed")
        before = os.getloadavg()[0]
        results = {name: part(bench) for name, part in parts.items() if options.only in (None, name)}
        text = bench.profile(bench.model("squeezenet"), bench.folder / "times.json")
        results["transfers"] = [line for line in text.splitlines() if " -> " in line]
        results["load"] = (before, os.getloadavg()[0])
    if options.output and not options.only:
        pathlib.Path(options.output).write_text(page(results, bench))
    else:
        print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
