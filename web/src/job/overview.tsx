// What a job is, got and made, at a glance.

import type { ComponentChildren } from "preact";

import type { JobView } from "../api/types";
import { isTerminal } from "../api/types";
import { bytes, count, duration, moment, money } from "../ui/format";
import { plain } from "../ui/plain-text";
import { Prose } from "../ui/prose";
import type { EventWindow } from "./event-window";
import { Output } from "./row-view";
import { useState } from "preact/hooks";

const Fact = ({ name, children }: { name: string; children: ComponentChildren }) => <div><dt>{name}</dt><dd>{children}</dd></div>;

export function Overview({ job, window: window_ }: { job: JobView; window: EventWindow }) {
  const [open, setOpen] = useState(false);
  const { usage, isolation } = job;
  const plan = window_.events.findLast((event) => event.type === "plan");
  const tail = job.kind === "task" ? "" : job.stdout;
  return (
    <div class="overview">
      {job.summary && <section class="card"><h2>Summary</h2><Prose text={job.summary} /></section>}
      {plan?.type === "plan" && (
        <section class="card"><h2>Plan</h2>
          <ol class="plan">{plan.items.map((item, index) => <li key={index} data-plan={item.state}><span class="plan-mark" role="img" aria-label={item.state}>{item.state === "done" ? "✓" : item.state === "doing" ? "›" : ""}</span><bdi>{plain(item.text)}</bdi></li>)}</ol>
        </section>
      )}
      {(tail || job.stderr) && (
        <section class="card"><h2>Output</h2>
          {tail && <Output text={tail} label="stdout" open={open} onToggle={() => setOpen(!open)} />}
          {job.stderr && <Output text={job.stderr} label="stderr" open={open} onToggle={() => setOpen(!open)} />}
        </section>
      )}
      <section class="card"><h2>Machine</h2>
        <dl class="facts">
          <Fact name="Isolation">{isolation.effective ? `${isolation.effective} (${isolation.level ?? "?"})` : "not chosen yet"}</Fact>
          {isolation.runtime && <Fact name="Mechanisms">{isolation.runtime}</Fact>}
          {isolation.reason && <Fact name="Why this one">{plain(isolation.reason)}</Fact>}
          <Fact name="Asked for">{isolation.requested}</Fact>
          <Fact name="Sandbox">{job.sandbox}{job.sandbox_until ? ` until ${moment(job.sandbox_until)}` : ""}</Fact>
        </dl>
      </section>
      <section class="card"><h2>Use</h2>
        <dl class="facts">
          <Fact name="Processor time">{duration(usage.cpu_s * 1000)}</Fact>
          <Fact name="Peak memory">{bytes(usage.peak_memory_bytes)}</Fact>
          <Fact name="Network">{bytes(usage.egress_bytes)}</Fact>
          {job.kind === "task" && <Fact name="Tokens">{count(usage.tokens_in)} in, {count(usage.tokens_out)} out</Fact>}
          {job.kind === "task" && <Fact name="Cost">{money(usage.usd)}</Fact>}
        </dl>
      </section>
      <section class="card"><h2>Times</h2>
        <dl class="facts">
          <Fact name="Created">{moment(job.created_at)}</Fact>
          {job.started_at && <Fact name="Started">{moment(job.started_at)}</Fact>}
          {job.finished_at && <Fact name="Finished">{moment(job.finished_at)}</Fact>}
          {job.expires_at && <Fact name="Removed after">{moment(job.expires_at)}</Fact>}
          {isTerminal(job.state) && typeof job.exit_code === "number" && <Fact name="Exit code">{job.exit_code}</Fact>}
          <Fact name="Id"><code class="id">{job.job_id}</code></Fact>
        </dl>
      </section>
    </div>
  );
}
