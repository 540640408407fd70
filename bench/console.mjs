// What bench/console.py looks at: the console in Debian's Chromium, on long jobs, a long list, a long diff, a replay, and at rest.
// Argument: what there is to look at, as JSON.
import { createRequire } from "node:module";

const require = createRequire(`${process.env.SANDYARD_BROWSER_MODULES}/`);
const { chromium } = require("playwright-core");
const { base, job, jobs, events, diff, runs, peer } = JSON.parse(process.argv[2]);

const median = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];

// Notes the moment when something is in the document, and every task that blocks the page.
const watch = (wanted) => {
  window.blocked = [];
  new PerformanceObserver((list) => { for (const entry of list.getEntries()) window.blocked.push(entry.duration); }).observe({ type: "longtask", buffered: true });
  const look = () => {
    if (document.querySelector(wanted)) window.shown = performance.now();
    else requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
};

// A page at an address until `wanted` is in the document; scripts and styles are in the cache, as for a person who was here before.
async function open(browser, address, wanted, work = async () => {}) {
  const context = await browser.newContext({ viewport: { width: 1360, height: 860 } });
  const page = await context.newPage();
  await page.goto(`${base}/`);
  await page.locator(".job-row").first().waitFor();
  await page.addInitScript(watch, wanted);
  await page.goto(`${base}${address}`);
  await page.waitForFunction(() => window.shown !== undefined);
  await page.waitForTimeout(500);
  const session = await context.newCDPSession(page);
  const worked = await work(page, session);
  const seen = await page.evaluate(() => ({ shown: window.shown, blocked: Math.max(0, ...window.blocked), rows: document.querySelectorAll(".virtual-row").length }));
  await session.send("HeapProfiler.collectGarbage");
  const { usedSize } = await session.send("Runtime.getHeapUsage");
  await context.close();
  return { ...seen, ...worked, heap: usedSize / 2 ** 20 };
}

async function medians(browser, ...place) {
  const all = [];
  for (let run = 0; run < runs; run += 1) all.push(await open(browser, ...place));
  const of = (name) => median(all.map((one) => one[name]));
  return { of, rows: Math.max(...all.map((one) => one.rows)) };
}

const row = (number) => `.row-time[href="?event=${number}"]`;

async function pages(browser) {
  const places = [
    [`${events} events: opens at its end`, `/console/jobs/${job}`, row(events)],
    [`${events} events: every event, at its end`, `/console/jobs/${job}?density=events`, row(events)],
    [`${events} events: a linked event in the middle`, `/console/jobs/${job}?density=events&event=${Math.floor(events / 2)}`, row(Math.floor(events / 2))],
    ["the list of all jobs", "/", ".job-row"],
    ["the list of all jobs, searched", `/?q=number-${Math.floor(jobs * 0.8)}`, ".job-row"],
    ["a diff of 100,000 lines", `/console/jobs/${diff}/changes`, ".diff-line"],
  ];
  console.log("| what | shown, ms | longest block, ms | rows in the document | heap, MiB |\n|---|---|---|---|---|");
  for (const [what, ...place] of places) {
    const { of, rows } = await medians(browser, ...place);
    console.log(`| ${what} | ${of("shown").toFixed(0)} | ${of("blocked").toFixed(0)} | ${rows} | ${of("heap").toFixed(1)} |`);
  }
}

// Frames that the page draws while a pointer goes over the scrubber for three seconds, from the first to the last moment and back.
async function scrub(page) {
  await page.locator(".replay[data-complete=true]").waitFor();
  const box = await page.locator(".track").boundingBox();
  const at = (part) => [box.x + box.width * part, box.y + box.height / 2];
  await page.mouse.move(...at(0));
  await page.mouse.down();
  await page.evaluate(() => {
    window.blocked = [];
    window.drawn = 0;
    window.since = performance.now();
    const count = () => { window.drawn += 1; window.turn = requestAnimationFrame(count); };
    count();
  });
  const from = Date.now();
  while (Date.now() - from < 3000) await page.mouse.move(...at(Math.abs(1 - ((Date.now() - from) % 3000) / 1500)));
  const rate = await page.evaluate(() => (window.drawn / (performance.now() - window.since)) * 1000);
  await page.mouse.up();
  return { rate };
}

// Processor time of the page while nobody does anything, as a part of one processor.
async function rest(page, session) {
  await page.waitForTimeout(3000);
  await session.send("Performance.enable");
  const time = async () => (await session.send("Performance.getMetrics")).metrics.find(({ name }) => name === "TaskDuration").value;
  const before = await time();
  await page.waitForTimeout(10_000);
  return { busy: ((await time()) - before) * 10 };
}

// The first page of another console, with an empty cache, beside ours.
async function firstLoad(browser, address) {
  const context = await browser.newContext({ viewport: { width: 1360, height: 860 } });
  const page = await context.newPage();
  const session = await context.newCDPSession(page);
  await session.send("Network.enable");
  let bytes = 0;
  session.on("Network.loadingFinished", ({ encodedDataLength }) => { bytes += encodedDataLength; });
  await page.addInitScript(watch, "button, a, textarea");
  await page.goto(address, { waitUntil: "load" });
  await page.waitForFunction(() => window.shown !== undefined);
  await page.waitForTimeout(3000);
  const seen = await page.evaluate(() => ({ shown: window.shown, blocked: Math.max(0, ...window.blocked), nodes: document.querySelectorAll("*").length }));
  await session.send("HeapProfiler.collectGarbage");
  const { usedSize } = await session.send("Runtime.getHeapUsage");
  await context.close();
  return { ...seen, kib: bytes / 1024, heap: usedSize / 2 ** 20 };
}

async function beside(browser) {
  console.log("\n| first page, empty cache | shown, ms | received, KiB | longest block, ms | elements | heap, MiB |\n|---|---|---|---|---|---|");
  for (const [what, address] of [["Sandyard", `${base}/`], ...(peer ? [["OpenHands agent-canvas", peer]] : [])]) {
    const all = [];
    for (let run = 0; run < runs; run += 1) all.push(await firstLoad(browser, address));
    const of = (name) => median(all.map((one) => one[name])).toFixed(0);
    console.log(`| ${what} | ${of("shown")} | ${of("kib")} | ${of("blocked")} | ${of("nodes")} | ${of("heap")} |`);
  }
}

const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] });
console.log(`medians of ${runs}\n`);
await pages(browser);
const replay = await medians(browser, `/console/jobs/${job}/replay`, ".track", scrub);
console.log(`\nreplay of 20,000 events, scrubbed for 3 s: ${replay.of("rate").toFixed(0)} frames/s, longest block ${replay.of("blocked").toFixed(0)} ms, heap ${replay.of("heap").toFixed(1)} MiB`);
for (const [what, ...place] of [["the list", "/", ".job-row"], ["an ended job", `/console/jobs/${job}`, row(events)]]) {
  const { busy } = await open(browser, ...place, rest);
  console.log(`at rest, ${what}: ${busy.toFixed(2)} % of a processor`);
}
await beside(browser);
await browser.close();
