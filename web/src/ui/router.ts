// Addresses of the console: `/` is the yard, `/console/…` everything else. Filters are in the query, so links and reloads keep them.

import { Store } from "./store";

export interface Place {
  path: string;
  query: URLSearchParams;
}

const here = (): Place => ({ path: location.pathname, query: new URLSearchParams(location.search) });

export const place = new Store<Place>(here());

addEventListener("popstate", () => { place.value = here(); });

export function go(address: string): void {
  if (address === location.pathname + location.search) return;
  history.pushState(null, "", address);
  place.value = here();
  scrollTo(0, 0);
}

/** Changes members of the query without a new entry in the history; `null` removes one. */
export function setQuery(changes: Record<string, string | null>): void {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === "") query.delete(name);
    else query.set(name, value);
  }
  const text = query.toString();
  history.replaceState(null, "", location.pathname + (text ? `?${text}` : ""));
  place.value = here();
}

export const jobAddress = (id: string, room?: string): string => `/console/jobs/${id}${room ? `/${room}` : ""}`;

// A link within the console needs no new page, unless the person asks for another tab.
document.addEventListener("click", (event) => {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const link = (event.target as Element | null)?.closest?.("a");
  if (!link || link.target || link.hasAttribute("download") || link.origin !== location.origin) return;
  if (link.pathname !== "/" && !link.pathname.startsWith("/console/")) return;
  event.preventDefault();
  go(link.pathname + link.search);
});
