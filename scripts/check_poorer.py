#!/usr/bin/env python3
"""Plans ten real networks, and each again on poorer hardware: without a device, with less memory, with slower links.

    check_poorer.py --divvy target/release/divvy [--folder FOLDER] [--seconds 2] [--page PAGE.md]

What is found on poorer hardware should not be better than what was found before: it was possible before. Searches end by the
clock, so a plan may be better by TOLERANCE. `search/tests/metamorphic.rs` does the same with small random networks.

Exit status: 1 where a poorer machine had the better plan.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import real_models

TOLERANCE = 0.005
MODELS = ["silero-vad-16k", "smart-turn-int8", "basic-pitch", "ocr-v4-det", "ocr-v4-rec", "page-orientation", "page-layout", "yolov8-nude", "open-nsfw", "magika"]
OBJECTIVES = {"latency": [], "batch": ["--inputs", 8], "pipeline": [], "stream": []}
# Name, GFLOP/s, GB/s and MB of each device.
DEVICES = [("fast", 400, 60, 2000), ("middle", 100, 25, 1000), ("slow", 40, 10, 1000)]
LINK = 100
CHANGES = {
    "without the slowest device": lambda devices, link: (devices[:-1], link),
    "with half the memory": lambda devices, link: ([(*device, memory // 2) for *device, memory in devices], link),
    "with links of a third": lambda devices, link: (devices, link // 3),
}


def hardware(devices, link):
    text = 'name = "boxes"\ndescription = "Unlike boxes on one switch."\nsources = ["made up"]\n'
    for name, flops, bandwidth, memory in devices:
        text += f'[class.{name}]\nkind = "cpu"\nmemory = "{memory} MB"\npeak = {{ fp32 = "{flops} GFLOP/s" }}\nmemory_bandwidth = "{bandwidth} GB/s"\nlaunch = "2 us"\n'
        text += f'[[device]]\nname = "{name}"\nclass = "{name}"\n'
    names = [name for name, *_ in devices]
    for i, one in enumerate(names):
        for other in names[i + 1 :]:
            text += f'[[link]]\nbetween = ["{one}", "{other}"]\nbandwidth = "{link} MB/s"\nlatency = "200 us"\n'
    return text


def planned(divvy, path, dims, objective, text, folder, seconds):
    file = folder / "boxes.toml"
    file.write_text(text)
    words = [divvy, "plan", path, "--on", file, "--objective", objective, "--time", f"{seconds}s", "--json", *OBJECTIVES[objective], *dims]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    return json.loads(done.stdout).get("value") if done.stdout else None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--divvy", type=pathlib.Path, default="target/release/divvy", help="the program to test")
    parser.add_argument("--folder", type=pathlib.Path, default=real_models.ROOT / "target/real-models", help="where the models lie, or are put")
    parser.add_argument("--seconds", type=float, default=2, help="how long each plan is searched for")
    parser.add_argument("--page", type=pathlib.Path, help="write a table of it here")
    options = parser.parse_args()
    divvy = options.divvy.resolve()
    rows, worse = [], 0
    with tempfile.TemporaryDirectory() as work:
        folder = pathlib.Path(work)
        for model in (model for model in real_models.models(options.folder) if model.name in MODELS):
            inspected = subprocess.run([divvy, "inspect", model.path, "--json"], capture_output=True, text=True, check=True)
            dims = [word for dim in json.loads(inspected.stdout)["open_dimensions"] for word in ("--dim", f"{dim['name']}={dim['suggested']}")]
            for objective in OBJECTIVES:
                before = planned(divvy, model.path, dims, objective, hardware(DEVICES, LINK), folder, options.seconds)
                cells = []
                for change in CHANGES.values():
                    after = planned(divvy, model.path, dims, objective, hardware(*change(DEVICES, LINK)), folder, options.seconds)
                    better = after is not None and (before is None or after < before * (1 - TOLERANCE))
                    worse += better
                    share = "no plan" if after is None else "a plan" if before is None else f"{100 * (after / before - 1):+.2f} %"
                    cells.append(f"**{share}**" if better else share)
                rows.append([model.name, objective, "no plan" if before is None else f"{before / 1e3:.3f} ms", *cells])
                print(*rows[-1], flush=True)
    lines = [
        "# Poorer hardware",
        "",
        f"Made by `scripts/check_poorer.py --page` with {options.seconds:g} s for each plan. Ten networks out of Python packages on three unlike boxes; how much longer"
        f" the best plan found takes on poorer ones. Of {len(rows) * len(CHANGES)} comparisons {worse} have a plan that is better by more than {100 * TOLERANCE:g} % (bold): that one was possible before, too.",
        "",
        f"| network | objective | value | {' | '.join(CHANGES)} |",
        "|---|---|---:|" + "---:|" * len(CHANGES),
        *(f"| {' | '.join(row)} |" for row in rows),
    ]
    if options.page:
        options.page.write_text("\n".join(lines) + "\n")
    print(f"{len(rows) * len(CHANGES)} comparisons, {worse} better on poorer hardware")
    sys.exit(1 if worse or not rows else 0)


if __name__ == "__main__":
    main()
