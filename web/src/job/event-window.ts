// A contiguous part of a job's events: opened at the end, extended backwards on demand, and followed live. Its size is bounded, so
// a job of any length costs the same memory.

import { follow, readEvents } from "../api/event-stream";
import type { JobEvent } from "../api/types";
import { isTerminal } from "../api/types";

/** Events read when a job is opened: what is in view and some more, so that the page is there at once. */
const FIRST_EVENTS = 160;
/** Events in each further page. */
const PAGE_EVENTS = 600;
/** Events that are kept. The oldest are forgotten first; they can be read again. */
const KEPT_EVENTS = 20_000;

export type Connection = "opening" | "live" | "away" | "ended";

export class EventWindow {
  events: JobEvent[] = [];
  connection: Connection = "opening";
  failure: unknown = null;
  /** True if the window reaches the job's newest event. */
  reachesEnd = false;
  /** Rises with each change; `rebuilt` when events were added elsewhere than at the end. */
  version = 0;
  rebuilt = 0;
  #loading = false;
  #abort = new AbortController();
  /** Ends the stream of new events alone, when the window moves away from the end. */
  #following = new AbortController();

  constructor(
    readonly job: string,
    private readonly changed: () => void,
    private readonly onState: (event: Extract<JobEvent, { type: "state" }>) => void,
  ) {}

  /** Opens the window at the end, or around an event. */
  async open(around: number | null): Promise<void> {
    try {
      const query = around === null ? `tail=${FIRST_EVENTS}&limit=${FIRST_EVENTS}` : `after=${Math.max(0, around - FIRST_EVENTS / 2)}&limit=${FIRST_EVENTS}`;
      this.events = await this.#read(query);
      this.rebuilt += 1;
      this.#tell();
      if (around === null || this.events.length < FIRST_EVENTS) this.#follow();
      else {
        this.connection = "ended";
        this.#tell();
      }
    } catch (error) {
      this.#fail(error);
    }
  }

  /** True if there are older events than those here. */
  get hasEarlier(): boolean {
    return (this.events[0]?.id ?? 1) > 1;
  }

  async earlier(): Promise<void> {
    const first = this.events[0]?.id ?? 1;
    if (this.#loading || first <= 1) return;
    this.#loading = true;
    try {
      const after = Math.max(0, first - 1 - PAGE_EVENTS);
      const page = await this.#read(`after=${after}&limit=${first - 1 - after}`);
      this.events = [...page.filter((event) => event.id < first), ...this.events];
      // At the end the newest are forgotten instead: a person who reads the past looks away from them.
      if (this.events.length > KEPT_EVENTS && !this.reachesEnd) this.events.length = KEPT_EVENTS;
      this.rebuilt += 1;
      this.#tell();
    } catch {
      // The next look tries again.
    } finally {
      this.#loading = false;
    }
  }

  /** Moves the window to an event that it does not have. */
  async reveal(event: number): Promise<void> {
    const [first, last] = [this.events[0]?.id ?? 0, this.events.at(-1)?.id ?? 0];
    if (this.#loading || (event >= first && event <= last)) return;
    this.#loading = true;
    try {
      const page = await this.#read(`after=${Math.max(0, event - PAGE_EVENTS / 2)}&limit=${PAGE_EVENTS}`);
      this.#following.abort();
      this.events = page;
      this.rebuilt += 1;
      this.reachesEnd = false;
      if (page.length < PAGE_EVENTS) this.#follow();
      this.#tell();
    } catch {
      // The next moment tries again.
    } finally {
      this.#loading = false;
    }
  }

  /** The next page of a window that does not reach the end yet. */
  async later(): Promise<void> {
    if (this.#loading || this.reachesEnd) return;
    this.#loading = true;
    try {
      const last = this.events.at(-1)?.id ?? 0;
      const page = await this.#read(`after=${last}&limit=${PAGE_EVENTS}`);
      this.#append(page);
      if (page.length < PAGE_EVENTS) this.#follow();
    } catch {
      // The next look tries again.
    } finally {
      this.#loading = false;
    }
  }

  close(): void {
    this.#abort.abort();
  }

  /** A page of events. A stream of a live job stays open at its end, so it is given up when nothing more comes. */
  async #read(query: string): Promise<JobEvent[]> {
    return readEvents(this.job, `${query}&wait=0`, this.#abort.signal);
  }

  #follow(): void {
    this.reachesEnd = true;
    this.#following = new AbortController();
    const last = this.events.at(-1);
    if (last?.type === "state" && isTerminal(last.state)) {
      this.connection = "ended";
      return this.#tell();
    }
    void follow(this.job, last?.id ?? 0, {
      events: (batch) => this.#append(batch),
      connected: (connected) => { this.connection = connected ? "live" : "away"; this.#tell(); },
      ended: () => { this.connection = "ended"; this.#tell(); },
      failed: (error) => this.#fail(error),
    }, AbortSignal.any([this.#abort.signal, this.#following.signal]));
  }

  #append(batch: JobEvent[]): void {
    for (const event of batch) {
      this.events.push(event);
      if (event.type === "state") this.onState(event);
    }
    if (this.events.length > KEPT_EVENTS + PAGE_EVENTS) {
      this.events = this.events.slice(-KEPT_EVENTS);
      this.rebuilt += 1;
    }
    this.#tell();
  }

  #fail(error: unknown): void {
    if (this.#abort.signal.aborted) return;
    this.failure = error;
    this.connection = "ended";
    this.#tell();
  }

  #tell(): void {
    this.version += 1;
    if (!this.#abort.signal.aborted) this.changed();
  }
}
