// Requests to the server with the tab's key, and refusals as errors that a page can show.

import type { ErrorBody } from "./types";

const KEY = "sandyard-key";

// A sign-in link carries the key in its fragment, which no server and no referrer sees.
const fromLink = new URLSearchParams(location.hash.slice(1)).get("key");
if (fromLink) {
  sessionStorage.setItem(KEY, fromLink);
  history.replaceState(null, "", location.pathname + location.search);
}

export const key = (): string => sessionStorage.getItem(KEY) ?? "";

export function setKey(value: string): void {
  if (value.trim()) sessionStorage.setItem(KEY, value.trim());
  else sessionStorage.removeItem(KEY);
}

/** A refusal of the server, or `status` 0 if it did not answer. */
export class ApiFailure extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly hint: string | null,
  ) {
    super(message);
  }
}

let onLocked: () => void = () => {};

/** Names the function that asks for a key when the server wants one. */
export function whenLocked(ask: () => void): void {
  onLocked = ask;
}

/** Sends a request. An answer that is no success is thrown as {@link ApiFailure}. */
export async function request(path: string, options: RequestInit = {}): Promise<Response> {
  const headers = new Headers(options.headers);
  if (key()) headers.set("authorization", `Bearer ${key()}`);
  let answer: Response;
  try {
    answer = await fetch(path, { ...options, headers });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new ApiFailure(0, "unreachable", "The server does not answer.", null);
  }
  if (answer.ok || answer.status === 304) return answer;
  if (answer.status === 401) onLocked();
  throw await failureOf(answer);
}

async function failureOf(answer: Response): Promise<ApiFailure> {
  try {
    const { error } = (await answer.json()) as ErrorBody;
    return new ApiFailure(answer.status, error.code, error.message, error.hint ?? null);
  } catch {
    return new ApiFailure(answer.status, "unknown", `The server answered ${answer.status}.`, null);
  }
}

export async function getJson<T>(path: string, signal?: AbortSignal): Promise<T> {
  return (await (await request(path, signal ? { signal } : {})).json()) as T;
}

export function post(path: string, body: unknown): Promise<Response> {
  return request(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
}

export async function postJson<T>(path: string, body: unknown): Promise<T> {
  return (await (await post(path, body)).json()) as T;
}

/** A file's path as a part of an address. */
export const encodePath = (path: string): string => path.split("/").map(encodeURIComponent).join("/");

export function messageOf(error: unknown): string {
  if (error instanceof ApiFailure) return [error.message, error.hint ?? ""].filter(Boolean).map(sentence).join(" ");
  return error instanceof Error ? error.message : String(error);
}

/** The server's words begin small and end without a full stop. */
const sentence = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?…:]$/.test(text) ? "" : ".");
