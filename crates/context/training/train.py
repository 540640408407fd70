"""Fine-tunes the static embedding on pairs of words and code, and writes it as signed bytes.

    python3 train.py PAIRS.jsonl MODEL_FOLDER OUTPUT.bin [--epochs N] [--dimensions N] [--pairs N]

MODEL_FOLDER holds a static model in the layout of Model2Vec (`model.safetensors`, `tokenizer.json`). Needs numpy; one core, a few minutes; the
same input gives the same output. The text of a pair is cut as `crates/context/src/embed` cuts it: a change there needs a new training.
"""

import argparse
import json
import re
import struct
import sys
import time
import zlib

import numpy

TEMPERATURE = 0.05
BATCH = 512
RATE = 0.02
SEED = 15
LONGEST_WORD = 64


def load(folder):
    """Vocabulary and float32 matrix of a static model."""
    tokenizer = json.load(open(f"{folder}/tokenizer.json"))
    vocabulary = tokenizer["model"]["vocab"]
    data = open(f"{folder}/model.safetensors", "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    head = json.loads(data[8:8 + size])
    name, facts = next((name, facts) for name, facts in head.items() if name != "__metadata__" and len(facts["shape"]) == 2)
    kind = {"F16": numpy.float16, "F32": numpy.float32}[facts["dtype"]]
    start, end = facts["data_offsets"]
    matrix = numpy.frombuffer(data[8 + size + start:8 + size + end], kind).reshape(facts["shape"]).astype(numpy.float32)
    print(f"{name}: {matrix.shape}, {len(vocabulary)} pieces", file=sys.stderr)
    return vocabulary, matrix


RUN = re.compile(r"\w+")
PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\dA-Z_]+|\d+")


class Pieces:
    """Texts as pieces of the vocabulary, with the cache that makes it fast."""

    def __init__(self, vocabulary):
        self.vocabulary = vocabulary
        self.known = {}

    def of_word(self, word):
        found, start = [], 0
        while start < len(word):
            end = len(word)
            while end > start:
                piece = self.vocabulary.get(("##" if start else "") + word[start:end])
                if piece is not None:
                    break
                end -= 1
            if end <= start:
                return []
            found.append(piece)
            start = end
        return found

    def of_run(self, run):
        if run not in self.known:
            found = []
            for part in PART.findall(run) if len(run.encode()) <= 128 else []:
                if len(part) > 1 and len(part) <= LONGEST_WORD:
                    found += self.of_word(part.lower())
            self.known[run] = found
        return self.known[run]

    def of_text(self, text):
        """Distinct pieces, and the square root of how often each occurs."""
        pieces = []
        for run in RUN.findall(text):
            pieces += self.of_run(run)
        numbers, counts = numpy.unique(numpy.array(pieces, numpy.int32), return_counts=True)
        return numbers, numpy.sqrt(counts).astype(numpy.float32)


class Bags:
    """Many texts, one after the other."""

    def __init__(self, texts, pieces):
        bags = [pieces.of_text(text) for text in texts]
        self.starts = numpy.concatenate([[0], numpy.cumsum([len(numbers) for numbers, _ in bags])])
        self.numbers = numpy.concatenate([numbers for numbers, _ in bags])
        self.weights = numpy.concatenate([weights for _, weights in bags])

    def take(self, which):
        lengths = self.starts[which + 1] - self.starts[which]
        places = numpy.concatenate([numpy.arange(self.starts[one], self.starts[one + 1]) for one in which])
        owners = numpy.repeat(numpy.arange(len(which)), lengths)
        return self.numbers[places], self.weights[places], owners


def matrix_of(bag, count):
    """A batch as a dense matrix over the pieces that occur in it."""
    numbers, weights, owners = bag
    used, places = numpy.unique(numbers, return_inverse=True)
    dense = numpy.zeros((count, len(used)), numpy.float32)
    dense[owners, places] = weights
    return dense, used


def unit(vectors):
    lengths = numpy.linalg.norm(vectors, axis=1, keepdims=True) + 1e-9
    return vectors / lengths, lengths


def through_unit(gradient, units, lengths):
    return (gradient - units * (gradient * units).sum(1, keepdims=True)) / lengths


class Optimiser:
    """Adagrad with one number per row."""

    def __init__(self, matrix):
        self.matrix = matrix
        self.squares = numpy.zeros(len(matrix), numpy.float32)

    def step(self, used, gradient, rate):
        self.squares[used] += (gradient * gradient).mean(1)
        self.matrix[used] -= rate * gradient / (numpy.sqrt(self.squares[used])[:, None] + 1e-8)


