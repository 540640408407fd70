// What a job used over time: processor, memory, network, and the budget of a task. The plots share one time.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import uPlot from "uplot";

import { getJson, messageOf } from "../api/client";
import type { UsageSeriesView } from "../api/types";
import { isTerminal } from "../api/types";
import type { RoomProps } from "../job/job-page";
import { bytes, count, duration, money } from "../ui/format";
import { Icon } from "../ui/icons";
import { useStore } from "../ui/store";
import { colours } from "../ui/theme";
import "./usage.css";

type Sample = UsageSeriesView["samples"][number];

const AGAIN_MS = 4000;
const HEIGHT_PX = 150;

interface Plot {
  title: string;
  colour: string;
  /** The figure of a sample; `before` is the sample before it. */
  value: (sample: Sample, before: Sample | null) => number;
  words: (value: number) => string;
  /** Unit steps of the axis are powers of two. */
  binary?: boolean;
  total: (samples: Sample[]) => string;
  tasksOnly?: boolean;
}

const seconds = (sample: Sample): number => Date.parse(sample.at) / 1000;

/** How much a total rose in a second between two samples. */
const rate = (name: "cpu_s" | "egress_bytes") => (sample: Sample, before: Sample | null): number => {
  if (!before) return 0;
  const passed = seconds(sample) - seconds(before);
  return passed > 0 ? Math.max(0, sample[name] - before[name]) / passed : 0;
};

const PLOTS: Plot[] = [
  { title: "Processors in use", colour: "--run", value: rate("cpu_s"), words: (value) => value.toFixed(value < 10 ? 2 : 1), total: (all) => `${duration((all.at(-1)?.cpu_s ?? 0) * 1000)} of processor time` },
  { title: "Memory", colour: "--accent", value: (sample) => sample.memory_bytes, words: bytes, binary: true, total: (all) => `at most ${bytes(Math.max(0, ...all.map((sample) => sample.memory_bytes)))}` },
  { title: "Network per second", colour: "--good", value: rate("egress_bytes"), words: bytes, binary: true, total: (all) => `${bytes(all.at(-1)?.egress_bytes ?? 0)} in all` },
  { title: "Tokens", colour: "--wait", value: (sample) => sample.tokens, words: count, total: (all) => `${count(all.at(-1)?.tokens ?? 0)} in all`, tasksOnly: true },
  { title: "Cost", colour: "--bad", value: (sample) => sample.usd, words: money, total: (all) => `${money(all.at(-1)?.usd ?? 0)} in all`, tasksOnly: true },
];

export function UsageRoom({ job }: RoomProps) {
  const [samples, setSamples] = useState<Sample[] | null>(null);
  const [failure, setFailure] = useState<string | null>(null);
  const running = useRef(true);
  running.current = !isTerminal(job.state);
  useEffect(() => {
    let timer = 0;
    let gone = false;
    const look = async () => {
      const more = running.current;
      try {
        const read = await getJson<UsageSeriesView>(`/jobs/${job.job_id}/usage`);
        if (gone) return;
        setSamples(read.samples);
        setFailure(null);
      } catch (error) {
        if (!gone) setFailure(messageOf(error));
      }
      if (!gone && more) timer = window.setTimeout(() => void look(), AGAIN_MS);
    };
    void look();
    return () => { gone = true; clearTimeout(timer); };
  }, [job.job_id]);
  if (failure && !samples) return <p class="banner banner-bad" role="alert"><Icon name="warn" />{failure}</p>;
  if (!samples) return <div class="skeleton-rows" role="status" aria-busy="true" aria-label="Loading"><i /><i /><i /></div>;
  if (samples.length < 2) return <div class="empty"><p>{running.current ? "Plots begin when the job has run for a few seconds." : "The job ended before there was anything to plot."}</p></div>;
  return (
    <div class="usage">
      {PLOTS.filter((plot) => !plot.tasksOnly || job.kind === "task").map((plot) => <PlotCard key={plot.title} plot={plot} samples={samples} />)}
    </div>
  );
}

function PlotCard({ plot, samples }: { plot: Plot; samples: Sample[] }) {
  const place = useRef<HTMLDivElement>(null);
  const drawn = useRef<uPlot | null>(null);
  useStore(colours);
  const data = useMemo<uPlot.AlignedData>(() => [samples.map(seconds), samples.map((sample, index) => plot.value(sample, samples[index - 1] ?? null))], [samples]);
  useEffect(() => {
    const element = place.current;
    if (!element) return;
    const made = new uPlot(optionsOf(plot, element.clientWidth), data, element);
    drawn.current = made;
    const observer = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height: HEIGHT_PX }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
      drawn.current = null;
    };
  }, [colours.value]);
  useEffect(() => drawn.current?.setData(data), [data]);
  const total = plot.total(samples);
  return (
    <figure class="card plot">
      <figcaption><h2>{plot.title}</h2><span class="faint">{total}</span></figcaption>
      <div ref={place} class="plot-place" role="img" aria-label={`${plot.title} over time: ${total}`} />
    </figure>
  );
}

function optionsOf(plot: Plot, width: number): uPlot.Options {
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string) => style.getPropertyValue(name).trim();
  const axis = { stroke: colour("--ink-3"), font: `11px ${colour("--sans")}`, grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
  const stroke = colour(plot.colour);
  return {
    width,
    height: HEIGHT_PX,
    padding: [8, 28, 0, 0],
    cursor: { y: false, sync: { key: "usage" } },
    legend: { live: true },
    scales: { y: { range: (_, __, most) => [0, most > 0 ? most * 1.1 : 1] } },
    axes: [
      { ...axis, values: "{HH}:{mm}:{ss}", space: 70, size: 30 },
      { ...axis, size: 66, space: 36, values: (_, ticks) => ticks.map(plot.words), ...(plot.binary ? { incrs: Array.from({ length: 40 }, (_, power) => 2 ** power) } : {}) },
    ],
    series: [
      { label: "Time", value: "{HH}:{mm}:{ss}" },
      { label: plot.title, stroke, width: 1.5, fill: `${stroke}24`, points: { show: false }, value: (_, value) => (value === null ? "–" : plot.words(value)) },
    ],
  };
}
