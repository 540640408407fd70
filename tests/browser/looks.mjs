// How a page looks, in light, in dark and on a phone: axe finds nothing, nothing scrolls sideways, and a list holds few rows.
// Pictures of all of them go to the folder that SANDYARD_SHOTS names, for people to look at.
import { mkdir, readFile } from "node:fs/promises";
import { createRequire } from "node:module";

const require = createRequire(`${process.env.SANDYARD_BROWSER_MODULES}/`);
const WIDE = { width: 1360, height: 860 };
const PHONE = { width: 390, height: 844 };
const MODES = [["light", WIDE, "light"], ["dark", WIDE, "dark"], ["phone", PHONE, "light"], ["phone-dark", PHONE, "dark"]];
const RULES = "{ runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] }";
const MOST_ROWS = 400;

/** What is wrong with the looks so far. */
export const found = [];

/** Looks at the page as it is now, in every mode. It is left wide and light. */
export async function looks(page, name) {
  const shots = process.env.SANDYARD_SHOTS;
  if (shots) await mkdir(shots, { recursive: true });
  const check = await checker(page);
  for (const [mode, size, colorScheme] of MODES) {
    await page.emulateMedia({ colorScheme });
    await page.setViewportSize(size);
    await settled(page);
    for (const violation of await check.run()) found.push(`${name}, ${mode}: ${JSON.stringify(violation)}`);
    const sideways = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    if (sideways > 0) found.push(`${name}, ${mode}: scrolls sideways by ${sideways}`);
    const rows = await page.locator(".virtual-row").count();
    if (rows > MOST_ROWS) found.push(`${name}, ${mode}: ${rows} rows in the document`);
    if (shots) await page.screenshot({ path: `${shots}/${name}-${mode}.png` });
  }
  await check.end();
  await page.emulateMedia({ colorScheme: "light" });
  await page.setViewportSize(WIDE);
}

/** Lets the page lay out what a change of size or colours has made, and measure it. */
const settled = (page) =>
  page.evaluate(async () => {
    await document.fonts.ready;
    for (let frame = 0; frame < 4; frame += 1) await new Promise((next) => requestAnimationFrame(next));
  });

/** Axe, in an isolated world: the page's own policy forbids foreign scripts. */
async function checker(page) {
  const axe = await readFile(require.resolve("axe-core/axe.min.js"), "utf8");
  const session = await page.context().newCDPSession(page);
  const { frameTree } = await session.send("Page.getFrameTree");
  const { executionContextId: contextId } = await session.send("Page.createIsolatedWorld", { frameId: frameTree.frame.id });
  await session.send("Runtime.evaluate", { expression: axe, contextId });
  const run = async () => {
    const words = "[one.id, one.nodes.slice(0, 3).map((node) => node.html.slice(0, 160) + ' ' + (node.any[0]?.message ?? ''))]";
    const expression = `axe.run(document, ${RULES}).then((all) => JSON.stringify(all.violations.map((one) => ${words})))`;
    const answer = await session.send("Runtime.evaluate", { expression, contextId, awaitPromise: true, returnByValue: true });
    return JSON.parse(answer.result.value ?? `[["axe failed", [${JSON.stringify(answer.exceptionDetails?.text ?? "")}]]]`);
  };
  return { run, end: () => session.detach() };
}
