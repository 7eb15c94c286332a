"""Plans the cases of lab/record again, with a budget of nodes, and compares value, bounds and decisions with the record.

    cargo build --release --workspace && cargo build --release --package divvy-lab --example record
    scripts/record.py [--only TEXT] [--update]

The problem of each case is made anew by the program from its model and hardware, so that reading and assembling are compared
too. Takes some minutes; --update writes what came out as the new record.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "lab" / "record"
COMPARED = ("problem", "value_ps", "found_by", "bounds", "plan")


def planned(divvy, record, case, nodes, seconds, folder):
    """What one case comes to now: a row as in the record."""
    problem = folder / f"{case['case']}.json.gz"
    made = subprocess.run(
        [divvy, "plan", *case["args"], "--piece-cost", "0", "--time", "20ms", "--quiet", "-o", problem], cwd=ROOT, capture_output=True, text=True
    )
    if made.returncode != 0:
        return {"fault": made.stderr.strip() or made.stdout.strip()}
    (folder / "plans").mkdir(exist_ok=True)
    done = subprocess.run(
        [record, str(nodes), str(seconds), folder / "plans", problem], cwd=ROOT, capture_output=True, text=True
    )
    if done.returncode != 0:
        return {"fault": done.stderr.strip()}
    return json.loads(done.stdout)


def differences(case, now):
    if "fault" in now:
        return [now["fault"]]
    return [f"{key}: {case.get(key)} before, {now.get(key)} now" for key in COMPARED if case.get(key) != now.get(key)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--divvy", default=ROOT / "target/release/divvy", type=Path)
    parser.add_argument("--record", default=ROOT / "target/release/examples/record", type=Path)
    parser.add_argument("--only", default="", help="cases whose name holds this text")
    parser.add_argument("--seconds", default=60, type=int, help="the most time for one case, which none should need")
    parser.add_argument("--update", action="store_true", help="write what comes out as the record")
    options = parser.parse_args()
    kept = json.loads((RECORD / "cases.json").read_text())
    changed = count = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for case in kept["cases"]:
            if options.only not in case["case"]:
                continue
            count += 1
            now = planned(options.divvy, options.record, case, kept["nodes"], options.seconds, folder)
            found = differences(case, now)
            if found:
                changed += 1
                print(f"{case['case']}:")
                print("".join(f"  {line}\n" for line in found), end="", flush=True)
                if options.update and "fault" not in now:
                    case.update({key: now.get(key) for key in COMPARED})
                    plan = folder / "plans" / f"{case['case']}.json.gz"
                    (RECORD / "plans" / plan.name).write_bytes(plan.read_bytes())
    if options.update:
        rows = ",\n".join(json.dumps(case) for case in kept["cases"])
        (RECORD / "cases.json").write_text(f'{{\n"nodes": {kept["nodes"]},\n"cases": [\n{rows}\n]\n}}\n')
    print(f"{count} cases, {changed} differ from the record")
    return int(changed > 0 and not options.update)


if __name__ == "__main__":
    sys.exit(main())
