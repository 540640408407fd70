// One row of the timeline. Everything that a job said or printed is a text node.

import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";

import { request } from "../api/client";
import type { JobEvent } from "../api/types";
import { bytes, clock, count, duration, money, moment, plural } from "../ui/format";
import { Icon, StateShape, stateTone, stateWord } from "../ui/icons";
import type { IconName } from "../ui/icons";
import { coloured, plain } from "../ui/plain-text";
import { Prose } from "../ui/prose";
import { describeCall } from "./calls";
import type { Row } from "./rows";

/** Lines of a folded output. */
const FOLDED_LINES = 12;
const UNFOLDED_LINES = 400;

interface RowViewProps {
  row: Row;
  job: string;
  open: boolean;
  marked: boolean;
  onToggle: () => void;
  onZoom: (key: number) => void;
  onPath: (path: string) => void;
}

export function RowView({ row, marked, onZoom, ...rest }: RowViewProps) {
  const [icon, tone, body] = content(row, { ...rest, onZoom });
  return (
    <div class={`row row-${row.kind}${marked ? " marked" : ""}`} role="listitem">
      <a class="row-time" href={`?event=${Math.floor(row.key)}`} title={`${moment(row.at)} · event ${Math.floor(row.key)}`}>
        {clock(row.at)}
      </a>
      <span class={`row-dot tone-${tone}`}>{row.kind === "state" ? <StateShape state={row.event.state} /> : <Icon name={icon} />}</span>
      <div class="row-body">{body}</div>
    </div>
  );
}

type Parts = [IconName, string, ComponentChildren];
type Rest = Omit<RowViewProps, "row" | "marked">;

function content(row: Row, rest: Rest): Parts {
  switch (row.kind) {
    case "state":
      return ["info", stateTone(row.event.state), <StateRow event={row.event} />];
    case "output":
      return ["terminal", row.stream === "stderr" ? "wait" : "quiet", <Output text={row.text} label={row.stream} open={rest.open} onToggle={rest.onToggle} />];
    case "model":
      return ["spark", row.end?.error ? "bad" : "accent", <ModelRow row={row} />];
    case "call": {
      const running = row.result === null && !row.over;
      return [running ? "repeat" : row.result?.failed ? "warn" : "check", running ? "run" : row.result?.failed ? "bad" : "good", <CallRow row={row} rest={rest} />];
    }
    case "note":
      return ["info", "quiet", <p class="note">{plain(row.text)}</p>];
    case "said":
      return ["person", "accent", <div class="said"><span class="said-by">{row.by === "person" ? "You" : "The server"}</span><bdi>{plain(row.text)}</bdi></div>];
    case "plan":
      return ["list", "accent", <Plan items={row.items} />];
    case "picture":
      return ["image", "quiet", <Picture job={rest.job} entry={row.entry} picture={row.picture} />];
    case "egress":
      return ["globe", row.last.decision === "refused" ? "bad" : "quiet", <EgressRow row={row} />];
    case "files":
      return ["file", "quiet", <span class="paths">{row.paths.slice(0, 20).map((path) => <button key={path} type="button" class="path" onClick={() => rest.onPath(path)}><bdi>{plain(path)}</bdi></button>)}{row.paths.length > 20 && <span class="faint">and {row.paths.length - 20} more</span>}</span>];
    case "group":
      return ["more", row.failed > 0 ? "wait" : "quiet", <button type="button" class="group" onClick={() => rest.onZoom(row.key)}>{groupWords(row)}</button>];
    case "event":
      return ["more", "quiet", <RawEvent event={row.event} open={rest.open} onToggle={rest.onToggle} />];
  }
}

function groupWords(row: Extract<Row, { kind: "group" }>): string {
  const words = [
    row.calls > 0 ? `${plural(row.calls, "step")} with ${row.tools.slice(0, 4).join(", ")}` : "",
    row.failed > 0 ? `${row.failed} failed` : "",
    row.files > 0 ? plural(row.files, "file written", "files written") : "",
    row.outputBytes > 0 ? `${bytes(row.outputBytes)} of output` : "",
    row.refused > 0 ? plural(row.refused, "connection refused", "connections refused") : "",
  ].filter(Boolean);
  return words.length > 0 ? words.join(" · ") : "details";
}

function StateRow({ event }: { event: Extract<JobEvent, { type: "state" }> }) {
  return (
    <div class="state-row">
      <strong class={`tone-${stateTone(event.state)}`}>{stateWord(event.state)}</strong>
      {event.reason && <bdi class="faint">{plain(event.reason)}</bdi>}
      {typeof event.exit_code === "number" && <span class="faint">exit code {event.exit_code}</span>}
      {event.question && <Prose text={event.question} />}
    </div>
  );
}

interface OutputProps {
  text: string;
  label: string;
  open: boolean;
  onToggle: () => void;
}

export function Output({ text, label, open, onToggle }: OutputProps) {
  const trimmed = text.endsWith("\n") ? text.slice(0, -1) : text;
  const lines = trimmed.split("\n");
  const folded = lines.length > FOLDED_LINES + 3;
  const shown = !folded ? lines : open ? lines.slice(-UNFOLDED_LINES) : lines.slice(-FOLDED_LINES);
  return (
    <div class={`output output-${label}`}>
      {folded && (
        <button type="button" class="fold" aria-expanded={open} onClick={onToggle}>
          <Icon name={open ? "down" : "chevron"} />{open ? "Fold" : `${count(lines.length - FOLDED_LINES)} lines before`}
        </button>
      )}
      <pre aria-label={label}>{coloured(shown.join("\n")).map((run, index) => (run.style ? <span key={index} class={run.style}>{run.text}</span> : run.text))}</pre>
    </div>
  );
}

