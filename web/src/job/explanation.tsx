// The explanation of a result: its summary, the diagram, and the way to the whole page.

import { useEffect, useState } from "preact/hooks";

import { messageOf, request } from "../api/client";
import { openPage } from "../api/jobs";
import { Icon } from "../ui/icons";
import { Prose } from "../ui/prose";
import type { RoomProps } from "./job-page";

export function Explanation({ job }: RoomProps) {
  const { explanation } = job;
  const [picture, setPicture] = useState<string | null>(null);
  const [failure, setFailure] = useState<string | null>(null);
  const [zoom, setZoom] = useState(1);
  const address = explanation?.diagram_url;
  useEffect(() => {
    if (!address) return;
    let made: string | null = null;
    // As a picture a drawing runs no script and loads nothing.
    request(address).then(async (answer) => {
      made = URL.createObjectURL(new Blob([await answer.arrayBuffer()], { type: "image/svg+xml" }));
      setPicture(made);
    }).catch((error: unknown) => setFailure(messageOf(error)));
    return () => { if (made) URL.revokeObjectURL(made); };
  }, [address]);
  if (!explanation) return <div class="empty"><p>This job has no explanation.</p></div>;
  return (
    <div class="overview">
      <section class="card"><h2>What was made</h2><Prose text={explanation.summary} /></section>
      <section class="card">
        <div class="card-head"><h2>Diagram</h2><span class="space" />
          <button type="button" class="quiet square" aria-label="Smaller" onClick={() => setZoom(Math.max(0.5, zoom / 1.25))}>−</button>
          <button type="button" class="quiet square" aria-label="Larger" onClick={() => setZoom(Math.min(6, zoom * 1.25))}>+</button>
        </div>
        {failure && <p class="bad-text">{failure}</p>}
        {picture && <div class="diagram" tabIndex={0} role="group" aria-label="Diagram, scrolls"><img src={picture} alt="Diagram of the result's parts" style={{ width: `${zoom * 100}%` }} /></div>}
      </section>
      <p><button type="button" onClick={() => void openPage(job.job_id, "explained").catch((error: unknown) => setFailure(messageOf(error)))}><Icon name="external" />Open the whole page</button></p>
    </div>
  );
}
