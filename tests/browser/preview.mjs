// A Vite development server on its own origin: the page comes up and changes without a reload when its source does.
import { arguments_, base, api, ensure, run } from "./browser.mjs";

const [job, port] = arguments_;

run(async (context) => {
  const page = await context.newPage();
  await page.goto(`${base}/jobs/${job}/ports/${port}`);
  // The first look may come before the server listens; that page looks again by itself.
  await page.locator("#word", { hasText: "before" }).waitFor();
  ensure(new URL(page.url()).hostname === `${port}-${job}.localhost`, page.url());
  await page.evaluate(() => { window.stays = true; });
  await api(`/jobs/${job}/files/word.js`, { method: "PUT", body: "export const word = 'after';\n" });
  await page.locator("#word", { hasText: "after" }).waitFor();
  ensure(await page.evaluate(() => window.stays === true), "the page was loaded anew");
});
