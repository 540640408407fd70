#!/usr/bin/env python3
"""Explanations of real packages: is every edge proved, is any missing, does every picture draw, and how fast is it.

Packages come from the registries into a cache outside of the tree (`explain_packages.py`). Peers run in the same run where they
are installed (`explain_peers.py`; `--install` fetches them into the cache). The checker below reads the DOT that is drawn, the
facts and the source files by itself: it shares no code with the program that draws."""

import argparse
import glob
import hashlib
import json
import os
import re
import resource
import shutil
import subprocess
import time
import urllib.parse

from explain_packages import packages, run
from explain_peers import crossings, install, module_names, peer_dots, recall

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
FACTS = os.path.join(os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target")), "release/examples/facts")
# Boxes of one picture, at most.
MOST_BOXES = 25


def facts(folder):
    return json.loads(run([FACTS, folder, "facts"]) or "null")


def explained(folder):
    """The explanation as it was printed."""
    return run([FACTS, folder])


# ── the checker ─────────────────────────────────────────────────────────────────────────────────────────────────────

EDGE = re.compile(r"^  ([a-z]\d+) -> ([a-z]\d+) \[(.*)\];$", re.M)
NODE = re.compile(r"^  ([a-z]\d+) \[label=(.*)\];$", re.M)
PROOF = re.compile(r"(?P<path>.*):(?P<line>\d+) (?:imports|calls|mentions|uses|starts|answers) (?P<symbol>.*?)(?: \(and \d+ more\))?")


class Sources:
    """Lines of the files of a package."""

    def __init__(self, folder):
        self.folder, self.texts = folder, {}

    def line(self, path, number):
        """A line, or None if there is none."""
        if path not in self.texts:
            place = os.path.join(self.folder, path)
            if not os.path.isfile(place):
                return None
            with open(place, "rb") as source:
                self.texts[path] = source.read().decode("utf-8", "replace").split("\n")
        lines = self.texts[path]
        return lines[number - 1] if 0 < number <= len(lines) else None


def unproved_uses(sources, found):
    """Uses among the facts whose line does not contain the symbol, or whose target is no file."""
    wrong = []
    for use in found["uses"]:
        path, target = (found["files"][use[end]]["path"] for end in ("from", "to"))
        line = sources.line(path, use["line"])
        if line is None or use["symbol"] not in line or not os.path.isfile(os.path.join(sources.folder, target)):
            wrong.append((path, use["line"], use["symbol"], (line or "")[:80]))
    return wrong


def attribute(text, name):
    found = re.search(rf'(?:^|, ){name}="((?:[^"\\]|\\.)*)"', text)
    return re.sub(r"\\(.)", r"\1", found[1]).replace("&amp;", "&") if found else None


def unproved_edges(sources, dot):
    """Number of arrows that are drawn, and those that lack a proof: a file and a line that contains the symbol, for each head.

    A dotted line without a head says that a file lies in the folder, so its proof is the file."""
    boxes = {box: attribute(text, "URL") for box, text in NODE.findall(dot)}
    wrong, drawn = [], EDGE.findall(dot)
    for one, other, text in drawn:
        if "dir=none" in text:
            path = urllib.parse.unquote((boxes.get(other) or "").split("#")[0])
            good = path.startswith("diagrams/") or sources.line(path, 1) is not None
        else:
            proofs = [PROOF.fullmatch(proof) for proof in (attribute(text, "tooltip") or "").split("; back: ")]
            shown = [proof and sources.line(proof["path"], int(proof["line"])) for proof in proofs]
            good = len(proofs) == (2 if "dir=both" in text else 1)
            good = good and all(line is not None and proof["symbol"] and proof["symbol"] in line for proof, line in zip(proofs, shown))
            link = urllib.parse.unquote(attribute(text, "URL") or "")
            good = good and link == f"{proofs[0]['path']}#L{proofs[0]['line']}"
        if not good or one not in boxes or other not in boxes:
            wrong.append((one, other, attribute(text, "tooltip")))
    return len(drawn), wrong


def faults_of(dot):
    """What is wrong with the boxes of a picture."""
    boxes = {box for box, _ in NODE.findall(dot)}
    tied = {box for one, other, _ in EDGE.findall(dot) for box in (one, other)}
    if len(boxes) > MOST_BOXES or len(boxes) > 1 and boxes - tied:
        yield f"{len(boxes - tied)} isolated of {len(boxes)} boxes"


def drawing(dot):
    """Hash of the picture that Graphviz draws, or None."""
    svg = run(["dot", "-Tsvg"], input=dot, timeout=60)
    return hashlib.sha256(svg.encode()).hexdigest() if svg and "<svg" in svg else None


def dots_of(explanation):
    return [explanation["dot"]] + [part["dot"] for part in explanation["parts"] if part["dot"]]


def pictures(sources, first, second):
    """Number of arrows, arrows without proof, crossings of the worst picture, and failures."""
    arrows, wrong, crossed, failed = 0, [], 0, []
    for dot, again in zip(dots_of(first), dots_of(second)):
        count, bad = unproved_edges(sources, dot)
        arrows, wrong = arrows + count, wrong + bad
        failed += faults_of(dot)
        one = drawing(dot)
        if one is None:
            failed.append("dot failed")
        elif dot != again or one != drawing(again):
            failed.append("two drawings differ")
        crossed = max(crossed, (crossings(dot) or (0, 0))[0])
    return arrows, wrong, crossed, failed


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


COLUMNS = ("package", "files", "uses", "unproved", "arrows", "unproved", "peer's edges", "missing", "parts", "cross", "peers cross")


def measured(kind, name, folder, options, asked):
    """One row of the table, with everything that is wrong with the package."""
    found, first, second = facts(folder), explained(folder), explained(folder)
    if not found or not first:
        return None
    failed = [] if first == second else ["two runs differ"]
    sources = Sources(folder)
    wrong_uses = unproved_uses(sources, found)
    first, second = json.loads(first), json.loads(second)
    arrows, wrong_arrows, crossed, more = pictures(sources, first, second)
    peers = os.path.join(options.cache, "peers")
    known, missing = recall(kind, name, folder, found, peers, options.cache) if asked else (set(), set())
    others = {peer: crossings(dot) for peer, dot in peer_dots(peers, kind, folder) if dot} if asked and not options.no_peer_pictures else {}
    others = {peer: drawn[0] for peer, drawn in others.items() if drawn}
    return {
        "kind": kind, "name": name, "files": len(found["files"]), "uses": len(found["uses"]), "wrong_uses": wrong_uses,
        "arrows": arrows, "wrong_arrows": wrong_arrows, "known": len(known), "missing": sorted(missing),
        "parts": len(first["parts"]), "crossed": crossed, "others": others, "failed": failed + more,
    }


def show(row):
    others = " ".join(f"{peer} {count}" for peer, count in row["others"].items())
    numbers = [row["files"], row["uses"], len(row["wrong_uses"]), row["arrows"], len(row["wrong_arrows"]), row["known"], len(row["missing"])]
    print(f"{row['name'][:28]:28} " + " ".join(f"{value:>8}" for value in [*numbers, row["parts"], row["crossed"]]), others, flush=True)
    for title, lines in (("unproved", row["wrong_uses"] + row["wrong_arrows"]), ("missing", row["missing"]), ("failed", row["failed"])):
        for line in lines[:3]:
            print(f"    {title}:", line, flush=True)


def totals(rows):
    for kind in dict.fromkeys(row["kind"] for row in rows):
        ours = [row for row in rows if row["kind"] == kind]
        total = lambda key: sum(row[key] if isinstance(row[key], int) else len(row[key]) for row in ours)
        known, missing = total("known"), total("missing")
        recalled = f"recall {1 - missing / known:.4f} of {known} edges of the peer" if known else "no peer"
        drawn = [row for row in ours if row["others"]]
        crossed, best = sum(row["crossed"] for row in drawn), sum(min(row["others"].values()) for row in drawn)
        above = sum(3 * row["crossed"] > min(row["others"].values()) for row in drawn)
        print(f"{kind}: {len(ours)} packages, {total('uses')} uses ({total('wrong_uses')} unproved), {total('arrows')} arrows "
              f"({total('wrong_arrows')} unproved), {recalled}"
              + (f", crossings {crossed} beside {best} of the better peer ({above} of {len(drawn)} packages above a third)" if drawn else ""))
    failed = [(row["name"], row["failed"]) for row in rows if row["failed"]]
    print(f"all: {len(rows)} packages, failures: {failed or 'none'}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", default="/var/cache/sandyard/bench-explain")
    parser.add_argument("--install", action="store_true", help="install the peers into the cache")
    parser.add_argument("--packages", type=int, default=1000, help="packages of each registry, at most")
    parser.add_argument("--kinds", nargs="*", help="only these: python, javascript, typescript, java, c, c++, go, crate, workspace")
    parser.add_argument("--portion", default="0/1", help="N/M: only every Mth package, from the Nth on")
    parser.add_argument("--no-peer-pictures", action="store_true", help="draw no pictures of peers, which takes most of the time")
    parser.add_argument("--verbose", action="store_true", help="name each call that is missing or false")
    parser.add_argument("--more", action="store_true", help="two hundred packages and more instead of some hundred")
    parser.add_argument("--pycg", help="folder of PyCG's micro-benchmark")
    parser.add_argument("--lines", type=int, nargs="*", default=[], help="sizes to measure, such as 100000 1000000")
    options = parser.parse_args()
    os.makedirs(options.cache, exist_ok=True)
    if options.install:
        install(os.path.join(options.cache, "peers"))

    chosen, alone = packages(options, ROOT)
    sources = [folder for kind, name, folder in chosen if kind in ("python", "javascript") and name not in alone]
    number, portions = map(int, options.portion.split("/"))
    wanted = [package for package in chosen if not options.kinds or package[0] in options.kinds][number::portions]
    rows = []
    print(" ".join(f"{column:>8}" for column in COLUMNS))
    for kind, name, folder in wanted if options.packages else []:
        row = measured(kind, name, folder, options, name not in alone)
        if row is None:
            row = {"kind": kind, "name": name, "files": 0, "uses": 0, "wrong_uses": [], "arrows": 0, "wrong_arrows": [], "known": 0,
                   "missing": [], "parts": 0, "crossed": 0, "others": {}, "failed": ["no explanation"]}
        rows.append(row)
        show(row)
    print()
    totals(rows)

    if options.pycg:
        right, drawn, expected = call_graphs(options.pycg, options.verbose)
        print(f"\nPyCG's micro-benchmark: precision {right / max(drawn, 1):.3f}, recall {right / max(expected, 1):.3f} ({right} right of {drawn} drawn, {expected} expected)")
    for lines in options.lines:
        elapsed, processor, memory, status = timed(grown(options.cache, sources, lines))
        print(f"{lines} lines: {elapsed:.1f} s, {processor:.1f} s of processor, {memory:.0f} MB, status {status}")
    if options.lines:
        elapsed, processor, memory, status = timed(hostile(options.cache))
        print(f"hostile tree: {elapsed:.1f} s, {processor:.1f} s of processor, {memory:.0f} MB, status {status}")


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    main()
