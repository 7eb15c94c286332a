"""Which source file imports which, in Rust and in Python.

An import leads to the file that defines the name: `use`, paths in code and re-exports are followed, over the borders of
crates too. Code for tests alone (`#[cfg(test)]`) does not count. A re-export from a file below is no import: who takes
the name imports the file that defines it.

What cannot be seen here: names that only a macro or a text spells, and methods of a value whose type is not named.
"""

import ast
import collections
import re
import tomllib

COMMENT = r"//[^\n]*|/\*.*?\*/"
TEXT = r"""\b[bc]?r(\#*)".*?"\1|(?:\b[bc])?"(?:\\.|[^"\\])*\""""
CHARACTER_OR_LIFETIME = r"'(?:\\.[^'\n]*|[^\\'\n])'|'[a-z_]\w*"
NO_CODE = re.compile(f"{COMMENT}|{TEXT}|{CHARACTER_OR_LIFETIME}", re.DOTALL)
VISIBILITY = re.compile(r"\bpub\s*\(\s*(?:crate|self|super|in\s[\w:\s]+)\)")
TOKEN = re.compile(r"[A-Za-z_]\w*|::|[^\s\w]")
DEFINES = {"fn", "struct", "enum", "trait", "type", "const", "static"}

Use = collections.namedtuple("Use", "path name public")
Item = collections.namedtuple("Item", "file name")


class Module:
    """A module: what it declares, imports and mentions."""

    def __init__(self, file, parent, test):
        self.file, self.parent, self.test = file, parent, test
        self.root = parent.root if parent else self
        self.children, self.defined, self.uses, self.globs = {}, set(), [], []
        self.words, self.paths, self.macros = set(), set(), {}


def behind(tokens, at, ends):
    """The place behind the first of `ends` that is in no brackets opened since, or where the block around ends."""
    depth = 0
    while True:
        depth += (tokens[at] in ("(", "[", "{")) - (tokens[at] in (")", "]", "}"))
        if depth < 0:
            return at
        at += 1
        if depth == 0 and tokens[at - 1] in ends:
            return at


def without_tests(tokens):
    """Leaves out what is for tests alone; its modules stay, and are declared by `test_mod`."""
    kept, at = [], 0
    while at < len(tokens):
        after = behind(tokens, at + 1, ["]"]) if tokens[at : at + 2] == ["#", "["] else at
        if after > at and re.match(r"#\[cfg\((all\()?test\b", "".join(tokens[at:after])):
            while tokens[after] in ("#", "pub"):
                after = behind(tokens, after + 1, ["]"]) if tokens[after] == "#" else after + 1
            if tokens[after] == "mod":
                kept, at = [*kept, "test_mod"], after + 1
            else:
                at = behind(tokens, after, [";"] if tokens[after] == "use" else [";", "}"])
        else:
            kept.append(tokens[at])
            at += 1
    return kept


def use_tree(tokens, at, path, found):
    """Reads one tree of a `use` that begins at `at`; returns the place of what follows."""
    name = None
    while tokens[at] not in (",", "}", ";"):
        if tokens[at] == "{":
            while tokens[at] != "}":
                at = use_tree(tokens, at + 1, path, found)
            return at + 1
        if tokens[at] == "as":
            at += 1
            name = tokens[at]
        elif tokens[at] not in ("::", "$") and not (path and tokens[at] == "self"):
            path = (*path, tokens[at])
        at += 1
    if path:
        found.append((path, name or path[-1]))
    return at


