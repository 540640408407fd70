// The server: what can run here and why not, images, load, settings and where each comes from.

import { useEffect, useState } from "preact/hooks";

import { getJson, messageOf, request } from "../api/client";
import type { AvailabilityView, DriverView, SettingsView, VersionView } from "../api/types";
import { bytes, count } from "../ui/format";
import { Icon } from "../ui/icons";

interface Seen {
  availability?: AvailabilityView;
  settings?: SettingsView;
  version?: VersionView;
  metrics?: Map<string, number>;
  ready?: string;
}

const AGAIN_MS = 5000;

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
        <Tile name="Sandboxes" value={setting("concurrency") ? `at most ${setting("concurrency")}` : "…"} detail={setting("queue") ? `queue of ${count(Number(setting("queue")))}` : ""} />
      </div>
      <section class="card"><h2>Drivers</h2><p class="faint">In the order in which a job gets them.</p>
        <ul class="drivers">{seen.availability?.drivers.map((driver) => <Driver key={driver.name} driver={driver} />)}</ul>
      </section>
      <section class="card"><h2>Images</h2>
        <ul class="drivers">
          {seen.availability?.images.map((image) => (
            <li key={image.flavour} class="driver"><span class={`driver-mark tone-${image.ready ? "good" : "wait"}`}><Icon name={image.ready ? "check" : "repeat"} /></span>
              <div><strong>{image.flavour}</strong><p class="faint">{image.detail}</p></div>
            </li>
          ))}
        </ul>
      </section>
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

function Figures({ metrics }: { metrics: Map<string, number> }) {
  const rows = [...metrics].filter(([name]) => !name.includes("_bucket")).slice(0, 60);
  return (
    <section class="card"><h2>Load</h2>
      <dl class="figures">{rows.map(([name, value]) => <div key={name}><dt>{name.replace(/^sandyard_/, "").replaceAll("_", " ")}</dt><dd>{name.includes("bytes") ? bytes(value) : count(value)}</dd></div>)}</dl>
    </section>
  );
}
