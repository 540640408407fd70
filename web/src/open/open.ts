// Shown where a link to a sandbox came without a good ticket: asks for one with the tab's key, and goes there.

import "./open.css";
import "../ui/theme";

import { ApiFailure, getJson, messageOf, postJson, setKey } from "../api/client";
import type { JobListView, ScheduleView, TicketView } from "../api/types";

function at<Kind extends HTMLElement = HTMLElement>(id: string): Kind {
  return document.getElementById(id) as Kind;
}

/** The newest session, or a new one, for the address that names no job. */
async function session(): Promise<string> {
  const [job] = (await getJson<JobListView>("/jobs?kind=session&status=running&limit=1")).jobs;
  return job?.job_id ?? (await postJson<ScheduleView>("/schedule", { kind: "session", name: "lab" })).job_id;
}

async function wanted(): Promise<{ id: string; purpose: string }> {
  const [, jobs, id = "", place = "", port] = location.pathname.split("/");
  if (jobs !== "jobs") return { id: await session(), purpose: "lab" };
  return { id, purpose: place === "ports" ? `port:${port}` : place };
}

async function open(): Promise<void> {
  try {
    const { id, purpose } = await wanted();
    location.replace((await postJson<TicketView>(`/jobs/${id}/tickets`, { for: purpose })).url);
  } catch (error) {
    const locked = error instanceof ApiFailure && error.status === 401;
    at("sign-in").hidden = !locked;
    at("title").textContent = locked ? "A key is needed" : "The sandbox can't be opened";
    at("notice").textContent = locked ? "" : messageOf(error);
    at("back").hidden = locked;
  }
}

at("sign-in").addEventListener("submit", (event) => {
  event.preventDefault();
  setKey(at<HTMLInputElement>("key").value);
  void open();
});
void open();
