// The box: words for the agent or code to run, and everything a request can say about it.

import { useEffect, useRef, useState } from "preact/hooks";

import { messageOf } from "../api/client";
import { schedule } from "../api/jobs";
import type { AvailabilityView, JobKind } from "../api/types";
import { bytes } from "../ui/format";
import { Icon } from "../ui/icons";
import type { IconName } from "../ui/icons";
import { useShortcuts } from "../ui/keys";
import { plain } from "../ui/plain-text";
import { go, jobAddress, place, setQuery } from "../ui/router";
import { Store, useStore } from "../ui/store";
import type { Draft } from "./draft";
import { bodyOf, EGRESS_PRESETS, EMPTY } from "./draft";
import { filesOf, joined, named } from "./dropped";
import { Options } from "./options";

const KINDS: { kind: JobKind; label: string; icon: IconName; hint: string }[] = [
  { kind: "task", label: "Task", icon: "spark", hint: "Describe what you want built. The agent works in a machine of its own." },
  { kind: "shell", label: "Shell", icon: "terminal", hint: "A bash script." },
  { kind: "python", label: "Python", icon: "code", hint: "Python, run in a Jupyter kernel." },
  { kind: "typescript", label: "TypeScript", icon: "code", hint: "TypeScript, run by Deno." },
  { kind: "gui", label: "Desktop", icon: "screen", hint: "An xdotool script on a desktop, for example: exec xterm" },
  { kind: "session", label: "Session", icon: "flask", hint: "An open machine: terminal, desktop, kernels and files, until you end it." },
];

/** Files that are named in the box. */
const SHOWN_FILES = 12;

/** The draft outlives a look at another page, and so does what it lacks of the request that it repeats. */
export const draft = new Store<Draft>(EMPTY);
const missing = new Store<string[]>([]);
const change = (changes: Partial<Draft>): void => { draft.value = { ...draft.value, ...changes }; };

interface ComposerProps {
  availability: AvailabilityView | null;
  /** Null until it is known; an empty text if no model is configured. */
  model: string | null;
}

