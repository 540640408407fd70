"""Learns the weights of `LexicalSettings` and `FusionSettings` on the development split of the sets, one weight at a time.

    python3 weights.py MEASURE_MEMORY MODEL.bin SET.jsonl... [--rounds N] [NAME=VALUE...]

MEASURE_MEMORY is the example of that name. Maximises hit@10 + MRR, averaged over the sets.
"""

import json
import subprocess
import sys

TRIED = {
    "semantic": [0.4, 0.5, 0.6, 0.75, 0.9, 1.1, 1.5],
    "name_weight": [2, 3, 4, 5, 7, 10],
    "saturation": [0.8, 1.2, 1.6, 2, 3, 4],
    "length_penalty": [0.5, 0.65, 0.75, 0.85, 0.95],
    "usual_words": [30, 45, 60, 90],
    "path_weight": [0.25, 0.5, 1, 1.5, 2, 3],
    "pair_weight": [0, 0.25, 0.5, 0.75, 1, 1.5],
    "definition_bonus": [0, 0.04, 0.08, 0.12, 0.2],
    "file_bonus": [0, 0.015, 0.03, 0.06],
    "test_penalty": [0, 0.015, 0.03, 0.06],
    "reserved": [0, 2, 3, 4],
}


def scores(program, model, sets, present, name):
    """The objective for each value of one weight."""
    fixed = [f"{key}={value}" for key, value in present.items() if key != name]
    totals = [0.0] * len(TRIED[name])
    for file in sets:
        values = ",".join(str(value) for value in TRIED[name])
        command = [program, "set", file, "--split", "dev", "--model", model, *fixed, f"{name}={values}"]
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
        for place, line in enumerate(lines):
            figures = json.loads(line)["figures"]
            totals[place] += (figures["hit@10"] + figures["mrr"]) / len(sets)
    return totals


def main():
    words = sys.argv[1:]
    rounds = int(words[words.index("--rounds") + 1]) if "--rounds" in words else 2
    present = {name: float(value) for name, value in (word.split("=") for word in words if "=" in word)}
    program, model, *sets = [word for word in words if "=" not in word and not word.isdigit() and word != "--rounds"]
    for number in range(rounds):
        for name in TRIED:
            totals = scores(program, model, sets, present, name)
            best = max(range(len(totals)), key=totals.__getitem__)
            present[name] = TRIED[name][best]
            print(f"round {number + 1}: {name} = {present[name]} ({totals[best]:.4f}; worst {min(totals):.4f})", flush=True)
    print(json.dumps(present))


if __name__ == "__main__":
    main()
