// Server-sent events by fetch, because `EventSource` can't send a key. Resumes after the last id until the job has ended.

import { ApiFailure, request } from "./client";
import type { JobEvent } from "./types";
import { isTerminal } from "./types";

const LONGEST_PAUSE_MS = 5000;
/** The server sends a comment every 15 s; a stream that is silent for longer than this is dead, whatever the network says. */
const SILENCE_MS = 40_000;

export interface StreamListener {
  /** Events in order, without gaps or repeats. */
  events(batch: JobEvent[]): void;
  /** True while connected; false while the server is away. */
  connected(connected: boolean): void;
  /** The job has ended and all its events were delivered. */
  ended(): void;
  failed(error: unknown): void;
}

/** Reads events after `after`, at most `limit` of them, and returns them. Ends early where the stream ends. */
export async function readEvents(job: string, query: string, signal: AbortSignal): Promise<JobEvent[]> {
  const answer = await request(`/jobs/${job}/events?${query}`, { signal, headers: { accept: "text/event-stream" } });
  const all: JobEvent[] = [];
  if (answer.status !== 204) for await (const batch of batches(answer)) all.push(...batch);
  return all;
}

/** Follows a job after the event `after` for as long as `signal` lasts. */
export async function follow(job: string, after: number, listener: StreamListener, signal: AbortSignal): Promise<void> {
  let last = after;
  let pauseMs = 250;
  while (!signal.aborted) {
    try {
      const answer = await request(`/jobs/${job}/events?after=${last}`, { signal, headers: { accept: "text/event-stream" } });
      if (answer.status === 204) return listener.ended();
      listener.connected(true);
      pauseMs = 250;
      for await (const batch of batches(answer)) {
        const fresh = batch.filter((event) => event.id > last);
        last = fresh.at(-1)?.id ?? last;
        if (fresh.length > 0) listener.events(fresh);
        if (fresh.some((event) => event.type === "state" && isTerminal(event.state))) return listener.ended();
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof ApiFailure && error.status >= 400 && error.status < 500) return listener.failed(error);
    }
    if (signal.aborted) return;
    listener.connected(false);
    await new Promise((resume) => setTimeout(resume, pauseMs));
    pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS);
  }
}

/** The events of each chunk of the body together, so that a page renders once for all of them. */
async function* batches(answer: Response): AsyncGenerator<JobEvent[]> {
  const reader = answer.body?.pipeThrough(new TextDecoderStream()).getReader();
  if (!reader) return;
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await withinSilence(reader.read());
      if (done) return;
      const parts = (rest + value).split("\n\n");
      rest = parts.pop() ?? "";
      const events = parts.map(parse).filter((event) => event !== null);
      if (events.length > 0) yield events;
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

function withinSilence<T>(read: Promise<T>): Promise<T> {
  let timer = 0;
  const silence = new Promise<never>((_, fail) => { timer = window.setTimeout(() => fail(new Error("the stream is silent")), SILENCE_MS); });
  return Promise.race([read, silence]).finally(() => clearTimeout(timer));
}

function parse(block: string): JobEvent | null {
  let id = 0;
  let data = "";
  for (const line of block.split("\n")) {
    if (line.startsWith("id: ")) id = Number(line.slice(4));
    else if (line.startsWith("data: ")) data += line.slice(6);
  }
  if (!id || !data) return null;
  return { ...(JSON.parse(data) as Omit<JobEvent, "id">), id } as JobEvent;
}