class Crates:
    """The modules of all crates, and where names lead."""

    def __init__(self, folder):
        self.folder, self.libraries, self.modules, self.parent, self.stray = folder, {}, [], {}, set()
        members = tomllib.loads((folder / "Cargo.toml").read_text())["workspace"]["members"]
        for member in sorted(path for pattern in members for path in folder.glob(pattern)):
            package = tomllib.loads((member / "Cargo.toml").read_text())["package"]["name"]
            for root in (path for name in ("lib", "main", "bin/*") for path in member.glob(f"src/{name}.rs")):
                module = self.read(root, root.parent, None, False)
                if root.name == "lib.rs":
                    self.libraries[package.replace("-", "_")] = module
            self.stray |= {path.relative_to(folder).as_posix() for path in member.glob("src/**/*.rs")}
        self.stray -= set(self.parent)

    def read(self, path, below, parent, test):
        """Reads a file; the files of its child modules lie in the folder `below`."""
        file = path.relative_to(self.folder).as_posix()
        self.parent[file] = parent.file if parent else None
        module = Module(file, parent, test)
        code = VISIBILITY.sub("pub", NO_CODE.sub(" ", path.read_text()))
        self.scan(module, without_tests(TOKEN.findall(code)), below)
        return module

    def scan(self, module, tokens, below):
        """Collects what the tokens of a module say."""
        self.modules.append(module)
        tokens = ["", "", *tokens, "", "", ""]
        at, depth = 2, 0
        while at < len(tokens) - 3:
            token = tokens[at]
            if token in ("mod", "test_mod") and depth == 0 and tokens[at + 2] in (";", "{"):
                at = self.declare(module, tokens, at + 1, below, module.test or token == "test_mod")
            elif token == "use" and tokens[at + 1] != "<":
                found, public = [], tokens[at - 1] == "pub"
                at = use_tree(tokens, at + 1, (), found) + 1
                module.globs += [path[:-1] for path, name in found if name == "*"]
                module.uses += [Use(path, name, public) for path, name in found if name != "*"]
            elif token[0].isalpha() or token[0] == "_":
                if depth == 0 and tokens[at - 1] in DEFINES:
                    module.defined.add(token)
                if tokens[at - 2 : at] == ["macro_rules", "!"]:
                    # Others find it at the root of the crate, if it is exported.
                    module.macros[token] = module.root.macros[token] = module.file
                path, inner = (token,), tokens[at - 1] == "::"
                while tokens[at + 1] == "::" and tokens[at + 2][:1].isidentifier():
                    path, at = (*path, tokens[at + 2]), at + 2
                if len(path) == 1:
                    module.words.add(token)
                elif not inner:
                    module.paths.add(path)
                at += 1
            else:
                depth += (token == "{") - (token == "}")
                at += 1

    def declare(self, module, tokens, at, below, test):
        """A child module, named at `at`; returns the place behind it."""
        name = tokens[at]
        if tokens[at + 1] == "{":
            end = behind(tokens, at + 1, ["}"])
            module.children[name] = Module(module.file, module, test)
            self.scan(module.children[name], tokens[at + 2 : end - 1], below / name)
            return end
        for path in (below / f"{name}.rs", below / name / "mod.rs"):
            if path.is_file():
                module.children[name] = self.read(path, below / name, module, test)
        return at + 2

    def look_up(self, module, name, last, seen):
        """What a name is in a module. At the end of a path it is an item rather than a module of the same name."""
        if (module, name, last) in seen:
            return None
        seen = seen | {(module, name, last)}
        if not last and name in module.children:
            return module.children[name]
        for use in module.uses:
            found = self.resolve(module, use.path, last, seen) if use.name == name else None
            if found:
                return found
        if name in module.defined or name in module.macros:
            return Item(module.macros.get(name, module.file), name)
        if name in module.children:
            return module.children[name]
        for path in module.globs:
            target = self.resolve(module, path, False, seen)
            found = self.look_up(target, name, last, seen) if isinstance(target, Module) else None
            if found:
                return found
        return None

    def resolve(self, module, path, last=True, seen=frozenset()):
        """The module or item that a path leads to, or nothing if it leads out of the workspace."""
        here = module
        for place, name in enumerate(path):
            if name in ("crate", "self", "super"):
                here = {"crate": here.root, "self": here, "super": here.parent or here}[name]
                continue
            found = self.look_up(here, name, last and place == len(path) - 1, seen)
            if place == 0:
                found = found or self.libraries.get(name)
                if not found:
                    return None
            # What a macro defines is found nowhere, and belongs to the module that is asked for it.
            here = found or Item(here.file, name)
            if isinstance(here, Item):
                break
        return here

    def imports(self):
        """Pairs of files, and the names that the one imports of the other."""
        edges = collections.defaultdict(set)
        for module in self.modules:
            if module.test:
                continue
            found = [self.resolve(module, path) for path in module.paths]
            for use in module.uses:
                item = self.resolve(module, use.path)
                passed_on = use.public and use.name not in module.words
                if isinstance(item, Item) and not (passed_on and module.file in above(item.file, self.parent)):
                    found.append(item)
            for path in module.globs:
                target = self.resolve(module, path, False)
                if isinstance(target, Module):
                    found += [self.look_up(target, word, True, frozenset()) for word in module.words]
                else:
                    found.append(target)
            for item in found:
                if isinstance(item, Item) and item.file != module.file:
                    edges[module.file, item.file].add(item.name)
        return edges


def script_imports(folder):
    """The same of the Python scripts; and the scripts."""
    files = {path.stem: path.relative_to(folder).as_posix() for path in folder.glob("scripts/*.py")}
    edges = collections.defaultdict(set)
    for file in files.values():
        nodes = list(ast.walk(ast.parse((folder / file).read_text())))
        for node in nodes:
            if isinstance(node, ast.ImportFrom) and node.module in files:
                edges[file, files[node.module]] |= {alias.name for alias in node.names}
            for alias in node.names if isinstance(node, ast.Import) else ():
                if alias.name in files:
                    bound = alias.asname or alias.name
                    taken = [one for one in nodes if isinstance(one, ast.Attribute) and ast.unparse(one.value) == bound]
                    edges[file, files[alias.name]] |= {one.attr for one in taken} or {alias.name}
    return edges, list(files.values())


def above(file, parent):
    """The file that declares this one as a module, the one that declares that, and so on."""
    while file := parent.get(file):
        yield file


def read_tree(folder):
    """All imports, the file above each file, and the files that no module declares."""
    crates = Crates(folder)
    edges, scripts = script_imports(folder)
    return {**crates.imports(), **edges}, {**crates.parent, **dict.fromkeys(scripts)}, sorted(crates.stray)
