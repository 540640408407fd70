"""Makes the sets of `memory.py` from packages: chunks, and questions whose answers are known. Nothing that is made here is committed."""

import ast
import json
import os
import random
import re
import sys
import sysconfig

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "crates", "context", "training"))
import pairs  # noqa: E402

QUESTIONS = 800
SEED = 15


def standard_library(output):
    """doc → function: every documented function of the Python standard library without its docstring; the first sentence asks for it."""
    library = sysconfig.get_paths()["stdlib"]
    chunks = []
    for folder, folders, files in os.walk(library):
        folders[:] = sorted(name for name in folders if name not in ("site-packages", "test", "tests", "idlelib", "lib2to3", "__pycache__", "turtledemo"))
        for name in sorted(files):
            path = os.path.join(folder, name)
            if name.endswith(".py"):
                source = open(path, encoding="utf-8", errors="replace").read()
                for query, symbol, body, _ in pairs.python_pairs(path, source):
                    chunks.append((query, symbol, os.path.relpath(path, library), body))
    write_set(chunks, output)


def packages(kind, names, cache, output):
    """The same for crates or npm packages."""
    chunks = []
    for found, name, files in pairs.packages(cache):
        if found != kind or name not in names:
            continue
        for path, read in files:
            reader = pairs.READERS.get(os.path.splitext(path)[1])
            if reader and not path.endswith((".min.js", ".d.ts")):
                for query, symbol, body, _ in reader(path, read().decode("utf-8", "replace")):
                    chunks.append((query, symbol, path, body))
    write_set(chunks, output)


def write_set(chunks, output):
    """Chunks, then questions: 800 for the figures, up to 800 others for learning weights. A sentence that two functions share asks nothing."""
    count = {}
    for query, _, _, _ in chunks:
        count[query] = count.get(query, 0) + 1
    unique = [number for number, (query, _, _, _) in enumerate(chunks) if count[query] == 1]
    random.Random(SEED).shuffle(unique)
    test = unique[:min(QUESTIONS, len(unique) // 2)]
    dev = unique[len(test):len(test) + QUESTIONS]
    with open(output, "w") as lines:
        for _, symbol, path, body in chunks:
            lines.write(json.dumps({"path": path, "name": symbol, "text": body}) + "\n")
        for split, numbers in (("test", test), ("dev", dev)):
            for number in numbers:
                lines.write(json.dumps({"query": chunks[number][0], "answers": [number], "split": split}) + "\n")
    print(f"{output}: {len(chunks)} chunks, {len(test)} questions, {len(dev)} to learn from", file=sys.stderr)
