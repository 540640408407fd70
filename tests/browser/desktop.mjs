// The page of a desktop: live, changing after an xdotool script, controlled and given back, and over with a last picture.
import { arguments_, base, api, ensure, run, shell, until } from "./browser.mjs";

const [job] = arguments_;

const gui = (actions) =>
  fetch(`${base}/jobs/${job}/gui`, {
    method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ actions }),
  });

// All pixels of the canvas, as one number that changes with them.
const fingerprint = (page) =>
  page.evaluate(() => {
    const canvas = document.querySelector("#screen canvas");
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    let sum = canvas.width * 31 + canvas.height;
    for (let at = 0; at < data.length; at += 4) sum = (sum * 33 + data[at] + data[at + 1] * 7 + data[at + 2] * 13) >>> 0;
    return sum;
  });
const state = (page) => page.evaluate(() => document.documentElement.dataset.state);

run(async (context) => {
  const page = await context.newPage();
  const problems = [];
  page.on("pageerror", (error) => problems.push(error.message));
  page.on("console", (message) => { if (/Content.Security.Policy/i.test(message.text())) problems.push(message.text()); });
  await page.goto(`${base}/jobs/${job}/desktop/`);
  await until("live", async () => (await state(page)) === "live");
  const before = await fingerprint(page);
  const moved = await gui([{ type: "xdotool", script: "exec --sync xsetroot -solid '#aa3322'" }]);
  ensure(moved.ok && (await moved.json()).completed, "the script failed");
  await until("other pixels", async () => (await fingerprint(page)) !== before);

  // A viewer's keys go nowhere, a controller's arrive.
  await shell(job, "xterm -geometry 80x24+100+100 >/dev/null 2>&1 & disown; sleep 1");
  await page.locator("#screen canvas").click({ position: { x: 250, y: 250 } });
  await page.keyboard.type("touch by-viewer\n");
  await page.locator("#control").click();
  await until("control", async () => (await state(page)) === "control");
  ensure((await gui([{ type: "key", keys: "a" }])).status === 409, "the agent acted while a person had control");
  const other = await context.newPage();
  await other.goto(`${base}/jobs/${job}/desktop/?control=1`);
  await other.locator("#notice", { hasText: "controls the desktop" }).waitFor();
  await until("the other looks on", async () => (await state(other)) === "live");
  await other.close();
  await page.locator("#screen canvas").click({ position: { x: 250, y: 250 } });
  await page.waitForTimeout(500);
  await page.keyboard.type("touch by-person\n");
  await until("typed", async () => (await shell(job, "test -e by-person")).exit_code === 0);
  ensure((await shell(job, "test -e by-viewer")).exit_code === 1, "a viewer typed");
  await page.locator("#control").click();
  await until("given back", async () => (await gui([{ type: "move", x: 3, y: 3 }])).ok);

  // The page inside the machine, seen by the machine's own browser, would be the same code; here it is only asked for.
  ensure((await shell(job, "curl --noproxy '*' -sf http://127.0.0.1:6080/assets/desktop.js | wc -c")).stdout.trim() > 100000, "6080");
  await api(`/jobs/${job}/cancel`, { method: "POST", headers: { "content-type": "application/json" }, body: "{}" });
  await until("over", async () => (await state(page)) === "ended");
  await page.locator("#last").waitFor();
  ensure(await page.evaluate(() => document.getElementById("last").naturalWidth) === 1280, "no last picture");
  ensure(await page.locator("#download").isVisible(), "no download");
  ensure(problems.length === 0, problems.join("\n"));
});
