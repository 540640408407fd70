// Pictures of a recorded desktop: fetched with the tab's key, kept as they came, decoded beside the page's own thread.

import { request } from "../api/client";

/** Pictures kept as files. */
const KEPT_FILES = 200;
/** Pictures kept as pixels: four megabytes each. */
const KEPT_BITMAPS = 8;

export class Pictures {
  #files = new Map<number, Promise<Blob>>();
  #bitmaps = new Map<number, ImageBitmap>();
  #abort = new AbortController();

  constructor(private readonly job: string) {}

  /** The pixels of a picture. */
  async bitmap(picture: number): Promise<ImageBitmap> {
    const known = this.#bitmaps.get(picture);
    if (known) return known;
    const made = await createImageBitmap(await this.#file(picture));
    this.#bitmaps.set(picture, made);
    for (const [oldest, bitmap] of this.#bitmaps) {
      if (this.#bitmaps.size <= KEPT_BITMAPS) break;
      this.#bitmaps.delete(oldest);
      bitmap.close();
    }
    return made;
  }

  /** Fetches pictures that will be wanted soon. */
  ahead(pictures: number[]): void {
    for (const picture of pictures) this.#file(picture).catch(() => {});
  }

  close(): void {
    this.#abort.abort();
    for (const bitmap of this.#bitmaps.values()) bitmap.close();
    this.#bitmaps.clear();
  }

  #file(picture: number): Promise<Blob> {
    const known = this.#files.get(picture);
    if (known) return known;
    // The type is ours: whatever the bytes are, they are only ever a picture.
    const read = request(`/jobs/${this.job}/frames/${picture}`, { signal: this.#abort.signal })
      .then(async (answer) => new Blob([await answer.arrayBuffer()], { type: "image/png" }));
    read.catch(() => this.#files.delete(picture));
    this.#files.set(picture, read);
    for (const oldest of this.#files.keys()) {
      if (this.#files.size <= KEPT_FILES) break;
      this.#files.delete(oldest);
    }
    return read;
  }
}
