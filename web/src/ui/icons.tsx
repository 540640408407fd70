// Icons and the shapes of states. A state is told by shape, word and colour, never by colour alone.

import type { ComponentChildren } from "preact";

import type { JobState } from "../api/types";

const PATHS = {
  plus: "M8 3v10M3 8h10",
  search: "M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10zM11 11l3.5 3.5",
  close: "M4 4l8 8M12 4l-8 8",
  chevron: "M6 4l4 4-4 4",
  back: "M10 4L6 8l4 4",
  play: "M5 3l8 5-8 5z",
  pause: "M5.5 3.5v9M10.5 3.5v9",
  chart: "M2.5 13.5h11M4.5 11V8M8 11V4M11.5 11V6",
  down: "M4 6l4 4 4-4",
  file: "M4 2h5l3 3v9H4zM9 2v3h3",
  folder: "M2 4h4l1.5 2H14v7H2z",
  link: "M3 8.5V6a3 3 0 0 1 3-3h1M13 7.5V10a3 3 0 0 1-3 3H9M6 8h4",
  download: "M8 2v8M4.5 7L8 10.5 11.5 7M3 13.5h10",
  upload: "M8 11V3M4.5 6L8 2.5 11.5 6M3 13.5h10",
  terminal: "M2.5 3.5h11v9h-11zM5 6.5L7 8.5 5 10.5M8.5 10.5h2.5",
  screen: "M2 3h12v8H2zM6 14h4M8 11v3",
  diff: "M8 3v6M5 6h6M5 12.5h6",
  repeat: "M3 8a5 5 0 0 1 8.5-3.5L13 6M13 2.5V6H9.5M13 8a5 5 0 0 1-8.5 3.5L3 10M3 13.5V10h3.5",
  stop: "M4 4h8v8H4z",
  trash: "M3 4.5h10M6.5 4V2.5h3V4M4.5 4.5l.5 9h6l.5-9",
  more: "M3.5 8h.01M8 8h.01M12.5 8h.01",
  sun: "M8 11a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM8 1.5v1M8 13.5v1M1.5 8h1M13.5 8h1M3.4 3.4l.7.7M11.9 11.9l.7.7M12.6 3.4l-.7.7M4.1 11.9l-.7.7",
  moon: "M13 9.5A5.5 5.5 0 0 1 6.5 3a5.5 5.5 0 1 0 6.5 6.5z",
  key: "M10 9.5a3.5 3.5 0 1 0-3.2-2L2 12.3V14h2v-1.5h1.5V11H7l.8-.8",
  send: "M2.5 8L13.5 3 10 13.5 7.5 9z",
  globe: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12zM2 8h12M8 2c2 2 2.5 4 2.5 6S10 12 8 14c-2-2-2.5-4-2.5-6S6 4 8 2z",
  shield: "M8 2l5 2v4c0 3-2 5-5 6-3-1-5-3-5-6V4z",
  gear: "M3 5h6M12 5h1M3 11h1M7 11h6M10.5 3.5v3M5.5 9.5v3",
  book: "M3 3h4a1 1 0 0 1 1 1v9a1.5 1.5 0 0 0-1.5-1H3zM13 3H9a1 1 0 0 0-1 1v9a1.5 1.5 0 0 1 1.5-1H13z",
  spark: "M8 2l1.5 4.5L14 8 9.5 9.5 8 14 6.5 9.5 2 8l4.5-1.5z",
  image: "M2.5 3h11v10h-11zM5.5 7a1 1 0 1 0 0-2 1 1 0 0 0 0 2zM3 12l3.5-3.5L9 11l2-2 2.5 2.5",
  list: "M3 4h10M3 8h10M3 12h6",
  person: "M8 8a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5zM3.5 13.5a4.5 4.5 0 0 1 9 0",
  info: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12zM8 7.5V11M8 5h.01",
  warn: "M8 2.5L14.5 13.5h-13zM8 7v3M8 11.8h.01",
  check: "M3 8.5l3.5 3.5L13 4.5",
  code: "M5.5 4.5L2 8l3.5 3.5M10.5 4.5L14 8l-3.5 3.5",
  external: "M9 3h4v4M13 3L7.5 8.5M11 9.5V13H3V5h3.5",
  flask: "M6.5 2v4L3 13.5h10L9.5 6V2M5.5 2h5",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name, label }: { name: IconName; label?: string }) {
  return (
    <svg class="icon" viewBox="0 0 16 16" {...(label ? { role: "img", "aria-label": label } : { "aria-hidden": "true" })}>
      <path d={PATHS[name]} />
    </svg>
  );
}

