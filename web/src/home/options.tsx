// Everything that a request can say besides its words.

import type { AvailabilityView } from "../api/types";
import type { Draft } from "./draft";
import { EGRESS_PRESETS, variablesOf } from "./draft";

interface OptionsProps {
  value: Draft;
  availability: AvailabilityView | null;
  model: string | null;
  change: (changes: Partial<Draft>) => void;
}

/** Names of the fields that hold text. */
type TextName = { [Name in keyof Draft]: Draft[Name] extends string ? (string extends Draft[Name] ? Name : never) : never }[keyof Draft];

const FLAVOURS: [string, string][] = [["", "What fits the job"], ["base", "base: shell and git"], ["full", "full: desktop, Jupyter, languages"], ["dev", "dev: full, and tools for building"]];

export function Options({ value, availability, model, change }: OptionsProps) {
  const text = (name: TextName, label: string, placeholder: string, mode: "text" | "decimal" | "url" = "text") => (
    <label class="field">
      <span>{label}</span>
      <input inputMode={mode} placeholder={placeholder} value={value[name]} onInput={(event) => change({ [name]: event.currentTarget.value })} />
    </label>
  );
  const check = (name: "keep" | "goesOn" | "endsBroke", label: string) => (
    <label class="check">
      <input type="checkbox" checked={value[name]} onChange={(event) => change({ [name]: event.currentTarget.checked })} />
      <span>{label}</span>
    </label>
  );
  const task = value.kind === "task";
  return (
    <fieldset class="options">
      <legend class="visually-hidden">Options</legend>
      <div class="option-grid">
        {text("name", "Name", "from the first line")}
        {task && text("model", "Model", model || "provider/model")}
        <Machine value={value} availability={availability} change={change} />
        <Network value={value} change={change} />
        {!(value.egress in EGRESS_PRESETS) && text("egress", "Hosts", "example.com *.example.org:443")}
        {text("repository", "Repository", "https://…", "url")}
        {value.repository && text("reference", "Branch, tag or commit", "default branch")}
        {text("minutes", "Time, minutes", "default", "decimal")}
        {task && text("budgetSteps", "Budget, steps", "no limit", "decimal")}
        {task && text("budgetUsd", "Budget, USD", "no limit", "decimal")}
      </div>
      {check("keep", "Keep the machine after the end")}
      <details open={hasMore(value)}>
        <summary>Variables and further limits</summary>
        <Variables value={value} change={change} />
        <div class="option-grid">
          {text("memory", "Memory, MiB", "default", "decimal")}
          {text("cpus", "Processors", "default", "decimal")}
          {text("disk", "Disk, MiB", "default", "decimal")}
          {text("pids", "Processes and threads", "default", "decimal")}
          {text("io", "Disk traffic, MiB/s", "default", "decimal")}
          {text("recording", "Desktop recording, MiB", "default; 0 for none", "decimal")}
          {text("idleMinutes", "Time without output, minutes", "no limit", "decimal")}
          {task && text("budgetTokens", "Budget, tokens", "no limit", "decimal")}
          {task && text("askHours", "Wait for an answer, hours", "24", "decimal")}
        </div>
        {task && check("goesOn", "Go on alone if nobody answers a question")}
        {task && check("endsBroke", "End when the budget is spent, instead of asking")}
      </details>
    </fieldset>
  );
}

/** True if something is said in the part that is folded at first. */
function hasMore(value: Draft): boolean {
  return [value.env, value.memory, value.cpus, value.disk, value.pids, value.io, value.recording, value.idleMinutes, value.budgetTokens].some(Boolean) || value.goesOn || value.endsBroke;
}

type PartProps = Pick<OptionsProps, "value" | "change">;

function Machine({ value, availability, change }: PartProps & Pick<OptionsProps, "availability">) {
  const drivers = availability?.drivers ?? [];
  return (
    <>
      <label class="field">
        <span>Isolation</span>
        <select value={value.isolation} onChange={(event) => change({ isolation: event.currentTarget.value })}>
          <option value="any">Strongest that works</option>
          <option value="container">At least a container</option>
          <option value="gvisor">At least gVisor</option>
          <option value="vm">A virtual machine</option>
          {drivers.map((driver) => <option key={driver.name} value={driver.name} disabled={!driver.usable}>{`Driver ${driver.name}${driver.usable ? "" : " (not usable)"}`}</option>)}
        </select>
      </label>
      <label class="field">
        <span>Image</span>
        <select value={value.flavour} onChange={(event) => change({ flavour: event.currentTarget.value })}>
          {FLAVOURS.map(([name, label]) => <option key={name} value={name}>{label}</option>)}
        </select>
      </label>
    </>
  );
}

function Network({ value, change }: PartProps) {
  const preset = value.egress in EGRESS_PRESETS;
  return (
    <label class="field">
      <span>Network</span>
      <select value={preset ? value.egress : "own"} onChange={(event) => change({ egress: event.currentTarget.value === "own" ? "example.com" : event.currentTarget.value })}>
        {Object.entries(EGRESS_PRESETS).map(([name, { label }]) => <option key={name} value={name}>{label}</option>)}
        <option value="own">Hosts of my own</option>
      </select>
    </label>
  );
}

function Variables({ value, change }: PartProps) {
  const { bare } = variablesOf(value.env);
  return (
    <label class="field">
      <span>Variables, one in a line</span>
      <textarea class="mono" rows={Math.min(6, Math.max(2, value.env.split("\n").length))} spellcheck={false} autocomplete="off" placeholder="NAME=value" value={value.env} onInput={(event) => change({ env: event.currentTarget.value })} />
      {bare.length > 0 && <span class="field-note">Without a value, so not sent: {bare.join(", ")}</span>}
    </label>
  );
}
