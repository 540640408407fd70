// One job: its head with the actions, the timeline, and beside it one of the rooms (changes, files, terminal, desktop …).

import type { ComponentType } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

import { messageOf } from "../api/client";
import { isGone, readStatus } from "../api/jobs";
import type { JobView } from "../api/types";
import { isTerminal } from "../api/types";
import { Icon } from "../ui/icons";
import type { IconName } from "../ui/icons";
import { useShortcuts } from "../ui/keys";
import { Lazy } from "../ui/lazy";
import { go, jobAddress, place } from "../ui/router";
import { useStore } from "../ui/store";
import { JobHead } from "./job-head";
import { EventWindow } from "./event-window";
import { Overview } from "./overview";
import { ReplyBox } from "./reply-box";
import { Timeline } from "./timeline";

export interface RoomProps {
  job: JobView;
  /** A path within the room, such as a file. */
  rest: string;
  window: EventWindow;
}

interface Room {
  name: string;
  label: string;
  icon: IconName;
  keys: string;
  /** False hides the room: the job has nothing for it. */
  has: (job: JobView) => boolean;
  load?: () => Promise<ComponentType<RoomProps>>;
}

/** True if a job whose machine is gone may have a last picture. Recordings can be off, so the kind counts too. */
const hadDesktop = (job: JobView): boolean => Boolean(job.recording) || job.kind === "gui" || job.kind === "task" || job.kind === "session";

const ROOMS: Room[] = [
  { name: "overview", label: "Overview", icon: "info", keys: "o", has: () => true },
  { name: "changes", label: "Changes", icon: "diff", keys: "d", has: () => true, load: async () => (await import("../files/changes")).Changes },
  { name: "files", label: "Files", icon: "folder", keys: "f", has: () => true, load: async () => (await import("../files/files")).Files },
  { name: "terminal", label: "Terminal", icon: "terminal", keys: "t", has: (job) => job.sandbox !== "gone", load: async () => (await import("./terminal")).TerminalRoom },
  { name: "desktop", label: "Desktop", icon: "screen", keys: "v", has: (job) => job.sandbox !== "gone" || hadDesktop(job), load: async () => (await import("../desktop/desktop-room")).DesktopRoom },
  { name: "replay", label: "Replay", icon: "play", keys: "y", has: (job) => job.started_at !== null, load: async () => (await import("../replay/replay-room")).ReplayRoom },
  { name: "usage", label: "Usage", icon: "chart", keys: "u", has: (job) => job.started_at !== null, load: async () => (await import("../usage/usage-room")).UsageRoom },
  { name: "previews", label: "Previews", icon: "globe", keys: "p", has: (job) => job.sandbox !== "gone", load: async () => (await import("./previews")).Previews },
  { name: "explanation", label: "Explanation", icon: "book", keys: "e", has: (job) => Boolean(job.explanation), load: async () => (await import("./explanation")).Explanation },
  { name: "recall", label: "Recall", icon: "search", keys: "m", has: () => true, load: async () => (await import("./recall")).Recall },
  { name: "audit", label: "Audit", icon: "shield", keys: "a", has: () => true, load: async () => (await import("./audit")).Audit },
];

/** The status, read again at each change of state and while the job runs. */
function useJob(id: string): { job: JobView | null; failure: unknown; refresh: () => void } {
  const [job, setJob] = useState<JobView | null>(null);
  const [failure, setFailure] = useState<unknown>(null);
  const latest = useRef<JobView | null>(null);
  const refresh = useRef(() => {});
  // Before the first paint: what a link leads to is asked for as soon as the page knows it.
  useLayoutEffect(() => {
    let gone = false;
    let timer = 0;
    const look = async () => {
      clearTimeout(timer);
      try {
        const seen = await readStatus(id);
        if (gone) return;
        latest.current = seen;
        setJob(seen);
        setFailure(null);
      } catch (error) {
        if (gone) return;
        setFailure(error);
        if (isGone(error)) return;
      }
      const seen = latest.current;
      const busy = !seen || !isTerminal(seen.state) || seen.sandbox === "live";
      if (!gone) timer = window.setTimeout(() => void look(), document.hidden ? 10_000 : busy ? 2000 : 15_000);
    };
    refresh.current = () => void look();
    setJob(null);
    latest.current = null;
    void look();
    const wake = () => void look();
    addEventListener("sandyard-key", wake);
    return () => {
      gone = true;
      clearTimeout(timer);
      removeEventListener("sandyard-key", wake);
    };
  }, [id]);
  return { job, failure, refresh: () => refresh.current() };
}

