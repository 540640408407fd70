// The zip as a person gets it: saved by the browser from a link that works once, under its name, and unpacked by the browser.
import { readFile } from "node:fs/promises";

import { api, arguments_, base, ensure, run } from "./browser.mjs";

const [job, name, content] = arguments_;

// Runs in the page: the text of one entry, found through the central directory, inflated by the browser itself.
async function unpack([base64, wanted]) {
  const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  const text = (from, length) => new TextDecoder("utf-8", { fatal: true }).decode(bytes.subarray(from, from + length));
  let end = bytes.length - 22;
  while (view.getUint32(end, true) !== 0x06054b50) end -= 1;
  let at = view.getUint32(end + 16, true);
  for (let left = view.getUint16(end + 10, true); left > 0; left -= 1) {
    const lengths = [28, 30, 32].map((field) => view.getUint16(at + field, true));
    if (text(at + 46, lengths[0]) === wanted) {
      const [method, size, local] = [view.getUint16(at + 10, true), view.getUint32(at + 20, true), view.getUint32(at + 42, true)];
      const start = local + 30 + view.getUint16(local + 26, true) + view.getUint16(local + 28, true);
      const packed = new Blob([bytes.subarray(start, start + size)]);
      if (method === 0) return packed.text();
      return new Response(packed.stream().pipeThrough(new DecompressionStream("deflate-raw"))).text();
    }
    at += 46 + lengths[0] + lengths[1] + lengths[2];
  }
  return null;
}

run(async (context) => {
  const headers = { "content-type": "application/json" };
  const { url } = JSON.parse(await api(`/jobs/${job}/tickets`, { method: "POST", headers, body: '{"for":"download"}' }));
  const page = await context.newPage();
  await page.goto(`${base}/docs`);
  const saving = page.waitForEvent("download");
  await page.evaluate((link) => location.assign(link), url);
  const saved = await saving;
  ensure(saved.suggestedFilename().endsWith(".zip"), `it is named ${saved.suggestedFilename()}`);
  const bytes = await readFile(await saved.path());
  const found = await page.evaluate(unpack, [bytes.toString("base64"), name]);
  ensure(found === content, `${name} has ${JSON.stringify(found)}`);
  const again = await fetch(new URL(url, base));
  ensure(again.status === 401, `the link worked again: ${again.status}`);
});
