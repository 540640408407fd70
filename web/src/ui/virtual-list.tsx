// A list that keeps only the rows in view in the document, whatever their heights. Heights are guessed, then measured.
// It follows its end while it is there, and otherwise keeps the row in view where it is, also when rows come in before it.

import type { ComponentChildren } from "preact";
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";

import type { RowTops } from "./heights";
import { RowOffsets, topsOf } from "./heights";

/** Rows are kept this far beyond what is in view, so that scrolling shows no gap. */
const MARGIN_PX = 500;
/** A scroll so long after a wheel, a key or a finger is theirs. */
const INPUT_MS = 1000;
/** Height of the list until it is measured. */
const GUESSED_VIEW_PX = 800;
/** Nearer to the end than this counts as being there. */
const END_PX = 40;

export interface VirtualListProps<Row> {
  rows: readonly Row[];
  /** Changes whenever rows were added or changed within. */
  version: number;
  keyOf: (row: Row) => string | number;
  guessHeight: (row: Row) => number;
  /** The guesses added up, if who made the rows has done so: adding up many takes too long for one task. */
  tops?: RowTops;
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

/** A height that was measured, and where its row was then. */
interface MeasuredHeight {
  height: number;
  index: number;
}

type RowKey = string | number;

/** Offsets of the rows as they are now. Rows are looked up by key again only when they have moved. */
function useOffsets<Row>(props: VirtualListProps<Row>, heights: Map<RowKey, MeasuredHeight>, measures: number): RowOffsets {
  const { rows, keyOf, guessHeight, version, tops } = props;
  const guessed = useMemo(() => tops ?? topsOf(rows, guessHeight), [rows, rows.length, version, tops]);
  useMemo(() => {
    // Few rows were ever measured, and they are near each other: once all were found no more are looked up.
    let left = 0;
    for (const [key, measured] of heights) {
      const row = rows[measured.index];
      if (row !== undefined && keyOf(row) === key) continue;
      measured.index = -1;
      left += 1;
    }
    for (let index = 0; index < rows.length && left > 0; index += 1) {
      const measured = heights.get(keyOf(rows[index] as Row));
      if (measured?.index !== -1) continue;
      measured.index = index;
      left -= 1;
    }
  }, [rows, rows.length, version]);
  return useMemo(() => new RowOffsets(guessed, inPlace(heights)), [guessed, measures]);
}

function* inPlace(heights: Map<RowKey, MeasuredHeight>): Generator<[number, number]> {
  for (const { index, height } of heights.values()) if (index >= 0) yield [index, height];
}

export function VirtualList<Row>(props: VirtualListProps<Row>) {
  const { rows, keyOf, follows = false } = props;
  const scroller = useRef<HTMLDivElement>(null);
  const heights = useRef(new Map<RowKey, MeasuredHeight>());
  const anchor = useRef<{ key: RowKey; index: number; delta: number } | null>(null);
  const targeted = props.target !== null && props.target !== undefined;
  const atEnd = useRef(follows && !targeted);
  const lastInput = useRef(-INPUT_MS);
  const [measures, turn] = useState(0);

  const offsets = useOffsets(props, heights.current, measures);
  const { total } = offsets;
  // The first render is already about where it will be, so that no rows are made for nothing.
  const [view, setView] = useState(() => {
    const index = targeted ? place(rows, keyOf, props.target as RowKey, 0) : 0;
    return { top: Math.max(0, offsets.top(Math.max(0, index)) - GUESSED_VIEW_PX / 3), height: GUESSED_VIEW_PX };
  });
  const latest = useRef(offsets);
  latest.current = offsets;

  const top = atEnd.current ? Math.max(0, total - view.height) : view.top;
  const first = offsets.indexAt(top - MARGIN_PX);
  const last = Math.min(rows.length, offsets.indexAt(top + view.height + MARGIN_PX) + 1);

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
    const index = latest.current.indexAt(scrollTop);
    const row = rows[index];
    anchor.current = row === undefined ? null : { key: keyOf(row), index, delta: scrollTop - latest.current.top(index) };
    setView((old) => (old.top === scrollTop && old.height === clientHeight ? old : { top: scrollTop, height: clientHeight }));
    if (scrollTop < 1200) props.onNearTop?.();
    if (scrollTop + clientHeight > scrollHeight - 1200) props.onNearEnd?.();
  }, [rows, props.version, props.onNearTop, props.onNearEnd]);

  // Before the next effect, which keeps the row in view: in one layout, so that the row is there when the list is first painted.
  useLayoutEffect(() => {
    const { target } = props;
    const element = scroller.current;
    const index = target === null || target === undefined ? -1 : place(rows, keyOf, target, 0);
    if (index < 0 || !element) return;
    const part = element.clientHeight / 3;
    const wanted = Math.max(0, offsets.top(index) - part);
    atEnd.current = false;
    anchor.current = { key: target as RowKey, index, delta: -part };
    element.scrollTop = wanted;
    setView({ top: wanted, height: element.clientHeight });
  }, [props.target, rows.length > 0]);

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
      const wanted = offsets.top(index) + held.delta;
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
      if (!element.isConnected || height === 0 || heights.current.get(key)?.height === height) continue;
      heights.current.set(key, { height, index: Number(element.dataset["index"]) });
      changed = true;
    }
    if (changed) turn((count) => count + 1);
  });
  useEffect(() => () => measured.current?.disconnect(), []);

  const noteInput = () => { lastInput.current = performance.now(); };
  const shown = rows.slice(first, last);
  return (
    <div ref={scroller} class="virtual" role={props.role ?? "list"} aria-label={props.label} tabIndex={0} onScroll={look} onWheel={noteInput} onTouchMove={noteInput} onKeyDown={noteInput} onPointerDown={noteInput}>
      <div class="virtual-space" style={{ height: `${total}px` }}>
        <div class="virtual-rows" style={{ transform: `translateY(${offsets.top(first)}px)` }}>
          {shown.map((row, index) => (
            <Measured key={keyOf(row)} id={keyOf(row)} index={first + index} observer={measured.current}>
              {props.render(row, first + index)}
            </Measured>
          ))}
        </div>
      </div>
    </div>
  );
}

interface MeasuredProps {
  id: RowKey;
  index: number;
  observer: ResizeObserver | null;
  children: ComponentChildren;
}

function Measured({ id, index, observer, children }: MeasuredProps) {
  const element = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const watched = element.current;
    if (!watched || !observer) return;
    observer.observe(watched);
    return () => observer.unobserve(watched);
  }, [observer]);
  return <div ref={element} class="virtual-row" data-key={typeof id === "number" ? `#${id}` : id} data-index={index}>{children}</div>;
}

const keyFrom = (text: string): RowKey => (text.startsWith("#") ? Number(text.slice(1)) : text);

/** Where the row with a key is now; -1 if it is gone. It is mostly where it was. */
function place<Row>(rows: readonly Row[], keyOf: (row: Row) => RowKey, key: RowKey, was: number): number {
  const there = rows[was];
  if (there !== undefined && keyOf(there) === key) return was;
  return rows.findIndex((row) => keyOf(row) === key);
}
