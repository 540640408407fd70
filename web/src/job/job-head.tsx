// Name, state and figures of a job, and what can be done with it.

import { useState } from "preact/hooks";

import { cancel, download, remove, titleOf } from "../api/jobs";
import type { JobView } from "../api/types";
import { isTerminal } from "../api/types";
import { bytes, count, duration, money } from "../ui/format";
import { Icon, StateBadge } from "../ui/icons";
import { useShortcuts } from "../ui/keys";
import { confirmAction, notify, notifyFailure } from "../ui/notices";
import { useNow } from "../ui/now";
import { plain } from "../ui/plain-text";
import { go } from "../ui/router";

export function JobHead({ job, onChanged }: { job: JobView; onChanged: () => void }) {
  const ended = isTerminal(job.state);
  const now = useNow(!ended);
  const [busy, setBusy] = useState(false);
  const act = async (work: () => Promise<unknown>) => {
    setBusy(true);
    try {
      await work();
      onChanged();
    } catch (error) {
      notifyFailure(error);
    } finally {
      setBusy(false);
    }
  };
  const stop = async () => {
    const kept = ended && job.sandbox === "live";
    const sure = kept || (await confirmAction("Cancel this job?", "The work stops now. Its files are kept and can be downloaded.", "Cancel the job"));
    if (sure) await act(() => cancel(job.job_id));
  };
  const erase = async () => {
    if (!(await confirmAction("Delete this job?", "Its machine, its files, its output and its result are removed for good.", "Delete"))) return;
    await act(async () => {
      await remove(job.job_id);
      notify("The job was deleted.");
      go("/");
    });
  };
  const again = () => go(`/?rerun=${job.job_id}`);
  const save = () => void act(() => download(job.job_id));
  const canStop = !ended || job.sandbox === "live";
  useShortcuts([
    { keys: "c", does: "Cancel the job", run: () => { if (canStop) void stop(); } },
    { keys: "r", does: "Run again with changes", run: again },
    { keys: "s", does: "Download the result", run: () => { if (job.download_url) save(); } },
  ]);
  const { usage } = job;
  const from = Date.parse(job.started_at ?? job.created_at);
  const took = (job.finished_at ? Date.parse(job.finished_at) : now) - from;
  const facts = [
    job.kind,
    job.isolation.effective ? `${job.isolation.effective}` : "",
    job.started_at || ended ? duration(took) : "",
    usage.peak_memory_bytes > 0 ? bytes(usage.peak_memory_bytes) : "",
    usage.tokens_in + usage.tokens_out > 0 ? `${count(usage.tokens_in + usage.tokens_out)} tokens` : "",
    usage.usd > 0 ? money(usage.usd) : "",
  ].filter(Boolean);
  return (
    <header class="job-head">
      <div class="job-name">
        <h1><bdi>{plain(titleOf(job))}</bdi></h1>
        <p class="job-facts"><StateBadge state={job.state} />{facts.map((fact) => <span key={fact}>{fact}</span>)}</p>
        {job.error && <p class="bad-text job-error"><strong>{plain(job.error.message)}</strong>{job.error.hint ? <span> {plain(job.error.hint)}</span> : null}</p>}
        {!job.error && !ended && (job.waiting_for?.message ?? job.reason) && <p class="faint job-error">{plain(job.waiting_for?.message ?? job.reason ?? "")}</p>}
      </div>
      <div class="actions">
        {job.download_url && <button type="button" class="primary" disabled={busy} onClick={save}><Icon name="download" /><span class="label">Download</span></button>}
        <button type="button" onClick={again} title="Run again with changes"><Icon name="repeat" /><span class="label">Rerun</span></button>
        {canStop && <button type="button" disabled={busy} onClick={() => void stop()}><Icon name="stop" /><span class="label">{ended ? "End the machine" : "Cancel"}</span></button>}
        <button type="button" class="square" disabled={busy} aria-label="Delete the job" title="Delete the job" onClick={() => void erase()}><Icon name="trash" /></button>
      </div>
    </header>
  );
}
