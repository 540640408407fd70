// What a replay plays: the looks of the desktop, what was printed, and where the events are in time. All of it comes from the
// job's events and frames; nothing is recorded for the page alone.

import { getJson } from "../api/client";
import { readEvents } from "../api/event-stream";
import type { FramesView, JobEvent } from "../api/types";
import { stateTone } from "../ui/icons";
import { commandOf } from "../job/calls";

/** Events in one request. */
const PAGE_EVENTS = 1000;
/** Events that a replay knows. Of longer jobs it plays the end; their desktop it plays whole. */
const KEPT_EVENTS = 20_000;
/** Characters of output that a replay keeps. */
const KEPT_CHARACTERS = 4 * 1024 * 1024;
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

export class Recording {
  frames: Frame[] = [];
  marks: Mark[] = [];
  /** Everything printed, and how much of it there was at which time. */
  text = "";
  #prints: { at: number; end: number }[] = [];
  /** False until everything that there is was read. */
  complete = false;
  failure: unknown = null;
  #lastEvent = 0;
  #lastFrame = 0;
  #abort = new AbortController();

  constructor(
    private readonly job: string,
    private readonly changed: () => void,
  ) {}

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
  async load(newest: number, live: () => boolean): Promise<void> {
    this.#lastEvent = Math.max(0, newest - KEPT_EVENTS);
    for (;;) {
      const more = live();
      try {
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
      const page = await readEvents(this.job, `after=${this.#lastEvent}&limit=${PAGE_EVENTS}&wait=0`, this.#abort.signal);
      for (const event of page) this.#take(event);
      this.#lastEvent = page.at(-1)?.id ?? this.#lastEvent;
      this.changed();
      if (page.length < PAGE_EVENTS) return;
    }
  }

  #take(event: JobEvent): void {
    const at = Date.parse(event.at);
    this.marks.push({ at, event: event.id, tone: toneOf(event) });
    const printed = printedBy(event);
    if (!printed) return;
    this.text += printed;
    if (this.text.length > KEPT_CHARACTERS * 1.5) {
      const cut = this.text.length - KEPT_CHARACTERS;
      this.text = this.text.slice(cut);
      this.#prints = this.#prints.flatMap((print) => (print.end > cut ? [{ at: print.at, end: print.end - cut }] : []));
    }
    this.#prints.push({ at, end: this.text.length });
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
    const end = this.#prints[lastAt(this.#prints, at)]?.end ?? 0;
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
