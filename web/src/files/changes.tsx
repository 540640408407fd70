// What the job changed, as a diff: from the result once it ended, and from git in the workspace while it runs.

import { useEffect, useState } from "preact/hooks";

import { messageOf, postJson } from "../api/client";
import type { JobView, ShellView } from "../api/types";
import { isTerminal } from "../api/types";
import { readDirectory, readEntry } from "../api/zip";
import type { RoomProps } from "../job/job-page";
import { bytes, plural } from "../ui/format";
import { Icon } from "../ui/icons";
import { plain } from "../ui/plain-text";
import { go, jobAddress } from "../ui/router";
import { VirtualList } from "../ui/virtual-list";
import type { Diff, DiffRow, DiffRows } from "./diff";
import { heightOf, readDiff, unfoldedRows } from "./diff";

/** Bytes of a patch that are shown. */
const PATCH_BYTES = 16 * 1024 * 1024;
const FROM_GIT = "git -c core.quotePath=false diff --no-color --no-ext-diff HEAD 2>/dev/null | head -c 900000; git ls-files --others --exclude-standard -z 2>/dev/null | head -z -n 200 | while IFS= read -r -d '' f; do git diff --no-color --no-ext-diff --no-index -- /dev/null \"$f\" | head -c 60000; done; git rev-parse HEAD >/dev/null 2>&1 || echo 'no repository' >&2";

type Patch = { bytes: Uint8Array; live: boolean } | { none: string };

async function readPatch(job: JobView): Promise<Patch> {
  if (isTerminal(job.state) && job.download_url) {
    const entry = (await readDirectory(job.job_id)).find(({ path }) => /^changes(-\d+)?\.patch$/.test(path));
    if (!entry) return { none: "The job changed nothing that can be compared." };
    return { bytes: await readEntry(job.job_id, entry, PATCH_BYTES), live: false };
  }
  if (job.sandbox !== "live") return { none: "There is nothing to compare yet." };
  const { stdout, stderr } = await postJson<ShellView>(`/jobs/${job.job_id}/shell`, { command: FROM_GIT, timeout_s: 20 });
  if (stderr.includes("no repository")) return { none: "The workspace is no git repository yet. The whole difference to the start is made when the job ends." };
  return stdout.trim() ? { bytes: new TextEncoder().encode(stdout), live: true } : { none: "Nothing has changed since the last commit." };
}

export function Changes({ job }: RoomProps) {
  const [patch, setPatch] = useState<Patch | null>(null);
  const [failure, setFailure] = useState<string | null>(null);
  const [diff, setDiff] = useState<Diff | null>(null);
  const [shown, setShown] = useState<DiffRows | null>(null);
  const [folded, setFolded] = useState<ReadonlySet<number>>(new Set());
  const load = () => {
    setFailure(null);
    readPatch(job).then(setPatch, (error: unknown) => setFailure(messageOf(error)));
  };
  useEffect(load, [job.job_id, isTerminal(job.state), job.sandbox === "live"]);
  useEffect(() => {
    const stop = new AbortController();
    setDiff(null);
    setShown(null);
    setFolded(new Set());
    if (patch && "bytes" in patch) void readDiff(patch.bytes, stop.signal).then((read) => { if (!stop.signal.aborted) { setDiff(read); setShown(read); } });
    return () => stop.abort();
  }, [patch]);
  // What was shown stays until the rows of another choice are there.
  useEffect(() => {
    const stop = new AbortController();
    if (diff) void unfoldedRows(diff, folded, stop.signal).then((rows) => { if (rows) setShown(rows); });
    return () => stop.abort();
  }, [diff, folded]);
  if (failure) return <p class="banner banner-bad" role="alert"><Icon name="warn" />{failure}</p>;
  if (patch && "none" in patch) return <div class="empty"><p>{patch.none}</p>{job.sandbox === "live" && <button type="button" onClick={load}><Icon name="repeat" />Look again</button>}</div>;
  if (!diff || !shown || !patch || !("bytes" in patch)) return <div class="skeleton-rows" role="status" aria-busy="true" aria-label="Loading"><i /><i /><i /></div>;
  const { files } = diff;
  const [added, removed] = files.reduce(([plus, minus], file) => [plus + file.added, minus + file.removed], [0, 0]);
  const toggle = (index: number) => setFolded((old) => {
    const next = new Set(old);
    if (!next.delete(index)) next.add(index);
    return next;
  });
  return (
    <div class="changes">
      <div class="changes-head">
        <strong>{plural(files.length, "file")}</strong><span class="diff-plus">+{added}</span><span class="diff-minus">−{removed}</span>
        <span class="faint">{patch.live ? "since the last commit" : "since the start"} · {bytes(patch.bytes.length)}</span>
        <span class="space" />
        {patch.live && <button type="button" class="quiet" onClick={load}><Icon name="repeat" />Look again</button>}
        <button type="button" class="quiet" onClick={() => setFolded(folded.size > 0 ? new Set() : new Set(files.map((_, index) => index)))}>{folded.size > 0 ? "Unfold all" : "Fold all"}</button>
      </div>
      <VirtualList
        rows={shown.rows} tops={shown.tops} version={folded.size} keyOf={(row) => row.key} guessHeight={heightOf} label="Changes" role="list"
        render={(row) => <DiffLine row={row} onToggle={toggle} onOpen={(path) => go(jobAddress(job.job_id, `files/${path}`))} folded={row.kind === "file" && folded.has(row.index)} />}
      />
    </div>
  );
}

interface DiffLineProps {
  row: DiffRow;
  folded: boolean;
  onToggle: (index: number) => void;
  onOpen: (path: string) => void;
}

function DiffLine({ row, folded, onToggle, onOpen }: DiffLineProps) {
  if (row.kind === "file") {
    const { file } = row;
    return (
      <div class="diff-file" role="listitem">
        <button type="button" class="quiet diff-fold" aria-expanded={!folded} onClick={() => onToggle(row.index)}><Icon name={folded ? "chevron" : "down"} /><bdi class="mono">{plain(file.path)}</bdi></button>
        {file.note && <span class="faint">{file.note}</span>}
        <span class="space" />
        <span class="diff-plus">+{file.added}</span><span class="diff-minus">−{file.removed}</span>
        {file.note !== "deleted" && <button type="button" class="quiet square" aria-label={`Open ${file.path}`} title="Open the file" onClick={() => onOpen(file.path)}><Icon name="file" /></button>}
      </div>
    );
  }
  if (row.kind === "hunk") return <div class="diff-hunk" role="listitem">{plain(row.text)}</div>;
  const kind = row.sign === "+" ? "diff-new" : row.sign === "-" ? "diff-old" : "";
  return (
    <div class={`diff-line ${kind}`} role="listitem">
      <span class="diff-number" aria-hidden="true">{row.before ?? ""}</span><span class="diff-number" aria-hidden="true">{row.after ?? ""}</span>
      <span class="diff-sign">{row.sign}</span><code>{plain(row.text) || " "}</code>
    </div>
  );
}