function ModelRow({ row }: { row: Extract<Row, { kind: "model" }> }) {
  const { end } = row;
  return (
    <div class="model">
      {row.text.trim() && <Prose text={row.text} />}
      {!end && <span class="cursor" aria-label="The model is answering" />}
      {end?.error && <p class="bad-text">{plain(end.error)}</p>}
      {end && (
        <p class="model-cost">
          {[end.model, end.tokens_in ? `${count(end.tokens_in)} in` : "", end.tokens_out ? `${count(end.tokens_out)} out` : "", end.usd ? money(end.usd) : ""].filter(Boolean).join(" · ")}
        </p>
      )}
    </div>
  );
}

function CallRow({ row, rest }: { row: Extract<Row, { kind: "call" }>; rest: Rest }) {
  const { tool, title, detail } = describeCall(row.step.tool, row.step.arguments);
  const { result } = row;
  const took = result ? (result.interrupted ? "interrupted" : duration(result.took_ms)) : row.over ? "" : "running";
  return (
    <div class="call">
      <button type="button" class="call-head" aria-expanded={rest.open} onClick={rest.onToggle}>
        <span class="call-tool">{plain(tool)}</span>
        <bdi class="call-title">{plain(title)}</bdi>
        <span class={`call-took${result?.failed ? " bad-text" : ""}`}>{result?.failed ? "failed · " : ""}{took}</span>
        <Icon name={rest.open ? "down" : "chevron"} />
      </button>
      {detail && (rest.open || detail.kind === "edit") && <CallDetail detail={detail} open={rest.open} />}
      {result && (rest.open || result.failed) && result.output && <Output text={result.output} label="result" open={rest.open} onToggle={rest.onToggle} />}
    </div>
  );
}

type Detail = NonNullable<ReturnType<typeof describeCall>["detail"]>;

function CallDetail({ detail, open }: { detail: Detail; open: boolean }) {
  if (detail.kind === "text") return <pre class="call-detail" tabIndex={0}>{plain(detail.text)}</pre>;
  const lines = [...detail.old.map((text) => ["-", text] as const), ...detail.new.map((text) => ["+", text] as const)];
  const shown = open ? lines : lines.slice(0, 8);
  return (
    <pre class="call-detail diff-lines" role="region" aria-label="Change" tabIndex={0}>
      {shown.map(([sign, text], index) => <span key={index} class={sign === "-" ? "diff-old" : "diff-new"}>{`${sign} ${plain(text)}\n`}</span>)}
      {lines.length > shown.length && <span class="faint">{`… ${lines.length - shown.length} more lines`}</span>}
    </pre>
  );
}

function Plan({ items }: { items: Extract<Row, { kind: "plan" }>["items"] }) {
  return (
    <ol class="plan" aria-label="Plan">
      {items.map((item, index) => (
        <li key={index} data-plan={item.state}>
          <span class="plan-mark" role="img" aria-label={item.state}>{item.state === "done" ? <Icon name="check" /> : item.state === "doing" ? <Icon name="chevron" /> : null}</span>
          <bdi>{plain(item.text)}</bdi>
        </li>
      ))}
    </ol>
  );
}

function Picture({ job, entry, picture }: { job: string; entry: number; picture: number }) {
  const [source, setSource] = useState<string | null>(null);
  useEffect(() => {
    let made: string | null = null;
    let gone = false;
    request(`/jobs/${job}/screenshot.png?entry=${entry}&picture=${picture}`).then(async (answer) => {
      made = URL.createObjectURL(await answer.blob());
      if (gone) URL.revokeObjectURL(made);
      else setSource(made);
    }).catch(() => {});
    return () => {
      gone = true;
      if (made) URL.revokeObjectURL(made);
    };
  }, [job, entry, picture]);
  if (!source) return <div class="picture-place" aria-hidden="true" />;
  return <button type="button" class="picture" onClick={(event) => event.currentTarget.classList.toggle("whole")} aria-label="Enlarge the screenshot"><img src={source} alt="Screenshot of the desktop" /></button>;
}

function EgressRow({ row }: { row: Extract<Row, { kind: "egress" }> }) {
  const { last } = row;
  const traffic = last.received || last.sent ? ` · ${bytes(last.received ?? 0)} received, ${bytes(last.sent ?? 0)} sent` : "";
  return (
    <span class="egress">
      <span class={last.decision === "refused" ? "bad-text" : ""}>{last.decision === "refused" ? "refused" : "connected"}</span>{" "}
      <bdi class="mono">{plain(last.target)}</bdi>
      <span class="faint">{row.count > 1 ? ` ${row.count} times` : ""}{traffic}{last.reason ? ` · ${plain(last.reason)}` : ""}</span>
    </span>
  );
}

function RawEvent({ event, open, onToggle }: { event: JobEvent; open: boolean; onToggle: () => void }) {
  const { id, at: _, type, ...rest } = event;
  const text = JSON.stringify(rest);
  return (
    <div class="raw">
      <button type="button" class="raw-line" aria-expanded={open} onClick={onToggle}>
        <span class="raw-id">{id}</span><span class="raw-type">{plain(type)}</span><bdi class="raw-text">{plain(text.slice(0, 400))}</bdi>
      </button>
      {open && <pre class="call-detail" tabIndex={0}>{plain(JSON.stringify(rest, null, 2).slice(0, 20_000))}</pre>}
    </div>
  );
}
