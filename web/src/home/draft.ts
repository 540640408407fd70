// What the box on the first page holds, and how it becomes a request.

import type { FileBody, JobKind, ScheduleBody } from "../api/types";

export interface DroppedFile {
  path: string;
  size: number;
  body: FileBody;
}

export interface Draft {
  kind: JobKind;
  text: string;
  name: string;
  model: string;
  isolation: string;
  egress: string;
  repository: string;
  reference: string;
  keep: boolean;
  cpus: string;
  memory: string;
  disk: string;
  minutes: string;
  budgetSteps: string;
  budgetUsd: string;
  files: DroppedFile[];
}

export const EMPTY: Draft = {
  kind: "task", text: "", name: "", model: "", isolation: "any", egress: "usual", repository: "", reference: "", keep: false,
  cpus: "", memory: "", disk: "", minutes: "", budgetSteps: "", budgetUsd: "", files: [],
};

/** Ready-made rules. Rules of the person's own are text with commas or spaces. `packages` is a rule that the server knows. */
export const EGRESS_PRESETS: Record<string, { label: string; hosts: (kind: JobKind) => string[] }> = {
  usual: { label: "Registries for tasks, none for code", hosts: (kind) => (kind === "task" ? ["packages"] : []) },
  none: { label: "No network", hosts: () => [] },
  packages: { label: "Package registries and GitHub", hosts: () => ["packages"] },
};

const NAME_CHARACTERS = 80;

const hostsOf = (draft: Draft): string[] => {
  const preset = EGRESS_PRESETS[draft.egress];
  const hosts = preset ? preset.hosts(draft.kind) : draft.egress.split(/[\s,]+/).filter(Boolean);
  // A repository can only be cloned from a host that the sandbox may reach.
  const host = draft.repository && URL.canParse(draft.repository) ? new URL(draft.repository).host : "";
  if (host && !hosts.includes(host)) hosts.push(host);
  return hosts;
};

const number = (text: string): number | null => (text.trim() === "" ? null : Number(text));

/** The first line of the text names the job, so that jobs can be told apart. */
function nameOf(draft: Draft): string {
  if (draft.name.trim()) return draft.name.trim();
  const line = draft.text.split("\n").map((text) => text.trim()).find((text) => text && !text.startsWith("#!")) ?? "";
  // eslint-disable-next-line no-control-regex
  const clean = line.replace(/[\x00-\x1f\x7f]/g, " ");
  return clean.length > NAME_CHARACTERS ? `${clean.slice(0, NAME_CHARACTERS - 1)}\u2026` : clean;
}

export function bodyOf(draft: Draft): ScheduleBody {
  const body: ScheduleBody = draft.kind === "task" ? { task: draft.text } : draft.kind === "session" ? { kind: "session" } : { kind: draft.kind, code: draft.text };
  const name = nameOf(draft);
  if (name) body.name = name;
  if (draft.model.trim() && draft.kind === "task") body.model = draft.model.trim();
  if (draft.isolation !== "any") body.isolation = draft.isolation;
  const hosts = hostsOf(draft);
  if (hosts.length > 0) body.egress = hosts;
  if (draft.repository.trim()) body.git = { url: draft.repository.trim(), ...(draft.reference.trim() ? { ref: draft.reference.trim() } : {}) };
  if (draft.keep) body.keep = true;
  const limits = { cpus: number(draft.cpus), memory_mib: number(draft.memory), disk_mib: number(draft.disk), timeout_s: scaled(draft.minutes, 60) };
  const given = Object.fromEntries(Object.entries(limits).filter(([, value]) => value !== null));
  if (Object.keys(given).length > 0) body.limits = given;
  const budget = { steps: number(draft.budgetSteps), usd: number(draft.budgetUsd) };
  const spending = Object.fromEntries(Object.entries(budget).filter(([, value]) => value !== null));
  if (draft.kind === "task" && Object.keys(spending).length > 0) body.budget = spending;
  if (draft.files.length > 0) body.files = Object.fromEntries(draft.files.map((file) => [file.path, file.body]));
  return body;
}

const scaled = (text: string, factor: number): number | null => {
  const value = number(text);
  return value === null ? null : Math.round(value * factor);
};

/** The draft of a request that was sent before, for running it again with changes. */
export function draftOf(body: ScheduleBody): Draft {
  const hosts = body.egress ?? [];
  const egress = hosts.length === 0 ? "none" : hosts.join(" ");
  const text = (value: number | null | undefined): string => (value === null || value === undefined ? "" : String(value));
  const limits = body.limits ?? {};
  const words = body.task ?? body.prompt ?? body.code ?? "";
  return {
    ...EMPTY,
    kind: body.kind ?? "task",
    text: words,
    // A name that came from the first line follows it when that is changed.
    name: body.name === nameOf({ ...EMPTY, text: words }) ? "" : (body.name ?? ""),
    model: body.model ?? "",
    isolation: body.isolation ?? "any",
    egress,
    repository: body.git?.url ?? "",
    reference: body.git?.ref ?? "",
    keep: body.keep ?? false,
    cpus: text(limits.cpus),
    memory: text(limits.memory_mib),
    disk: text(limits.disk_mib),
    minutes: limits.timeout_s ? text(limits.timeout_s / 60) : "",
    budgetSteps: text(body.budget?.steps),
    budgetUsd: text(body.budget?.usd),
    files: Object.entries(body.files ?? {}).map(([path, content]) => ({ path, body: content, size: sizeOf(content) })),
  };
}

const sizeOf = (body: FileBody): number => (typeof body === "string" ? new Blob([body]).size : Math.floor((body.base64.length * 3) / 4));

/** Reads files as the request carries them: text as text, anything else as base64. */
export async function readFiles(list: Iterable<File>): Promise<DroppedFile[]> {
  return Promise.all([...list].map(async (file) => {
    const data = new Uint8Array(await file.arrayBuffer());
    return { path: file.webkitRelativePath || file.name, size: data.length, body: fileBody(data) };
  }));
}

function fileBody(data: Uint8Array): FileBody {
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
