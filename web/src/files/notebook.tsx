// A notebook as it reads: cells with their outputs. Rich output is shown as text or as a picture, never as markup.

import { useMemo } from "preact/hooks";

import { plural } from "../ui/format";
import { plain } from "../ui/plain-text";
import { Prose } from "../ui/prose";
import { VirtualList } from "../ui/virtual-list";
import { tokens } from "./highlight";

interface NotebookCell {
  number: number;
  kind: "code" | "markdown" | "raw";
  source: string;
  count: number | null;
  outputs: NotebookOutput[];
}

type NotebookOutput = { kind: "text"; text: string; failed: boolean } | { kind: "picture"; address: string };

/** Characters of one output that are shown. */
const OUTPUT_CHARACTERS = 20_000;
const FILE_NAMES: Record<string, string> = { python: "x.py", bash: "x.sh", typescript: "x.ts", javascript: "x.js", deno: "x.ts" };

/** The cells of a notebook's file; null if it is none. */
export function cellsOf(text: string): { cells: NotebookCell[]; language: string } | null {
  let file: unknown;
  try {
    file = JSON.parse(text);
  } catch {
    return null;
  }
  const { cells, metadata } = record(file);
  if (!Array.isArray(cells)) return null;
  const language = String(record(record(metadata)["kernelspec"])["language"] ?? record(record(metadata)["language_info"])["name"] ?? "");
  return { cells: cells.map((cell, index) => cellOf(record(cell), index + 1)), language };
}

const record = (value: unknown): Record<string, unknown> => (typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {});
/** Text of a notebook is one string or a list of lines. */
const words = (value: unknown): string => (Array.isArray(value) ? value.filter((line) => typeof line === "string").join("") : typeof value === "string" ? value : "");

function cellOf(cell: Record<string, unknown>, number: number): NotebookCell {
  const kind = cell["cell_type"] === "markdown" ? "markdown" : cell["cell_type"] === "raw" ? "raw" : "code";
  const outputs = Array.isArray(cell["outputs"]) ? cell["outputs"].map((output) => outputOf(record(output))).filter((output) => output !== null) : [];
  return { number, kind, source: words(cell["source"]), count: typeof cell["execution_count"] === "number" ? cell["execution_count"] : null, outputs };
}

function outputOf(output: Record<string, unknown>): NotebookOutput | null {
  const text = (value: string, failed = false): NotebookOutput | null => (value.trim() ? { kind: "text", text: value.slice(0, OUTPUT_CHARACTERS), failed } : null);
  if (output["output_type"] === "stream") return text(words(output["text"]), output["name"] === "stderr");
  if (output["output_type"] === "error") return text(words(output["traceback"]) || `${String(output["ename"])}: ${String(output["evalue"])}`, true);
  const data = record(output["data"]);
  for (const type of ["image/png", "image/jpeg"]) {
    const encoded = words(data[type]).replace(/\s/g, "");
    if (encoded && /^[A-Za-z0-9+/=]+$/.test(encoded)) return { kind: "picture", address: `data:${type};base64,${encoded}` };
  }
  return text(words(data["text/plain"]));
}

export function NotebookView({ cells, language, path }: { cells: NotebookCell[]; language: string; path: string }) {
  const name = FILE_NAMES[language.toLowerCase()] ?? "x.py";
  const list = useMemo(() => cells, [cells]);
  return (
    <div class="notebook">
      <p class="faint notebook-head">{plural(cells.length, "cell")}{language && ` · ${language}`}</p>
      <VirtualList
        rows={list} version={0} keyOf={(cell) => cell.number} guessHeight={(cell) => 60 + cell.source.split("\n", 40).length * 20 + cell.outputs.length * 60} label={`Cells of ${path}`} role="list"
        render={(cell) => <Cell cell={cell} name={name} />}
      />
    </div>
  );
}

function Cell({ cell, name }: { cell: NotebookCell; name: string }) {
  if (cell.kind === "markdown") return <div class="cell" role="listitem"><span class="cell-count" /><Prose text={cell.source} /></div>;
  return (
    <div class="cell" role="listitem">
      <span class="cell-count" aria-label={cell.count === null ? "Not run" : `Run ${cell.count}`}>[{cell.count ?? " "}]</span>
      <div class="cell-body">
        <pre class="cell-source">{cell.kind === "raw" ? cell.source : tokens(name, cell.source).map((token, index) => <span key={index} class={token.kind && `token-${token.kind}`}>{token.text}</span>)}</pre>
        {cell.outputs.map((output, index) => output.kind === "picture"
          ? <img key={index} class="cell-picture" src={output.address} alt={`Picture ${index + 1} of cell ${cell.number}`} />
          : <pre key={index} class={`cell-output${output.failed ? " cell-failed" : ""}`}>{plain(output.text)}</pre>)}
      </div>
    </div>
  );
}
