// What bench/console.py looks at: the console on one long job, in Debian's Chromium. Arguments: address, job, events, runs.
import { createRequire } from "node:module";

const require = createRequire(`${process.env.SANDYARD_BROWSER_MODULES}/`);
const { chromium } = require("playwright-core");
const [base, job, events, runs] = process.argv.slice(2);

const median = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];

// Notes the moment when a row that fits is in the document, and every task that blocks the page.
const watch = (wanted) => {
  window.blocked = [];
  new PerformanceObserver((list) => { for (const entry of list.getEntries()) window.blocked.push(entry.duration); }).observe({ type: "longtask", buffered: true });
  const look = () => {
    const found = [...document.querySelectorAll(".row-time")].some((time) => time.getAttribute("href") === `?event=${wanted}`);
    if (found) window.shown = performance.now();
    else requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
};

async function open(browser, address, wanted) {
  const context = await browser.newContext({ viewport: { width: 1360, height: 860 } });
  const page = await context.newPage();
  // Scripts and styles are in the browser's cache, as they are for a person who was here before.
  await page.goto(`${base}/`);
  await page.locator(".job-row").first().waitFor();
  await page.addInitScript(watch, wanted);
  await page.goto(`${base}${address}`);
  await page.waitForFunction(() => window.shown !== undefined);
  await page.waitForTimeout(500);
  const seen = await page.evaluate(() => ({ shown: window.shown, blocked: Math.max(0, ...window.blocked), rows: document.querySelectorAll(".virtual-row").length }));
  const session = await context.newCDPSession(page);
  await session.send("HeapProfiler.collectGarbage");
  const { usedSize } = await session.send("Runtime.getHeapUsage");
  await context.close();
  return { ...seen, heap: usedSize / 2 ** 20 };
}

const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] });
const places = [
  ["opens at its end", `/console/jobs/${job}`, events],
  ["every event, at its end", `/console/jobs/${job}?density=events`, events],
  ["a linked event in the middle", `/console/jobs/${job}?density=events&event=${Math.floor(events / 2)}`, Math.floor(events / 2)],
];
console.log(`${events} events, ${runs} runs, medians\n`);
console.log("| what | shown, ms | longest block, ms | rows in the document | heap, MiB |\n|---|---|---|---|---|");
for (const [what, address, wanted] of places) {
  const all = [];
  for (let run = 0; run < Number(runs); run += 1) all.push(await open(browser, address, wanted));
  const of = (name) => median(all.map((one) => one[name]));
  console.log(`| ${what} | ${of("shown").toFixed(0)} | ${of("blocked").toFixed(0)} | ${Math.max(...all.map((one) => one.rows))} | ${of("heap").toFixed(1)} |`);
}
await browser.close();
