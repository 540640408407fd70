// The scrubber: everything that happened along one line, and the moment on it.

import { useEffect, useRef } from "preact/hooks";

import { clock } from "../ui/format";
import { useStore } from "../ui/store";
import { colours } from "../ui/theme";
import type { Player } from "./player";
import type { Recording } from "./recording";

interface TrackProps {
  recording: Recording;
  version: number;
  player: Player;
  /** The person has chosen a moment. */
  onChosen: () => void;
}

/** How much one press of Page Up or Page Down moves: a part of the whole. */
const PAGE_PART = 0.1;

export function Track({ recording, version, player, onChosen }: TrackProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const track = useRef<HTMLDivElement>(null);
  const head = useRef<HTMLDivElement>(null);
  useStore(colours);

  useEffect(() => {
    const element = canvas.current;
    if (!element) return;
    const paint = () => draw(element, recording);
    paint();
    const observer = new ResizeObserver(paint);
    observer.observe(element);
    return () => observer.disconnect();
  }, [recording, version, colours.value]);

  // The head moves without a render: a moment may change with every frame of the display.
  useEffect(() => {
    const move = () => {
      const { begin, end } = recording;
      const part = end > begin ? (player.at.value - begin) / (end - begin) : 0;
      head.current?.style.setProperty("left", `${(part * 100).toFixed(3)}%`);
      const words = `${span(player.at.value - begin)} of ${span(end - begin)}`;
      track.current?.setAttribute("aria-valuenow", String(Math.round(part * 1000)));
      track.current?.setAttribute("aria-valuetext", words);
    };
    move();
    return player.at.watch(move);
  }, [recording, version, player]);

  const seek = (event: PointerEvent) => {
    const box = track.current?.getBoundingClientRect();
    if (!box || box.width === 0) return;
    const part = Math.max(0, Math.min(1, (event.clientX - box.left) / box.width));
    player.seek(recording.begin + part * (recording.end - recording.begin));
  };
  const press = (event: KeyboardEvent) => {
    const page = (recording.end - recording.begin) * PAGE_PART;
    const moves: Record<string, () => void> = {
      ArrowRight: () => player.seek(recording.step(player.at.value, 1)),
      ArrowLeft: () => player.seek(recording.step(player.at.value, -1)),
      PageUp: () => player.seek(player.at.value + page),
      PageDown: () => player.seek(player.at.value - page),
      Home: () => player.seek(recording.begin),
      End: () => player.seek(recording.end),
      " ": () => player.toggle(),
    };
    const move = moves[event.key];
    if (!move || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    move();
    onChosen();
  };
  return (
    <div
      ref={track} class="track takes-keys" role="slider" tabIndex={0} aria-label="Moment" aria-valuemin={0} aria-valuemax={1000} aria-valuenow={0}
      onPointerDown={(event) => { if (event.button !== 0) return; event.currentTarget.setPointerCapture(event.pointerId); player.pause(); seek(event); }}
      onPointerMove={(event) => { if (event.currentTarget.hasPointerCapture(event.pointerId)) seek(event); }}
      onPointerUp={(event) => { event.currentTarget.releasePointerCapture(event.pointerId); onChosen(); }}
      onKeyDown={press}
    >
      <canvas ref={canvas} aria-hidden="true" />
      <div ref={head} class="track-head" />
    </div>
  );
}

/** Height of the lane that shows where the desktop changed, in pixels. */
const FRAME_LANE_PX = 5;

/** Bars for how much happened when, failures in their colour, and a lane for changes of the desktop. */
function draw(element: HTMLCanvasElement, recording: Recording): void {
  const scale = devicePixelRatio || 1;
  const [width, height] = [Math.round(element.clientWidth * scale), Math.round(element.clientHeight * scale)];
  if (width === 0 || height === 0) return;
  [element.width, element.height] = [width, height];
  const context = element.getContext("2d");
  if (!context) return;
  const style = getComputedStyle(element);
  const colour = (name: string) => style.getPropertyValue(name).trim();
  const { begin, end } = recording;
  const bar = Math.max(2, Math.round(2 * scale));
  const columns = Math.ceil(width / (bar + 1));
  const place = (at: number) => Math.min(columns - 1, Math.floor(end > begin ? ((at - begin) / (end - begin)) * columns : 0));
  const counts = new Float64Array(columns);
  const tones = new Map<number, string>();
  for (const { at, tone } of recording.marks) {
    const column = place(at);
    counts[column] = (counts[column] ?? 0) + 1;
    if (tone === "bad" || (tone !== "quiet" && tones.get(column) !== "bad")) tones.set(column, tone);
  }
  const most = Math.max(1, ...counts);
  const lane = recording.frames.length > 0 ? FRAME_LANE_PX * scale : 0;
  counts.forEach((count, column) => {
    if (count === 0) return;
    const tall = Math.max(2 * scale, (Math.log1p(count) / Math.log1p(most)) * (height - lane - 2 * scale));
    context.fillStyle = colour(`--${tones.get(column) ?? "line-2"}`) || colour("--line-2");
    context.fillRect(column * (bar + 1), height - lane - tall, bar, tall);
  });
  context.fillStyle = colour("--run");
  for (const { at } of recording.frames) context.fillRect(place(at) * (bar + 1), height - lane + scale, bar, lane - scale);
}

/** A time from the beginning: 1:05.3. */
export function span(ms: number): string {
  const tenths = Math.max(0, Math.floor(ms / 100));
  const [minutes, rest] = [Math.floor(tenths / 600), tenths % 600];
  const seconds = `${String(Math.floor(rest / 10)).padStart(2, "0")}.${rest % 10}`;
  return minutes < 60 ? `${minutes}:${seconds}` : `${Math.floor(minutes / 60)}:${String(minutes % 60).padStart(2, "0")}:${seconds}`;
}

export const wallClock = (at: number): string => clock(new Date(at).toISOString());
