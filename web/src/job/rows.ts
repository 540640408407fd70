// From events to rows of the timeline, in three densities: every event; steps, where pieces of one thing are one row; and a summary.

import type { JobEvent } from "../api/types";
import { isTerminal } from "../api/types";

export type Density = "summary" | "steps" | "events";

type Of<Type extends JobEvent["type"]> = Extract<JobEvent, { type: Type }>;

interface RowBase {
  /** Number of the first event of the row; names the row, also in links. */
  key: number;
  at: string;
}

export type Row = RowBase &
  (
    | { kind: "event"; event: JobEvent }
    | { kind: "state"; event: Of<"state"> }
    | { kind: "output"; stream: "stdout" | "stderr"; text: string; bytes: number }
    | { kind: "model"; entry: number; text: string; end: Of<"model"> | null }
    /** `over` if the job ended without a result of the call, as it does with its last one. */
    | { kind: "call"; step: Of<"step">; result: Of<"tool"> | null; over: boolean }
    | { kind: "note"; text: string }
    | { kind: "said"; text: string; by: string }
    | { kind: "plan"; items: Of<"plan">["items"] }
    | { kind: "picture"; entry: number; picture: number }
    | { kind: "egress"; target: string; last: Of<"egress">; count: number }
    | { kind: "files"; paths: string[] }
    | { kind: "group"; calls: number; failed: number; files: number; outputBytes: number; refused: number; tools: string[] }
  );

/** Output of several events in one row; more begins another, so that no row is long to lay out. */
const OUTPUT_CHARACTERS = 12_000;

export class RowBuilder {
  rows: Row[] = [];
  #calls = new Map<string, Extract<Row, { kind: "call" }>>();
  #models = new Map<number, Extract<Row, { kind: "model" }>>();
  #targets = new Map<string, Extract<Row, { kind: "egress" }>>();

  constructor(readonly density: Density) {}

  add(event: JobEvent): void {
    if (this.density === "events") this.rows.push({ kind: "event", key: event.id, at: event.at, event });
    else if (this.density === "steps") this.#step(event);
    else this.#summary(event);
  }

  #step(event: JobEvent): void {
    const base = { key: event.id, at: event.at };
    const last = this.rows.at(-1);
    switch (event.type) {
      case "state":
        this.rows.push({ ...base, kind: "state", event });
        if (event.state === "finishing" || isTerminal(event.state)) for (const call of this.#calls.values()) call.over = true;
        break;
      case "stdout":
      case "stderr":
        this.#output(event);
        break;
      case "model":
        this.#model(event);
        break;
      case "step": {
        // A plan has a row of its own.
        if (event.tool === "plan") break;
        const row: Extract<Row, { kind: "call" }> = { ...base, kind: "call", step: event, result: null, over: false };
        this.#calls.set(event.call, row);
        this.rows.push(row);
        break;
      }
      case "tool": {
        const row = this.#calls.get(event.call);
        if (row) row.result = event;
        else if (event.tool !== "plan") this.rows.push({ ...base, kind: "call", step: { ...event, type: "step", tool: event.tool ?? "tool", arguments: "" }, result: event, over: true });
        break;
      }
      case "file":
        if (last?.kind === "files") {
          if (!last.paths.includes(event.path)) last.paths.push(event.path);
        } else this.rows.push({ ...base, kind: "files", paths: [event.path] });
        break;
      case "egress":
        this.#egress(event);
        break;
      case "frame":
      case "usage":
        // The replay and the plots show them; a row for each would hide what the job did.
        break;
      case "screenshot":
        this.rows.push({ ...base, kind: "picture", entry: event.entry, picture: event.picture });
        break;
      case "plan":
        if (last?.kind === "plan") last.items = event.items;
        else this.rows.push({ ...base, kind: "plan", items: event.items });
        break;
      case "said":
        this.rows.push({ ...base, kind: "said", text: event.text, by: event.by });
        break;
      case "note":
        this.rows.push({ ...base, kind: "note", text: event.text });
        break;
      case "truncated":
        this.rows.push({ ...base, kind: "note", text: `The middle of ${event.stream} was dropped: it exceeded its cap.` });
        break;
      default:
        // A type that a newer server sends.
        this.rows.push({ ...base, kind: "event", event });
    }
  }

  #output(event: Of<"stdout"> | Of<"stderr">): void {
    const last = this.rows.at(-1);
    const said = event.text ?? "";
    if (last?.kind === "output" && last.stream === event.type && last.text.length + said.length < OUTPUT_CHARACTERS) {
      last.text += said;
      last.bytes += event.length;
      return;
    }
    this.rows.push({ kind: "output", key: event.id, at: event.at, stream: event.type, text: said, bytes: event.length });
  }

  #model(event: Of<"model">): void {
    let row = this.#models.get(event.entry);
    if (!row) {
      row = { kind: "model", key: event.id, at: event.at, entry: event.entry, text: "", end: null };
      this.#models.set(event.entry, row);
      this.rows.push(row);
    }
    // A retried call begins again.
    if (event.text !== undefined && event.text !== null) row.text = event.offset === 0 ? event.text : row.text + event.text;
    if (event.done) row.end = event;
  }

  #egress(event: Of<"egress">): void {
    const known = this.#targets.get(event.target);
    if (known) {
      known.last = event;
      if (event.decision === "allowed") known.count += 1;
      return;
    }
    const row: Extract<Row, { kind: "egress" }> = { kind: "egress", key: event.id, at: event.at, target: event.target, last: event, count: 1 };
    this.#targets.set(event.target, row);
    this.rows.push(row);
  }

  #summary(event: JobEvent): void {
    switch (event.type) {
      case "state":
      case "said":
      case "note":
        this.#step(event);
        break;
      case "plan": {
        // One row for the plan, renewed where it stands.
        const plan = this.rows.find((row) => row.kind === "plan");
        if (plan?.kind === "plan") plan.items = event.items;
        else this.#step(event);
        break;
      }
      case "model":
        this.#model(event);
        // An answer that only calls tools has no words of its own.
        if (event.done && !this.#models.get(event.entry)?.text.trim() && !event.error) this.rows = this.rows.filter((row) => row.kind !== "model" || row.entry !== event.entry);
        break;
      default:
        this.#count(event);
    }
  }

  #count(event: JobEvent): void {
    const tells = (event.type === "step" && event.tool !== "plan") || (event.type === "tool" && event.failed) || event.type === "file" || event.type === "stdout" || event.type === "stderr" || (event.type === "egress" && event.decision === "refused");
    if (!tells) return;
    let last = this.rows.at(-1);
    if (last?.kind !== "group") {
      last = { kind: "group", key: event.id, at: event.at, calls: 0, failed: 0, files: 0, outputBytes: 0, refused: 0, tools: [] };
      this.rows.push(last);
    }
    if (event.type === "step") {
      last.calls += 1;
      if (!last.tools.includes(event.tool)) last.tools.push(event.tool);
    } else if (event.type === "tool" && event.failed) last.failed += 1;
    else if (event.type === "file") last.files += 1;
    else if (event.type === "stdout" || event.type === "stderr") last.outputBytes += event.length;
    else if (event.type === "egress" && event.decision === "refused") last.refused += 1;
  }
}
