"""Re-reads every export of `divvy export` with the library that owns its format.

Plans are made for each objective, exported in each text format, and read again:

* `csv` with Python's csv module: every op of the plan, times that add up;
* `dot` with pydot: every op once, every edge of the graph;
* `device-map` with Accelerate's own `check_device_map`. Importing Accelerate needs torch, which is several gigabytes, so
  the function is taken out of the installed package by its name and run on a stand-in for a model that has the network's
  parameter names;
* `trace` against the rules of the Trace Event Format, since no package on PyPI brings a reader along
  (Perfetto's downloads its program when it is first used);
* `layers` against the rules that vLLM, TensorRT-LLM and llama.cpp split layers by;
* `svg` with Python's XML parser;
* `schedule` by following its queues, one clock for each thread: the finish is the plan's.
"""

import argparse
import ast
import csv
import importlib.metadata
import io
import json
import subprocess
import sys
import tempfile
import warnings
import xml.etree.ElementTree
from bisect import bisect_right
from pathlib import Path

import pydot

PLANS = [
    ("latency", ["models/googlenet.json.gz", "--on", "h200-cpu", "--time", "1s"]),
    ("batch", ["models/googlenet.json.gz", "--on", "h200-cpu", "--objective", "batch", "--inputs", "32", "--time", "1s"]),
    ("stream", ["models/resnet50.onnx", "--on", "h200-cpu", "--objective", "stream", "--time", "1s"]),
    ("pipeline", ["models/layered-54.json.gz", "--stages", "4", "--time", "2s"]),
    ("cold-start", ["models/gpt2-large-1x32.json.gz", "--on", "dgx-v100", "--objective", "cold-start", "--time", "1s"]),
    ("modules", ["models/er10-wdep2-5-modules.json.gz", "--time", "1s"]),
]


def divvy(program, *arguments, refused=False):
    done = subprocess.run([program, *arguments], capture_output=True, text=True)
    if refused:
        assert done.returncode == 1 and "hint:" in done.stderr, (arguments, done.stderr)
        return done.stderr
    assert done.returncode == 0, (arguments, done.stderr)
    return done.stdout


def check_csv(text, plan):
    rows = list(csv.DictReader(io.StringIO(text, newline=""), strict=True))
    ops = set(plan["problem"]["graph"]["ops"]["name"])
    assert {row["op"] for row in rows} == ops, "every op has a row"
    devices = {device["name"] for device in plan["problem"]["hardware"]["device"]}
    for row in rows:
        start, duration, end = (float(row[key]) for key in ("start_us", "duration_us", "end_us"))
        assert row["device"] in devices and None not in row, row
        assert start >= 0 and duration >= 0 and abs(start + duration - end) <= 1e-6 * max(1.0, end), row
        assert row["critical"] in ("0", "1") and row["time"] in ("measured", "scaled", "estimated"), row
    assert any(row["critical"] == "1" for row in rows)


def check_dot(text, plan):
    graphs = pydot.graph_from_dot_data(text)
    assert graphs and len(graphs) == 1
    (graph,) = graphs
    nodes = [node for part in [graph, *graph.get_subgraphs()] for node in part.get_nodes()]
    names = [node.get_name() for node in nodes if node.get_name() not in ("node", "edge", '"\\n"')]
    count = len(plan["problem"]["graph"]["ops"]["name"])
    assert sorted(names) == sorted(f"op{i}" for i in range(count)), "every op once"
    tensors = plan["problem"]["graph"]["tensors"]
    pairs = {
        (f"op{producer}", f"op{consumer}")
        for producer, consumers in zip(tensors["producer"], tensors["consumers"])
        if producer is not None
        for consumer in consumers
    }
    assert {(edge.get_source(), edge.get_destination()) for edge in graph.get_edges()} == pairs, "every edge"


def check_svg(text, _plan):
    root = xml.etree.ElementTree.fromstring(text)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert len(root.findall(".//{http://www.w3.org/2000/svg}rect")) > 1


