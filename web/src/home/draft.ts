// What the box on the first page holds, and how it becomes a request.

import type { FileBody, JobKind, ScheduleBody } from "../api/types";

export interface DraftFile {
  path: string;
  size: number;
  body: FileBody;
}

/** What a request says, as the fields of the box have it: figures are text, and an empty text says nothing. */
export interface Draft {
  kind: JobKind;
  text: string;
  name: string;
  model: string;
  isolation: string;
  flavour: string;
  egress: string;
  repository: string;
  reference: string;
  keep: boolean;
  /** A line for each variable: `NAME=value`. A name alone is not sent: its value is not known. */
  env: string;
  cpus: string;
  memory: string;
  disk: string;
  minutes: string;
  idleMinutes: string;
  pids: string;
  io: string;
  recording: string;
  budgetSteps: string;
  budgetUsd: string;
  budgetTokens: string;
  /** An exhausted budget ends the task instead of asking. */
  endsBroke: boolean;
  askHours: string;
  goesOn: boolean;
  files: DraftFile[];
}

export const EMPTY: Draft = {
  kind: "task", text: "", name: "", model: "", isolation: "any", flavour: "", egress: "usual", repository: "", reference: "", keep: false, env: "",
  cpus: "", memory: "", disk: "", minutes: "", idleMinutes: "", pids: "", io: "", recording: "", budgetSteps: "", budgetUsd: "", budgetTokens: "", endsBroke: false, askHours: "", goesOn: false, files: [],
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

/** The members that say something. */
const given = <Part extends object>(members: { [Name in keyof Part]: Part[Name] | null }): Part | null => {
  const found = Object.entries(members).filter(([, value]) => value !== null);
  return found.length > 0 ? (Object.fromEntries(found) as Part) : null;
};

export function bodyOf(draft: Draft): ScheduleBody {
  const body: ScheduleBody = draft.kind === "task" ? { task: draft.text } : draft.kind === "session" ? { kind: "session" } : { kind: draft.kind, code: draft.text };
  const name = nameOf(draft);
  if (name) body.name = name;
  if (draft.isolation !== "any") body.isolation = draft.isolation;
  if (draft.flavour) body.flavour = draft.flavour;
  const hosts = hostsOf(draft);
  if (hosts.length > 0) body.egress = hosts;
  if (draft.repository.trim()) body.git = { url: draft.repository.trim(), ...(draft.reference.trim() ? { ref: draft.reference.trim() } : {}) };
  if (draft.keep) body.keep = true;
  const { known } = variablesOf(draft.env);
  if (Object.keys(known).length > 0) body.env = known;
  const limits = given<NonNullable<ScheduleBody["limits"]>>({
    cpus: number(draft.cpus), memory_mib: number(draft.memory), disk_mib: number(draft.disk), pids: number(draft.pids), io_mib_s: number(draft.io),
    recording_mib: number(draft.recording), timeout_s: scaled(draft.minutes, 60), idle_timeout_s: scaled(draft.idleMinutes, 60),
  });
  if (limits) body.limits = limits;
  if (draft.kind === "task") addTask(draft, body);
  if (draft.files.length > 0) body.files = Object.fromEntries(draft.files.map((file) => [file.path, file.body]));
  return body;
}

function addTask(draft: Draft, body: ScheduleBody): void {
  if (draft.model.trim()) body.model = draft.model.trim();
  const budget = given<NonNullable<ScheduleBody["budget"]>>({ steps: number(draft.budgetSteps), usd: number(draft.budgetUsd), tokens: number(draft.budgetTokens), on_breach: draft.endsBroke ? "end" : null });
  if (budget) body.budget = budget;
  const patience = scaled(draft.askHours, 3600);
  if (patience !== null) body.ask_timeout_s = patience;
  if (draft.goesOn) body.on_silence = "go_on";
}

const scaled = (text: string, factor: number): number | null => {
  const value = number(text);
  return value === null ? null : Math.round(value * factor);
};

/** The variables of the box: those with a value, and the names of those without one. */
export function variablesOf(text: string): { known: Record<string, string>; bare: string[] } {
  const known: Record<string, string> = {};
  const bare: string[] = [];
  for (const line of text.split("\n")) {
    const at = line.indexOf("=");
    const name = (at < 0 ? line : line.slice(0, at)).trim();
    if (!name) continue;
    if (at < 0) bare.push(name);
    else known[name] = line.slice(at + 1);
  }
  return { known, bare };
}

/** The draft of a request that was sent before, for running it again with changes. */
export function draftOf(body: ScheduleBody): Draft {
  const hosts = body.egress ?? [];
  const egress = hosts.length === 0 ? "none" : hosts.join(" ");
  const text = (value: number | null | undefined, factor = 1): string => (value === null || value === undefined ? "" : String(Number((value / factor).toFixed(4))));
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
    flavour: body.flavour ?? "",
    egress,
    repository: body.git?.url ?? "",
    reference: body.git?.ref ?? "",
    keep: body.keep ?? false,
    env: Object.entries(body.env ?? {}).map(([name, value]) => `${name}=${value}`).join("\n"),
    cpus: text(limits.cpus),
    memory: text(limits.memory_mib),
    disk: text(limits.disk_mib),
    minutes: text(limits.timeout_s, 60),
    idleMinutes: text(limits.idle_timeout_s, 60),
    pids: text(limits.pids),
    io: text(limits.io_mib_s),
    recording: text(limits.recording_mib),
    budgetSteps: text(body.budget?.steps),
    budgetUsd: text(body.budget?.usd),
    budgetTokens: text(body.budget?.tokens),
    endsBroke: body.budget?.on_breach === "end",
    askHours: text(body.ask_timeout_s, 3600),
    goesOn: body.on_silence === "go_on",
  };
}
