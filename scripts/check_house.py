#!/usr/bin/env python3
"""Fails where source files import each other in a circle, or where a crate depends on one that it must not know.

    check_house.py [FOLDER] [--graph]
    check_house.py --self-test

It reads every file below `src` of the workspace's members, and `scripts/*.py`; what counts as an import is said in
imports.py. A file that no module declares is a fault, too.

A module and the files below it may use each other, so a circle that stays below one of its own files is permitted:
`tables/mod.rs` may use `tables/rows.rs`, and `rows.rs` what `mod.rs` defines. Two files side by side may not, nor may
`rows.rs` use a file outside that uses what `mod.rs` defines.

Which crates a crate may depend on is in `CONTRACT`; `cargo metadata` says on which it does. A crate of the workspace
that the contract does not have is a fault, one that is not there is none. `testing/tests/contract.rs` holds the crates
to the same contract.

The last line is `N files, no circles`; else the exit status is 1.
"""

import argparse
import collections
import json
import pathlib
import subprocess
import sys
import tempfile

from imports import above, read_tree

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Each crate, and the crates of the workspace that it depends on. For tests alone, any may use `divvy-testing`.
CONTRACT = {
    "divvy-core": set(),
    "divvy-solver-tools": set(),
    "divvy-solver": {"divvy-solver-tools"},
    "divvy-proof": {"divvy-core"},
    "divvy-search": {"divvy-core", "divvy-proof", "divvy-solver"},
    "divvy-io": {"divvy-core", "divvy-proof"},
    "divvy-exec": set(),
    "divvy-deploy": {"divvy-core", "divvy-io", "divvy-exec"},
    "divvy-lab": {"divvy-core", "divvy-proof", "divvy-search", "divvy-io"},
    "divvy": {"divvy-core", "divvy-proof", "divvy-search", "divvy-io", "divvy-exec", "divvy-deploy"},
    "divvy-cli": {"divvy", "divvy-lab"},
    "divvy-testing": {"divvy-core"},
}
TESTING = "divvy-testing"


def components(files, targets):
    """The strongly connected components of a graph (Tarjan's algorithm)."""
    number, low, stack, found = {}, {}, [], []

    def visit(file):
        number[file] = low[file] = len(number)
        stack.append(file)
        for target in targets[file]:
            if target in files:
                if target not in number:
                    visit(target)
                if target in stack:
                    low[file] = min(low[file], low[target])
        if low[file] == number[file]:
            place = stack.index(file)
            found.append(set(stack[place:]))
            del stack[place:]

    for file in sorted(files):
        if file not in number:
            visit(file)
    return found


def way_round(files, targets, branch):
    """The shortest way round a circle that passes through two branches."""
    ways = []
    for first in sorted(files):
        reached, queue = {first}, collections.deque([[first]])
        while queue:
            way = queue.popleft()
            for target in targets[way[-1]]:
                if target == first and len({branch[file] for file in way}) > 1:
                    ways.append([*way, first])
                if target in files and target not in reached:
                    reached.add(target)
                    queue.append([*way, target])
    return min(ways, key=len)


def circles(edges, parent):
    """The circles that are not permitted, each with its shortest way round.

    A circle that does not pass through the module which holds all of it passes through two of that module's branches.
    """
    targets = collections.defaultdict(list)
    for one, other in sorted(edges):
        targets[one].append(other)
    branches = collections.defaultdict(dict)
    for file in parent:
        line = [file, *above(file, parent), None]
        for branch, top in zip(line, line[1:]):
            branches[top][file] = branch
    found = []
    for branch in branches.values():
        for files in components(branch, targets):
            if len({branch[file] for file in files}) > 1:
                found.append((files, way_round(files, targets, branch)))
    return sorted(found, key=lambda circle: (len(circle[0]), circle[1]))


def breaches(metadata):
    """What the packages of a workspace depend on otherwise than the contract says, a line for each."""
    members = {package["name"]: package for package in metadata["packages"]}
    found = []
    for name, package in sorted(members.items()):
        if name not in CONTRACT:
            found.append(f"{name}: the contract does not have this crate")
            continue
        used = {"normal": set(), "dev": set(), "build": set()}
        for dependency in package["dependencies"]:
            if dependency["name"] in members:
                used[dependency["kind"] or "normal"].add(dependency["name"])
        expected = CONTRACT[name] & set(members)
        found += [f"{name}: depends on {other}" for other in sorted(used["normal"] - expected)]
        found += [f"{name}: does not depend on {other}" for other in sorted(expected - used["normal"])]
        found += [f"{name}: is built with {other}" for other in sorted(used["build"])]
        found += [f"{name}: is tested with {other}" for other in sorted(used["dev"] - {TESTING})]
    return found


def metadata(folder):
    command = ["cargo", "metadata", "--no-deps", "--format-version", "1", "--offline"]
    return json.loads(subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE).stdout)


def show(edges, files):
    for (one, other), names in sorted(edges.items()):
        if one in files and other in files:
            print(f"  {one} -> {other}: {', '.join(sorted(names))}")