export function Logo() {
  return (
    <svg class="logo" viewBox="0 0 32 32" aria-hidden="true">
      <rect width="32" height="32" rx="8" class="logo-ground" />
      <g fill="none" stroke-width="2.2" stroke-linecap="round" class="logo-lines">
        <path d="M5.5 22.5a10 10 0 0 1 17-7.1" opacity=".95" />
        <path d="M5.5 15.2A14.5 14.5 0 0 1 26.5 14" opacity=".6" />
        <path d="M8.5 8.6A17 17 0 0 1 25 8.4" opacity=".35" />
      </g>
      <circle cx="15.5" cy="22.5" r="4.3" class="logo-stone" />
    </svg>
  );
}

interface StateLook {
  word: string;
  tone: "quiet" | "run" | "wait" | "good" | "bad" | "off";
  shape: ComponentChildren;
}

const ring = <circle cx="8" cy="8" r="5.5" />;
const LOOKS: Record<JobState, StateLook> = {
  queued: { word: "Queued", tone: "quiet", shape: <g>{ring}<path d="M8 5.5V8l1.8 1.2" /></g> },
  starting: { word: "Starting", tone: "run", shape: <path d="M8 2.5a5.5 5.5 0 0 1 5.5 5.5" class="spin" /> },
  running: { word: "Running", tone: "run", shape: <g><circle cx="8" cy="8" r="5.5" opacity=".3" /><path d="M8 2.5A5.5 5.5 0 0 1 13.5 8" class="spin" /></g> },
  waiting: { word: "Asks you", tone: "wait", shape: <g><path d="M2.5 3h11v7.5h-6L4.5 13v-2.5h-2z" /><path d="M8 5v2.5M8 8.8h.01" /></g> },
  finishing: { word: "Finishing", tone: "run", shape: <g>{ring}<path d="M8 4.5V9M6 7.3L8 9.3l2-2" /></g> },
  succeeded: { word: "Succeeded", tone: "good", shape: <g>{ring}<path d="M5.5 8.2l1.8 1.8 3.2-3.8" /></g> },
  failed: { word: "Failed", tone: "bad", shape: <g><path d="M5.7 2.5h4.6l3.2 3.2v4.6l-3.2 3.2H5.7l-3.2-3.2V5.7z" /><path d="M6 6l4 4M10 6l-4 4" /></g> },
  cancelled: { word: "Cancelled", tone: "off", shape: <g>{ring}<path d="M4.2 11.8l7.6-7.6" /></g> },
  timed_out: { word: "Timed out", tone: "bad", shape: <g><path d="M4 2.5h8M4 13.5h8M5 2.5c0 3 3 4 3 5.5 0-1.5 3-2.5 3-5.5M5 13.5c0-3 3-4 3-5.5 0 1.5 3 2.5 3 5.5" /></g> },
};

export const stateWord = (state: JobState): string => LOOKS[state].word;
export const stateTone = (state: JobState): string => LOOKS[state].tone;

/** The shape of a state alone, at rest: for states that are past. */
export function StateShape({ state }: { state: JobState }) {
  return <svg class="icon still" viewBox="0 0 16 16" aria-hidden="true">{LOOKS[state].shape}</svg>;
}

export function StateBadge({ state, compact = false }: { state: JobState; compact?: boolean }) {
  const { word, tone, shape } = LOOKS[state];
  return (
    <span class={`state state-${tone}${compact ? " compact" : ""}`} data-state={state} title={compact ? word : undefined}>
      <svg class="icon" viewBox="0 0 16 16" aria-hidden="true">{shape}</svg>
      <span class="state-word">{word}</span>
    </span>
  );
}
