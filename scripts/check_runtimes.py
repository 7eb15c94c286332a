#!/usr/bin/env python3
"""Runs a small plan with the oldest and the newest version of ONNX Runtime that divvy works with, and others.

    check_runtimes.py --divvy target/release/divvy

`divvy run --verify` must end with exit code 0, several times over, with the oldest version, with one whose destructors
cannot be called late (1.20.1), and with the newest, that of scripts/requirements.txt. A version that is too old must be
refused with one line that names it, its path and what works.

Libraries are fetched once into .venv/onnxruntime or `--folder` (some 150 MB over the network) and compared with the sums here. Linux on
x86-64 only; elsewhere, and where they cannot be had, this is skipped with the reason.
"""

import argparse
import hashlib
import io
import json
import pathlib
import platform
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
import zipfile

import skipped

ROOT = pathlib.Path(__file__).resolve().parent.parent
KEPT = ROOT / ".venv" / "onnxruntime"
MODEL = ROOT / "exec/tests/data/whole.onnx"
NODE = "https://registry.npmjs.org/onnxruntime-node/-/onnxruntime-node-{version}.tgz"
NAME = "libonnxruntime.so.{version}"
# Version, where its library is from, and the library's SHA-256. Python packages have had it since 1.19.
TOO_OLD = ("1.16.3", "node", "ce3752ba35018ee6d8127ff4cba955b68b9c8b8b0fed8798a8f2e5c4c5a35fa5")
OTHERS = [
    ("1.17.0", "node", "e734a269546870b82d7b3a4324c57f5d5123560661cc0db223d268ffb56e507d"),
    ("1.20.1", "python", "be3dd32e78f6906fd4fa6208dbd296031fa1c3ffb42b40f706cf68d3de269f2b"),
]
RUNS = 5
PATIENCE = 600
HARDWARE = (ROOT / "testing/src/pair.toml").read_text()


class Absent(Exception):
    pass


def from_node(version):
    with urllib.request.urlopen(NODE.format(version=version), timeout=PATIENCE) as answer:
        packed = io.BytesIO(answer.read())
    with tarfile.open(fileobj=packed) as archive:
        wanted = [member for member in archive.getmembers() if member.name.endswith(f"linux/x64/{NAME.format(version=version)}")]
        return archive.extractfile(wanted[0]).read()


def from_python(version):
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:", "--python-version", "3.11"]
        subprocess.run([*command, "--dest", folder, f"onnxruntime=={version}"], check=True, timeout=PATIENCE)
        wheel = next(pathlib.Path(folder).glob("*.whl"))
        with zipfile.ZipFile(wheel) as archive:
            return archive.read(f"onnxruntime/capi/{NAME.format(version=version)}")


def library(folder, version, source, sha256):
    """The library of a version: kept, else fetched."""
    path = folder / version / NAME.format(version=version)
    if not path.is_file():
        try:
            found = {"node": from_node, "python": from_python}[source](version)
        except (OSError, subprocess.SubprocessError, tarfile.TarError, zipfile.BadZipFile, KeyError, IndexError, StopIteration) as fault:
            raise Absent(f"ONNX Runtime {version} could not be had: {fault}") from fault
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        part.write_bytes(found)
        part.rename(path)
    if hashlib.sha256(path.read_bytes()).hexdigest() != sha256:
        raise SystemExit(f"{path} is not the file that it should be; remove it to fetch it again")
    return path


def newest():
    """That of the Python environment that this script runs in, which scripts/requirements.txt names."""
    import onnxruntime

    found = sorted((pathlib.Path(onnxruntime.__file__).parent / "capi").glob("libonnxruntime.so.*"))
    if not found:
        raise Absent("the package onnxruntime has no library")
    return onnxruntime.__version__, found[0]


def divvy(program, folder, *arguments):
    return subprocess.run([program, *map(str, arguments)], cwd=folder, capture_output=True, text=True, timeout=PATIENCE)


def check_works(program, folder, version, path):
    for _ in range(RUNS):
        done = divvy(program, folder, "run", "plan.json", "--repeat", 20, "--verify", "--json", "--onnxruntime", path)
        if done.returncode != 0:
            raise SystemExit(f"ONNX Runtime {version}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        run = json.loads(done.stdout)
        if run["items"] != 20 or run["largest_difference"] > 1e-4 or run["onnxruntime_us"] <= 0:
            raise SystemExit(f"ONNX Runtime {version}: {done.stdout}")
    print(f"ONNX Runtime {version}: {RUNS} runs ended well", flush=True)


def check_refused(program, folder, version, path):
    done = divvy(program, folder, "run", "plan.json", "--onnxruntime", path)
    first = done.stderr.splitlines()[0] if done.stderr else ""
    named = all(word in first for word in (version, str(path), OTHERS[0][0].rsplit(".", 1)[0]))
    if done.returncode != 1 or not first.startswith("error:") or not named or "pip install" not in done.stderr:
        raise SystemExit(f"ONNX Runtime {version} is not refused as it should be: exit code {done.returncode}\n{done.stderr}")
    print(f"ONNX Runtime {version}: refused by name", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--divvy", required=True, help="the program")
    parser.add_argument("--folder", type=pathlib.Path, default=KEPT, help="where libraries are kept")
    options = parser.parse_args()
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        return skipped.skip("check_runtimes.py", "its libraries are for Linux on x86-64")
    program = str(pathlib.Path(options.divvy).resolve())
    try:
        too_old = library(options.folder, *TOO_OLD)
        versions = [(version, library(options.folder, version, *more)) for version, *more in OTHERS] + [newest()]
    except Absent as reason:
        return skipped.skip("check_runtimes.py", str(reason))
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "pair.toml").write_text(HARDWARE)
        question = ["plan", MODEL, "--on", "pair.toml", "--objective", "pipeline", "--dim", "n=1", "--granularity", "op", "--quiet"]
        pins = ["--pin", "first=core1", "--pin", "last=core2", "--planner", "one-device", "-o", "plan.json"]
        done = divvy(program, folder, *question, *pins)
        if done.returncode != 0:
            raise SystemExit(done.stderr)
        for version, path in versions:
            check_works(program, folder, version, path)
        check_refused(program, folder, TOO_OLD[0], too_old)


if __name__ == "__main__":
    main()
