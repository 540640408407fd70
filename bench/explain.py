#!/usr/bin/env python3
"""Explanations of real packages: is every edge proved, is any missing, does every picture draw, and how fast is it.

Packages come from the registries into a cache outside of the tree. Peers run in the same run where they are installed
(`--install` fetches them into the cache). The checker below reads the source files itself: it shares no code with the
program that draws."""

import argparse
import glob
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
FACTS = os.path.join(os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target")), "release/examples/facts")

PYTHON = """flask requests click httpx fastapi rich black jinja2 werkzeug starlette pydantic attrs pytest pluggy sqlalchemy
 celery aiohttp tornado marshmallow typer uvicorn anyio trio networkx sympy docutils pygments babel mako dask""".split()
NPM = """express koa fastify axios zod commander chalk yargs debug eslint mocha webpack rollup prettier uuid semver winston
 pino ws socket.io redux immer lodash-es date-fns rxjs mobx ajv marked""".split()

# With these there are two hundred. They are drawn and checked, and no peer is asked about them.
MORE_PYTHON = """typing-extensions packaging six urllib3 certifi idna charset-normalizer python-dateutil pytz pyyaml markupsafe
 itsdangerous blinker platformdirs filelock virtualenv distlib tqdm colorama importlib-metadata zipp jsonschema
 referencing cachetools google-auth rsa pyasn1 oauthlib requests-oauthlib cryptography pyparsing tomli wheel
 setuptools psutil greenlet websockets h11 httpcore sniffio multidict yarl frozenlist aiosignal tenacity pyjwt
 docker redis pymongo boto3 botocore s3transfer jmespath prompt-toolkit wcwidth markdown-it-py mdurl typeguard
 loguru structlog arrow pendulum peewee alembic django djangorestframework gunicorn flake8 pycodestyle pyflakes
 mccabe isort black pylint astroid mypy bandit coverage hypothesis faker nltk gensim scrapy parsel twisted
 zope.interface paramiko fabric invoke ansible-core sphinx mkdocs poetry-core hatchling""".split()
MORE_NPM = """lodash async bluebird request body-parser cors helmet morgan dotenv jsonwebtoken bcryptjs passport mongoose
 sequelize knex pg mysql2 redis ioredis bull nodemailer handlebars ejs pug mustache marked highlight.js cheerio
 puppeteer-core jsdom vue-router vuex pinia react-router zustand immutable ramda underscore moment dayjs luxon
 classnames styled-components formik yup joi superagent got node-fetch undici ora inquirer meow execa
 cross-spawn glob minimatch rimraf mkdirp chokidar tape ava jasmine vitest sinon nock supertest esbuild terser
 postcss autoprefixer sass less tailwindcss eslint-plugin-import graphql apollo-server type-graphql fp-ts io-ts""".split()

GO_SOURCES = "/usr/share/gocode/src"


def run(command, **options):
    """Output of a command, or None if it fails."""
    options = {"capture_output": True, "text": True, "timeout": 300, **options}
    try:
        done = subprocess.run(command, **options)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def facts(folder):
    return json.loads(run([FACTS, folder, "facts"]) or "null")


def explanation(folder):
    return json.loads(run([FACTS, folder]) or "null")


# ── packages ────────────────────────────────────────────────────────────────────────────────────────────────────────


def fetch_python(cache, name):
    target = os.path.join(cache, "python", name)
    if not os.path.isdir(target):
        wheels = os.path.join(cache, "wheels", name)
        if run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:", "-d", wheels, name]) is None:
            return None
        for wheel in glob.glob(os.path.join(wheels, "*.whl")):
            shutil.unpack_archive(wheel, target, "zip")
    return target if os.path.isdir(target) else None


def fetch_npm(cache, name):
    target = os.path.join(cache, "npm", name.replace("/", "+"))
    if not os.path.isdir(target):
        os.makedirs(target + ".new", exist_ok=True)
        if run(["npm", "pack", "--silent", name], cwd=target + ".new") is None:
            return None
        for archive in glob.glob(os.path.join(target + ".new", "*.tgz")):
            shutil.unpack_archive(archive, target + ".new", filter="data")
            os.remove(archive)
        inner = os.path.join(target + ".new", "package")
        os.rename(inner if os.path.isdir(inner) else target + ".new", target)
    return target


def crates(count):
    """Crates that cargo has unpacked on this machine already."""
    home = os.environ.get("CARGO_HOME", os.path.expanduser("~/.cargo"))
    found = sorted(glob.glob(os.path.join(home, "registry/src/*/*-[0-9]*")))
    sized = [path for path in found if len(glob.glob(os.path.join(path, "src/**/*.rs"), recursive=True)) >= 8]
    return sized[:: max(1, len(sized) // count)][:count]


def fetch_go(cache, name):
    """A library of Debian's Go packages, with the module file that Debian leaves out."""
    source, target = os.path.join(GO_SOURCES, name), os.path.join(cache, "go", name)
    if not os.path.isdir(target):
        shutil.copytree(source, target)
    if not os.path.isfile(os.path.join(target, "go.mod")):
        with open(os.path.join(target, "go.mod"), "w") as file:
            file.write(f"module {name}\n")
    return target


# ── the checker ─────────────────────────────────────────────────────────────────────────────────────────────────────


def proved(folder, found):
    """Number of uses, and those whose line does not contain the symbol."""
    texts, wrong = {}, []
    for use in found["uses"]:
        path = found["files"][use["from"]]["path"]
        if path not in texts:
            with open(os.path.join(folder, path), "rb") as source:
                texts[path] = source.read().decode("utf-8", "replace").split("\n")
        line = texts[path][use["line"] - 1]
        if use["symbol"] not in line or not os.path.isfile(os.path.join(folder, found["files"][use["to"]]["path"])):
            wrong.append((path, use["line"], use["symbol"], line[:80]))
    return len(found["uses"]), wrong


def crossings(dot):
    """Pairs of edges that cross in Graphviz' own layout, and the number of nodes; edges as chains of straight pieces."""
    plain = run(["dot", "-Tplain"], input=dot, timeout=120)
    if plain is None:
        return None
    nodes, edges = 0, []
    for line in plain.splitlines():
        words = re.findall(r'"(?:[^"\\]|\\.)*"|\S+', line)
        if words[0] == "node":
            nodes += 1
        elif words[0] == "edge":
            count = int(words[3])
            points = [(float(words[4 + 2 * at]), float(words[5 + 2 * at])) for at in range(count)]
            edges.append((words[1], words[2], points))

    def turn(a, b, c):
        return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])

    def cross(one, other):
        for a, b in zip(one, one[1:]):
            for c, d in zip(other, other[1:]):
                if turn(a, b, c) * turn(a, b, d) < 0 and turn(c, d, a) * turn(c, d, b) < 0:
                    return True
        return False

    if len(edges) > 1500:
        edges = edges[:1500]
    found = 0
    for at, (from_one, to_one, one) in enumerate(edges):
        for from_other, to_other, other in edges[at + 1 :]:
            if {from_one, to_one} & {from_other, to_other}:
                continue
            found += cross(one, other)
    return found, nodes


def isolated(dot):
    """Boxes that no line reaches."""
    ids = set(re.findall(r"^  ([a-z]\d+) \[label", dot, re.M))
    tied = set()
    for one, other in re.findall(r"^  ([a-z]\d+) -> ([a-z]\d+) ", dot, re.M):
        tied |= {one, other}
    return ids - tied, len(ids)


# ── peers ───────────────────────────────────────────────────────────────────────────────────────────────────────────

GRIMP = """
import sys, json, grimp
package = sys.argv[1]
graph = grimp.build_graph(package, cache_dir=None)
print(json.dumps([[one, other] for one in graph.modules for other in graph.find_modules_directly_imported_by(one)]))
"""


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
    program = os.path.join(peers, "node_modules/.bin/depcruise")
    out = run([program, "--no-config", "--output-type", "json", "--exclude", "node_modules", "."], cwd=folder)
    if out is None:
        return set(), set()
    paths = {file["path"] for file in found["files"]}
    theirs = set()
    for module in json.loads(out)["modules"]:
        for dependency in module["dependencies"]:
            if dependency.get("couldNotResolve") or dependency.get("coreModule"):
                continue
            edge = (module["source"], dependency["resolved"])
            if edge[0] in paths and edge[1] in paths and edge[0] != edge[1]:
                theirs.add(edge)
    ours = {(found["files"][use["from"]]["path"], found["files"][use["to"]]["path"]) for use in found["uses"]}
    return theirs, theirs - ours


def go_recall(name, found):
    """Imports between packages that `go list` knows, and those that we lack."""
    environment = {**os.environ, "GO111MODULE": "off", "GOPATH": os.path.dirname(GO_SOURCES), "GOFLAGS": ""}
    out = (run(["go", "list", "-e", "-json", f"{name}/..."], env=environment) or "").strip()
    theirs, at = set(), 0
    while at < len(out):
        package, at = json.JSONDecoder().raw_decode(out, at)
        at += len(out[at:]) - len(out[at:].lstrip())
        inner = [other for other in package.get("Imports", []) if other == name or other.startswith(f"{name}/")]
        theirs |= {(package["ImportPath"], other) for other in inner}
    place = lambda file: f"{name}/{os.path.dirname(found['files'][file]['path'])}".rstrip("/")
    return theirs, theirs - {(place(use["from"]), place(use["to"])) for use in found["uses"]}


def rust_recall(folder, found):
    """Dependencies between packages of a workspace that cargo knows and that the code names, and those that we lack."""
    metadata = run(["cargo", "metadata", "--no-deps", "--offline", "--format-version", "1"], cwd=folder)
    packages = json.loads(metadata or '{"packages": []}')["packages"]
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
    metadata = run(["cargo", "metadata", "--no-deps", "--offline", "--format-version", "1"], cwd=folder)
    packages = json.loads(metadata or '{"packages": []}')["packages"]
    roots = [target["src_path"] for one in packages for target in one["targets"] if {"lib", "bin", "proc-macro"} & set(target["kind"])]
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
    paths = {file["path"] for file in found["files"]}
    theirs = {pair for pair in theirs if pair[0] in paths and pair[1] in paths}
    return theirs, theirs - {(found["files"][use["from"]]["path"], found["files"][use["to"]]["path"]) for use in found["uses"]}


def peer_dots(peers, kind, folder):
    """Pictures of the same package by others."""
    if kind == "python":
        names = [name for name in os.listdir(folder) if os.path.isfile(os.path.join(folder, name, "__init__.py"))]
        if names:
            package = os.path.join(folder, names[0])
            yield "pydeps", run([os.path.join(peers, "bin/pydeps"), package, "--show-dot", "--no-output", "--no-config", "--max-bacon", "2"], cwd=folder)
            out = os.path.join(peers, "code2flow.gv")
            run([os.path.join(peers, "bin/code2flow"), package, "--output", out, "--language", "py", "--quiet", "--skip-parse-errors"], cwd=folder)
            if os.path.isfile(out):
                with open(out) as drawn:
                    yield "code2flow", drawn.read()
                os.remove(out)
    else:
        yield "madge", run([os.path.join(peers, "node_modules/.bin/madge"), "--dot", "--extensions", "js,mjs,cjs,ts", "."], cwd=folder)


def install(peers):
    if not os.path.isfile(os.path.join(peers, "bin/python")):
        subprocess.run([sys.executable, "-m", "venv", peers], check=True)
    subprocess.run([os.path.join(peers, "bin/pip"), "install", "-q", "grimp==3.19", "pydeps", "code2flow"], check=True)
    subprocess.run(["npm", "install", "--silent", "--ignore-scripts", "--prefix", peers, "dependency-cruiser@16", "madge", "typescript"], check=True)


# ── PyCG's micro-benchmark ──────────────────────────────────────────────────────────────────────────────────────────


def call_graphs(folder, verbose=False):
    """Precision and recall of calls over the snippets: (proved, drawn, expected)."""
    right = drawn = expected = 0
    for truth in sorted(glob.glob(os.path.join(folder, "snippets/*/*/callgraph.json"))):
        snippet = os.path.dirname(truth)
        with open(truth) as file:
            wanted = {(one, other) for one, others in json.load(file).items() for other in others}
        found = facts(snippet)
        names = module_names(snippet, found)
        ours = set()
        for use in found["uses"]:
            if use["kind"] not in ("call", "indirect") or use["to"] not in names:
                continue
            one, other = (names[use[at]] + (f".{use[at + '_symbol']}" if use[at + "_symbol"] else "") for at in ("from", "to"))
            symbols = {symbol["name"]: symbol["kind"] for symbol in found["files"][use["to"]]["symbols"]}
            if symbols.get(use["to_symbol"]) == "class":
                # A call of a class without an `__init__` of its own runs nothing of it.
                if f"{use['to_symbol']}.__init__" not in symbols:
                    continue
                other += ".__init__"
            ours.add((one, other))
        right += len(ours & wanted)
        drawn += len(ours)
        expected += len(wanted)
        if verbose:
            name = os.path.relpath(snippet, os.path.join(folder, "snippets"))
            for kind, edges in (("false", ours - wanted), ("missing", wanted - ours)):
                for one, other in sorted(edges):
                    print(f"    {name}: {kind} {one} -> {other}")
    return right, drawn, expected


# ── sizes and hostile trees ─────────────────────────────────────────────────────────────────────────────────────────


def grown(cache, sources, lines):
    """A folder with about so many lines, made of copies of real packages."""
    target = os.path.join(cache, f"grown-{lines}")
    if os.path.isdir(target):
        return target
    count, number = 0, 0
    while count < lines:
        for source in sources:
            place = os.path.join(target, f"copy{number}", os.path.basename(source))
            shutil.copytree(source, place, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.dist-info", "*.so"))
            for path in glob.glob(os.path.join(place, "**/*.*"), recursive=True):
                if path.endswith((".py", ".js", ".ts", ".rs")) and os.path.isfile(path):
                    with open(path, "rb") as file:
                        count += file.read().count(b"\n")
            if count >= lines:
                break
        number += 1
    return target


def timed(folder):
    before = time.monotonic()
    process = subprocess.Popen([FACTS, folder], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    return time.monotonic() - before, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, status


def hostile(cache):
    """A tree that attacks its reader."""
    target = os.path.join(cache, "hostile")
    shutil.rmtree(target, ignore_errors=True)
    os.makedirs(os.path.join(target, "deep" + "/d" * 200))
    put = lambda name, data: open(os.path.join(target, name), "wb").write(data)
    put("nested.py", b"(" * 400_000)
    put("nested.js", b"[" * 400_000 + b"]" * 400_000)
    put("functions.js", b"(function(){" * 60_000)
    # In pieces: the largest memory of a process is inherited by its children, and would be taken for theirs.
    with open(os.path.join(target, "line.py"), "wb") as file:
        for _ in range(100):
            file.write(b"a" * 1_000_000)
    put("invalid.py", b"\xff\xfe\xfa import x\n" * 1000)
    put('"; rm -rf .py', b"import invalid\n")
    put("<script>alert(1)<script>.py", b"import invalid\n")
    put("](http:evil).py", b"class A:\n  '''](javascript:alert(1)) <img src=x onerror=alert(1)>'''\n")
    put("many.rs", b"".join(b"mod a%d;\n" % at for at in range(60_000)))
    put("stars.py", b"from a.b.c import *\n" * 30_000)
    put(".gitignore", b"*" * 400 + b"x\n")
    os.symlink(".", os.path.join(target, "loop"))
    os.symlink("/etc/passwd", os.path.join(target, "passwd.py"))
    os.mkfifo(os.path.join(target, "pipe.py"))
    return target


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", default="/var/cache/sandyard/bench-explain")
    parser.add_argument("--install", action="store_true", help="install the peers into the cache")
    parser.add_argument("--packages", type=int, default=1000, help="packages of each registry, at most")
    parser.add_argument("--verbose", action="store_true", help="name each call that is missing or false")
    parser.add_argument("--more", action="store_true", help="two hundred packages instead of some sixty")
    parser.add_argument("--pycg", help="folder of PyCG's micro-benchmark")
    parser.add_argument("--lines", type=int, nargs="*", default=[100_000], help="sizes to measure")
    options = parser.parse_args()
    peers = os.path.join(options.cache, "peers")
    os.makedirs(options.cache, exist_ok=True)
    if options.install:
        install(peers)

    packages = [("python", name, fetch_python(options.cache, name)) for name in PYTHON[: options.packages]]
    packages += [("npm", name, fetch_npm(options.cache, name)) for name in NPM[: options.packages]]
    alone = set()
    if options.more:
        packages += [("python", name, fetch_python(options.cache, name)) for name in MORE_PYTHON]
        packages += [("npm", name, fetch_npm(options.cache, name)) for name in MORE_NPM]
        alone = {*MORE_PYTHON, *MORE_NPM}
    packages += [("crate", os.path.basename(path), path) for path in crates(options.packages)]
    packages.append(("workspace", "this project", ROOT))
    if shutil.which("go"):
        libraries = sorted(glob.glob(os.path.join(GO_SOURCES, "github.com/*/*")))[: options.packages]
        names = [os.path.relpath(path, GO_SOURCES) for path in libraries if not os.path.islink(path)]
        packages += [("go", name, fetch_go(options.cache, name)) for name in names]
    packages = [package for package in packages if package[2]]

    totals = {}
    print(f"{'package':28} {'files':>6} {'uses':>7} {'unproved':>8} {'edges of peer':>14} {'missing':>8} {'parts':>6} {'cross':>6} {'peers cross':>12}")
    failed = []
    for kind, name, folder in packages:
        found = facts(folder)
        first, second = explanation(folder), explanation(folder)
        if not found or not first:
            failed.append((name, "no explanation"))
            continue
        if json.dumps(first) != json.dumps(second):
            failed.append((name, "two runs differ"))
        uses, wrong = proved(folder, found)
        known, missing = set(), set()
        asked = name not in alone
        if asked and kind == "python" and os.path.isfile(os.path.join(peers, "bin/python")):
            known, missing = python_recall(peers, folder, found)
        if asked and kind == "npm" and os.path.isdir(os.path.join(peers, "node_modules")):
            known, missing = javascript_recall(peers, folder, found)
        if kind == "go":
            known, missing = go_recall(name, found)
        if kind == "crate":
            known, missing = module_recall(folder, found)
        if kind == "workspace":
            known, missing = rust_recall(folder, found)
        dots = [first["dot"]] + [part["dot"] for part in first["parts"] if part["dot"]]
        for dot in dots:
            lone, count = isolated(dot)
            if lone and count > 1 or count > 25:
                failed.append((name, f"{len(lone)} isolated of {count} boxes"))
        drawn = [crossings(dot) for dot in dots]
        if None in drawn:
            failed.append((name, "dot failed"))
        others = {peer: crossings(dot) for peer, dot in peer_dots(peers, kind, folder) if dot} if asked and kind in ("python", "npm") else {}
        ours = max((one[0] for one in drawn if one), default=0)
        text = " ".join(f"{peer} {one[0]}" for peer, one in others.items() if one)
        print(f"{name[:28]:28} {len(found['files']):6} {uses:7} {len(wrong):8} {len(known):14} {len(missing):8} {len(first['parts']):6} {ours:6} {text:>12}", flush=True)
        for line in wrong[:3]:
            print("    unproved:", line)
        for edge in sorted(missing)[:3]:
            print("    missing:", *edge)
        total = totals.setdefault(kind, [0, 0, 0, 0, 0, 0, 0])
        best = [one[0] for one in others.values() if one]
        for at, value in enumerate([1, uses, len(wrong), len(known), len(missing), ours if best else 0, min(best) if best else 0]):
            total[at] += value
    for kind, (count, uses, wrong, known, missing, ours, theirs) in totals.items():
        precision = 1 - wrong / uses if uses else 1
        recall = 1 - missing / known if known else float("nan")
        print(f"\n{kind}: {count} packages, {uses} uses, precision {precision:.4f}; {known} edges of the peer, recall {recall:.4f}; crossings {ours} beside {theirs} of the better peer")
    print(f"\nfailures: {failed or 'none'}")

    if options.pycg:
        right, drawn, expected = call_graphs(options.pycg, options.verbose)
        print(f"\nPyCG's micro-benchmark: precision {right / max(drawn, 1):.3f}, recall {right / max(expected, 1):.3f} ({right} right of {drawn} drawn, {expected} expected)")

    sources = [folder for kind, _, folder in packages if kind in ("python", "npm")]
    for lines in options.lines:
        elapsed, processor, memory, status = timed(grown(options.cache, sources, lines))
        print(f"\n{lines} lines: {elapsed:.1f} s, {processor:.1f} s of processor, {memory:.0f} MB, status {status}")
    elapsed, processor, memory, status = timed(hostile(options.cache))
    print(f"hostile tree: {elapsed:.1f} s, {processor:.1f} s of processor, {memory:.0f} MB, status {status}")


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    main()
