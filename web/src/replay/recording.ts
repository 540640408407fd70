// What a replay plays: the looks of the desktop, what was printed, and where the events are in time. All of it comes from the
// job's events and frames; nothing is recorded for the page alone.

import { getJson } from "../api/client";
import { readEvents } from "../api/event-stream";
import type { FramesView, JobEvent } from "../api/types";
import { stateTone } from "../ui/icons";
import { commandOf } from "../job/calls";

/** Events in one request. */
const PAGE_EVENTS = 1000;
/** Events that a replay reads at once. Of longer jobs it plays the end first, and more of it when asked; their desktop it plays whole. */
const PART_EVENTS = 20_000;
/** Characters of output that a replay keeps of each part, and of all parts. */
const KEPT_CHARACTERS = 4 * 1024 * 1024;
const MOST_CHARACTERS = 16 * 1024 * 1024;
/** Characters that are shown at a moment: more than fits on a screen. */
const SHOWN_CHARACTERS = 6000;
/** How often a job that still runs is read again. */
const AGAIN_MS = 3000;

export interface Frame {
  at: number;
  event: number;
  picture: number;
  width: number;
  height: number;
}

export interface Mark {
  at: number;
  event: number;
  tone: string;
}

/** What a part of the events tells. */
class Part {
  marks: Mark[] = [];
  /** Everything printed, and how much of it there was at which time. */
  text = "";
  prints: { at: number; end: number }[] = [];

  take(event: JobEvent): void {
    const at = Date.parse(event.at);
    this.marks.push({ at, event: event.id, tone: toneOf(event) });
    const printed = printedBy(event);
    if (!printed) return;
    this.text += printed;
    if (this.text.length > KEPT_CHARACTERS * 1.5) this.#forget(this.text.length - KEPT_CHARACTERS);
    this.prints.push({ at, end: this.text.length });
  }

  /** This part and the one after it as one. */
  before(later: Part): Part {
    const both = new Part();
    const shift = this.text.length;
    both.marks = [...this.marks, ...later.marks];
    both.text = this.text + later.text;
    both.prints = [...this.prints, ...later.prints.map(({ at, end }) => ({ at, end: end + shift }))];
    if (both.text.length > MOST_CHARACTERS) both.#forget(both.text.length - MOST_CHARACTERS);
    return both;
  }

  #forget(cut: number): void {
    this.text = this.text.slice(cut);
    this.prints = this.prints.flatMap((print) => (print.end > cut ? [{ at: print.at, end: print.end - cut }] : []));
  }
}

export class Recording {
  frames: Frame[] = [];
  #part = new Part();
  /** False until everything that there is was read. */
  complete = false;
  failure: unknown = null;
  /** True while events before the first known one are read. */
  readsBack = false;
  #lastEvent = 0;
  #lastFrame = 0;
  #abort = new AbortController();

  constructor(
    private readonly job: string,
    private readonly changed: () => void,
  ) {}

  get marks(): readonly Mark[] {
    return this.#part.marks;
  }

  /** Everything printed. */
  get text(): string {
    return this.#part.text;
  }

  /** Events before the first known one. */
  get unknown(): number {
    return Math.max(0, (this.marks[0]?.event ?? 1) - 1);
  }

  get begin(): number {
    return Math.min(this.marks[0]?.at ?? Infinity, this.frames[0]?.at ?? Infinity);
  }

  get end(): number {
    return Math.max(this.marks.at(-1)?.at ?? 0, this.frames.at(-1)?.at ?? 0);
  }

  close(): void {
    this.#abort.abort();
  }