export function JobPage({ id, room: roomName, rest }: { id: string; room: string; rest: string }) {
  const { job, failure, refresh } = useJob(id);
  const [version, setVersion] = useState(0);
  const [window_, setWindow] = useState<EventWindow | null>(null);
  const { query } = useStore(place);
  const asked = Number(query.get("event")) || null;
  useLayoutEffect(() => {
    let frame = 0;
    // Many batches within one frame are one render.
    const changed = () => { frame ||= requestAnimationFrame(() => { frame = 0; setVersion((count) => count + 1); }); };
    const made = new EventWindow(id, changed, refresh);
    setWindow(made);
    void made.open(asked);
    const again = () => { if (made.failure) { made.failure = null; void made.open(asked); } };
    addEventListener("sandyard-key", again);
    return () => {
      made.close();
      cancelAnimationFrame(frame);
      removeEventListener("sandyard-key", again);
    };
  }, [id]);

  useEffect(() => { document.title = job ? `${job.name ?? job.job_id.slice(0, 8)} · Sandyard` : "Sandyard"; }, [job?.name, id]);

  // A room that has nothing to show is left out, unless a link leads to it.
  const rooms = job ? ROOMS.filter((candidate) => candidate.name === roomName || candidate.has(job)) : ROOMS.slice(0, 1);
  const wide = useWide();
  const fallback = wide ? "overview" : "timeline";
  const name = roomName === "timeline" && wide ? "overview" : roomName || fallback;
  const room = rooms.find((candidate) => candidate.name === name);
  const open = (next: string) => go(jobAddress(id, next === fallback ? undefined : next));
  useShortcuts([
    ...rooms.map(({ keys, label, name: next }) => ({ keys, does: `Open ${label.toLowerCase()}`, run: () => open(next) })),
    { keys: "g h", does: "Back to the yard", run: () => go("/") },
  ]);

  useEffect(() => { document.querySelector(".tabs [aria-selected=true]")?.scrollIntoView({ block: "nearest", inline: "nearest" }); }, [name, rooms.length, wide]);

  if (isGone(failure)) {
    return <main class="page"><div class="empty"><h1>There is no such job</h1><p>It was removed, or the address is wrong.</p><a class="button" href="/">Back to the yard</a></div></main>;
  }
  const tabs = wide ? rooms : [{ name: "timeline", label: "Timeline", icon: "list" as IconName }, ...rooms];
  return (
    <main class="job">
      {job ? <JobHead job={job} onChanged={refresh} /> : <div class="job-head job-head-empty" aria-busy="true" />}
      {failure !== null && job && <p class="banner banner-bad" role="alert"><Icon name="warn" />{messageOf(failure)}</p>}
      <div class="job-body">
        {(wide || name === "timeline") && (
          <div class="job-left">
            {window_ && <Timeline window={window_} version={version} onPath={(path) => go(jobAddress(id, `files/${path}`))} />}
            {job && <ReplyBox job={job} onSent={refresh} />}
          </div>
        )}
        <div class="job-right">
          <div class="tabs" role="tablist" aria-label="Rooms of the job">
            {tabs.map((tab) => (
              <button key={tab.name} type="button" role="tab" aria-selected={tab.name === name} aria-controls="room" tabIndex={tab.name === name ? 0 : -1} onClick={() => open(tab.name)} onKeyDown={moveAmongTabs}>
                <Icon name={tab.icon} /><span>{tab.label}</span>
              </button>
            ))}
          </div>
          {name !== "timeline" && (
            <div id="room" class="room" role="tabpanel" aria-label={room?.label ?? "Room"} tabIndex={0}>
              {job && window_ && room && (room.load ? <Lazy key={`${id}/${room.name}`} load={room.load} props={{ job, rest, window: window_ }} /> : <Overview job={job} window={window_} />)}
            </div>
          )}
          {name === "timeline" && <div id="room" role="tabpanel" aria-label="Timeline" hidden />}
        </div>
      </div>
    </main>
  );
}

function moveAmongTabs(event: KeyboardEvent & { currentTarget: HTMLElement }): void {
  const by = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
  if (by === 0) return;
  const tabs = [...(event.currentTarget.parentElement?.querySelectorAll<HTMLElement>("[role=tab]") ?? [])];
  const next = tabs[(tabs.indexOf(event.currentTarget) + by + tabs.length) % tabs.length];
  next?.focus();
  next?.click();
}

const WIDE = matchMedia("(min-width: 1000px)");

function useWide(): boolean {
  const [wide, setWide] = useState(WIDE.matches);
  useEffect(() => {
    const look = () => setWide(WIDE.matches);
    WIDE.addEventListener("change", look);
    return () => WIDE.removeEventListener("change", look);
  }, []);
  return wide;
}
