// What Swagger UI's markup keeps from people who use a keyboard or a screen reader, mended where it appears.

/** What is wrong, and how it is made right. Each is done once for an element: the viewer leaves what it did not set. */
const MENDS: [selector: string, mend: (element: Element) => void][] = [
  // What is outside of the viewer's main landmark is in one of its own.
  [".information-container:not([role])", landmark("About the API")],
  ["section.models:not([role])", landmark("Schemas")],
  // Headings go down without a gap.
  [".opblock-tag:not([aria-level])", heading(2)],
  ["section.models h4:not([aria-level])", heading(2)],
  [".opblock-body h4:not([aria-level])", heading(3)],
  [".opblock-body h5:not([aria-level])", heading(4)],
  // A link within a button, which does the same.
  [".opblock-summary-control a[href]", (element) => element.removeAttribute("href")],
  // Examples scroll, so a keyboard must reach them.
  ["pre.microlight:not([tabindex])", (element) => element.setAttribute("tabindex", "0")],
];

function landmark(label: string): (element: Element) => void {
  return (element) => { element.setAttribute("role", "region"); element.setAttribute("aria-label", label); };
}

function heading(level: number): (element: Element) => void {
  return (element) => { element.setAttribute("role", "heading"); element.setAttribute("aria-level", String(level)); };
}

export function mendMarkup(place: HTMLElement): void {
  const mend = () => { for (const [selector, change] of MENDS) place.querySelectorAll(selector).forEach(change); };
  new MutationObserver(mend).observe(place, { childList: true, subtree: true });
}
