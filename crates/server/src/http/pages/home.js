import { element, key, request, setKey } from "/assets/page.js";

const at = (id) => document.getElementById(id);
let shown = null;

async function refresh() {
  const answer = await request("/jobs?limit=20");
  at("sign-in").hidden = answer.status !== 401;
  if (!answer.ok) return;
  const { jobs } = await answer.json();
  at("empty").hidden = jobs.length > 0;
  at("jobs").replaceChildren(...jobs.map(row));
  if (shown) await show(shown);
}

function row(job) {
  const name = element("a", { href: "#", textContent: job.name ?? job.job_id });
  name.addEventListener("click", (event) => {
    event.preventDefault();
    show(job.job_id);
  });
  const actions = element("td");
  if (job.sandbox === "live") {
    const lab = element("button", { type: "button", textContent: "JupyterLab" });
    lab.addEventListener("click", () => follow(job.job_id, "lab"));
    actions.append(lab);
  }
  if (job.download_url) {
    const download = element("button", { type: "button", textContent: "Download" });
    download.addEventListener("click", () => follow(job.job_id, "download"));
    actions.append(download);
  }
  return element("tr", {},
    element("td", {}, name),
    element("td", { textContent: job.kind }),
    element("td", { textContent: job.state }),
    element("td", { textContent: new Date(job.created_at).toLocaleString() }),
    actions);
}

// A link can't send the key, so it carries a ticket.
async function follow(id, purpose) {
  const answer = await request(`/jobs/${id}/tickets`, {
    method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ for: purpose }),
  });
  if (answer.ok) location.assign((await answer.json()).url);
}

async function show(id) {
  const answer = await request(`/status/${id}`);
  if (!answer.ok) return;
  const job = await answer.json();
  shown = id;
  at("job").hidden = false;
  at("job-title").textContent = `${job.name ?? job.job_id}: ${job.state}`;
  at("job-reason").textContent = job.error?.message ?? job.reason ?? "";
  at("job-output").textContent = job.stdout + (job.stderr ? `\n--- stderr ---\n${job.stderr}` : "");
}

async function run() {
  const answer = await request("/schedule", {
    method: "POST", headers: { "content-type": "application/json" },
    body: JSON.stringify({ kind: "shell", code: at("code").value }),
  });
  const body = await answer.json();
  if (!answer.ok) {
    at("notice").textContent = [body.error.message, body.error.hint].filter(Boolean).join(" · ");
    return;
  }
  at("notice").textContent = "";
  shown = body.job_id;
  await refresh();
  for (let tries = 0; tries < 120; tries += 1) {
    const status = await (await request(`/status/${body.job_id}?wait=10`)).json();
    await refresh();
    if (status.finished_at || status.error) return;
  }
}

at("use-key").addEventListener("click", () => { setKey(at("key").value); refresh(); });
at("run").addEventListener("click", run);
at("key").value = key();
refresh();
setInterval(() => { if (!document.hidden) refresh(); }, 3000);
