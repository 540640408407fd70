"""Pairs of words and code for the training of the embedding, from packages of the registries.

    python3 pairs.py CACHE OUTPUT.jsonl [--without SET.jsonl...]

CACHE/wheels holds wheels (PyPI), CACHE/crates unpacked crates, CACHE/npm unpacked packages; `packages.txt` lists which, with version and
licence. Every line of the output is one pair: the first sentence of a documentation comment, and the function without the comment. The
rest of a longer comment is a second pair, of words and words. Questions of the sets after `--without` are left out. Standard library only; the
output depends on the input alone.
"""

import ast
import json
import os
import re
import sys
import zipfile

MOST_PAIRS_OF_A_PACKAGE = 5000
MOST_BODY_CHARACTERS = 1500
FEWEST_WORDS, MOST_WORDS = 3, 40
# Copies and backports of the standard library, on which the result is measured; and folders that are others' packages.
FOREIGN = re.compile(r"(^|/)(_?vendor(ed)?|_vendored_packages|extern(al)?|externals|third_party|backports?|_distutils|compat|py3k|node_modules)(/|$)|(^|/)tests?/|test_")


def first_sentence(comment):
    """The first sentence of a comment as one line, or None if it says too little."""
    paragraph = re.split(r"\n\s*\n", comment.strip())[0]
    line = re.sub(r"\s+", " ", paragraph)
    sentence = re.split(r"(?<=[.!?])\s", line)[0].strip()
    words = re.findall(r"[A-Za-z]{2,}", sentence)
    if not FEWEST_WORDS <= len(words) <= MOST_WORDS or sentence.startswith((">>>", ":", "@", "..")):
        return None
    return sentence


def python_pairs(path, source):
    """Functions of a Python file with their docstrings."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return
    lines = source.split("\n")
    stack = [(tree, "")]
    while stack:
        node, owner = stack.pop()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef):
                stack.append((child, child.name))
            elif isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                stack.append((child, owner))
                comment = ast.get_docstring(child)
                query = comment and first_sentence(comment)
                if not query or len(child.body) < 2:
                    continue
                literal = child.body[0]
                body = lines[child.lineno - 1:literal.lineno - 1] + lines[literal.end_lineno:child.end_lineno]
                rest = comment.strip()[len(query):]
                yield query, f"{owner}.{child.name}" if owner else child.name, "\n".join(body), rest


def block_pairs(path, source, comment_pattern, function_pattern, clean):
    """Functions of a language with braces whose documentation comment stands before them."""
    for found in re.finditer(comment_pattern, source):
        comment = clean(found.group(0))
        query = first_sentence(comment)
        head = query and re.compile(function_pattern).match(source, found.end())
        if not head:
            continue
        start = source.find("{", head.end() - 1)
        if start < 0 or start - head.end() > 800 or ";" in source[head.end():start].split("\n")[-1]:
            continue
        end = matching_brace(source, start)
        if end - start > 40:
            yield query, head.group("name"), source[head.start():end], comment[len(query):]


def matching_brace(source, start):
    depth = 0
    for place in range(start, min(len(source), start + 8000)):
        if source[place] == "{":
            depth += 1
        elif source[place] == "}":
            depth -= 1
            if depth == 0:
                return place + 1
    return start


def rust_pairs(path, source):
    return block_pairs(
        path, source, r"(?m)(?:^[ \t]*///[^\n]*\n)+",
        r"(?:[ \t]*#\[[^\n]*\n)*[ \t]*(?:pub(?:\([^)]*\))? )?(?:const |async |unsafe |extern \"C\" )*fn (?P<name>\w+)",
        lambda text: re.sub(r"(?m)^[ \t]*/// ?", "", text))


def script_pairs(path, source):
    return block_pairs(
        path, source, r"/\*\*(?:[^*]|\*(?!/))*\*/\s*",
        r"(?:export )?(?:default )?(?:(?:public|private|protected|static|async|readonly|declare) )*(?:function\*? ?|const |let |var )?(?P<name>[\w$.]+)\s*(?:=\s*(?:async )?(?:function\b[^(]*)?)?(?:<[^(]*>)?\(",
        lambda text: re.split(r"\n\s*@", re.sub(r"(?m)^\s*\*? ?", "", text.strip()[3:-2]))[0])


READERS = {".py": python_pairs, ".rs": rust_pairs, ".js": script_pairs, ".ts": script_pairs, ".mjs": script_pairs}


def packages(cache):
    """Name of each package with its files: (path, function that reads it)."""
    wheels = os.path.join(cache, "wheels")
    for name in sorted(os.listdir(wheels)) if os.path.isdir(wheels) else []:
        archive = zipfile.ZipFile(os.path.join(wheels, name))
        yield "pypi", name.split("-")[0].lower(), [(entry, lambda entry=entry: archive.read(entry)) for entry in sorted(archive.namelist())]
    for kind in ("crates", "npm"):
        root = os.path.join(cache, kind)
        for name in sorted(os.listdir(root)) if os.path.isdir(root) else []:
            files = []
            for folder, _, entries in os.walk(os.path.join(root, name), followlinks=True):
                files += [os.path.join(folder, entry) for entry in entries]
            yield kind, name, [(os.path.relpath(file, root), lambda file=file: open(file, "rb").read()) for file in sorted(files)]


def questions(files):
    """The questions of some sets."""
    lines = (json.loads(line) for file in files for line in open(file))
    return {line["query"].lower() for line in lines if "query" in line}


def main():
    cache, output = sys.argv[1:3]
    without = questions(sys.argv[4:] if sys.argv[3:4] == ["--without"] else [])
    folder = os.path.dirname(os.path.abspath(__file__))
    rows = (line.split() for line in open(os.path.join(folder, "packages.txt")) if line.strip() and line[0] != "#")
    listed = {tuple(row[:2]) for row in rows}
    total = 0
    with open(output, "w") as lines:
        for kind, name, files in packages(cache):
            if (kind, name) not in listed:
                continue
            seen, count = set(), 0
            for path, read in files:
                reader = READERS.get(os.path.splitext(path)[1])
                if not reader or FOREIGN.search(path) or path.endswith((".min.js", ".d.ts")):
                    continue
                data = read()
                if len(data) > 600_000:
                    continue
                for query, symbol, body, rest in reader(path, data.decode("utf-8", "replace")):
                    if query in seen or query.lower() in without or count >= MOST_PAIRS_OF_A_PACKAGE:
                        continue
                    seen.add(query)
                    count += 1
                    pair = {"package": f"{kind}/{name}", "query": query, "name": symbol, "path": path, "body": body[:MOST_BODY_CHARACTERS],
                            "rest": re.sub(r"\s+", " ", rest).strip()[:600]}
                    lines.write(json.dumps(pair) + "\n")
            total += count
    print(f"{total} pairs", file=sys.stderr)


if __name__ == "__main__":
    main()
