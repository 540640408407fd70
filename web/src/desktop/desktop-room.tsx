// The desktop beside the timeline: look on, take over, give back; the last picture once it is over.

import { useEffect, useRef, useState } from "preact/hooks";

import { request } from "../api/client";
import { ticket } from "../api/jobs";
import type { RoomProps } from "../job/job-page";
import { Icon } from "../ui/icons";
import type { Viewer } from "./connection";
import { CONTROLLED, view } from "./connection";

type Phase = "opening" | "looking" | "controlling" | "away";

export function DesktopRoom({ job }: RoomProps) {
  // At the end of a job its desktop goes before its machine does.
  const ending = job.state === "finishing";
  const live = job.sandbox === "live" && !ending;
  const place = useRef<HTMLDivElement>(null);
  const viewer = useRef<Viewer | null>(null);
  const [controls, setControls] = useState(false);
  const [phase, setPhase] = useState<Phase>("opening");
  const [notice, setNotice] = useState<string | null>(null);
  const [turn, setTurn] = useState(0);

  useEffect(() => {
    const element = place.current;
    if (!element || !live) return;
    let gone = false;
    let timer = 0;
    setPhase("opening");
    const closed = (code: number, reason: string) => {
      if (gone) return;
      if (code === CONTROLLED) {
        setControls(false);
        setNotice(reason || "Somebody else controls the desktop.");
      } else if (reason && code !== 1000) setNotice(reason);
      setPhase("away");
      timer = window.setTimeout(() => setTurn((count) => count + 1), 1500);
    };
    const open = async () => {
      const given = new URL(await ticket(job.job_id, "desktop"), location.href);
      if (gone) return;
      const address = new URL(`/jobs/${job.job_id}/desktop/socket`, location.href);
      address.protocol = address.protocol.replace("http", "ws");
      address.searchParams.set("ticket", given.searchParams.get("ticket") ?? "");
      if (controls) address.searchParams.set("control", "1");
      const made = view(element, address, controls, closed);
      viewer.current = made;
      made.rfb.addEventListener("connect", () => {
        setPhase(controls ? "controlling" : "looking");
        if (controls) {
          setNotice(null);
          made.rfb.focus();
        }
      });
    };
    open().catch((error: unknown) => closed(0, error instanceof Error ? error.message : ""));
    return () => {
      gone = true;
      clearTimeout(timer);
      viewer.current?.close();
      viewer.current = null;
    };
  }, [job.job_id, live, controls, turn]);

  if (ending) return <div class="empty"><p>The job is ending. Its last picture comes with the result.</p></div>;
  if (!live) return <LastPicture job={job.job_id} state={job.sandbox} />;
  const words: Record<Phase, string> = { opening: "opening", looking: "live · view only", controlling: "you control", away: "reconnecting" };
  return (
    <div class="desktop-room" data-phase={phase}>
      <div class="desktop-head">
        <span class={`connection connection-${phase === "looking" || phase === "controlling" ? "live" : "away"}`} role="status"><i />{words[phase]}</span>
        <span class="space" />
        <button type="button" class={controls ? "" : "primary"} onClick={() => { setNotice(null); setControls(!controls); }}>{controls ? "Give control back" : "Take control"}</button>
        <a class="button" href={`/jobs/${job.job_id}/desktop/`} target="_blank" rel="noopener"><Icon name="external" /><span class="label">Own page</span></a>
      </div>
      {notice && <p class="banner banner-wait" role="alert"><Icon name="info" />{notice}</p>}
      <div ref={place} class="desktop-place takes-keys" />
    </div>
  );
}

function LastPicture({ job, state }: { job: string; state: string }) {
  const [source, setSource] = useState<string | null>(null);
  const [none, setNone] = useState(false);
  useEffect(() => {
    if (state !== "gone") return;
    let made: string | null = null;
    request(`/jobs/${job}/screenshot.png`).then(async (answer) => {
      made = URL.createObjectURL(await answer.blob());
      setSource(made);
    }).catch(() => setNone(true));
    return () => { if (made) URL.revokeObjectURL(made); };
  }, [job, state]);
  if (state !== "gone") return <div class="empty"><p>The desktop opens when the machine is up.</p></div>;
  if (none) return <div class="empty"><p>This job had no desktop.</p></div>;
  return <div class="image-view">{source && <figure><img src={source} alt="The last picture of the desktop" /><figcaption class="faint">The last picture of the desktop</figcaption></figure>}</div>;
}
