// The server: what can run here and why not, images, load, settings and where each comes from.

import { useEffect, useState } from "preact/hooks";

import { getJson, messageOf, request } from "../api/client";
import { titleOf } from "../api/jobs";
import type { AvailabilityView, DriverView, JobListView, JobView, SettingsView, VersionView } from "../api/types";
import { bytes, count, moment } from "../ui/format";
import { Icon, StateBadge } from "../ui/icons";
import { plain } from "../ui/plain-text";
import { jobAddress } from "../ui/router";

interface Seen {
  availability?: AvailabilityView;
  settings?: SettingsView;
  version?: VersionView;
  failed?: JobView[];
  metrics?: Map<string, number>;
  ready?: string;
}

const AGAIN_MS = 5000;
const FAILED_JOBS = 8;

/** Samples of Prometheus text, by name with labels. */
function samples(text: string): Map<string, number> {
  const found = new Map<string, number>();
  for (const line of text.split("\n")) {
    const match = /^([a-z_]+(?:\{[^}]*\})?) ([-+\d.eE]+)$/.exec(line);
    if (match?.[1]) found.set(match[1], Number(match[2]));
  }
  return found;
}

export function System() {
  const [seen, setSeen] = useState<Seen>({});
  const [failure, setFailure] = useState<string | null>(null);
  useEffect(() => {
    document.title = "System · Sandyard";
    let timer = 0;
    const add = (part: Seen) => { setSeen((old) => ({ ...old, ...part })); setFailure(null); };
    const fail = (error: unknown) => setFailure(messageOf(error));
    const look = () => {
      if (!document.hidden) {
        getJson<AvailabilityView>("/drivers").then((availability) => add({ availability }), fail);
        getJson<VersionView>("/version").then((version) => add({ version }), fail);
        getJson<SettingsView>("/settings").then((settings) => add({ settings }), fail);
        getJson<JobListView>(`/jobs?status=error&limit=${FAILED_JOBS}`).then(({ jobs }) => add({ failed: jobs }), fail);
        request("/metrics").then((answer) => answer.text()).then((text) => add({ metrics: samples(text) }), fail);
        request("/readyz").then(() => add({ ready: "" }), (error: unknown) => add({ ready: messageOf(error) }));
      }
      timer = window.setTimeout(look, AGAIN_MS);
    };
    look();
    addEventListener("sandyard-key", look);
    return () => {
      clearTimeout(timer);
      removeEventListener("sandyard-key", look);
    };
  }, []);
  const setting = (name: string) => seen.settings?.settings.find(({ key }) => key === name)?.value;
  return (
    <main class="page system">
      <h1>System</h1>
      {failure && <p class="banner banner-bad" role="alert"><Icon name="warn" />{failure}</p>}
      <div class="tiles">
        <Tile name="Ready" value={seen.ready === undefined ? "…" : seen.ready === "" ? "yes" : "no"} detail={seen.ready || "accepts work"} tone={seen.ready ? "bad" : "good"} />
        <Tile name="Version" value={seen.version?.version ?? "…"} detail={seen.version ? `audit key ${seen.version.audit_key?.slice(0, 8) ?? ""}…` : ""} />
        <Tile name="Retention" value={setting("retention_days") ? `${setting("retention_days")} days` : "…"} detail={setting("retention_gib") ? `at most ${setting("retention_gib")} GiB` : ""} />
        <Tile name="Sandboxes" value={setting("concurrency") ? `${seen.metrics?.get("sandyard_sandboxes") ?? 0} of ${setting("concurrency")}` : "…"} detail={setting("queue") ? `and a queue of ${count(Number(setting("queue")))}` : ""} />
      </div>
      <section class="card"><h2>Drivers</h2><p class="faint">In the order in which a job gets them.</p>
        {!seen.availability && <div class="skeleton-rows" role="status" aria-busy="true" aria-label="Loading"><i /><i /></div>}
        <ul class="drivers">{seen.availability?.drivers.map((driver) => <Driver key={driver.name} driver={driver} />)}</ul>
      </section>
      <section class="card"><h2>Images</h2>
        {!seen.availability && <div class="skeleton-rows" role="status" aria-busy="true" aria-label="Loading"><i /></div>}
        <ul class="drivers">
          {seen.availability?.images.map((image) => (
            <li key={image.flavour} class="driver"><span class={`driver-mark tone-${image.ready ? "good" : "wait"}`}><Icon name={image.ready ? "check" : "repeat"} /></span>
              <div><strong>{image.flavour}</strong><p class="faint">{image.detail}</p></div>
            </li>
          ))}
        </ul>
      </section>
      {seen.failed && <Failures jobs={seen.failed} />}
      {seen.metrics && <Figures metrics={seen.metrics} />}
      <section class="card"><h2>Settings in effect</h2>
        <div class="table-scroll" tabIndex={0} role="region" aria-label="Settings"><table>
          <thead><tr><th>Key</th><th>Value</th><th>From</th></tr></thead>
          <tbody>{seen.settings?.settings.map(({ key, value, source }) => <tr key={key}><td class="mono">{key}</td><td class="mono">{value || <span class="faint">not set</span>}</td><td class={source === "default" ? "faint" : ""}>{source}</td></tr>)}</tbody>
        </table></div>
      </section>
    </main>
  );
}

