// ATTACKS W1 to W9 in a browser: a page of one job tries everything it can against another job, the API and the console, while
// the person who looks at it is signed in to all of them. Nothing may succeed.
import { api, arguments_, base, ensure, run, shell, until } from "./browser.mjs";

const [attacker, victim, port] = arguments_;
const server = new URL(base);
const origin = (job) => `http://${port}-${job}.localhost:${server.port}`;

// Runs in the hostile page. Each technique tells what it got; what arrives at the victim is counted there.
async function attack({ target, victim, api }) {
  const within = (work, seconds = 3) =>
    Promise.race([work, new Promise((resolve) => setTimeout(() => resolve("nothing"), seconds * 1000))]);
  const loaded = (element, parent = document.body) => within(new Promise((resolve) => {
    element.onload = () => resolve("loaded");
    element.onerror = () => resolve("failed");
    parent.append(element);
  }));
  const make = (name, fields) => Object.assign(document.createElement(name), fields);
  const read = (promise) => within(promise.then((text) => `read: ${text}`, () => "failed"));
  const inside = (frame) => {
    try {
      return `read: ${frame.contentDocument.body.innerText}`;
    } catch {
      return "failed";
    }
  };
  const framed = async (url) => {
    const frame = make("iframe", { src: url });
    await loaded(frame);
    const seen = frame.contentDocument === null ? "failed" : inside(frame);
    return seen.includes("secret") ? seen : "failed";
  };
  const opened = async (url) => {
    const popup = window.open(url);
    await new Promise((resolve) => setTimeout(resolve, 1500));
    try {
      return popup && popup.document.body.innerText.includes("secret") ? "read" : "failed";
    } catch {
      return "failed";
    }
  };
  const handle = async (url) => {
    const popup = window.open(url);
    await new Promise((resolve) => setTimeout(resolve, 1500));
    return popup === null || popup.closed ? "failed" : "kept a handle";
  };
  const socket = (url) => within(new Promise((resolve) => {
    const socket = new WebSocket(url);
    socket.onopen = () => resolve("opened");
    socket.onerror = () => resolve("failed");
  }));
  const events = (url) => within(new Promise((resolve) => {
    const source = new EventSource(url, { withCredentials: true });
    source.onopen = () => resolve("opened");
    source.onerror = () => resolve("failed");
  }));
  const posted = async (url, frameName) => {
    const frame = make("iframe", { name: frameName });
    document.body.append(frame);
    const form = make("form", { action: url, method: "post", target: frameName });
    document.body.append(form);
    form.submit();
    await new Promise((resolve) => setTimeout(resolve, 1000));
    return "failed";
  };
  const worker = (url) => within(navigator.serviceWorker.register(url, { scope: "/" }).then(() => "registered", () => "failed"));
  const results = {};
  const attempt = async (name, work) => {
    results[name] = await Promise.resolve().then(work).catch((error) => `failed: ${error.message}`);
  };
  const json = { method: "POST", headers: { "content-type": "text/plain" }, body: '{"kind":"session"}' };
  for (const [where, url] of [["job", `${target}/attack`], ["api", `${api}/jobs`]]) {
    await attempt(`${where}: fetch`, () => read(fetch(url, { credentials: "include" }).then((answer) => answer.text())));
    await attempt(`${where}: blind fetch`, () => read(fetch(url, { mode: "no-cors", credentials: "include" }).then((answer) => answer.text().then((text) => text || Promise.reject()))));
    await attempt(`${where}: image`, () => loaded(make("img", { src: `${url}?image` })));
    await attempt(`${where}: script`, () => loaded(make("script", { src: `${url}?script` })));
    await attempt(`${where}: style`, () => loaded(make("link", { rel: "stylesheet", href: `${url}?style` })));
    await attempt(`${where}: frame`, () => framed(`${url}?frame`));
    await attempt(`${where}: object`, () => loaded(make("object", { data: `${url}?object` })));
    await attempt(`${where}: popup`, () => opened(`${url}?popup`));
    await attempt(`${where}: handle`, () => handle(`${url}?handle`));
    await attempt(`${where}: event source`, () => events(`${url}?events`));
    await attempt(`${where}: socket`, () => socket(url.replace("http", "ws")));
    await attempt(`${where}: beacon`, () => { navigator.sendBeacon(`${url}?beacon`, "x"); return "failed"; });
    await attempt(`${where}: form`, () => posted(`${url}?form`, `${where}-form`));
    await attempt(`${where}: worker`, () => worker(`${url}?worker`));
  }
  await attempt("api: schedule", () => read(fetch(`${api}/schedule`, json).then((answer) => answer.text())));
  await attempt("api: blind schedule", () => read(fetch(`${api}/schedule`, { ...json, mode: "no-cors" }).then((answer) => answer.text().then((text) => text || Promise.reject()))));
  await attempt("api: cancel", () => posted(`${api}/jobs/${victim}/cancel`, "cancel"));
  await attempt("api: terminal", () => socket(`${api.replace("http", "ws")}/jobs/${victim}/shell`));
  await attempt("api: program route", () => read(fetch(`${api}/jobs/${victim}/proxy/${location.port}/`).then((answer) => answer.text())));
  await attempt("console: storage in a frame", () => framed(`${api}/?frame`));
  await attempt("own api path", () => read(fetch("/jobs").then((answer) => answer.json())));
  await attempt("a wider worker", () => worker("/deep/worker.js"));
  await attempt("cookie for all", () => {
    document.cookie = "tossed=1; domain=localhost; path=/";
    document.cookie = "sandyard-pass=tossed; domain=localhost; path=/";
    return document.cookie.includes("tossed") ? "set" : "failed";
  });
  await attempt("our cookie", () => (document.cookie.includes("sandyard-pass") ? "read" : "failed"));
  await attempt("console: storage", () => (localStorage.getItem("console") ?? sessionStorage.getItem("sandyard-key") ? "read" : "failed"));
  return results;
}

