// Where the rows of a list stand: their guessed heights added up once, and the few that were measured as corrections to them.
// A list of a hundred thousand rows so costs no more at each measurement than a short one.

/** Guessed offsets of rows: one more than there are rows, the first is 0. */
export type RowTops = ArrayLike<number>;

export class RowOffsets {
  /** Rows whose measured height differs from the guess, in order, and how much all of them until then add. */
  readonly #indexes: number[] = [];
  readonly #added: number[] = [];

  constructor(
    private readonly tops: RowTops,
    measured: Iterable<[index: number, height: number]>,
  ) {
    let sum = 0;
    for (const [index, height] of [...measured].sort(([a], [b]) => a - b)) {
      const more = height - this.#guessed(index + 1) + this.#guessed(index);
      if (more === 0) continue;
      sum += more;
      this.#indexes.push(index);
      this.#added.push(sum);
    }
  }

  get count(): number {
    return Math.max(0, this.tops.length - 1);
  }

  /** Height of all rows. */
  get total(): number {
    return this.top(this.count);
  }

  /** Where a row begins. */
  top(index: number): number {
    const at = last(this.#indexes.length, (place) => (this.#indexes[place] ?? 0) < index);
    return this.#guessed(index) + (this.#added[at] ?? 0);
  }

  /** The row at a height: the last one that begins at or before it. */
  indexAt(height: number): number {
    return Math.max(0, last(this.count, (index) => this.top(index) <= height));
  }

  #guessed(index: number): number {
    return this.tops[Math.min(index, this.count)] ?? 0;
  }
}

/** The last of `count` places that `holds`, if it holds for none after one for which it does not; -1 if for none. */
function last(count: number, holds: (place: number) => boolean): number {
  let [low, high] = [-1, count - 1];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (holds(middle)) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** Adds up guesses. */
export function topsOf<Row>(rows: readonly Row[], guess: (row: Row) => number): RowTops {
  const tops = new Float64Array(rows.length + 1);
  for (let index = 0; index < rows.length; index += 1) tops[index + 1] = (tops[index] ?? 0) + guess(rows[index] as Row);
  return tops;
}
