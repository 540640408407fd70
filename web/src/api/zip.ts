// Files of a result archive without downloading all of it: its directory and single entries, by ranges of bytes.

import { request } from "./client";

export interface ZipEntry {
  path: string;
  size: number;
  packed: number;
  method: number;
  offset: number;
}

const END_BYTES = 66_000;
/** A directory beyond this is not read: a million entries. */
const DIRECTORY_BYTES = 64 * 1024 * 1024;

async function range(job: string, from: number, to: number): Promise<DataView> {
  const answer = await request(`/jobs/${job}/download`, { headers: { range: `bytes=${from}-${to}` } });
  return new DataView(await answer.arrayBuffer());
}

/** The entries of a job's result. The archive is our server's own, but the names in it are the job's. */
export async function readDirectory(job: string): Promise<ZipEntry[]> {
  const head = await request(`/jobs/${job}/download`, { method: "HEAD" });
  const length = Number(head.headers.get("content-length"));
  const start = Math.max(0, length - END_BYTES);
  const tail = await range(job, start, length - 1);
  let end = tail.byteLength - 22;
  while (end >= 0 && tail.getUint32(end, true) !== 0x06054b50) end -= 1;
  if (end < 0) throw new Error("The result is not a zip.");
  let [size, offset] = [tail.getUint32(end + 12, true), tail.getUint32(end + 16, true)];
  // Beyond 4 GiB or 65,535 entries the real figures are in a record before the end.
  if ((offset === 0xffffffff || tail.getUint16(end + 10, true) === 0xffff) && end >= 20 && tail.getUint32(end - 20, true) === 0x07064b50) {
    const record = await range(job, Number(tail.getBigUint64(end - 12, true)), Number(tail.getBigUint64(end - 12, true)) + 55);
    [size, offset] = [Number(record.getBigUint64(40, true)), Number(record.getBigUint64(48, true))];
  }
  if (size === 0) return [];
  if (size > DIRECTORY_BYTES) throw new Error("The result has too many files to list here. Download it instead.");
  const directory = offset >= start ? new DataView(tail.buffer, offset - start, size) : await range(job, offset, offset + size - 1);
  return entries(directory);
}

function entries(view: DataView): ZipEntry[] {
  const found: ZipEntry[] = [];
  const decoder = new TextDecoder();
  let at = 0;
  while (at + 46 <= view.byteLength && view.getUint32(at, true) === 0x02014b50) {
    const [name, extra, comment] = [view.getUint16(at + 28, true), view.getUint16(at + 30, true), view.getUint16(at + 32, true)];
    const path = decoder.decode(new Uint8Array(view.buffer, view.byteOffset + at + 46, name));
    const entry = { path, method: view.getUint16(at + 10, true), packed: view.getUint32(at + 20, true), size: view.getUint32(at + 24, true), offset: view.getUint32(at + 42, true) };
    widen(view, at + 46 + name, extra, entry);
    found.push(entry);
    at += 46 + name + extra + comment;
  }
  return found;
}

/** Sizes beyond 4 GiB are in an extra field, in a fixed order, each only if its short one is full. */
function widen(view: DataView, from: number, length: number, entry: ZipEntry): void {
  for (let at = from; at + 4 <= from + length; at += 4 + view.getUint16(at + 2, true)) {
    if (view.getUint16(at, true) !== 1) continue;
    let field = at + 4;
    for (const name of ["size", "packed", "offset"] as const) {
      if (entry[name] !== 0xffffffff) continue;
      entry[name] = Number(view.getBigUint64(field, true));
      field += 8;
    }
    return;
  }
}

/** The bytes of one entry, at most `most` of them unpacked. */
export async function readEntry(job: string, entry: ZipEntry, most: number): Promise<Uint8Array<ArrayBuffer>> {
  const head = await range(job, entry.offset, entry.offset + 29);
  const start = entry.offset + 30 + head.getUint16(26, true) + head.getUint16(28, true);
  if (entry.packed === 0) return new Uint8Array();
  const answer = await request(`/jobs/${job}/download`, { headers: { range: `bytes=${start}-${start + entry.packed - 1}` } });
  if (!answer.body) return new Uint8Array();
  const stream = entry.method === 0 ? answer.body : answer.body.pipeThrough(new DecompressionStream("deflate-raw"));
  const parts: Uint8Array[] = [];
  let length = 0;
  const reader = stream.getReader();
  while (length < most) {
    const { value, done } = await reader.read();
    if (done) break;
    parts.push(value);
    length += value.length;
  }
  reader.cancel().catch(() => {});
  const all = new Uint8Array(Math.min(length, most));
  let at = 0;
  for (const part of parts) {
    all.set(part.subarray(0, all.length - at), at);
    at += part.length;
  }
  return all;
}
