// The live view of a desktop. On the console's origin it belongs to a job; inside a sandbox it stands alone.
//
// Only pixels, a cursor and clipboard text come from the sandbox, and all of it is shown as such. Whether keys and pointer
// reach the desktop is decided by the server, not here.

import RFB from "@novnc/novnc";

const KEY = "sandyard-key";
const CUT_TEXT = 1024 * 1024;
const REFUSED = 4409;
const at = (id) => document.getElementById(id);

const job = /^\/jobs\/([a-z0-9]+)\/desktop\/?$/.exec(location.pathname)?.[1] ?? null;
const wanted = new URLSearchParams(location.search);
const link = new URLSearchParams(location.hash.slice(1));
let ticket = wanted.get("ticket");
let controls = wanted.get("control") === "1";
let rfb = null;
let scaled = true;
let attempts = 0;

// A link may carry a key in its fragment or a ticket in its query; neither stays in the address.
if (link.get("key")) sessionStorage.setItem(KEY, link.get("key"));
if (ticket || link.get("key")) {
  wanted.delete("ticket");
  const query = wanted.toString();
  history.replaceState(null, "", location.pathname + (query ? `?${query}` : ""));
}

// The clipboard's length is the sandbox's claim: it is looked at before anything is kept for it.
class BoundedRFB extends RFB {
  _handleServerCutText() {
    if (this._sock.rQwait("ServerCutText header", 7, 1)) return false;
    const head = this._sock.rQpeekBytes(7);
    const length = Math.abs(((head[3] << 24) | (head[4] << 16) | (head[5] << 8) | head[6]) | 0);
    if (length > CUT_TEXT) return this._fail("The clipboard of the sandbox is too large");
    return super._handleServerCutText();
  }
}

function request(path, options = {}) {
  const headers = new Headers(options.headers);
  const key = sessionStorage.getItem(KEY);
  if (key) headers.set("authorization", `Bearer ${key}`);
  return fetch(path, { ...options, headers });
}

function badge(state, text) {
  at("badge").dataset.state = state;
  at("badge").textContent = text;
  document.documentElement.dataset.state = state;
}

function notice(text) {
  at("notice").textContent = text ?? "";
  at("notice").hidden = !text;
}

function card(title, text) {
  at("card-title").textContent = title;
  at("card-text").textContent = text ?? "";
  at("card").hidden = false;
  at("screen").hidden = true;
  for (const id of ["control", "clipboard-toggle", "clipboard", "scale", "fullscreen"]) at(id).hidden = true;
}

const pause = (ms) => new Promise((resume) => setTimeout(resume, ms));

async function follow() {
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
    const status = await answer.json();
    at("name").textContent = status.name ?? job.slice(0, 8);
    document.title = `${status.name ?? job.slice(0, 8)} · Desktop`;
    if (status.sandbox === "live") return connect();
    if (["succeeded", "failed", "cancelled", "timed_out"].includes(status.state)) return ended(status);
    badge("waiting", status.state);
    card("The desktop is not there yet", status.reason ?? `The job is ${status.state}.`);
    wait = 20;
  }
}

function signIn() {
  badge("waiting", "locked");
  card("A key is needed", "It was printed at the server's first start. It is kept in this tab alone.");
  at("sign-in").hidden = false;
}

function gone(title, text) {
  badge("ended", "ended");
  card(title, text);
}

async function ended(status) {
  const words = { succeeded: "has succeeded", failed: "has failed", cancelled: "was cancelled", timed_out: "ran out of time" };
  gone("The desktop is over", `The job ${words[status.state]}.${status.reason ? ` ${status.reason}` : ""}`);
  at("download").hidden = !status.download_url;
  const picture = await request(`/jobs/${job}/screenshot.png`);
  if (picture.ok) {
    at("last").src = URL.createObjectURL(await picture.blob());
    at("last").hidden = false;
  } else {
    at("card-text").textContent += " It had no desktop.";
  }
}

// A socket can't send the key, so it carries a ticket, good once.
async function socketAddress() {
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
    if (answer.ok) good = new URL((await answer.json()).url, location.href).searchParams.get("ticket");
  }
  if (good) address.searchParams.set("ticket", good);
  return address;
}

async function connect() {
  badge("waiting", "connecting");
  card("Opening the desktop", "It starts when it is first looked at.");
  const socket = new WebSocket(await socketAddress());
  socket.binaryType = "arraybuffer";
  socket.addEventListener("close", (event) => closed(event.code, event.reason));
  at("screen").replaceChildren();
  rfb = new BoundedRFB(at("screen"), socket, { shared: true });
  rfb.viewOnly = !controls;
  rfb.scaleViewport = scaled;
  rfb.background = "transparent";
  rfb.showDotCursor = true;
  rfb.addEventListener("connect", live);
  rfb.addEventListener("clipboard", (event) => { at("clipboard-text").value = event.detail.text.slice(0, CUT_TEXT); });
}

function live() {
  attempts = 0;
  at("card").hidden = true;
  at("screen").hidden = false;
  for (const id of ["control", "clipboard-toggle", "scale", "fullscreen"]) at(id).hidden = false;
  badge(controls ? "control" : "live", controls ? "you control" : "live · view only");
  at("control").textContent = controls ? "Give control back" : "Take control";
  at("control").dataset.held = String(controls);
  at("clipboard-send").hidden = !controls;
  if (controls) { notice(); rfb.focus(); }
}

async function closed(code, reason) {
  rfb = null;
  if (code === REFUSED) {
    controls = false;
    notice(reason || "Somebody else controls the desktop.");
  } else if (reason && code !== 1000) {
    notice(reason);
  }
  attempts += 1;
  badge("waiting", "reconnecting");
  await pause(Math.min(attempts * attempts * 250, 5000));
  follow();
}

function takeOrGive() {
  controls = !controls;
  notice();
  attempts = -1;
  rfb?.disconnect();
}

async function download() {
  const answer = await request(`/jobs/${job}/tickets`, {
    method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ for: "download" }),
  });
  if (answer.ok) location.assign((await answer.json()).url);
}

at("control").addEventListener("click", takeOrGive);
at("scale").addEventListener("click", () => {
  scaled = !scaled;
  at("scale").setAttribute("aria-pressed", String(scaled));
  at("scale").textContent = scaled ? "Fit" : "1:1";
  if (rfb) rfb.scaleViewport = scaled;
});
at("fullscreen").addEventListener("click", () => {
  if (document.fullscreenElement) document.exitFullscreen();
  else document.documentElement.requestFullscreen();
});
at("clipboard-toggle").addEventListener("click", () => {
  at("clipboard").hidden = !at("clipboard").hidden;
  at("clipboard-toggle").setAttribute("aria-expanded", String(!at("clipboard").hidden));
});
at("clipboard-send").addEventListener("click", () => rfb?.clipboardPasteFrom(at("clipboard-text").value.slice(0, CUT_TEXT)));
at("download").addEventListener("click", download);
at("sign-in").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem(KEY, at("key").value.trim());
  at("sign-in").hidden = true;
  follow();
});
if (!job) at("home").removeAttribute("href");
follow();
