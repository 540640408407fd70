// The first page: the box, the state of the yard's images, and the jobs.

import { useEffect, useState } from "preact/hooks";

import { getJson } from "../api/client";
import { schedule } from "../api/jobs";
import type { AvailabilityView, ScheduleBody, SettingsView } from "../api/types";
import { Icon } from "../ui/icons";
import type { IconName } from "../ui/icons";
import { notifyFailure } from "../ui/notices";
import { go, jobAddress } from "../ui/router";
import { Composer } from "./composer";
import { YardList } from "./yard-list";

const STARTERS: { title: string; text: string; icon: IconName; body: ScheduleBody }[] = [
  { title: "Watch the demo", text: "A recorded agent builds and tests a todo app in React. No key needed.", icon: "spark",
    body: { task: "Build me a todo app in React", model: "replay:demo", egress: ["packages"], name: "Demo: a todo app in React" } },
  { title: "Run a script", text: "Two lines of shell in a machine of their own.", icon: "terminal",
    body: { kind: "shell", code: "echo \"Hello from $(hostname), $(uname -sr)\"\nls -la / > listing.txt", name: "Hello from a sandbox" } },
  { title: "Open a session", text: "Terminal, desktop, kernels and files to try by hand.", icon: "flask", body: { kind: "session", name: "A first session" } },
];

export function useSystem(): { availability: AvailabilityView | null; settings: SettingsView | null } {
  const [availability, setAvailability] = useState<AvailabilityView | null>(null);
  const [settings, setSettings] = useState<SettingsView | null>(null);
  useEffect(() => {
    let timer = 0;
    const look = () => {
      getJson<SettingsView>("/settings").then(setSettings, () => {});
      getJson<AvailabilityView>("/drivers").then((seen) => {
        setAvailability(seen);
        // While an image is made its progress is of interest.
        if (seen.images.some((image) => !image.ready)) timer = window.setTimeout(look, 3000);
      }, () => {});
    };
    look();
    addEventListener("sandyard-key", look);
    return () => {
      clearTimeout(timer);
      removeEventListener("sandyard-key", look);
    };
  }, []);
  return { availability, settings };
}

export function Home() {
  const { availability, settings } = useSystem();
  // The list of models is never empty: the recorded demo is among them, and no task of one's own runs on it.
  const model = settings ? (settings.settings.find(({ key }) => key === "model")?.value ?? "") : null;
  const making = availability?.images.filter((image) => !image.ready) ?? [];
  useEffect(() => { document.title = "Sandyard"; }, []);
  return (
    <main class="page home">
      <h1 class="visually-hidden">Sandyard</h1>
      <Composer availability={availability} model={model} />
      {making.map((image) => (
        <p key={image.flavour} class="banner banner-run" role="status"><Icon name="info" /><span>The {image.flavour} image: {image.detail}</span></p>
      ))}
      <YardList empty={<Starters />} />
    </main>
  );
}

function Starters() {
  const start = (body: ScheduleBody) => schedule(body).then(({ job_id }) => go(jobAddress(job_id)), notifyFailure);
  return (
    <div class="starters">
      <p class="starters-lead">No jobs yet. One click shows how it goes:</p>
      <div class="starter-grid">
        {STARTERS.map(({ title, text, icon, body }) => (
          <button key={title} type="button" class="starter" onClick={() => void start(body)}>
            <Icon name={icon} /><strong>{title}</strong><span>{text}</span>
          </button>
        ))}
      </div>
    </div>
  );
}
