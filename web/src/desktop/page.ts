// The live view of a desktop. On the console's origin it belongs to a job; inside a sandbox it stands alone.
//
// Only pixels, a cursor and clipboard text come from the sandbox, and all of it is shown as such. Whether keys and pointer
// reach the desktop is decided by the server, not here.

import { CONTROLLED, CUT_TEXT_BYTES, view } from "./connection";
import type { Viewer } from "./connection";

const KEY = "sandyard-key";

interface Status {
  name: string | null;
  state: string;
  sandbox: string;
  reason: string | null;
  download_url: string | null;
}

function at<Kind extends HTMLElement = HTMLElement>(id: string): Kind {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no ${id}`);
  return found as Kind;
}

const job = /^\/jobs\/([a-z0-9]+)\/desktop\/?$/.exec(location.pathname)?.[1] ?? null;
const wanted = new URLSearchParams(location.search);
const link = new URLSearchParams(location.hash.slice(1));
let ticket = wanted.get("ticket");
let controls = wanted.get("control") === "1";
let viewer: Viewer | null = null;
let scaled = true;
let attempts = 0;

// A link may carry a key in its fragment or a ticket in its query; neither stays in the address.
const linked = link.get("key");
if (linked) sessionStorage.setItem(KEY, linked);
if (ticket || linked) {
  wanted.delete("ticket");
  const query = wanted.toString();
  history.replaceState(null, "", location.pathname + (query ? `?${query}` : ""));
}

function request(path: string, options: RequestInit = {}): Promise<Response> {
  const headers = new Headers(options.headers);
  const key = sessionStorage.getItem(KEY);
  if (key) headers.set("authorization", `Bearer ${key}`);
  return fetch(path, { ...options, headers });
}

function badge(state: string, text: string): void {
  at("badge").dataset["state"] = state;
  at("badge").textContent = text;
  document.documentElement.dataset["state"] = state;
}

function notice(text?: string): void {
  at("notice").textContent = text ?? "";
  at("notice").hidden = !text;
}

function card(title: string, text?: string): void {
  at("card-title").textContent = title;
  at("card-text").textContent = text ?? "";
  at("card").hidden = false;
  at("screen").hidden = true;
  for (const id of ["control", "clipboard-toggle", "clipboard", "scale", "fullscreen"]) at(id).hidden = true;
}

const pause = (ms: number) => new Promise((resume) => setTimeout(resume, ms));

async function follow(): Promise<void> {
  if (!job) return connect();
  let wait = 0;
  for (;;) {
    let answer;
    try {
      answer = await request(`/status/${job}?fields=name,state,sandbox,reason,download_url${wait ? `&wait=${wait}` : ""}`);
    } catch {
      badge("waiting", "no server");
      card("The server does not answer", "Trying again.");
      await pause(2000);
      continue;
    }
    if (answer.status === 401) return ticket ? connect() : signIn();
    if (answer.status === 404) return gone("There is no such job", "It was removed, or the address is wrong.");
    if (!answer.ok) {
      card("The server can't say how the job is", "Trying again.");
      await pause(2000);
      continue;
    }
    const status = (await answer.json()) as Status;
    at("name").textContent = status.name ?? job.slice(0, 8);
    document.title = `${status.name ?? job.slice(0, 8)} · Desktop`;
    if (status.sandbox === "live") return connect();
    if (["succeeded", "failed", "cancelled", "timed_out"].includes(status.state)) return ended(status);
    badge("waiting", status.state);
    card("The desktop is not there yet", status.reason ?? `The job is ${status.state}.`);
    wait = 20;
  }
}

function signIn(): void {
  badge("waiting", "locked");
  card("A key is needed", "It was printed at the server's first start. It is kept in this tab alone.");
  at("sign-in").hidden = false;
}

function gone(title: string, text: string): void {
  badge("ended", "ended");
  card(title, text);
}

async function ended(status: Status): Promise<void> {
  const words: Record<string, string> = { succeeded: "has succeeded", failed: "has failed", cancelled: "was cancelled", timed_out: "ran out of time" };
  gone("The desktop is over", `The job ${words[status.state]}.${status.reason ? ` ${status.reason}` : ""}`);
  at("download").hidden = !status.download_url;
  const picture = await request(`/jobs/${job}/screenshot.png`);
  if (picture.ok) {
    at<HTMLImageElement>("last").src = URL.createObjectURL(await picture.blob());
    at("last").hidden = false;
  } else {
    at("card-text").textContent += " It had no desktop.";
  }
}

// A socket can't send the key, so it carries a ticket, good once.
async function socketAddress(): Promise<URL> {
  const base = job ? `/jobs/${job}/desktop/socket` : "/socket";
  const address = new URL(base, location.href);
  address.protocol = address.protocol.replace("http", "ws");
  if (controls) address.searchParams.set("control", "1");
  let good = ticket;
  ticket = null;
  if (job && !good && sessionStorage.getItem(KEY)) {
    const answer = await request(`/jobs/${job}/tickets`, {
      method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ for: "desktop" }),
    });
    if (answer.ok) good = new URL(((await answer.json()) as { url: string }).url, location.href).searchParams.get("ticket");
  }
  if (good) address.searchParams.set("ticket", good);
  return address;
}

async function connect(): Promise<void> {
  badge("waiting", "connecting");
  card("Opening the desktop", "It starts when it is first looked at.");
  viewer = view(at("screen"), await socketAddress(), controls, closed);
  viewer.rfb.scaleViewport = scaled;
  viewer.rfb.addEventListener("connect", live);
  viewer.rfb.addEventListener("clipboard", (event) => {
    at<HTMLTextAreaElement>("clipboard-text").value = (event as CustomEvent<{ text: string }>).detail.text.slice(0, CUT_TEXT_BYTES);
  });
}

function live(): void {
  attempts = 0;
  at("card").hidden = true;
  at("screen").hidden = false;
  for (const id of ["control", "clipboard-toggle", "scale", "fullscreen"]) at(id).hidden = false;
  badge(controls ? "control" : "live", controls ? "you control" : "live · view only");
  at("control").textContent = controls ? "Give control back" : "Take control";
  at("control").dataset["held"] = String(controls);
  at("clipboard-send").hidden = !controls;
  if (controls) { notice(); viewer?.rfb.focus(); }
}

async function closed(code: number, reason: string): Promise<void> {
  viewer = null;
  if (code === CONTROLLED) {
    controls = false;
    notice(reason || "Somebody else controls the desktop.");
  } else if (reason && code !== 1000) {
    notice(reason);
  }
  attempts += 1;
  badge("waiting", "reconnecting");
  await pause(Math.min(attempts * attempts * 250, 5000));
  void follow();
}

function takeOrGive(): void {
  controls = !controls;
  notice();
  attempts = -1;
  viewer?.close();
}

async function download(): Promise<void> {
  const answer = await request(`/jobs/${job}/tickets`, {
    method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ for: "download" }),
  });
  if (answer.ok) location.assign(((await answer.json()) as { url: string }).url);
}

at("control").addEventListener("click", takeOrGive);
at("scale").addEventListener("click", () => {
  scaled = !scaled;
  at("scale").setAttribute("aria-pressed", String(scaled));
  at("scale").textContent = scaled ? "Fit" : "1:1";
  if (viewer) viewer.rfb.scaleViewport = scaled;
});
at("fullscreen").addEventListener("click", () => {
  if (document.fullscreenElement) void document.exitFullscreen();
  else void document.documentElement.requestFullscreen();
});
at("clipboard-toggle").addEventListener("click", () => {
  at("clipboard").hidden = !at("clipboard").hidden;
  at("clipboard-toggle").setAttribute("aria-expanded", String(!at("clipboard").hidden));
});
at("clipboard-send").addEventListener("click", () => viewer?.rfb.clipboardPasteFrom(at<HTMLTextAreaElement>("clipboard-text").value.slice(0, CUT_TEXT_BYTES)));
at("download").addEventListener("click", () => void download());
at("sign-in").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem(KEY, at<HTMLInputElement>("key").value.trim());
  at("sign-in").hidden = true;
  void follow();
});
if (!job) at("home").removeAttribute("href");
void follow();
