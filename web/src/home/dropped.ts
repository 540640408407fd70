// Files that a person chose, pasted or dropped, folders among them, as a request carries them. The bounds are the server's own.

import type { FileBody } from "../api/types";
import type { DraftFile } from "./draft";

/** Files of one request. */
const MOST_FILES = 1000;
/** Bytes of all files of one request. */
const MOST_BYTES = 12 * 1024 * 1024;
/** Folders in folders that are looked into. */
const MOST_DEPTH = 32;

interface FoundFile {
  path: string;
  file: File;
}

/** What a drop holds. The entries must be taken while the event is handled; their files are read afterwards. */
export function filesOf(transfer: DataTransfer | null): () => Promise<FoundFile[]> {
  const entries = [...(transfer?.items ?? [])].filter((item) => item.kind === "file").map((item) => item.webkitGetAsEntry());
  const plain = [...(transfer?.files ?? [])].map(named);
  // A browser that knows no entries gives files alone.
  if (entries.length === 0 || entries.some((entry) => entry === null)) return async () => plain;
  return async () => {
    const found: FoundFile[] = [];
    for (const entry of entries) if (entry) await walk(entry, 0, found);
    return found;
  };
}

export const named = (file: File): FoundFile => ({ path: file.webkitRelativePath || file.name, file });

async function walk(entry: FileSystemEntry, depth: number, found: FoundFile[]): Promise<void> {
  if (found.length > MOST_FILES || depth > MOST_DEPTH) throw new Error(`A request takes at most ${MOST_FILES} files. Use a repository, or upload into a session.`);
  if (entry.isFile) {
    const file = await new Promise<File>((done, fail) => (entry as FileSystemFileEntry).file(done, fail));
    found.push({ path: entry.fullPath.replace(/^\/+/, ""), file });
    return;
  }
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  // A folder comes in pages of a hundred; an empty one is the end.
  for (;;) {
    const page = await new Promise<FileSystemEntry[]>((done, fail) => reader.readEntries(done, fail));
    if (page.length === 0) return;
    for (const child of page) await walk(child, depth + 1, found);
  }
}

/** Reads files as the request carries them, and joins them with those that are there already. */
export async function joined(old: DraftFile[], found: FoundFile[]): Promise<DraftFile[]> {
  const names = new Set(found.map(({ path }) => path));
  const kept = old.filter((file) => !names.has(file.path));
  const size = kept.reduce((sum, file) => sum + file.size, 0) + found.reduce((sum, { file }) => sum + file.size, 0);
  if (kept.length + names.size > MOST_FILES) throw new Error(`A request takes at most ${MOST_FILES} files. Use a repository, or upload into a session.`);
  if (size > MOST_BYTES) throw new Error("A request takes at most 12 MiB of files. Use a repository, or upload into a session.");
  const read = await Promise.all(found.map(async ({ path, file }) => fileFrom(path, new Uint8Array(await file.arrayBuffer()))));
  return [...kept, ...read];
}

/** A file of a request: text as text, anything else as base64. */
export function fileFrom(path: string, data: Uint8Array): DraftFile {
  return { path, size: data.length, body: bodyFrom(data) };
}

function bodyFrom(data: Uint8Array): FileBody {
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(data);
    if (!text.includes("\0")) return text;
  } catch {
    // Not text.
  }
  let binary = "";
  for (let at = 0; at < data.length; at += 0x8000) binary += String.fromCharCode(...data.subarray(at, at + 0x8000));
  return { base64: btoa(binary) };
}
