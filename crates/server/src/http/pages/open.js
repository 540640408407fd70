// Shown where a link to a sandbox came without a good ticket: asks for one with the tab's key, and goes there.
import { request, setKey } from "/assets/page.js";

const at = (id) => document.getElementById(id);
const post = (path, body) => request(path, {
  method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body),
});

// The newest session, or a new one, for the address that names no job.
async function session() {
  const listed = await request("/jobs?kind=session&status=running&limit=1");
  if (!listed.ok) return { answer: listed };
  const [job] = (await listed.json()).jobs;
  if (job) return { id: job.job_id };
  const made = await post("/schedule", { kind: "session", name: "lab" });
  return made.ok ? { id: (await made.json()).job_id } : { answer: made };
}

async function wanted() {
  const [, jobs, id, place, port] = location.pathname.split("/");
  if (jobs !== "jobs") return { ...(await session()), purpose: "lab" };
  return { id, purpose: place === "ports" ? `port:${port}` : place };
}

async function open() {
  const { id, purpose, answer: failed } = await wanted();
  const answer = failed ?? await post(`/jobs/${id}/tickets`, { for: purpose });
  if (answer.ok) return location.replace((await answer.json()).url);
  at("sign-in").hidden = answer.status !== 401;
  const { error } = await answer.json();
  at("notice").textContent = answer.status === 401 ? "" : error.message;
}

at("use-key").addEventListener("click", () => {
  setKey(at("key").value);
  open();
});
open();
