// Unified diffs: read in small portions, so that a patch of any size never blocks the page.

export interface DiffFile {
  path: string;
  note: string;
  added: number;
  removed: number;
  /** Its rows in the whole diff: its own, and those after it up to but without `end`. */
  begin: number;
  end: number;
}

export type DiffRow =
  | { kind: "file"; key: number; index: number; file: DiffFile }
  | { kind: "hunk"; key: number; text: string }
  | { kind: "line"; key: number; sign: string; text: string; before: number | null; after: number | null };

/** Rows that a list can show, with their offsets: adding these up for a hundred thousand rows is part of the reading. */
export interface DiffRows {
  rows: DiffRow[];
  tops: number[];
}

export interface Diff extends DiffRows {
  files: DiffFile[];
}

/** Time in which the page may not wait for more of the patch. */
const PORTION_MS = 8;
/** Bytes that are decoded at once. */
const PIECE_BYTES = 256 * 1024;
/** Rows between two looks at the clock. */
const ROWS_BETWEEN = 1000;
const HEIGHTS = { file: 37, hunk: 24, line: 20 };

export const heightOf = (row: DiffRow): number => HEIGHTS[row.kind];
const unquote = (path: string): string => (path.startsWith('"') && path.endsWith('"') ? path.slice(1, -1).replace(/\\(["\\])/g, "$1") : path);
const strip = (path: string): string => unquote(path.split("\t")[0] ?? path).replace(/^[ab]\//, "");

/** Lets the page do what waits, when a portion has taken its time. */
class Turns {
  #since = performance.now();

  constructor(private readonly signal: AbortSignal) {}

  /** False once nobody wants the result. */
  async next(): Promise<boolean> {
    if (performance.now() - this.#since > PORTION_MS) {
      await new Promise((resume) => setTimeout(resume));
      this.#since = performance.now();
    }
    return !this.signal.aborted;
  }
}

const begun = (): DiffRows => ({ rows: [], tops: [0] });

function add(to: DiffRows, row: DiffRow): void {
  to.rows.push(row);
  to.tops.push((to.tops[to.tops.length - 1] ?? 0) + HEIGHTS[row.kind]);
}

/** Reads a patch; null if it was given up. */
export async function readDiff(bytes: Uint8Array, signal: AbortSignal): Promise<Diff | null> {
  const reader = new DiffReader();
  const decoder = new TextDecoder();
  const turns = new Turns(signal);
  let rest = "";
  for (let from = 0; from < bytes.length; from += PIECE_BYTES) {
    const text = rest + decoder.decode(bytes.subarray(from, from + PIECE_BYTES), { stream: true });
    let at = 0;
    for (let lines = 1; ; lines += 1) {
      const end = text.indexOf("\n", at);
      if (end < 0) break;
      reader.line(text.slice(at, end));
      at = end + 1;
      if (lines % ROWS_BETWEEN === 0 && !(await turns.next())) return null;
    }
    rest = text.slice(at);
    if (!(await turns.next())) return null;
  }
  if (rest) reader.line(rest);
  return reader.end();
}

class DiffReader {
  readonly #diff: Diff = { files: [], ...begun() };
  #file: DiffFile | null = null;
  /** Lines of the hunk that are to come. */
  #left = 0;
  #before = 0;
  #after = 0;

  line(line: string): void {
    if (line.startsWith("diff --git ") && this.#left <= 0) this.#begin(line);
    else if (this.#file && line.startsWith("@@ ")) this.#hunk(line);
    else if (this.#file && this.#left > 0) this.#change(this.#file, line);
    else if (this.#file) header(this.#file, line);
  }

  end(): Diff {
    if (this.#file) this.#file.end = this.#diff.rows.length;
    return this.#diff;
  }

  #begin(line: string): void {
    this.end();
    const path = /^diff --git (?:"?a\/(.*?)"?) (?:"?b\/(.*?)"?)$/.exec(line);
    const { files, rows } = this.#diff;
    const file = { path: path?.[2] ?? line.slice(11), note: "", added: 0, removed: 0, begin: rows.length, end: rows.length };
    files.push(file);
    this.#file = file;
    add(this.#diff, { kind: "file", key: rows.length, index: files.length - 1, file });
  }

  #hunk(line: string): void {
    const counts = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/.exec(line);
    this.#left = Number(counts?.[2] ?? 1) + Number(counts?.[4] ?? 1);
    [this.#before, this.#after] = [Number(counts?.[1] ?? 0), Number(counts?.[3] ?? 0)];
    add(this.#diff, { kind: "hunk", key: this.#diff.rows.length, text: line });
  }

  #change(file: DiffFile, line: string): void {
    const sign = line.charAt(0) || " ";
    const [old, fresh] = [sign !== "+" && sign !== "\\", sign !== "-" && sign !== "\\"];
    add(this.#diff, { kind: "line", key: this.#diff.rows.length, sign, text: line.slice(1), before: old ? this.#before : null, after: fresh ? this.#after : null });
    if (sign === "+") file.added += 1;
    else if (sign === "-") file.removed += 1;
    this.#before += Number(old);
    this.#after += Number(fresh);
    this.#left -= Number(old) + Number(fresh);
  }
}

function header(file: DiffFile, line: string): void {
  if (line.startsWith("new file")) file.note = "new";
  else if (line.startsWith("deleted file")) file.note = "deleted";
  else if (line.startsWith("rename from ")) file.note = `from ${line.slice(12)}`;
  else if (line.startsWith("Binary files") || line.startsWith("GIT binary")) file.note = [file.note, "binary"].filter(Boolean).join(", ");
  else if (line.startsWith("+++ ") && !line.startsWith("+++ /dev/null")) file.path = strip(line.slice(4));
}

/** The rows of a diff without those of folded files; null if it was given up. */
export async function unfoldedRows(diff: Diff, folded: ReadonlySet<number>, signal: AbortSignal): Promise<DiffRows | null> {
  if (folded.size === 0) return diff;
  const shown = begun();
  const turns = new Turns(signal);
  for (const [index, file] of diff.files.entries()) {
    const end = folded.has(index) ? file.begin + 1 : file.end;
    for (let at = file.begin; at < end; at += 1) {
      add(shown, diff.rows[at] as DiffRow);
      if (shown.rows.length % ROWS_BETWEEN === 0 && !(await turns.next())) return null;
    }
  }
  return shown;
}