def check_trace(text, plan):
    """The rules of the Trace Event Format for the events that are used here."""
    trace = json.loads(text)
    assert trace["displayTimeUnit"] in ("ms", "ns")
    threads, slices, flows = {}, {}, {}
    for event in trace["traceEvents"]:
        assert isinstance(event["pid"], int) and isinstance(event["tid"], int) and isinstance(event["name"], str), event
        if event["ph"] == "M":
            assert event["name"] in ("process_name", "process_sort_index", "thread_name", "thread_sort_index"), event
            if event["name"] == "thread_name":
                threads[event["pid"], event["tid"]] = event["args"]["name"]
            continue
        assert isinstance(event["ts"], (int, float)) and event["ts"] >= 0 and isinstance(event["cat"], str), event
        if event["ph"] == "X":
            assert event["dur"] >= 0, event
            slices.setdefault((event["pid"], event["tid"]), []).append((event["ts"], event["ts"] + event["dur"]))
        else:
            assert event["ph"] in ("s", "t", "f"), event
            assert event["ph"] != "f" or event["bp"] == "e", event
            flows.setdefault(event["id"], []).append(event)
    assert set(slices) <= set(threads), "every thread has a name"
    assert len(set(threads.values())) == len(threads), "no two threads share a name"
    for spans in slices.values():
        spans.sort()
        for (_, end), (start, _) in zip(spans, spans[1:]):
            assert end <= start + 1e-6, "slices of one thread follow each other"
    for events in flows.values():
        phases = [event["ph"] for event in events]
        assert phases[0] == "s" and phases[-1] == "f" and set(phases[1:-1]) <= {"t"}, phases
        assert len({(event["name"], event["cat"]) for event in events}) == 1, "a flow keeps its name"
        times = [event["ts"] for event in events]
        assert times == sorted(times), "arrows lead forward"
        for event in events:
            spans = slices[event["pid"], event["tid"]]
            assert any(start <= event["ts"] <= end for start, end in spans), "an arrow ends on a slice"
    assert any("critical" in event.get("cat", "").split(",") for event in trace["traceEvents"])


def accelerate_check():
    """Accelerate's own check of a device map, without importing torch."""
    files = importlib.metadata.files("accelerate") or []
    (path,) = [file for file in files if str(file) == "accelerate/utils/modeling.py"]
    tree = ast.parse(Path(path.locate()).read_text())
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "check_device_map"]
    future = ast.ImportFrom("__future__", [ast.alias("annotations")], 0)
    module = ast.fix_missing_locations(ast.Module([future, *functions], []))
    space = {"warnings": warnings}
    exec(compile(module, str(path), "exec"), space)
    return space["check_device_map"]


class StandIn:
    """A model that knows the names of its parameters and modules."""

    def __init__(self, parameters):
        self.parameters = parameters

    def state_dict(self):
        return dict.fromkeys(self.parameters)

    def named_modules(self):
        modules = {""}
        for name in self.parameters:
            parts = name.split(".")[:-1]
            modules.update(".".join(parts[: i + 1]) for i in range(len(parts)))
        return [(name, None) for name in sorted(modules)]