def train(matrix, queries, documents, epochs, seed=SEED):
    """Contrastive training: a query must be nearer to its own document than to the others of the batch, and the other way round."""
    random = numpy.random.default_rng(seed)
    optimiser = Optimiser(matrix)
    count = len(queries.starts) - 1
    for epoch in range(epochs):
        began, losses = time.time(), []
        order = random.permutation(count)
        rate = RATE * (1 - epoch / epochs)
        for start in range(0, count - BATCH + 1, BATCH):
            which = order[start:start + BATCH]
            asked, asked_used = matrix_of(queries.take(which), BATCH)
            given, given_used = matrix_of(documents.take(which), BATCH)
            left, left_length = unit(asked @ matrix[asked_used])
            right, right_length = unit(given @ matrix[given_used])
            scores = left @ right.T / TEMPERATURE
            by_query = numpy.exp(scores - scores.max(1, keepdims=True))
            by_query /= by_query.sum(1, keepdims=True)
            by_document = numpy.exp(scores - scores.max(0, keepdims=True))
            by_document /= by_document.sum(0, keepdims=True)
            losses.append(-numpy.log(numpy.diag(by_query) + 1e-9).mean())
            wrong = (by_query + by_document) / 2 - numpy.eye(BATCH, dtype=numpy.float32)
            wrong /= TEMPERATURE * BATCH
            optimiser.step(asked_used, asked.T @ through_unit(wrong @ right, left, left_length), rate)
            optimiser.step(given_used, given.T @ through_unit(wrong.T @ left, right, right_length), rate)
        print(f"epoch {epoch + 1}: loss {numpy.mean(losses):.3f}, {time.time() - began:.0f} s", file=sys.stderr)
    return matrix


def reduced(matrix, dimensions):
    """The directions in which the rows differ most."""
    if dimensions >= matrix.shape[1]:
        return matrix
    _, vectors = numpy.linalg.eigh(matrix.T @ matrix)
    return matrix @ vectors[:, ::-1][:, :dimensions]


def write(vocabulary, matrix, output):
    """The layout of `crates/context/src/embed/model.rs`."""
    pieces = [piece for piece, _ in sorted(vocabulary.items(), key=lambda entry: entry[1])]
    scales = numpy.maximum(numpy.abs(matrix).max(1) / 127, 1e-9).astype("<f4")
    rows = numpy.round(matrix / scales[:, None]).clip(-127, 127).astype(numpy.int8)
    words = "\n".join(pieces).encode()
    rest = words + scales.tobytes() + rows.tobytes()
    head = struct.pack("<8sIIIII", b"SYvector", 1, len(pieces), matrix.shape[1], len(words), zlib.crc32(rest))
    open(output, "wb").write(head + rest)
    print(f"{output}: {len(head) + len(rest):,} bytes", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("pairs")
    parser.add_argument("model")
    parser.add_argument("output")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--dimensions", type=int, default=256)
    parser.add_argument("--pairs", dest="count", type=int, default=0)
    parser.add_argument("--prose", type=int, default=30, help="percent of the pairs whose words are also paired with the rest of their comment")
    arguments = parser.parse_args()
    vocabulary, matrix = load(arguments.model)
    pairs = [json.loads(line) for line in open(arguments.pairs)]
    numpy.random.default_rng(SEED).shuffle(pairs)
    pairs = pairs[:arguments.count or None]
    cut = Pieces(vocabulary)
    asked, given = [], []
    for number, pair in enumerate(pairs):
        asked.append(pair["query"])
        given.append(" ".join((pair["body"], pair["name"], pair["path"])))
        if number % 100 < arguments.prose and len(pair["rest"].split()) >= 12:
            asked.append(pair["query"])
            given.append(pair["rest"])
    kept = [number for number in range(len(asked)) if len(cut.of_text(asked[number])[0]) >= 2 and len(cut.of_text(given[number])[0]) >= 3]
    queries = Bags([asked[number] for number in kept], cut)
    documents = Bags([given[number] for number in kept], cut)
    print(f"{len(kept)} pairs", file=sys.stderr)
    if arguments.epochs:
        train(matrix, queries, documents, arguments.epochs)
    write(vocabulary, reduced(matrix, arguments.dimensions), arguments.output)


if __name__ == "__main__":
    main()
