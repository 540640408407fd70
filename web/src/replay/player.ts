// The moment that a replay shows, and the clock that moves it on.

import { Store } from "../ui/store";
import type { Recording } from "./recording";

/** While nothing happens for longer than this, a replay that skips pauses goes to what happens next. */
const PAUSE_MS = 2000;
/** A pause is shown this long before it is skipped. */
const SHOWN_PAUSE_MS = 600;

export class Player {
  /** Milliseconds since 1970. */
  readonly at = new Store(0);
  readonly playing = new Store(false);
  readonly speed = new Store(4);
  readonly skips = new Store(true);
  #frame = 0;
  #since = 0;

  constructor(private readonly recording: Recording) {}

  seek(at: number): void {
    this.at.value = Math.max(this.recording.begin, Math.min(this.recording.end, at));
  }

  toggle(): void {
    if (this.playing.value) return this.pause();
    if (this.at.value >= this.recording.end) this.seek(this.recording.begin);
    this.playing.value = true;
    this.#since = performance.now();
    this.#frame = requestAnimationFrame(this.#turn);
  }

  pause(): void {
    cancelAnimationFrame(this.#frame);
    this.playing.value = false;
  }

  readonly #turn = (now: number): void => {
    // A tab in the background gets no frames: the replay then stands still rather than jump.
    const passed = Math.min(250, now - this.#since) * this.speed.value;
    this.#since = now;
    let next = this.at.value + passed;
    const happens = this.recording.nextAfter(this.at.value);
    if (this.skips.value && happens !== Infinity && happens - next > PAUSE_MS * this.speed.value) next = happens - SHOWN_PAUSE_MS * this.speed.value;
    this.seek(next);
    if (this.at.value >= this.recording.end) return this.pause();
    this.#frame = requestAnimationFrame(this.#turn);
  };
}
