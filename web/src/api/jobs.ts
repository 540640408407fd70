// What the console asks about one job.

import { ApiFailure, getJson, post, postJson, request } from "./client";
import type { JobView, ScheduleBody, ScheduleView, TicketView } from "./types";

export const schedule = (body: ScheduleBody): Promise<ScheduleView> => postJson("/schedule", body);
/** A poll that gets no answer gives up, so that the next one can find the server again. */
export const POLL_MS = 15_000;
export const readStatus = (id: string): Promise<JobView> => getJson(`/status/${id}`, AbortSignal.timeout(POLL_MS));
export const cancel = (id: string): Promise<JobView> => postJson(`/jobs/${id}/cancel`, {});
export const reply = (id: string, text: string): Promise<Response> => post(`/jobs/${id}/reply`, { text });
export const remove = (id: string): Promise<Response> => request(`/jobs/${id}`, { method: "DELETE" });
export const readRequest = (id: string): Promise<ScheduleBody> => getJson(`/jobs/${id}/request`);

/** A link that works once: for what can't send the key. */
export async function ticket(id: string, purpose: string): Promise<string> {
  return (await postJson<TicketView>(`/jobs/${id}/tickets`, { for: purpose })).url;
}

/** Opens a page of the sandbox in a tab of its own. The tab is made at once, while the click still allows it. */
export async function openPage(id: string, purpose: string): Promise<void> {
  const tab = window.open("about:blank");
  try {
    const url = await ticket(id, purpose);
    if (tab) tab.location.replace(url);
    else location.assign(url);
  } catch (error) {
    tab?.close();
    throw error;
  }
}

export async function download(id: string): Promise<void> {
  location.assign(await ticket(id, "download"));
}

export const isGone = (error: unknown): boolean => error instanceof ApiFailure && error.status === 404;

/** The words for a job in lists: its name, or its kind and the beginning of its id. */
export const titleOf = (job: Pick<JobView, "name" | "kind" | "job_id">): string =>
  job.name ?? `${job.kind} ${job.job_id.slice(0, 8)}`;
