// The page and the picture of an explanation, opened as a person does from the console: they are shown, run nothing, ask for
// nothing, and lead to the file in the console.
import { arguments_, base, ensure, run, until } from "./browser.mjs";

const [job, file] = arguments_;
const address = `${base}/jobs/${job}`;

run(async (context) => {
  const page = await context.newPage();
  const asked = [];
  const refused = [];
  page.on("request", (request) => asked.push(request.url()));
  page.on("console", (message) => message.type() === "error" && refused.push(message.text()));
  const answer = await page.goto(`${address}/explained`);
  const policy = answer.headers()["content-security-policy"];
  ensure(policy.startsWith("default-src 'none'") && !policy.includes("script-src"), policy);
  await page.locator("h1").waitFor();
  ensure(await page.locator("figure svg .node").count() > 1, "no picture is on the page");
  const box = await page.locator("figure svg").first().boundingBox();
  ensure(box.width > 100 && box.height > 60, `the picture is ${box.width} x ${box.height}`);
  ensure(await page.locator("script").count() === 0, "there is a script");
  ensure(!(await page.content()).includes("<b>bold</b>"), "markup of a file is on the page");
  // The styles work under the policy: without them the text has no limit of width.
  ensure(await page.evaluate(() => getComputedStyle(document.body).maxWidth) !== "none", "the styles are refused");
  ensure(refused.length === 0, refused.join("\n"));
  ensure(asked.every((url) => url === page.url() || url.endsWith("/favicon.ico")), asked.join("\n"));

  const link = page.locator(`a[href*="/console/jobs/${job}/files/${file}?line="]`).first();
  await link.click();
  await until("the console shows the file", async () => page.url().includes(`/files/${file}`));
  await page.locator(".code-line.marked").waitFor();

  const picture = await context.newPage();
  const drawn = await picture.goto(`${address}/diagram.svg`);
  ensure(drawn.headers()["content-security-policy"].includes("sandbox"), "the picture is no prisoner");
  ensure(await picture.locator(".node").count() > 1, "the picture is empty");
  ensure(await picture.locator("a").count() > 0, "the picture has no links");
});
