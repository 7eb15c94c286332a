#!/usr/bin/env python3
"""Fails where source files import each other in a circle.

    check_house.py [FOLDER] [--graph]
    check_house.py --self-test

It reads every file below `src` of the workspace's members, and `scripts/*.py`; what counts as an import is said in
imports.py. A file that no module declares is a fault, too.

A module and the files below it may use each other, so a circle that stays below one of its own files is permitted:
`tables/mod.rs` may use `tables/rows.rs`, and `rows.rs` what `mod.rs` defines. Two files side by side may not, nor may
`rows.rs` use a file outside that uses what `mod.rs` defines.

The last line is `N files, no circles`; else the exit status is 1.
"""

import argparse
import collections
import pathlib
import sys
import tempfile

from imports import above, read_tree

ROOT = pathlib.Path(__file__).resolve().parent.parent


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
    if found or stray:
        sys.exit(f"{len(parent)} files, {len(found)} circles")
    print(f"{len(parent)} files, no circles")


if __name__ == "__main__":
    main()
