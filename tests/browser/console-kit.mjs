// What the scenarios of the console share: jobs by the API, pages that tell of every error and breach of policy, and the box.
import { api, base } from "./browser.mjs";

const json = { "content-type": "application/json" };

export const schedule = async (body, headers = {}) =>
  JSON.parse(await api("/schedule", { method: "POST", headers: { ...json, ...headers }, body: JSON.stringify(body) })).job_id;
export const status = async (job) => JSON.parse(await api(`/status/${job}`));
export const cancel = (job) => api(`/jobs/${job}/cancel`, { method: "POST", headers: json, body: "{}" });
export const address = (job, room = "") => `${base}/console/jobs/${job}${room && `/${room}`}`;

/** Errors of pages, breaches of their policy, requests to other origins, dialogs of the browser. None may happen. */
export const problems = [];

export async function open(context, url, options = {}) {
  const page = await context.newPage();
  page.on("pageerror", (error) => problems.push(error.message));
  page.on("console", (message) => { if (/Content.Security.Policy|Trusted/i.test(message.text())) problems.push(message.text()); });
  page.on("request", (request) => { if (!/^(blob|data):/.test(request.url()) && new URL(request.url()).origin !== new URL(options.origin ?? base).origin) problems.push(`a request to ${request.url()}`); });
  page.on("dialog", (dialog) => { problems.push(`a dialog: ${dialog.message()}`); dialog.dismiss(); });
  await page.goto(url);
  return page;
}

export const badge = (page, state) => page.locator(`.job-head [data-state=${state}]`);
export const jobOf = (page) => /\/console\/jobs\/([a-z0-9]+)/.exec(page.url())[1];
export const chooseKind = (page, kind) => page.locator(".kind", { hasText: new RegExp(`^${kind}$`) }).click();

/** Presses the button of the box, and returns the job's id once its page is there. */
export async function submit(page) {
  await page.locator(".composer button[type=submit]").click();
  await page.waitForURL(/\/console\/jobs\//);
  return jobOf(page);
}

/** Starts something from the box. */
export async function start(page, kind, text) {
  await page.goto(`${base}/`);
  await chooseKind(page, kind);
  if (text) await page.locator("#composer").fill(text);
  return submit(page);
}