run(async (context) => {
  const told = [];
  context.on("page", (page) => page.on("dialog", (dialog) => { told.push(dialog.message()); dialog.dismiss(); }));
  const console_ = await context.newPage();
  await console_.goto(`${base}/`);
  await console_.evaluate(() => { localStorage.setItem("console", "secret"); sessionStorage.setItem("sandyard-key", "secret"); });
  // The person is signed in at the victim: its own page works, with its own requests.
  const own = await context.newPage();
  await own.goto(`${base}/jobs/${victim}/ports/${port}`);
  await own.locator("#secret").waitFor();
  ensure((await own.evaluate(async () => (await fetch("/own")).status)) === 200, "the victim's own page does not work");
  await shell(victim, "> /tmp/hits");
  const jobs = JSON.parse(await api("/jobs")).jobs.length;
  const page = await context.newPage();
  await page.goto(`${base}/jobs/${attacker}/ports/${port}`);
  await page.locator("#secret").waitFor();
  const results = await page.evaluate(attack, { target: origin(victim), victim, api: base });
  const successes = Object.entries(results).filter(([, result]) => !result.startsWith("failed") && result !== "nothing");
  console.log(`${Object.keys(results).length} techniques`);
  ensure(successes.length === 0, `succeeded: ${JSON.stringify(successes)}`);
  const hits = (await shell(victim, "cat /tmp/hits")).stdout;
  ensure(hits === "", `reached the victim:\n${hits}`);
  ensure(JSON.parse(await api("/jobs")).jobs.length === jobs, "a job was made");
  ensure(JSON.parse(await api(`/status/${victim}`)).sandbox === "live", "the victim was ended");
  ensure(told.length === 0, `dialogs: ${told}`);
  // A link from elsewhere asks the person first, and goes on when they say so.
  await page.goto("data:text/html,<a id=link href='" + origin(victim) + "/?followed'>x</a>");
  await page.locator("#link").click();
  await page.getByRole("link", { name: "Open it" }).click();
  await page.locator("#secret").waitFor();
  await until("the followed link", async () => (await shell(victim, "cat /tmp/hits")).stdout.includes("/?followed"));
});
