#!/usr/bin/env python3
"""Fails where a link of a Markdown page leads nowhere.

    check_links.py [FOLDER]
    check_links.py --self-test

It reads every `*.md` below FOLDER, but not in hidden folders or in `target`. A relative link or picture must name a file or
folder that is there, and `#heading` a heading of that page. What is inside code is no link. Links to other hosts are not
followed.

The last line is `N links in M pages, all lead somewhere`; else the exit status is 1.
"""

import argparse
import pathlib
import re
import sys
import tempfile
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parent.parent

FENCE = re.compile(r"^ {0,3}(```+|~~~+)")
INLINE_CODE = re.compile(r"(`+)(?:(?!\1).)+?\1")
HEADING = re.compile(r"^ {0,3}#{1,6}\s+(.*?)\s*#*\s*$")
# [text](target), ![text](target "title"), [name]: target, and the attributes of HTML.
LINKS = (
    re.compile(r"\]\(\s*<?([^)\s>]*)>?(?:\s+\"[^\"]*\")?\s*\)"),
    re.compile(r"^ {0,3}\[[^\]]+\]:\s*<?([^\s>]+)>?"),
    re.compile(r"\b(?:src|srcset|href)=\"([^\"\s]*)"),
)
ELSEWHERE = re.compile(r"^[a-z][a-z0-9+.-]*:|^//", re.IGNORECASE)


def prose(text):
    """The lines of a page that are not code, each with its number."""
    fence = None
    for number, line in enumerate(text.splitlines(), 1):
        opened = FENCE.match(line)
        if fence is None and opened:
            fence = opened.group(1)
        elif fence is not None:
            if opened and opened.group(1).startswith(fence) and not line.strip().strip(fence[0]):
                fence = None
        else:
            yield number, line


def anchor(heading):
    """What a heading is called in a link: as GitHub makes it."""
    heading = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    kept = "".join(c for c in heading.lower() if c.isalnum() or c in "-_ ")
    return kept.replace(" ", "-")


def anchors(text):
    """The anchors of a page: of equal headings, the second has `-1` behind it, and so on."""
    found, seen = set(), {}
    for _, line in prose(text):
        if head := HEADING.match(line):
            name = anchor(head.group(1))
            times = seen.get(name, 0)
            seen[name] = times + 1
            found.add(f"{name}-{times}" if times else name)
        found |= set(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", line))
    return found


def links(text):
    """Every link of a page, with the number of its line."""
    for number, line in prose(text):
        line = INLINE_CODE.sub("", line)
        for pattern in LINKS:
            for target in pattern.findall(line):
                if not ELSEWHERE.match(target):
                    yield number, urllib.parse.unquote(target)


def pages(folder):
    for page in sorted(folder.rglob("*.md")):
        parts = page.relative_to(folder).parts
        if not any(part.startswith(".") or part == "target" for part in parts):
            yield page


def dead_links(folder):
    """What leads nowhere, a line for each; how many links and pages there are."""
    folder = folder.resolve()
    known, dead, links_seen, pages_seen = {}, [], 0, 0
    for page in pages(folder):
        pages_seen += 1
        text = page.read_text()
        for number, target in links(text):
            links_seen += 1
            place = f"{page.relative_to(folder)}:{number}"
            path, _, name = target.partition("#")
            file = (page.parent / path).resolve() if path else page
            if not file.exists() or not file.is_relative_to(folder):
                dead.append(f"{place}: `{target}`: there is no such file")
            elif name and file.suffix == ".md":
                if file not in known:
                    known[file] = anchors(file.read_text())
                if name not in known[file]:
                    dead.append(f"{place}: `{target}`: the page has no such heading")
    return dead, links_seen, pages_seen


def self_test():
    def found(**texts):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            for path, text in {"docs/other.md": "# Two words\n\n## `x`: a, b\n## Two words", **texts}.items():
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_text(text)
            return [line.split(": ")[1] for line in dead_links(folder)[0]]

    sound = """[a](docs/other.md) [b](docs/other.md#two-words-1) [c](#here) ![d](docs) [e](https://example.org/x)
[f](docs/other.md#x-a-b "title") <img src="docs/other.md"> `[g](nowhere.md)`
```
[h](nowhere.md)
```
# Here
[i]: docs/other.md
"""
    assert found(**{"page.md": sound}) == [], "links that lead somewhere"
    for wrong in ("docs/others.md", "docs/other.md#three-words", "#there", "../page.md", "docs/other.md#two-words-2"):
        for text in (f"[x]({wrong})", f'<a href="{wrong}">x</a>', f"[x]: {wrong}", f"![x]({wrong} \"title\")"):
            assert found(**{"page.md": text}) == [f"`{wrong}`"], f"{text} leads nowhere"
    assert found(**{"docs/page.md": "[x](other.md) [y](../docs/other.md) [z](docs/other.md)"}) == ["`docs/other.md`"]
    assert found(**{".venv/page.md": "[x](nowhere.md)", "target/page.md": "[x](nowhere.md)"}) == []


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=pathlib.Path, default=ROOT)
    parser.add_argument("--self-test", action="store_true", help="try small trees instead")
    options = parser.parse_args()
    if options.self_test:
        self_test()
        print("self-test passed")
        return
    dead, links_seen, pages_seen = dead_links(options.folder)
    for line in dead:
        print(line)
    if dead:
        sys.exit(f"{len(dead)} of {links_seen} links lead nowhere")
    print(f"{links_seen} links in {pages_seen} pages, all lead somewhere")


if __name__ == "__main__":
    main()
