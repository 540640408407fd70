// Looks into the browser that runs on the desktop (started with --remote-debugging-port=9222) and checks what is really on
// the page. Leaves a picture of it. Usage: node tests/smoke.mjs PICTURE
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";

const pages = await (await fetch("http://127.0.0.1:9222/json")).json();
const page = pages.find((page) => page.type === "page" && page.url.includes(":4173"));
const socket = new WebSocket(page.webSocketDebuggerUrl);
await new Promise((resolve, reject) => Object.assign(socket, { onopen: resolve, onerror: reject }));

let last = 0;
const waiting = new Map();
socket.onmessage = ({ data }) => {
  const { id, result } = JSON.parse(data);
  waiting.get(id)?.(result);
};

function send(method, params = {}) {
  last += 1;
  socket.send(JSON.stringify({ id: last, method, params }));
  return new Promise((resolve) => waiting.set(last, resolve));
}

async function evaluate(expression) {
  const { result } = await send("Runtime.evaluate", { expression, returnByValue: true });
  return result.value;
}

const items = () => evaluate("[...document.querySelectorAll('li span')].map((item) => item.textContent)");
const words = () => evaluate("document.getElementById('summary').textContent");

assert.deepEqual(await items(), ["Water the plants", "Write a test"], "what was typed on the desktop is listed");
assert.equal(await words(), "2 things left to do");
await evaluate("document.querySelector('li input').click()");
assert.equal(await words(), "1 thing left to do");
const stored = JSON.parse(await evaluate("localStorage.getItem('todos')"));
assert.equal(stored[0].done, true, "it is remembered");
const { data } = await send("Page.captureScreenshot", { format: "png" });
writeFileSync(process.argv[2], Buffer.from(data, "base64"));
console.log("the page lists, counts, toggles and remembers");
socket.close();