function Tile({ name, value, detail, tone }: { name: string; value: string; detail: string; tone?: string }) {
  return <div class="tile"><span class="tile-name">{name}</span><span class={`tile-value${tone ? ` ${tone}-text` : ""}`}>{value}</span><span class="faint">{detail}</span></div>;
}

function Driver({ driver }: { driver: DriverView }) {
  const tone = driver.usable ? "good" : driver.state === "missing" ? "off" : "wait";
  const offer = { always: "", when_needed: "used when nothing else isolates as well", when_named: "used only when named" }[driver.offer];
  return (
    <li class="driver">
      <span class={`driver-mark tone-${tone}`}><Icon name={driver.usable ? "check" : driver.state === "missing" ? "close" : "repeat"} /></span>
      <div>
        <strong>{driver.name}</strong> <span class="pill">{driver.level}</span> <span class="faint">{driver.runtime}</span>
        <p>{driver.detail}{offer ? ` · ${offer}` : ""}</p>
        {driver.fix && <p class="faint">To use it: {driver.fix}</p>}
        {driver.making && <p class="faint">{driver.making}</p>}
      </div>
    </li>
  );
}

function Failures({ jobs }: { jobs: JobView[] }) {
  return (
    <section class="card"><div class="card-head"><h2>Recent failures</h2><span class="space" />{jobs.length > 0 && <a href="/?status=error">All of them</a>}</div>
      {jobs.length === 0 && <p class="faint">No job that is kept has failed.</p>}
      <ul class="drivers">
        {jobs.map((job) => (
          <li key={job.job_id} class="driver"><StateBadge state={job.state} compact />
            <div><a href={jobAddress(job.job_id)}><bdi>{plain(titleOf(job))}</bdi></a> <time class="faint" dateTime={job.finished_at ?? job.created_at}>{moment(job.finished_at ?? job.created_at)}</time>
              <p>{plain((job.error?.message ?? job.reason ?? "").slice(0, 300))}</p>
            </div>
          </li>
        ))}
      </ul>
    </section>
  );
}

/** Metrics with words for people, in the order in which they matter. The rest is one click away. */
const KNOWN: [string, string][] = [
  ["sandboxes", "Sandboxes now"], ["reserved_memory_mib", "Memory promised, MiB"], ["reserved_disk_mib", "Disk promised, MiB"],
  ['jobs{state="queued"}', "Jobs in the queue"], ['jobs{state="running"}', "Jobs running"], ['jobs{state="waiting"}', "Jobs that ask"],
  ["jobs_accepted_total", "Jobs accepted"], ["sandboxes_started_total", "Sandboxes started"], ["sandbox_starts_failed_total", "Starts that failed"],
  ["output_bytes_total", "Output stored"], ["artifact_bytes_total", "Results stored"], ['http_responses_total{class="5xx"}', "Answers with 5xx"],
];

function Figures({ metrics }: { metrics: Map<string, number> }) {
  const known = KNOWN.map(([name, words]) => [name, words, metrics.get(`sandyard_${name}`)] as const).filter(([, , value]) => value !== undefined);
  const rest = [...metrics].filter(([name]) => !name.includes("_bucket"));
  return (
    <section class="card"><h2>Load</h2>
      <dl class="figures">{known.map(([name, words, value]) => <div key={name}><dt>{words}</dt><dd>{figure(name, value ?? 0)}</dd></div>)}</dl>
      <details class="all-figures"><summary>All {rest.length} metrics since the start of the server</summary>
        <dl class="figures">{rest.map(([name, value]) => <div key={name}><dt class="mono">{name.replace(/^sandyard_/, "")}</dt><dd>{figure(name, value)}</dd></div>)}</dl>
      </details>
    </section>
  );
}

const figure = (name: string, value: number): string => (name.includes("bytes") ? bytes(value) : count(value));
