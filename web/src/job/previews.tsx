// Ports that programs in the machine listen on, each on an origin of its own, and JupyterLab.

import { useEffect, useState } from "preact/hooks";

import { messageOf, postJson } from "../api/client";
import { openPage } from "../api/jobs";
import type { ShellView } from "../api/types";
import { Icon } from "../ui/icons";
import { notifyFailure } from "../ui/notices";
import type { RoomProps } from "./job-page";

/** Ports of the machine's own services, which have rooms of their own. */
const OWN = new Set([3128, 6080, 8888]);

/** Listening ports from the kernel's tables: field 2 is the address, field 4 the state, 0A means listening. */
function portsOf(tables: string): number[] {
  const found = new Set<number>();
  for (const line of tables.split("\n")) {
    const fields = line.trim().split(/\s+/);
    const port = Number.parseInt(fields[1]?.split(":")[1] ?? "", 16);
    if (fields[3] === "0A" && port > 0 && !OWN.has(port)) found.add(port);
  }
  return [...found].sort((a, b) => a - b);
}

export function Previews({ job }: RoomProps) {
  const [ports, setPorts] = useState<number[] | null>(null);
  const [failure, setFailure] = useState<string | null>(null);
  const [own, setOwn] = useState("");
  const live = job.sandbox === "live";
  const look = () => {
    setFailure(null);
    postJson<ShellView>(`/jobs/${job.job_id}/shell`, { command: "cat /proc/net/tcp /proc/net/tcp6 2>/dev/null", timeout_s: 10 })
      .then(({ stdout }) => setPorts(portsOf(stdout)), (error: unknown) => setFailure(messageOf(error)));
  };
  useEffect(() => { if (live) look(); }, [live]);
  if (!live) return <div class="empty"><p>Previews need a live machine.</p></div>;
  const open = (purpose: string) => void openPage(job.job_id, purpose).catch(notifyFailure);
  const valid = /^\d{1,5}$/.test(own) && Number(own) > 0 && Number(own) < 65_536;
  return (
    <div class="previews">
      <section class="card">
        <h2>Open ports</h2>
        {failure && <p class="bad-text">{failure}</p>}
        {ports?.length === 0 && <p class="faint">No program listens yet. A server that the job starts appears here.</p>}
        {ports && ports.length > 0 && (
          <ul class="ports">{ports.map((port) => <li key={port}><span class="mono">:{port}</span><span class="space" /><button type="button" onClick={() => open(`port:${port}`)}><Icon name="external" />Open</button></li>)}</ul>
        )}
        <div class="port-line">
          <button type="button" class="quiet" onClick={look}><Icon name="repeat" />Look again</button>
          <span class="space" />
          <form class="own-port" onSubmit={(event) => { event.preventDefault(); if (valid) open(`port:${own}`); }}>
            <input inputMode="numeric" aria-label="Port" placeholder="5173" value={own} onInput={(event) => setOwn(event.currentTarget.value)} />
            <button type="submit" disabled={!valid}>Open port</button>
          </form>
        </div>
      </section>
      <section class="card">
        <h2>JupyterLab</h2>
        <p class="faint">Notebooks and the kernels that the job uses, on an origin of their own.</p>
        <button type="button" onClick={() => open("lab")}><Icon name="external" />Open JupyterLab</button>
      </section>
    </div>
  );
}