def check_device_maps(program, folder):
    check = accelerate_check()
    model, plan = folder / "gpt.json", folder / "gpt.plan.json"
    divvy(program, "generate", "gpt", "--name", "gpt2", "-o", str(model))
    question = ["plan", str(model), "--on", "dgx-v100", "--objective", "stream", "--quiet", "-o", str(plan)]
    question += ["--planner", "one-device"]
    ops = json.loads(model.read_text())["graph"]["ops"]["name"]

    def pinned(place):
        """Plans with every op pinned, and returns what came of the export."""
        pins = [part for op in ops for part in ("--pin", f"{op}={place(op)}")]
        divvy(program, *question, *pins)

    def layer(op):
        head = op.split(".")[0]
        return int(head[1:]) if head[0] == "h" and head[1:].isdigit() else None

    # Whole layers: 0 to 4 and the ends on the first device, 5 to 11 on the second.
    pinned(lambda op: "gpu2" if (layer(op) or 0) >= 5 else "gpu1")
    parameters = json.loads(plan.read_text())["problem"]["graph"]["params"]["name"]
    exported = json.loads(divvy(program, "export", str(plan), "--format", "device-map"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check(StandIn(parameters), exported)
    assert exported["h4"] == 0 and exported["h5"] == 1 and set(exported.values()) == {0, 1}, exported
    try:
        check(StandIn([*parameters, "extra.weight"]), exported)
    except ValueError as error:
        assert "extra.weight" in str(error)
    else:
        raise AssertionError("the check lets a parameter without a device pass")

    layers = json.loads(divvy(program, "export", str(plan), "--format", "layers"))
    check_layers(layers, [5, 7])

    # A layer in two halves cannot be said.
    pinned(lambda op: "gpu2" if op in ("h3.mlp.proj", "h3.mlp.gelu") else "gpu1")
    told = divvy(program, "export", str(plan), "--format", "layers", refused=True)
    assert "layer 3 is split" in told, told
    told = divvy(program, "export", str(plan), "--format", "device-map", refused=True)
    assert "h3.mlp" in told, told


def check_layers(layers, counts):
    assert [device["layers"] for device in layers["devices"]] == counts
    # vLLM: one whole number for each rank; they add up to the layers of the model.
    name, value = layers["vllm"]["environment"].split("=")
    partition = [int(part) for part in value.split(",")]
    assert name == "VLLM_PP_LAYER_PARTITION" and partition == counts and sum(partition) == layers["layers"]
    assert layers["vllm"]["arguments"] == f"--pipeline-parallel-size {len(counts)}"
    # TensorRT-LLM: as many as ranks, and the same sum.
    assert layers["tensorrt_llm"] == {"pipeline_parallel_size": len(counts), "pp_partition": counts}
    # llama.cpp: shares of all layers and the head become cumulative sums; a layer is on the first device whose sum is above it.
    words = layers["llama_cpp"]["arguments"].split()
    options = dict(zip(words[::2], words[1::2]))
    on_gpu, split = int(options["-ngl"]), [float(part) for part in options["--tensor-split"].split(",")]
    sums = [sum(split[: i + 1]) / sum(split) for i in range(len(split))]
    count = layers["layers"]
    first, used = max(count + 1 - on_gpu, 0), min(on_gpu, count + 1)
    places = [bisect_right(sums, (layer - first) / used) for layer in range(count)]
    expected = [i for i, count in enumerate(counts) for _ in range(count)]
    assert first == 0 and places == expected, (places, expected)


def check_schedule(text):
    """Follows the queues: every item starts when its thread is free and what it waits for is there."""
    whole = json.loads(text)
    buses = [thread["queue"] for thread in whole["buses"]]
    devices = [thread["queue"] for thread in whole["devices"]]
    queues, free, done, turns = buses + devices, [0.0] * (len(buses) + len(devices)), {}, {}
    next_item = [0] * len(queues)
    moved = True
    while moved:
        moved = False
        for i, queue in enumerate(queues):
            if next_item[i] == len(queue):
                continue
            item = queue[next_item[i]]
            length = item["us"][1] - item["us"][0]
            if "load" in item:
                waits, name = [], (item["load"], item["to"])
            elif "read_in_place_by" in item:
                op = item["read_in_place_by"]
                turns[op] = free[i]
                if op not in done:
                    continue
                free[i], next_item[i], moved = done[op], next_item[i] + 1, True
                continue
            else:
                waits = [*item["waits_for"], *((landed["param"], landed["at"]) for landed in item["landed"])]
                name = item["op"]
                if item["reads_in_place"] and name not in turns:
                    continue
            if any(wait not in done for wait in waits):
                continue
            start = max([free[i], *(done[wait] for wait in waits)])
            if "op" in item and item["reads_in_place"]:
                start = max(start, turns[name])
            done[name] = free[i] = start + length
            next_item[i], moved = next_item[i] + 1, True
    assert all(count == len(queue) for count, queue in zip(next_item, queues)), "no thread is stuck"
    assert abs(max(free) - whole["finish_us"]) <= 1e-6 * whole["finish_us"], (max(free), whole["finish_us"])


CHECKS = {"csv": check_csv, "dot": check_dot, "svg": check_svg, "trace": check_trace}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--divvy", required=True, help="the program")
    program = parser.parse_args().divvy
    read = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for objective, question in PLANS:
            path = folder / f"{objective}.json"
            divvy(program, "plan", *question, "--quiet", "-o", str(path))
            plan = json.loads(path.read_text())
            for form, check in CHECKS.items():
                # pydot takes a minute for a thousand ops.
                if form == "dot" and len(plan["problem"]["graph"]["ops"]["name"]) > 300:
                    continue
                target = folder / f"{objective}.{form}"
                divvy(program, "export", str(path), "--format", form, "-o", str(target))
                with open(target, newline="") as file:
                    check(file.read(), plan)
                read += 1
        check_schedule(divvy(program, "export", str(folder / "cold-start.json"), "--format", "schedule"))
        divvy(program, "export", str(folder / "latency.json"), "--format", "schedule", refused=True)
        check_device_maps(program, folder)
    print(f"{read + 3} exports read again: csv, dot, svg, trace, schedule, device-map, layers")


if __name__ == "__main__":
    sys.exit(main())
