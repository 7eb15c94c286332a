#!/usr/bin/env python3
"""Fails where a locked package asks for a newer Rust than `rust-version` in Cargo.toml promises.

It reads what `cargo metadata` says of every package in Cargo.lock, for all systems and features, and compiles nothing.
Cargo must have fetched them all (`cargo fetch --locked`). A package that names no Rust version passes.

The last line is `N packages, none asks for more than Rust X`; else the exit status is 1.
"""

import json
import pathlib
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent


def number(version):
    """Of `1.88` and `1.88.0` the same."""
    parts = [int(part) for part in version.split(".")]
    return parts + [0] * (3 - len(parts))


def main():
    promised = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["rust-version"]
    command = ["cargo", "metadata", "--format-version", "1", "--all-features", "--offline", "--locked"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{done.stderr.strip()}\nhint: `cargo fetch --locked` fetches what Cargo.lock names")
    metadata = json.loads(done.stdout)
    resolved = {node["id"] for node in metadata["resolve"]["nodes"]}
    packages = [package for package in metadata["packages"] if package["id"] in resolved]
    newer = [one for one in packages if one["rust_version"] and number(one["rust_version"]) > number(promised)]
    for one in sorted(newer, key=lambda one: one["id"]):
        print(f"{one['name']} {one['version']} asks for Rust {one['rust_version']}, newer than {promised}")
        print(f"  hint: cargo update -p {one['name']}@{one['version']} --precise VERSION, with an older version")
    if newer:
        sys.exit(1)
    print(f"{len(packages)} packages, none asks for more than Rust {promised}")


if __name__ == "__main__":
    main()