def self_test():
    def tree(files):
        files = {"Cargo.toml": '[workspace]\nmembers = ["low", "high"]', "high/src/lib.rs": "", **files}
        files |= {f"{crate}/Cargo.toml": f'[package]\nname = "the-{crate}"' for crate in ("low", "high")}
        with tempfile.TemporaryDirectory() as name:
            for path, text in files.items():
                (pathlib.Path(name) / path).parent.mkdir(parents=True, exist_ok=True)
                (pathlib.Path(name) / path).write_text(text)
            edges, parent, stray = read_tree(pathlib.Path(name))
        return edges, [sorted(files) for files, _ in circles(edges, parent)], stray

    names = ("lib", "table/mod", "table/row", "reader", "other")
    root, table, row, reader, other = (f"low/src/{name}.rs" for name in names)
    high = "high/src/lib.rs"
    house = {
        root: "//! use crate::nothing;\npub mod reader; pub mod table; pub use table::{Row as Line, row::{self, *}};",
        table: "pub(crate) mod row; pub(in crate::table) use row::Row; pub struct Table; fn all() -> Vec<Row> { [] }",
        row: """use super::Table; /* use crate::reader; */ pub struct Row<'a>(&'a str, char); pub enum Kind { Big }
            fn text() { ('"', r#"crate::reader::read()"#); } #[cfg(test)] use crate::reader::{read};
            #[cfg(test)] mod tests { use super::*; use crate::reader::read; }""",
        reader: "use crate::{Line, row::{Kind::{self, Big}}}; pub fn read() {} mod inner { use super::read; }",
        high: "use the_low::{Line as L, table}; mod inner { fn f() { super::table::Table; the_low::Kind::Big; } }",
    }
    edges, found, stray = tree(house)
    assert not found and not stray, "a module and its child, and what only tests import, are no circle"
    assert edges[reader, row] == {"Row", "Kind"} and (reader, root) not in edges, "through re-exports"
    assert edges[high, row] == {"Row", "Kind"} and edges[high, table] == {"Table"}, "over crates"
    assert edges[table, row] == {"Row"} and edges[row, table] == {"Table"} and (row, reader) not in edges
    for text in ("::read as get;", "; fn f() { reader::read() }", "::*; fn f() { read() }"):
        _, found, _ = tree({**house, row: f"pub struct Row; use crate::reader{text}"})
        assert found == [[reader, row]], "a circle through a re-export"
    assert not tree({**house, row: "pub struct Row; use crate::reader;"})[1], "a module that is imported and not used"
    _, found, _ = tree({**house, row: "use super::super::reader::read;", reader: "use crate::table::Table;"})
    assert found == [[reader, table, row]], "a circle through what a module defines and uses from below"

    siblings = {root: "mod reader; mod other;", reader: "fn f() { super::other::go() } pub fn stop() {}"}
    text = "use super::reader; macro_rules! stop { () => { reader::stop() } } pub fn go() {}"
    _, found, stray = tree({**siblings, other: text, row: ""})
    assert found == [[other, reader]] and stray == [row], "siblings"
    _, found, _ = tree({**siblings, other: f"pub fn go() {{}} #[cfg(all(test, unix))] mod tests {{ {text} }}"})
    assert not found, "for tests alone"

    scripts = {"scripts/one.py": "import two\ntwo.go()", "scripts/two.py": "def go():\n    from one import stop"}
    edges, found, _ = tree(scripts)
    assert found == [sorted(scripts)] and edges["scripts/one.py", "scripts/two.py"] == {"go"}, "scripts"


    def packages(**crates):
        """Metadata of crates, each with the kind of dependency, and the crate, that it has besides the contract's."""
        listed = []
        for name, (kind, *more) in crates.items():
            name = f"divvy-{name}"
            known = [{"name": other, "kind": None} for other in CONTRACT.get(name, ())]
            listed.append({"name": name, "dependencies": known + [{"name": other, "kind": kind} for other in more]})
        return {"packages": listed}

    sound = {"core": (None, "serde"), "proof": ("dev", TESTING), "testing": (None,)}
    assert not breaches(packages(**sound)), "as the contract has it"
    for name, kind, other in (
        ("core", None, "divvy-proof"),
        ("testing", None, "divvy-proof"),
        ("core", None, TESTING),
        ("core", "dev", "divvy-proof"),
        ("core", "build", TESTING),
        ("new", None, "serde"),
    ):
        assert len(breaches(packages(**{**sound, name: (kind, other)}))) == 1, f"{name} depends on {other}"
    assert breaches({"packages": [{"name": name, "dependencies": []} for name in ("divvy-core", "divvy-proof")]})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=pathlib.Path, default=ROOT, help="the workspace")
    parser.add_argument("--graph", action="store_true", help="print every import")
    parser.add_argument("--self-test", action="store_true", help="try small trees instead")
    options = parser.parse_args()
    if options.self_test:
        self_test()
        print("self-test passed")
        return
    edges, parent, stray = read_tree(options.folder.resolve())
    if options.graph:
        show(edges, parent)
    found = circles(edges, parent)
    for files, way in found:
        print(f"{len(files)} files in a circle, such as {' -> '.join(way)}:")
        show(edges, files)
    for file in stray:
        print(f"{file}: no module declares it")
    broken = breaches(metadata(options.folder.resolve()))
    for line in broken:
        print(line)
    if found or stray or broken:
        sys.exit(f"{len(parent)} files, {len(found)} circles")
    print(f"{len(parent)} files, no circles")


if __name__ == "__main__":
    main()
