// Unified diffs: read in small portions, so that a patch of any size never blocks the page.

export interface DiffFile {
  path: string;
  note: string;
  added: number;
  removed: number;
  /** Hunks and their lines, as they are shown. */
  rows: DiffRow[];
}

export type DiffRow =
  | { kind: "file"; key: number; index: number; file: DiffFile }
  | { kind: "hunk"; key: number; text: string }
  | { kind: "line"; key: number; sign: string; text: string; before: number | null; after: number | null };

/** Time in which the page may not wait for more of the patch. */
const PORTION_MS = 8;
/** Keys of rows that belong to one file: more than a patch of the largest size has lines. */
const FILE_KEYS = 100_000_000;

const keyIn = (file: number, row: number): number => file * FILE_KEYS + row;
const unquote = (path: string): string => (path.startsWith('"') && path.endsWith('"') ? path.slice(1, -1).replace(/\\(["\\])/g, "$1") : path);
const strip = (path: string): string => unquote(path.split("\t")[0] ?? path).replace(/^[ab]\//, "");

export async function readDiff(text: string, signal: AbortSignal): Promise<DiffFile[]> {
  const files: DiffFile[] = [];
  let file: DiffFile | null = null;
  let left = 0;
  let [before, after] = [0, 0];
  let since = performance.now();
  let at = 0;
  while (at < text.length) {
    const end = text.indexOf("\n", at);
    const line = text.slice(at, end < 0 ? text.length : end);
    at = end < 0 ? text.length : end + 1;
    if (line.startsWith("diff --git ") && left <= 0) {
      const path = /^diff --git (?:"?a\/(.*?)"?) (?:"?b\/(.*?)"?)$/.exec(line);
      file = { path: path?.[2] ?? line.slice(11), note: "", added: 0, removed: 0, rows: [] };
      files.push(file);
    } else if (file && line.startsWith("@@ ")) {
      const counts = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/.exec(line);
      left = Number(counts?.[2] ?? 1) + Number(counts?.[4] ?? 1);
      [before, after] = [Number(counts?.[1] ?? 0), Number(counts?.[3] ?? 0)];
      file.rows.push({ kind: "hunk", key: keyIn(files.length - 1, file.rows.length + 1), text: line });
    } else if (file && left > 0) {
      const sign = line.charAt(0) || " ";
      const [old, fresh] = [sign !== "+" && sign !== "\\", sign !== "-" && sign !== "\\"];
      file.rows.push({ kind: "line", key: keyIn(files.length - 1, file.rows.length + 1), sign, text: line.slice(1), before: old ? before : null, after: fresh ? after : null });
      if (sign === "+") file.added += 1;
      else if (sign === "-") file.removed += 1;
      before += Number(old);
      after += Number(fresh);
      left -= Number(old) + Number(fresh);
    } else if (file) header(file, line);
    if (performance.now() - since > PORTION_MS) {
      await new Promise((resume) => setTimeout(resume));
      if (signal.aborted) return [];
      since = performance.now();
    }
  }
  return files;
}

function header(file: DiffFile, line: string): void {
  if (line.startsWith("new file")) file.note = "new";
  else if (line.startsWith("deleted file")) file.note = "deleted";
  else if (line.startsWith("rename from ")) file.note = `from ${line.slice(12)}`;
  else if (line.startsWith("Binary files") || line.startsWith("GIT binary")) file.note = [file.note, "binary"].filter(Boolean).join(", ");
  else if (line.startsWith("+++ ") && !line.startsWith("+++ /dev/null")) file.path = strip(line.slice(4));
}

/** The rows of files that are not folded, each file behind a row of its own. */
export function rowsOf(files: DiffFile[], folded: ReadonlySet<number>): DiffRow[] {
  const rows: DiffRow[] = [];
  files.forEach((file, index) => {
    rows.push({ kind: "file", key: keyIn(index, 0), index, file });
    if (!folded.has(index)) for (const row of file.rows) rows.push(row);
  });
  return rows;
}
