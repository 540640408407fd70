// Where files of a job come from: the live machine while there is one, the result archive afterwards.

import { encodePath, getJson, request } from "../api/client";
import type { FileEntryView, JobView, ListingView } from "../api/types";
import type { ZipEntry } from "../api/zip";
import { readDirectory, readEntry } from "../api/zip";

/** Bytes of a file that are shown. */
export const SHOWN_BYTES = 1024 * 1024;

/** Bytes of a notebook that are shown: its pictures are in it. */
export const NOTEBOOK_BYTES = 8 * 1024 * 1024;
export const isNotebook = (path: string): boolean => path.endsWith(".ipynb");
const shownBytes = (path: string): number => (isNotebook(path) ? NOTEBOOK_BYTES : SHOWN_BYTES);

export interface Entry {
  name: string;
  path: string;
  folder: boolean;
  size: number;
  link: string | null;
}

export interface FileSource {
  readonly live: boolean;
  list(folder: string): Promise<Entry[]>;
  read(path: string): Promise<{ bytes: Uint8Array<ArrayBuffer>; size: number }>;
}

const join = (folder: string, name: string): string => (folder ? `${folder}/${name}` : name);
const inOrder = (a: Entry, b: Entry): number => Number(b.folder) - Number(a.folder) || (a.name < b.name ? -1 : 1);

export function sourceOf(job: JobView): FileSource | null {
  if (job.sandbox === "live") return new LiveSource(job.job_id);
  return job.download_url ? new ArchiveSource(job.job_id) : null;
}

class LiveSource implements FileSource {
  readonly live = true;
  constructor(private readonly job: string) {}

  async list(folder: string): Promise<Entry[]> {
    const entries: FileEntryView[] = [];
    let after: string | null = null;
    // Folders beyond ten pages are shown in part.
    for (let page = 0; page < 10; page += 1) {
      const query: string = after === null ? "" : `?after=${encodeURIComponent(after)}`;
      const listing: ListingView = await getJson<ListingView>(`/jobs/${this.job}/files/${encodePath(folder)}${query}`);
      entries.push(...listing.entries);
      after = listing.next ?? null;
      if (after === null) break;
    }
    return entries.map((entry) => ({ name: entry.name, path: join(folder, entry.name), folder: entry.kind === "directory", size: entry.size, link: entry.target ?? null })).sort(inOrder);
  }

  async read(path: string): Promise<{ bytes: Uint8Array<ArrayBuffer>; size: number }> {
    const answer = await request(`/jobs/${this.job}/files/${encodePath(path)}`, { headers: { range: `bytes=0-${shownBytes(path) - 1}` } }).catch(async (error: unknown) => {
      // An empty file has no ranges.
      if ((error as { status?: number }).status === 416) return new Response("");
      throw error;
    });
    const bytes = new Uint8Array(await answer.arrayBuffer());
    const total = Number(answer.headers.get("content-range")?.split("/")[1] ?? bytes.length);
    return { bytes, size: total };
  }
}

class ArchiveSource implements FileSource {
  readonly live = false;
  #entries: Promise<ZipEntry[]> | null = null;
  constructor(private readonly job: string) {}

  #all(): Promise<ZipEntry[]> {
    this.#entries ??= readDirectory(this.job);
    return this.#entries;
  }

  async list(folder: string): Promise<Entry[]> {
    const prefix = folder ? `${folder}/` : "";
    const found = new Map<string, Entry>();
    for (const entry of await this.#all()) {
      if (!entry.path.startsWith(prefix) || entry.path === prefix) continue;
      const rest = entry.path.slice(prefix.length);
      const slash = rest.indexOf("/");
      const name = slash < 0 ? rest : rest.slice(0, slash);
      if (!found.has(name)) found.set(name, { name, path: prefix + name, folder: slash >= 0, size: slash < 0 ? entry.size : 0, link: null });
    }
    return [...found.values()].sort(inOrder);
  }

  async read(path: string): Promise<{ bytes: Uint8Array<ArrayBuffer>; size: number }> {
    const entry = (await this.#all()).find((candidate) => candidate.path === path);
    if (!entry) throw new Error("There is no such file in the result.");
    return { bytes: await readEntry(this.job, entry, shownBytes(path)), size: entry.size };
  }
}

/** The text of bytes, or null if they are none. */
export function textOf(bytes: Uint8Array<ArrayBuffer>): string | null {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes, { stream: true });
    return text.includes("\0") ? null : text;
  } catch {
    return null;
  }
}