  /** Reads what there is, and goes on while `live` says that more comes. */
  async load(live: () => boolean): Promise<void> {
    let begun = false;
    for (;;) {
      const more = live();
      try {
        if (!begun) this.#lastEvent = Math.max(0, await this.#newest() - PART_EVENTS);
        begun = true;
        await this.#readFrames();
        await this.#readEvents();
        this.complete = true;
        this.failure = null;
      } catch (error) {
        if (this.#abort.signal.aborted) return;
        this.failure = error;
      }
      this.changed();
      if (!more && this.complete) return;
      await new Promise((resume) => setTimeout(resume, AGAIN_MS));
      if (this.#abort.signal.aborted) return;
    }
  }

  /** Reads back: the part before the first known event, or all from `event` on. */
  async earlier(event = 0): Promise<void> {
    const known = this.unknown;
    if (this.readsBack || known === 0) return;
    this.readsBack = true;
    this.changed();
    try {
      const part = new Part();
      let last = Math.min(event > 0 ? Math.max(0, event - 1 - PART_EVENTS / 2) : known, Math.max(0, known - PART_EVENTS));
      while (last < known) {
        const page = await this.#page(last, Math.min(PAGE_EVENTS, known - last));
        if (page.length === 0) break;
        for (const one of page) if (one.id <= known) part.take(one);
        last = page.at(-1)?.id ?? known;
      }
      this.#part = part.before(this.#part);
      this.failure = null;
    } catch (error) {
      if (this.#abort.signal.aborted) return;
      this.failure = error;
    } finally {
      this.readsBack = false;
      if (!this.#abort.signal.aborted) this.changed();
    }
  }

  async #newest(): Promise<number> {
    return (await readEvents(this.job, "tail=1&limit=1&wait=0", this.#abort.signal)).at(-1)?.id ?? 0;
  }

  #page(after: number, limit: number): Promise<JobEvent[]> {
    return readEvents(this.job, `after=${after}&limit=${limit}&wait=0`, this.#abort.signal);
  }

  async #readFrames(): Promise<void> {
    for (;;) {
      const page = await getJson<FramesView>(`/jobs/${this.job}/frames?after=${this.#lastFrame}`, this.#abort.signal);
      for (const { at, ...frame } of page.frames) this.frames.push({ ...frame, at: Date.parse(at) });
      this.#lastFrame = page.frames.at(-1)?.event ?? this.#lastFrame;
      if (page.next === null || page.next === undefined) return;
      this.#lastFrame = page.next;
    }
  }

  async #readEvents(): Promise<void> {
    for (;;) {
      const page = await this.#page(this.#lastEvent, PAGE_EVENTS);
      for (const event of page) this.#part.take(event);
      this.#lastEvent = page.at(-1)?.id ?? this.#lastEvent;
      this.changed();
      if (page.length < PAGE_EVENTS) return;
    }
  }

  /** The look of the desktop at a time. */
  frameAt(at: number): Frame | null {
    return this.frames[lastAt(this.frames, at)] ?? null;
  }

  /** Pictures that come next. */
  picturesAfter(at: number, count: number): number[] {
    const from = lastAt(this.frames, at) + 1;
    return this.frames.slice(from, from + count).map((frame) => frame.picture);
  }

  /** The event at a time, or the last one before it. */
  eventAt(at: number): number | null {
    return this.marks[lastAt(this.marks, at)]?.event ?? null;
  }

  timeOf(event: number): number | null {
    return this.marks.findLast((mark) => mark.event <= event)?.at ?? null;
  }

  /** The time of the next or the previous thing that happened. */
  step(at: number, by: 1 | -1): number {
    const happened = this.frames.length > 0 ? this.frames : this.marks;
    if (by > 0) return happened[lastAt(happened, at) + 1]?.at ?? this.end;
    return happened.findLast((thing) => thing.at < at)?.at ?? this.begin;
  }

  /** When something next happens after a time. */
  nextAfter(at: number): number {
    const next = [this.frames, this.marks].map((things) => things[lastAt(things, at) + 1]?.at ?? Infinity);
    return Math.min(...next);
  }

  /** The end of what was printed until then; characters before it are dropped. */
  printedAt(at: number): { text: string; end: number } {
    const end = this.#part.prints[lastAt(this.#part.prints, at)]?.end ?? 0;
    return { text: this.text.slice(Math.max(0, end - SHOWN_CHARACTERS), end), end };
  }
}

/** The index of the last thing at or before a time; -1 if there is none. */
function lastAt(things: readonly { at: number }[], at: number): number {
  let low = -1;
  let high = things.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if ((things[middle]?.at ?? Infinity) <= at) low = middle;
    else high = middle - 1;
  }
  return low;
}

function toneOf(event: JobEvent): string {
  switch (event.type) {
    case "state": return stateTone(event.state);
    case "tool": return event.failed ? "bad" : "quiet";
    case "step": return "accent";
    case "said": return "wait";
    case "egress": return event.decision === "refused" ? "bad" : "quiet";
    default: return "quiet";
  }
}

/** What an event puts on the terminal, as in the job's cast. */
function printedBy(event: JobEvent): string {
  switch (event.type) {
    case "stdout":
    case "stderr": return event.text ?? "";
    case "step": {
      const command = commandOf(event.tool, event.arguments);
      return command ? `\x1b[1;34m$\x1b[0m ${command}\n` : "";
    }
    case "tool": return event.tool && commandOf(event.tool, "{}") !== null && event.output ? `${event.output.replace(/\n?$/, "\n")}` : "";
    default: return "";
  }
}
