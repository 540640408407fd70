"""Measures the memory engine: does recall find what it should, how fast, how large. Prints JSON and a table.

    python3 bench/memory.py --cache FOLDER [--only sets,needles,scale]

FOLDER holds what the registries carry, fetched by hand or by another script: `wheels/` with wheels, `crates/` and `npm/` with one unpacked package per
folder. Questions are made from it (`memory_sets.py`), needles are written by hand (`memory_needles.py`). Nothing in it is committed. Build first:
`cargo build --release -p sandyard-context --example measure_memory`.
"""

import argparse
import json
import math
import os
import random
import re
import shutil
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "crates", "context", "training"))
import memory_needles  # noqa: E402
import memory_sets  # noqa: E402
import packages  # noqa: E402

PROGRAM = os.path.join(os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target")), "release", "examples", "measure_memory")
ENDINGS = (".rs", ".js", ".ts", ".mjs", ".py", ".md", ".rst")
BYTES_PER_TOKEN = 4
SEED = 15


def measure(*arguments):
    """Runs the program; returns its lines as values."""
    done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return [json.loads(line) for line in done.stdout.splitlines()]


def plain_words(file):
    """hit@10 and MRR of BM25 over plain lower-case words: what a search without any care finds."""
    chunks, questions = [], []
    for line in open(file):
        value = json.loads(line)
        if "text" in value:
            chunks.append(re.findall(r"\w+", value["text"].lower()))
        elif value["split"] == "test":
            questions.append(value)
    postings, average = {}, sum(map(len, chunks)) / len(chunks)
    for number, words in enumerate(chunks):
        for word in set(words):
            postings.setdefault(word, []).append((number, words.count(word)))
    hits = reciprocal = 0
    for question in questions:
        scores = {}
        for word in re.findall(r"\w+", question["query"].lower()):
            found = postings.get(word, [])
            rarity = math.log(1 + (len(chunks) - len(found) + 0.5) / (len(found) + 0.5))
            for number, count in found:
                scores[number] = scores.get(number, 0) + rarity * count * 2.5 / (count + 1.5 * (0.25 + 0.75 * len(chunks[number]) / average))
        order = sorted(scores, key=lambda number: -scores[number])[:10]
        ranks = [rank for rank, number in enumerate(order, 1) if number in question["answers"]]
        hits += bool(ranks)
        reciprocal += 1 / ranks[0] if ranks else 0
    return hits / len(questions), reciprocal / len(questions)


def sets(cache, work):
    """doc → function on three sets: words, meaning, both."""
    files = {name: os.path.join(work, f"{name}.jsonl") for name in ("stdlib", "crates", "npm")}
    memory_sets.standard_library(files["stdlib"])
    for kind in ("crates", "npm"):
        memory_sets.packages(kind, packages.MEASURED[kind].split(), cache, files[kind])
    methods = {"words": ("semantic=0", "reserved=0"), "meaning": ("lexical=0", "definition_bonus=0", "file_bonus=0"), "both": ()}
    results = {}
    for name, file in files.items():
        hits, reciprocal = plain_words(file)
        results[name] = {"plain words": {"hit@10": round(hits, 4), "mrr": round(reciprocal, 4)}}
        for method, settings in methods.items():
            results[name][method] = measure("set", file, "--split", "test", *settings)[0]["figures"]
    return results


def corpus(cache, folder, size):
    """A folder of about so many bytes from the packages of the cache; small packages are repeated with changed words where they are too few."""
    shutil.rmtree(folder, ignore_errors=True)
    left, copy = size, 0
    while left > 0:
        before = left
        for name, data in package_files(cache):
            if left <= 0:
                break
            # A further copy must not be stored once only: every word of four letters and more gets another ending.
            text = data if not copy else re.sub(rb"\b([A-Za-z]{4,})\b", rb"\1%d" % copy, data)
            path = os.path.join(folder, str(copy), name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(text)
            left -= len(text)
        if left == before:
            raise SystemExit(f"no packages in {cache}")
        copy += 1
    return folder


def package_files(cache):
    for kind, name, files in memory_sets.pairs.packages(cache):
        for path, read in files:
            if path.endswith(ENDINGS) and not path.endswith((".min.js", ".d.ts")):
                try:
                    data = read()
                except OSError:
                    continue
                if 0 < len(data) < 400_000:
                    yield os.path.join(kind, name, path), data


LINES = [
    "GET /api/items/{a} 200 in {b} ms", "worker {a} finished batch {b}", "compiling module_{a} v0.{b}", "downloaded {a} of {b} packages",
    "cache hit ratio {a}.{b} percent", "connected to 10.0.{a}.{b}", "checkpoint {a} written in {b} ms", "test case_{a} ... ok ({b} ms)",
    "warning: unused variable `tmp_{a}` at line {b}", "queue depth {a}, oldest entry {b} s",
]


def needles(cache, work):
    """Sentences planted in output of tools among 10M tokens of packages."""
    folder = corpus(cache, os.path.join(work, "needles"), 10_000_000 * BYTES_PER_TOKEN)
    generator = random.Random(SEED)
    planted = [("no shared word", *pair) for pair in memory_needles.MEANING] + [("one rare word", *pair) for pair in memory_needles.rare_word(100, SEED)]
    for number, (_, sentence, _) in enumerate(planted):
        lines = []
        for minute in range(120):
            stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(1_790_000_000 + number * 10_000 + minute * 60))
            words = generator.choice(LINES).format(a=generator.randrange(250), b=generator.randrange(250))
            lines.append(f"{stamp} INFO {words}")
        place = generator.randrange(len(lines))
        lines[place] = f"{lines[place][:19]} NOTE {sentence}"
        os.makedirs(os.path.join(folder, "tool-output"), exist_ok=True)
        with open(os.path.join(folder, "tool-output", f"step-{number:03}.log"), "w") as file:
            file.write("\n".join(lines) + "\n")
    queries = os.path.join(work, "needles.txt")
    with open(queries, "w") as file:
        file.write("\n".join(question for _, _, question in planted))
    results = {}
    for method, settings in {"words": ("semantic=0", "reserved=0"), "meaning": ("lexical=0",), "both": ()}.items():
        answers = measure("ask", folder, os.path.join(work, "needles.index"), "--queries", queries, *settings)
        for (kind, sentence, question), answer in zip(planted, answers):
            found = results.setdefault(kind, {}).setdefault(method, [])
            found.append(any(sentence in passage["text"] for passage in answer["passages"]))
    shared = [sentence for sentence, question in memory_needles.MEANING if shared_terms(sentence, question)]
    figures = {kind: {method: round(sum(found) / len(found), 4) for method, found in methods.items()} for kind, methods in results.items()}
    return {"hit@10": figures, "pairs": {"no shared word": len(memory_needles.MEANING), "one rare word": 100}, "pairs that share a term": shared}


def shared_terms(one, other):
    """Terms that the index would find in both."""
    found = [set(measure("terms", text)[0]) for text in (one, other)]
    return sorted(found[0] & found[1])


def scale(cache, work, sizes):
    """Times and sizes for a growing index. Processor times count: the machine may be busy."""
    queries = os.path.join(work, "queries.txt")
    if not os.path.exists(os.path.join(work, "stdlib.jsonl")):
        memory_sets.standard_library(os.path.join(work, "stdlib.jsonl"))
    with open(queries, "w") as file:
        asked = [json.loads(line) for line in open(os.path.join(work, "stdlib.jsonl")) if '"query"' in line]
        file.write("\n".join(line["query"] for line in asked if "query" in line)[:200_000])
    results = {}
    for millions in sizes:
        folder = corpus(cache, os.path.join(work, f"scale-{millions}"), millions * 1_000_000 * BYTES_PER_TOKEN)
        index = os.path.join(work, f"scale-{millions}.index")
        shutil.rmtree(index, ignore_errors=True)
        made = measure("scale", folder, index, "--queries", queries)[0]
        opened = measure("scale", folder, index)[0]
        tokens = made["sync"]["tokens"]
        results[f"{millions}M"] = {
            "tokens": tokens, "chunks": made["statistics"]["chunks"],
            "tokens/s of one core": round(tokens / made["sync_processor_s"]), "index/text": round(made["statistics"]["file_bytes"] / made["sync"]["bytes"], 3),
            "recall ms": made["recall_ms"], "recall processor ms": made["recall_processor_ms"], "one more chunk ms": round(made["one_more_ms"], 2),
            "resident MiB": made["resident_kib"] // 1024, "peak MiB": made["ingest_peak_kib"] // 1024, "open ms": round(opened["open_ms"], 1),
        }
        shutil.rmtree(folder)
        shutil.rmtree(index)
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cache", required=True)
    parser.add_argument("--work", help="folder for what is made [default: work/ in the cache]")
    parser.add_argument("--only", default="sets,needles,scale")
    parser.add_argument("--sizes", default="1,10", help="millions of tokens, such as 1,10,100")
    arguments = parser.parse_args()
    work = arguments.work or os.path.join(arguments.cache, "work")
    os.makedirs(work, exist_ok=True)
    parts = {
        "sets": lambda: sets(arguments.cache, work),
        "needles": lambda: needles(arguments.cache, work),
        "scale": lambda: scale(arguments.cache, work, [int(size) for size in arguments.sizes.split(",")]),
    }
    for name in arguments.only.split(","):
        print(json.dumps({name: parts[name]()}, indent=1), flush=True)


if __name__ == "__main__":
    main()
