// The request of an earlier job, for running it again with changes. The server repeats neither values of variables, which may be
// secrets, nor files. The audit names both: files that are still as they were come from the workspace or the result, and a person
// is told of everything else.

import { encodePath, request } from "../api/client";
import { readRequest, readStatus } from "../api/jobs";
import type { JobView } from "../api/types";
import { readDirectory, readEntry } from "../api/zip";
import { plural } from "../ui/format";
import type { Draft, DraftFile } from "./draft";
import { draftOf } from "./draft";
import { fileFrom } from "./dropped";

export interface RepeatedRequest {
  draft: Draft;
  /** What of the request is not repeated, in words. */
  missing: string[];
}

interface NamedFile {
  path: string;
  size: number;
  sha256: string;
}

/** Paths that are named in a sentence. */
const NAMED_PATHS = 5;

export async function repeat(id: string): Promise<RepeatedRequest> {
  const [body, job] = await Promise.all([readRequest(id), readStatus(id)]);
  const draft = draftOf(body);
  const missing: string[] = [];
  if (job.env_names && job.env_names.length > 0) {
    draft.env = job.env_names.join("\n");
    missing.push(`Values of variables are never shown again. Type those of ${job.env_names.join(", ")} under Options, or the job starts without them.`);
  }
  const named = await namedFiles(id).catch(() => null);
  if (named === null) missing.push("Whether the earlier job had files is not known: its audit can't be read.");
  else if (named.count > 0) {
    const lost = await takeFiles(job, named.files, draft.files);
    const unnamed = named.count - named.files.length;
    if (lost.length > 0) missing.push(`${plural(lost.length, "file")} of the earlier job changed since or ${lost.length === 1 ? "is" : "are"} gone: ${listed(lost)}. Add what the new job needs.`);
    if (unnamed > 0) missing.push(`${plural(unnamed, "further file")} of the earlier job can't be named here. Add what the new job needs.`);
  }
  return { draft, missing };
}

const listed = (paths: string[]): string => paths.slice(0, NAMED_PATHS).join(", ") + (paths.length > NAMED_PATHS ? ` and ${paths.length - NAMED_PATHS} more` : "");

/** The files of the request, from the first record of the job's audit. */
async function namedFiles(id: string): Promise<{ files: NamedFile[]; count: number }> {
  const answer = await request(`/jobs/${id}/audit`);
  const reader = answer.body?.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  while (reader && !text.includes("\n")) {
    const { value, done } = await reader.read();
    if (done) break;
    text += value;
  }
  reader?.cancel().catch(() => {});
  const { facts } = JSON.parse(text.split("\n")[0] ?? "") as { facts: { files?: NamedFile[]; files_count?: number } };
  return { files: facts.files ?? [], count: facts.files_count ?? 0 };
}

/** Adds the files that are still as they were; returns the paths of the others. */
async function takeFiles(job: JobView, files: NamedFile[], to: DraftFile[]): Promise<string[]> {
  const read = await readerOf(job);
  const lost: string[] = [];
  for (const file of files) {
    const bytes = await read(file).catch(() => null);
    if (bytes && (await isSame(bytes, file))) to.push(fileFrom(file.path, bytes));
    else lost.push(file.path);
  }
  return lost;
}

async function readerOf(job: JobView): Promise<(file: NamedFile) => Promise<Uint8Array<ArrayBuffer> | null>> {
  if (job.sandbox === "live") return async ({ path }) => new Uint8Array(await (await request(`/jobs/${job.job_id}/files/${encodePath(path)}`)).arrayBuffer());
  if (!job.download_url) return async () => null;
  const entries = new Map((await readDirectory(job.job_id)).map((entry) => [entry.path, entry]));
  return async ({ path, size }) => {
    const entry = entries.get(path);
    return entry?.size === size ? readEntry(job.job_id, entry, size) : null;
  };
}

/** True if these are the bytes of the request. Without a secure origin a browser computes no hashes: then nothing is taken. */
async function isSame(bytes: Uint8Array<ArrayBuffer>, { size, sha256 }: NamedFile): Promise<boolean> {
  if (bytes.length !== size || !globalThis.crypto.subtle) return false;
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return [...hash].map((byte) => byte.toString(16).padStart(2, "0")).join("") === sha256;
}
