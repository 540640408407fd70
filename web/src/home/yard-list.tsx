// The yard: running and past jobs, newest first, live. Filters and search are in the address.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";

import { ApiFailure, getJson, messageOf } from "../api/client";
import { POLL_MS, titleOf } from "../api/jobs";
import type { JobListView, JobView } from "../api/types";
import { isTerminal } from "../api/types";
import { ago, duration, moment, money } from "../ui/format";
import { Icon, StateBadge } from "../ui/icons";
import { useShortcuts } from "../ui/keys";
import { plain } from "../ui/plain-text";
import { go, jobAddress, place, setQuery } from "../ui/router";
import { useStore } from "../ui/store";
import { useNow } from "../ui/now";
import { VirtualList } from "../ui/virtual-list";

const PAGE = 100;
/** Rows that a search looks through. */
const SEARCHED = 10_000;
const BUSY_MS = 1500;
const QUIET_MS = 5000;
const STATUSES = [["", "All"], ["running", "Running"], ["pending", "Waiting"], ["complete", "Succeeded"], ["error", "Failed"]] as const;
const KINDS = ["task", "shell", "python", "typescript", "gui", "session"] as const;

interface Yard {
  jobs: JobView[];
  cursor: string | null;
  loaded: boolean;
  failure: string | null;
}

/** Reads the first page again and again, and further pages when asked. */
function useYard(status: string, kind: string): Yard & { more: () => void } {
  const [yard, setYard] = useState<Yard>({ jobs: [], cursor: null, loaded: false, failure: null });
  const latest = useRef(yard);
  latest.current = yard;
  const loading = useRef(false);
  const filter = `${status ? `&status=${status}` : ""}${kind ? `&kind=${kind}` : ""}`;
  useEffect(() => {
    let timer = 0;
    const abort = new AbortController();
    setYard({ jobs: [], cursor: null, loaded: false, failure: null });
    const look = async () => {
      let wait = QUIET_MS;
      try {
        if (!document.hidden) {
          const page = await getJson<JobListView>(`/jobs?limit=${PAGE}${filter}`, AbortSignal.any([abort.signal, AbortSignal.timeout(POLL_MS)]));
          setYard((old) => merged(old, page));
          if (page.jobs.some((job) => !isTerminal(job.state))) wait = BUSY_MS;
        }
      } catch (error) {
        if (abort.signal.aborted) return;
        setYard((old) => ({ ...old, loaded: true, failure: error instanceof ApiFailure && error.status === 401 ? null : messageOf(error) }));
      }
      timer = window.setTimeout(look, wait);
    };
    const wake = () => { if (!document.hidden) { clearTimeout(timer); void look(); } };
    void look();
    document.addEventListener("visibilitychange", wake);
    addEventListener("sandyard-key", wake);
    return () => {
      abort.abort();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", wake);
      removeEventListener("sandyard-key", wake);
    };
  }, [filter]);
  const more = () => {
    const { cursor } = latest.current;
    if (!cursor || loading.current) return;
    loading.current = true;
    getJson<JobListView>(`/jobs?limit=1000&cursor=${encodeURIComponent(cursor)}${filter}`)
      .then((page) => setYard((old) => ({ ...old, jobs: [...old.jobs, ...page.jobs], cursor: page.cursor ?? null })), () => {})
      .finally(() => { loading.current = false; });
  };
  return { ...yard, more };
}

/** A new first page before the older jobs that were loaded already. */
function merged(old: Yard, page: JobListView): Yard {
  const fresh = new Set(page.jobs.map((job) => job.job_id));
  const last = page.jobs.at(-1);
  const at = last ? old.jobs.findIndex((job) => job.job_id === last.job_id) : -1;
  const older = page.cursor && at >= 0 ? old.jobs.slice(at + 1).filter((job) => !fresh.has(job.job_id)) : [];
  const cursor = older.length > 0 ? old.cursor : (page.cursor ?? null);
  return { jobs: [...page.jobs, ...older], cursor, loaded: true, failure: null };
}

const matches = (job: JobView, words: string[]): boolean => {
  const text = `${job.name ?? ""} ${job.job_id} ${job.kind} ${job.state} ${job.summary ?? ""} ${job.isolation.effective ?? ""}`.toLowerCase();
  return words.every((word) => text.includes(word));
};

