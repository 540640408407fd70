// The timeline of a job: live, virtual, in three densities.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";

import { messageOf } from "../api/client";
import { Icon } from "../ui/icons";
import { useShortcuts } from "../ui/keys";
import { place, setQuery } from "../ui/router";
import { useStore } from "../ui/store";
import { VirtualList } from "../ui/virtual-list";
import type { EventWindow } from "./event-window";
import { moment } from "./moment";
import { RowView } from "./row-view";
import type { Density, Row } from "./rows";
import { RowBuilder } from "./rows";

const DENSITIES: { density: Density; label: string; keys: string }[] = [
  { density: "summary", label: "Summary", keys: "1" },
  { density: "steps", label: "Steps", keys: "2" },
  { density: "events", label: "Every event", keys: "3" },
];

const guess = (row: Row): number => {
  if (row.kind === "output") return 40 + Math.min(14, row.text.split("\n", 20).length) * 20;
  if (row.kind === "model") return 60 + Math.min(20, row.text.length / 70) * 22;
  return row.kind === "event" ? 33 : row.kind === "picture" ? 190 : 41;
};

/** Rows of the window's events. Only new events are added, unless older ones came or the density changed. */
function useRows(window_: EventWindow, density: Density): Row[] {
  const kept = useRef<{ builder: RowBuilder; rebuilt: number; last: number } | null>(null);
  return useMemo(() => {
    let state = kept.current;
    if (!state || state.builder.density !== density || state.rebuilt !== window_.rebuilt) {
      state = { builder: new RowBuilder(density), rebuilt: window_.rebuilt, last: 0 };
      kept.current = state;
    }
    const { events } = window_;
    let from = events.length;
    while (from > 0 && (events[from - 1]?.id ?? 0) > state.last) from -= 1;
    for (const event of events.slice(from)) state.builder.add(event);
    state.last = events.at(-1)?.id ?? state.last;
    return state.builder.rows;
  }, [window_, window_.version, density]);
}

interface TimelineProps {
  window: EventWindow;
  version: number;
  onPath: (path: string) => void;
}

export function Timeline({ window: window_, version, onPath }: TimelineProps) {
  const { query } = useStore(place);
  const wanted = query.get("density");
  const density: Density = DENSITIES.find((known) => known.density === wanted)?.density ?? "steps";
  const replayed = useStore(moment);
  const marked = replayed ?? (Number(query.get("event")) || null);
  const rows = useRows(window_, density);
  const [open, setOpen] = useState<ReadonlySet<number>>(new Set());
  const [atEnd, setAtEnd] = useState(marked === null);
  const [zoomed, setZoomed] = useState<number | null>(null);
  const [jump, setJump] = useState(0);
  const show = (next: Density) => setQuery({ density: next === "steps" ? null : next });
  useShortcuts(DENSITIES.map(({ density: next, label, keys }) => ({ keys, does: `Timeline: ${label.toLowerCase()}`, run: () => show(next) })));
  useEffect(() => setAtEnd(marked === null), [density]);

  const toggle = (key: number) => setOpen((old) => {
    const next = new Set(old);
    if (!next.delete(key)) next.add(key);
    return next;
  });
  // The row of an event is the last one that begins at or before it.
  const target = marked ?? zoomed;
  const row = target === null ? null : (rows.findLast((candidate) => candidate.key <= target)?.key ?? null);
  return (
    <section class="timeline" aria-label="Timeline">
      <div class="timeline-head">
        <div class="segments" role="group" aria-label="Density">
          {DENSITIES.map(({ density: next, label }) => <button key={next} type="button" aria-pressed={density === next} onClick={() => show(next)}>{label}</button>)}
        </div>
        <span class="space" />
        <ConnectionWord window={window_} />
      </div>
      {window_.failure !== null && <p class="banner banner-bad" role="alert"><Icon name="warn" />{messageOf(window_.failure)}</p>}
      {rows.length === 0 && window_.failure === null && <div class="skeleton-rows" role="status" aria-busy="true" aria-label="Loading"><i /><i /><i /></div>}
      {rows.length > 0 && (
        <VirtualList
          key={`${density}-${jump}`} rows={rows} version={version} keyOf={(item) => item.key} guessHeight={guess} label="Events" role="list"
          follows={marked === null || jump > 0} target={jump > 0 ? null : row}
          onAtEnd={setAtEnd} onNearTop={() => void window_.earlier()} onNearEnd={() => void window_.later()}
          render={(item) => (
            <RowView
              row={item} job={window_.job} open={open.has(item.key)} marked={item.key === row && marked !== null} onToggle={() => toggle(item.key)} onPath={onPath}
              onZoom={(key) => { setZoomed(key); show("steps"); }}
            />
          )}
        />
      )}
      {!atEnd && rows.length > 0 && window_.reachesEnd && (
        <button type="button" class="to-end" onClick={() => { setQuery({ event: null }); setZoomed(null); setJump(jump + 1); setAtEnd(true); }}><Icon name="down" />Latest</button>
      )}
    </section>
  );
}

function ConnectionWord({ window: { connection, events } }: { window: EventWindow }) {
  const last = events.at(-1)?.id ?? 0;
  const words = { opening: "opening", live: "live", away: "reconnecting", ended: "complete" };
  return <span class={`connection connection-${connection}`} role="status" data-last={last}><i />{words[connection]}</span>;
}