export function Composer({ availability, model }: ComposerProps) {
  const value = useStore(draft);
  const lacks = useStore(missing);
  const { query } = useStore(place);
  const [open, setOpen] = useState(false);
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState<string | null>(null);
  const [dragging, setDragging] = useState(false);
  const box = useRef<HTMLTextAreaElement>(null);
  const picker = useRef<HTMLInputElement>(null);
  useShortcuts([{ keys: "n", does: "New job", run: () => box.current?.focus() }]);

  // `?rerun=ID` fills the box with the request of an earlier job.
  const rerun = query.get("rerun");
  useEffect(() => {
    if (!rerun) return;
    setFailure(null);
    import("./repeat").then(({ repeat }) => repeat(rerun)).then((repeated) => {
      draft.value = repeated.draft;
      missing.value = repeated.missing;
      setOpen(true);
      setQuery({ rerun: null });
      box.current?.focus();
    }, (error: unknown) => setFailure(messageOf(error)));
  }, [rerun]);

  const submit = async () => {
    setBusy(true);
    setFailure(null);
    try {
      const { job_id } = await schedule(bodyOf(draft.value));
      draft.value = { ...EMPTY, kind: draft.value.kind };
      missing.value = [];
      go(jobAddress(job_id));
    } catch (error) {
      setFailure(messageOf(error));
    } finally {
      setBusy(false);
    }
  };
  const take = async (read: () => ReturnType<ReturnType<typeof filesOf>>) => {
    try {
      setFailure(null);
      change({ files: await joined(draft.value.files, await read()) });
    } catch (error) {
      setFailure(messageOf(error));
    }
  };
  const pick = (files: Iterable<File>) => { const found = [...files].map(named); return take(async () => found); };
  const chosen = KINDS.find(({ kind }) => kind === value.kind);
  const needsModel = value.kind === "task" && model === "" && !value.model.trim();

  return (
    <form
      class={`composer${dragging ? " dragging" : ""}`}
      onSubmit={(event) => { event.preventDefault(); void submit(); }}
      onDragOver={(event) => { event.preventDefault(); setDragging(true); }}
      onDragLeave={() => setDragging(false)}
      onDrop={(event) => { event.preventDefault(); setDragging(false); void take(filesOf(event.dataTransfer)); }}
    >
      <div class="kinds" role="radiogroup" aria-label="Kind of job">
        {KINDS.map(({ kind, label, icon }) => (
          <label key={kind} class="kind">
            <input type="radio" name="kind" checked={value.kind === kind} onChange={() => change({ kind })} />
            <Icon name={icon} /><span>{label}</span>
          </label>
        ))}
      </div>
      {value.kind !== "session" && (
        <textarea
          ref={box} id="composer" rows={Math.min(14, Math.max(4, value.text.split("\n").length + 1))} value={value.text} spellcheck={value.kind === "task"}
          class={value.kind === "task" ? "" : "mono"} aria-label={value.kind === "task" ? "Task" : "Code"} placeholder={chosen?.hint}
          onInput={(event) => change({ text: event.currentTarget.value })}
          onKeyDown={(event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); void submit(); } }}
          onPaste={(event) => { const files = event.clipboardData?.files; if (files && files.length > 0) { event.preventDefault(); void pick(files); } }}
        />
      )}
      {value.kind === "session" && <p class="composer-hint">{chosen?.hint}</p>}
      {value.files.length > 0 && (
        <ul class="chips" aria-label="Files of the job">
          {value.files.slice(0, SHOWN_FILES).map((file) => (
            <li key={file.path} class="chip">
              <Icon name="file" /><bdi>{plain(file.path)}</bdi> <span class="faint">{bytes(file.size)}</span>
              <button type="button" class="quiet square" aria-label={`Remove ${file.path}`} onClick={() => change({ files: value.files.filter((other) => other !== file) })}><Icon name="close" /></button>
            </li>
          ))}
          {value.files.length > SHOWN_FILES && (
            <li class="chip chip-more">and {value.files.length - SHOWN_FILES} more <button type="button" class="quiet square" aria-label="Remove all files" onClick={() => change({ files: [] })}><Icon name="close" /></button></li>
          )}
        </ul>
      )}
      {lacks.length > 0 && (
        <div class="banner banner-wait" role="note">
          <Icon name="info" /><div class="lacks">{lacks.map((words) => <p key={words}>{plain(words)}</p>)}</div>
          <button type="button" class="quiet square" aria-label="Dismiss" onClick={() => { missing.value = []; }}><Icon name="close" /></button>
        </div>
      )}
      {open && <Options value={value} availability={availability} model={model} change={change} />}
      {needsModel && <NoModel />}
      {failure && <p class="banner banner-bad" role="alert"><Icon name="warn" />{failure}</p>}
      <div class="composer-foot">
        <input ref={picker} type="file" multiple hidden onChange={(event) => { void pick(event.currentTarget.files ?? []); event.currentTarget.value = ""; }} />
        <button type="button" class="quiet" onClick={() => picker.current?.click()}><Icon name="upload" /><span class="label">Add files</span></button>
        <button type="button" class="quiet" aria-expanded={open} onClick={() => setOpen(!open)}><Icon name="gear" /><span class="label">Options</span></button>
        <Summary value={value} />
        <span class="space" />
        <span class="faint wide-only"><kbd>Ctrl</kbd> <kbd>Enter</kbd></span>
        <button type="submit" class="primary" disabled={busy || (value.kind !== "session" && !value.text.trim())}>
          <Icon name="send" />{value.kind === "session" ? "Open session" : "Start"}
        </button>
      </div>
    </form>
  );
}

function Summary({ value }: { value: Draft }) {
  const words = [
    value.isolation !== "any" ? value.isolation : "",
    value.flavour,
    value.egress !== "usual" ? (EGRESS_PRESETS[value.egress]?.label ?? "own hosts") : "",
    value.repository ? "repository" : "",
    value.memory ? `${value.memory} MiB` : "",
  ].filter(Boolean);
  return words.length > 0 ? <span class="faint wide-only">{words.join(" · ")}</span> : null;
}

export function NoModel() {
  return (
    <div class="banner banner-wait" role="note">
      <Icon name="info" />
      <div>
        <strong>No model is configured, so tasks can't run yet.</strong> Start the server with one, for example{" "}
        <code>ANTHROPIC_API_KEY=… sandyard up --model anthropic/claude-opus-5</code>; <code>openai/…</code> and <code>ollama/…</code> work likewise.
        The recorded demo, code and sessions need none.
      </div>
    </div>
  );
}
