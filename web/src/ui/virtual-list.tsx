// A list that keeps only the rows in view in the document, whatever their heights. Heights are guessed, then measured.
// It follows its end while it is there, and otherwise keeps the row in view where it is, also when rows come in before it.

import type { ComponentChildren } from "preact";
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";

/** Rows are kept this far beyond what is in view, so that scrolling shows no gap. */
const MARGIN_PX = 500;
/** A scroll so long after a wheel, a key or a finger is theirs. */
const INPUT_MS = 1000;
/** Nearer to the end than this counts as being there. */
const END_PX = 40;

export interface VirtualListProps<Row> {
  rows: readonly Row[];
  /** Changes whenever rows were added or changed within. */
  version: number;
  keyOf: (row: Row) => string | number;
  guessHeight: (row: Row) => number;
  render: (row: Row, index: number) => ComponentChildren;
  label: string;
  role?: "log" | "list" | "rowgroup";
  /** Begins at the end and stays there while rows come. */
  follows?: boolean;
  /** Moves to this row whenever the value changes. */
  target?: string | number | null;
  onNearTop?: () => void;
  onNearEnd?: () => void;
  onAtEnd?: (atEnd: boolean) => void;
}

export function VirtualList<Row>(props: VirtualListProps<Row>) {
  const { rows, keyOf, guessHeight, follows = false } = props;
  const scroller = useRef<HTMLDivElement>(null);
  const heights = useRef(new Map<string | number, number>());
  const anchor = useRef<{ key: string | number; index: number; delta: number } | null>(null);
  const atEnd = useRef(follows);
  const lastInput = useRef(-INPUT_MS);
  const [view, setView] = useState({ top: 0, height: 800 });
  const [measures, turn] = useState(0);

  // Only when rows or heights change: a list of a hundred thousand rows must scroll as well as a short one.
  const offsets = useMemo(() => {
    const made = new Float64Array(rows.length + 1);
    // Few rows were ever measured, and they are near each other: once all were found no more are looked up.
    let left = heights.current.size;
    rows.forEach((row, index) => {
      const measured = left > 0 ? heights.current.get(keyOf(row)) : undefined;
      if (measured !== undefined) left -= 1;
      made[index + 1] = (made[index] ?? 0) + (measured ?? guessHeight(row));
    });
    return made;
  }, [rows, rows.length, props.version, measures]);
  const total = offsets[rows.length] ?? 0;
  const latest = useRef(offsets);
  latest.current = offsets;

  const top = atEnd.current ? Math.max(0, total - view.height) : view.top;
  const first = Math.max(0, indexAt(offsets, top - MARGIN_PX));
  const last = Math.min(rows.length, indexAt(offsets, top + view.height + MARGIN_PX) + 1);

  const look = useCallback(() => {
    const element = scroller.current;
    if (!element) return;
    const { scrollTop, clientHeight, scrollHeight } = element;
    // Rows that are measured move the end to and fro; only a person leaves it.
    const byPerson = performance.now() - lastInput.current < INPUT_MS;
    const nowAtEnd = scrollTop + clientHeight >= scrollHeight - END_PX || (follows && atEnd.current && !byPerson);
    if (nowAtEnd !== atEnd.current) {
      atEnd.current = nowAtEnd;
      props.onAtEnd?.(nowAtEnd);
    }
    const index = indexAt(latest.current, scrollTop);
    const row = rows[index];
    anchor.current = row === undefined ? null : { key: keyOf(row), index, delta: scrollTop - (latest.current[index] ?? 0) };
    setView({ top: scrollTop, height: clientHeight });
    if (scrollTop < 1200) props.onNearTop?.();
    if (scrollTop + clientHeight > scrollHeight - 1200) props.onNearEnd?.();
  }, [rows, props.version, props.onNearTop, props.onNearEnd]);

  // After each change of rows or heights: stay at the end, or keep the anchor where it was.
  useLayoutEffect(() => {
    const element = scroller.current;
    if (!element) return;
    if (follows && atEnd.current) {
      if (element.scrollTop + element.clientHeight < element.scrollHeight - 1) element.scrollTop = element.scrollHeight;
      return;
    }
    const held = anchor.current;
    const index = held ? place(rows, keyOf, held.key, held.index) : -1;
    if (held && index >= 0) {
      held.index = index;
      const wanted = (offsets[index] ?? 0) + held.delta;
      if (Math.abs(element.scrollTop - wanted) > 1) element.scrollTop = wanted;
    }
  });

  useEffect(() => {
    const element = scroller.current;
    if (!element) return;
    const observer = new ResizeObserver(look);
    observer.observe(element);
    return () => observer.disconnect();
  }, [look]);

  const measured = useRef<ResizeObserver | null>(null);
  measured.current ??= new ResizeObserver((entries) => {
    let changed = false;
    for (const entry of entries) {
      const element = entry.target as HTMLElement;
      const key = keyFrom(element.dataset["key"] ?? "");
      const height = element.offsetHeight;
      if (!element.isConnected || height === 0 || heights.current.get(key) === height) continue;
      heights.current.set(key, height);
      changed = true;
    }
    if (changed) turn((count) => count + 1);
  });
  useEffect(() => () => measured.current?.disconnect(), []);

  useEffect(() => {
    const { target } = props;
    const index = target === null || target === undefined ? -1 : place(rows, keyOf, target, 0);
    if (index < 0 || !scroller.current) return;
    atEnd.current = false;
    const wanted = Math.max(0, (offsets[index] ?? 0) - scroller.current.clientHeight / 3);
    anchor.current = { key: target as string | number, index, delta: -scroller.current.clientHeight / 3 };
    scroller.current.scrollTop = wanted;
  }, [props.target, rows.length > 0]);

  const noteInput = () => { lastInput.current = performance.now(); };
  const shown = rows.slice(first, last);
  return (
    <div ref={scroller} class="virtual" role={props.role ?? "list"} aria-label={props.label} tabIndex={0} onScroll={look} onWheel={noteInput} onTouchMove={noteInput} onKeyDown={noteInput} onPointerDown={noteInput}>
      <div class="virtual-space" style={{ height: `${total}px` }}>
        <div class="virtual-rows" style={{ transform: `translateY(${offsets[first] ?? 0}px)` }}>
          {shown.map((row, index) => (
            <Measured key={keyOf(row)} id={keyOf(row)} observer={measured.current}>
              {props.render(row, first + index)}
            </Measured>
          ))}
        </div>
      </div>
    </div>
  );
}

interface MeasuredProps {
  id: string | number;
  observer: ResizeObserver | null;
  children: ComponentChildren;
}

function Measured({ id, observer, children }: MeasuredProps) {
  const element = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const watched = element.current;
    if (!watched || !observer) return;
    observer.observe(watched);
    return () => observer.unobserve(watched);
  }, [observer]);
  return <div ref={element} class="virtual-row" data-key={typeof id === "number" ? `#${id}` : id}>{children}</div>;
}

const keyFrom = (text: string): string | number => (text.startsWith("#") ? Number(text.slice(1)) : text);

/** Where the row with a key is now; -1 if it is gone. It is mostly where it was. */
function place<Row>(rows: readonly Row[], keyOf: (row: Row) => string | number, key: string | number, was: number): number {
  const there = rows[was];
  if (there !== undefined && keyOf(there) === key) return was;
  return rows.findIndex((row) => keyOf(row) === key);
}

/** The row at a height: the last one that begins at or before it. */
function indexAt(offsets: Float64Array, height: number): number {
  let low = 0;
  let high = offsets.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if ((offsets[middle] ?? 0) <= height) low = middle;
    else high = middle - 1;
  }
  return Math.min(low, Math.max(0, offsets.length - 2));
}
