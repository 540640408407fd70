// The box on the first page: every option reaches the request, a folder is dropped, and a job is run again with what it had.
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { api, arguments_, base, ensure, until } from "./browser.mjs";
import { badge, chooseKind, jobOf, open, submit } from "./console-kit.mjs";
import { looks } from "./looks.mjs";

/** Drops a file or a folder of this machine on the box, as the desktop would. */
async function drop(page, path) {
  const box = await page.locator(".composer").boundingBox();
  const session = await page.context().newCDPSession(page);
  const event = { x: box.x + box.width / 2, y: box.y + box.height / 2, data: { items: [], files: [path], dragOperationsMask: 1 } };
  for (const type of ["dragEnter", "dragOver", "drop"]) await session.send("Input.dispatchDragEvent", { type, ...event });
  await session.detach();
}

async function dropFolder(page) {
  const folder = await mkdtemp(join(tmpdir(), "dropped-"));
  await mkdir(join(folder, "pond", "deep"), { recursive: true });
  await writeFile(join(folder, "pond", "fish.txt"), "three\n");
  await writeFile(join(folder, "pond", "deep", "stone.txt"), "round\n");
  // More than one page of a folder's entries.
  for (let at = 0; at < 120; at += 1) await writeFile(join(folder, "pond", `drop-${at}.txt`), `${at}`);
  try {
    await drop(page, join(folder, "pond"));
    await page.locator(".chip", { hasText: "and 112 more" }).waitFor();
  } finally {
    await rm(folder, { recursive: true });
  }
}

/** What a request without its files must say; `again` is one that was made by running the first again. */
function check(request, url, rule, again) {
  const expected = { kind: "shell", name: "All options", flavour: "base", isolation: "container", keep: true };
  for (const [name, value] of Object.entries(expected)) ensure(request[name] === value, `${name} is ${JSON.stringify(request[name])}${again}`);
  ensure(request.git.url === url && request.git.ref === "topic", `${JSON.stringify(request.git)}${again}`);
  ensure(request.egress.join() === rule, `${request.egress}${again}`);
  const limits = { memory_mib: 512, cpus: 1, disk_mib: 256, pids: 200, io_mib_s: 100, recording_mib: 0, timeout_s: 300, idle_timeout_s: 120 };
  for (const [name, value] of Object.entries(limits)) ensure(request.limits[name] === value, `${name} is ${request.limits[name]}${again}`);
}

export async function boxes(context) {
  const [url, rule] = arguments_.slice(1);
  const page = await open(context, `${base}/`);
  await chooseKind(page, "Shell");
  await page.locator("#composer").fill('cat src/a.txt given.txt; echo "$GREETING"; find pond -type f | wc -l; echo changed > broken.txt');
  await page.locator(".composer input[type=file]").setInputFiles([
    { name: "given.txt", mimeType: "text/plain", buffer: Buffer.from("given\n") },
    { name: "broken.txt", mimeType: "text/plain", buffer: Buffer.from("as it was\n") },
  ]);
  await dropFolder(page);
  await page.getByRole("button", { name: "Options" }).click();
  await page.getByText("Variables and further limits").click();
  await page.getByLabel("Network").selectOption("own");
  await page.getByLabel("Isolation").selectOption("container");
  await page.getByLabel("Image").selectOption("base");
  await page.getByLabel("Keep the machine").check();
  await page.getByLabel("Repository").fill(url);
  const fields = {
    "Name": "All options", Hosts: rule, "Branch, tag or commit": "topic", "Variables, one in a line": "GREETING=good = morning", "Memory, MiB": "512", Processors: "1", "Disk, MiB": "256",
    "Processes and threads": "200", "Disk traffic": "100", "Desktop recording": "0", "Time, minutes": "5", "Time without output": "2",
  };
  for (const [label, value] of Object.entries(fields)) await page.getByRole("textbox", { name: label }).fill(value);
  const first = await submit(page);
  await badge(page, "succeeded").waitFor();
  await page.locator(".timeline .output-stdout", { hasText: "good = morning" }).waitFor();
  const printed = await page.locator(".timeline .output-stdout").first().innerText();
  ensure(/topic\s+given\s+good = morning\s+122/.test(printed), printed);
  check(JSON.parse(await api(`/jobs/${first}/request`)), url, rule, "");

  // Again: nothing is lost in silence.
  await page.locator(".job-head").getByRole("button", { name: "Rerun" }).click();
  await page.locator(".lacks", { hasText: "GREETING" }).waitFor();
  await page.locator(".lacks", { hasText: "1 file of the earlier job changed since or is gone: broken.txt" }).waitFor();
  // The record of the request names a hundred files.
  await page.locator(".lacks", { hasText: "24 further files of the earlier job can't be named here" }).waitFor();
  await page.locator(".chip", { hasText: "given.txt" }).or(page.locator(".chip", { hasText: "more" })).first().waitFor();
  await page.locator(".field-note", { hasText: "GREETING" }).waitFor();
  await looks(page, "home-all-options");
  await page.getByLabel("Variables, one in a line").fill("GREETING=again");
  const second = await submit(page);
  ensure(second !== first && second === jobOf(page), "no second job");
  await until("the second has run", async () => JSON.parse(await api(`/status/${second}`)).finished_at);
  check(JSON.parse(await api(`/jobs/${second}/request`)), url, rule, " in the second");
  await page.locator(".timeline .output-stdout", { hasText: "again" }).waitFor();
  ensure((await page.locator(".timeline .output-stdout").first().innerText()).includes("given"), "a file was not given again");
}
