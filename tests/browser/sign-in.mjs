// A server with a key: `/lab` asks for it, makes a session, waits for it and opens its JupyterLab; the key stays behind.
import { arguments_, base, ensure, run } from "./browser.mjs";

const [key] = arguments_;

run(async (context) => {
  const page = await context.newPage();
  await page.goto(`${base}/lab`);
  await page.locator("#key").fill(key);
  await page.locator("#use-key").click();
  await page.waitForURL(/\.localhost:\d+\/lab($|[?/])/);
  await page.locator(".jp-Launcher").first().waitFor();
  const job = new URL(page.url()).hostname.split(".")[0].split("-")[1];
  const seen = await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie]));
  ensure(!seen.includes(key) && !seen.includes("sandyard-pass"), `the job's page sees ${seen}`);
  // The same link in another browser opens nothing.
  const stranger = await context.browser().newContext();
  const other = await stranger.newPage();
  const answer = await other.goto(page.url());
  ensure(answer.status() === 401, `a stranger got ${answer.status()}`);
  const bare = await other.goto(`${base}/jobs/${job}/lab`);
  ensure(bare.status() === 401, `a stranger got ${bare.status()}`);
});