export function YardList({ empty }: { empty: preact.ComponentChildren }) {
  const { query } = useStore(place);
  const [status, kind, search] = [query.get("status") ?? "", query.get("kind") ?? "", query.get("q") ?? ""];
  const { jobs, cursor, loaded, failure, more } = useYard(status, kind);
  const field = useRef<HTMLInputElement>(null);
  const [chosen, choose] = useState(-1);
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  const shown = useMemo(() => (words.length > 0 ? jobs.filter((job) => matches(job, words)) : jobs), [jobs, search]);
  // A search looks through older jobs too.
  useEffect(() => { if (words.length > 0 && cursor && jobs.length < SEARCHED) more(); }, [search, cursor, jobs.length]);
  const move = (by: number) => choose((at) => Math.max(0, Math.min(shown.length - 1, at + by)));
  useShortcuts([
    { keys: "/", does: "Search jobs", run: () => field.current?.focus() },
    { keys: "j", does: "Next job", run: () => move(1) },
    { keys: "k", does: "Previous job", run: () => move(-1) },
    { keys: "Enter", does: "Open the chosen job", run: () => { const job = shown[chosen]; if (job) go(jobAddress(job.job_id)); } },
  ]);
  const filtered = status !== "" || kind !== "" || search !== "";
  return (
    <section class="yard" aria-labelledby="yard-title">
      <div class="yard-head">
        <h2 id="yard-title">The yard</h2>
        <div class="search">
          <Icon name="search" />
          <input ref={field} type="search" placeholder="Search jobs" aria-label="Search jobs" value={search} onInput={(event) => setQuery({ q: event.currentTarget.value })} />
        </div>
        <div class="segments" role="group" aria-label="Status">
          {STATUSES.map(([value, label]) => <button key={value} type="button" aria-pressed={status === value} onClick={() => setQuery({ status: value })}>{label}</button>)}
        </div>
        <select aria-label="Kind" value={kind} onChange={(event) => setQuery({ kind: event.currentTarget.value })}>
          <option value="">Every kind</option>
          {KINDS.map((name) => <option key={name} value={name}>{name}</option>)}
        </select>
      </div>
      {failure && <p class="banner banner-bad" role="alert"><Icon name="warn" />{failure} Trying again.</p>}
      {!loaded && <div class="skeleton-rows" role="status" aria-busy="true" aria-label="Loading"><i /><i /><i /></div>}
      {loaded && shown.length === 0 && (filtered
        ? <div class="empty"><p>No job matches.</p><button type="button" onClick={() => setQuery({ q: null, status: null, kind: null })}>Show all jobs</button></div>
        : !failure && empty)}
      {shown.length > 0 && (
        <div class={`jobs${shown.length > 12 ? " tall" : ""}`}>
          <VirtualList
            rows={shown} version={jobs.length} keyOf={(job) => job.job_id} guessHeight={() => 57} label="Jobs" role="list"
            render={(job, index) => <JobRow job={job} chosen={index === chosen} />} onNearEnd={more} target={chosen >= 0 ? (shown[chosen]?.job_id ?? null) : null}
          />
        </div>
      )}
    </section>
  );
}

function JobRow({ job, chosen }: { job: JobView; chosen: boolean }) {
  const now = useNow(!isTerminal(job.state));
  const from = job.started_at ?? job.created_at;
  const took = (job.finished_at ? Date.parse(job.finished_at) : now) - Date.parse(from);
  const detail = job.error?.message ?? job.question ?? job.reason ?? job.summary ?? "";
  return (
    <div role="listitem">
      <a class={`job-row${chosen ? " chosen" : ""}`} href={jobAddress(job.job_id)}>
        <StateBadge state={job.state} />
        <span class="job-what">
          <bdi class="job-title">{plain(titleOf(job))}</bdi>
          <bdi class="job-detail">{plain(detail.slice(0, 300))}</bdi>
        </span>
        <span class="job-kind">{job.kind}</span>
        <span class="job-isolation" title={job.isolation.runtime ?? undefined}>{job.isolation.effective ?? "–"}</span>
        <span class="job-took">{job.started_at || isTerminal(job.state) ? duration(took) : "–"}</span>
        <span class="job-cost">{job.usage.usd > 0 ? money(job.usage.usd) : ""}</span>
        <time class="job-age" dateTime={job.created_at} title={moment(job.created_at)}>{ago(job.created_at, now)}</time>
      </a>
    </div>
  );
}
