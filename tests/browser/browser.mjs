// What every browser test needs: Debian's Chromium without a window, a server's API, and assertions that say what was seen.
// Arguments of a script: the server's address, then what the script names.
import { createRequire } from "node:module";

// The modules are in a cache outside the checkout, named by the environment.
const require = createRequire(`${process.env.SANDYARD_BROWSER_MODULES}/`);
const { chromium } = require("playwright-core");

export const [base, ...arguments_] = process.argv.slice(2);

export function ensure(condition, what) {
  if (!condition) throw new Error(what);
}

export async function api(path, options = {}) {
  const answer = await fetch(base + path, options);
  const text = await answer.text();
  ensure(answer.ok, `${path}: ${answer.status} ${text}`);
  return text;
}

export async function shell(job, command) {
  const body = JSON.stringify({ command });
  const answer = await api(`/jobs/${job}/shell`, { method: "POST", headers: { "content-type": "application/json" }, body });
  return JSON.parse(answer);
}

export async function until(what, look, seconds = 60) {
  const deadline = Date.now() + seconds * 1000;
  for (;;) {
    const found = await look();
    if (found) return found;
    ensure(Date.now() < deadline, `not within ${seconds} s: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

// Runs a test in a browser of its own; a failure leaves its words and a nonzero code.
export async function run(test) {
  const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] });
  let code = 0;
  try {
    const context = await browser.newContext();
    context.setDefaultTimeout(60_000);
    await test(context);
    console.log("passed");
  } catch (error) {
    console.error(error);
    code = 1;
  } finally {
    await browser.close();
  }
  process.exit(code);
}
