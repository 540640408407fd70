// The console as a person uses it, one scenario a run. Every scenario also fails on an error of the page or a breach of its policy.
import { readFile, writeFile } from "node:fs/promises";
import net from "node:net";

import { api, arguments_, base, ensure, run, shell, until } from "./browser.mjs";
import { address, badge, cancel, jobOf, open, problems, schedule, start, status } from "./console-kit.mjs";
import { boxes } from "./console-boxes.mjs";
import { pages } from "./console-pages.mjs";
import { found, looks } from "./looks.mjs";

const [scenario, ...rest] = arguments_;
const ended = (job) => until("the end", async () => (await status(job)).finished_at && (await status(job)));

async function jobs(context) {
  const page = await open(context, `${base}/`);
  // Without a model a task can't run, and the page says how to set one.
  await page.locator(".banner-wait", { hasText: "sandyard up --model" }).waitFor();
  // The empty yard teaches with one click.
  await page.getByRole("button", { name: /Run a script/ }).click();
  await badge(page, "succeeded").waitFor();
  await page.locator(".timeline", { hasText: "Hello from" }).waitFor();
  const first = jobOf(page);
  const id = await start(page, "Shell", "echo from-the-box; echo to-stderr >&2; echo kept > kept.txt");
  await badge(page, "succeeded").waitFor();
  await page.locator(".timeline .output-stdout", { hasText: "from-the-box" }).waitFor();
  await page.locator(".timeline .output-stderr", { hasText: "to-stderr" }).waitFor();
  // Three densities, by key; the address keeps the choice.
  await page.keyboard.press("3");
  await page.locator(".raw-type", { hasText: "stdout" }).first().waitFor();
  await page.reload();
  await page.locator(".raw-type", { hasText: "stdout" }).first().waitFor();
  await page.keyboard.press("1");
  await page.locator(".row-group", { hasText: "of output" }).waitFor();
  // The result is taken home, and its files can be looked at without the machine.
  await page.keyboard.press("f");
  await page.locator(".tree-entry", { hasText: "kept.txt" }).click();
  await page.locator(".code-line", { hasText: "kept" }).waitFor();
  const saving = page.waitForEvent("download");
  await page.locator(".job-head .primary").click();
  ensure((await saving).suggestedFilename().endsWith(".zip"), "no zip");
  // Again with changes.
  await page.keyboard.press("Escape");
  await page.locator(".job-head").getByRole("button", { name: "Rerun" }).click();
  await until("the old request", async () => (await page.locator("#composer").inputValue()).includes("from-the-box"));
  await page.locator("#composer").fill("echo changed; sleep 600");
  await page.locator(".composer button[type=submit]").click();
  await page.waitForURL((url) => url.pathname.startsWith("/console/jobs/") && !url.pathname.includes(id));
  await page.locator(".timeline .output-stdout", { hasText: "changed" }).waitFor();
  const second = jobOf(page);
  // Two browsers on one job; one cancels, both see it.
  const other = await open(await context.browser().newContext(), address(second));
  await badge(other, "running").waitFor();
  await page.keyboard.press("c");
  await page.getByRole("button", { name: "Cancel the job" }).click();
  await badge(page, "cancelled").waitFor();
  await badge(other, "cancelled").waitFor();
  await other.close();
  // Search and filters are in the address.
  await page.keyboard.press("g");
  await page.keyboard.press("h");
  await page.locator(".job-row").nth(2).waitFor();
  await page.keyboard.press("/");
  await page.keyboard.type("from-the-box");
  await until("one hit", async () => (await page.locator(".job-row").count()) === 1);
  await page.reload();
  await until("one hit after a reload", async () => (await page.locator(".job-row").count()) === 1);
  ensure(page.url().includes("q=from-the-box"), page.url());
  await page.goto(`${base}/?status=error`);
  await until("the cancelled one", async () => (await page.locator(".job-row").count()) === 1);
  // Removed for good.
  for (const job of [first, id, second]) {
    await page.goto(address(job));
    await page.getByRole("button", { name: "Delete the job" }).click();
    await page.locator("dialog .danger").click();
    await page.waitForURL(`${base}/`);
    await until("gone", async () => (await fetch(`${base}/status/${job}`)).status === 404);
  }
  await page.goto(address(first));
  await page.getByText("There is no such job").waitFor();
}

async function session(context) {
  const page = await open(context, `${base}/`);
  const job = await start(page, "Session");
  await badge(page, "running").waitFor();
  // A terminal, with the keyboard.
  await page.keyboard.press("t");
  await page.locator(".xterm-rows", { hasText: "/workspace" }).waitFor();
  await page.keyboard.type("echo typed-$((6*7)) > typed.txt; stty size\n");
  await until("typed", async () => (await shell(job, "cat typed.txt")).stdout === "typed-42\n");
  const size = await page.locator(".xterm-rows").innerText();
  ensure(/\n(?!24 80)\d+ \d+/.test(size.replaceAll("\u00a0", " ")), `the terminal was not fitted: ${size}`);
  // A file is opened, changed, saved and taken home.
  await page.goto(address(job, "files/typed.txt"));
  await page.locator(".code-line", { hasText: "typed-42" }).waitFor();
  await page.getByRole("button", { name: "Edit" }).click();
  await page.locator(".editor").fill("changed in the browser\n");
  await page.getByRole("button", { name: "Save" }).click();
  await until("saved", async () => (await shell(job, "cat typed.txt")).stdout === "changed in the browser\n");
  await page.locator(".code-line", { hasText: "changed in the browser" }).waitFor();
  const saving = page.waitForEvent("download");
  await page.getByRole("button", { name: "Download the file" }).click();
  const saved = await readFile(await (await saving).path(), "utf8");
  ensure(saved === "changed in the browser\n", saved);
  // A file is brought in.
  await page.locator(".tree-side input[type=file]").setInputFiles({ name: "brought.txt", mimeType: "text/plain", buffer: Buffer.from("from outside") });
  await until("uploaded", async () => (await shell(job, "cat brought.txt")).stdout === "from outside");
  await page.locator(".tree-entry", { hasText: "brought.txt" }).waitFor();
  // What the job saw is found again. A file is a link to its line; what a command printed is none.
  await shell(job, "echo the quarterly report of the walrus pond: fish are plentiful");
  await page.keyboard.press("m");
  const ask = async (words) => {
    await page.getByLabel("What to recall").fill(words);
    await page.keyboard.press("Enter");
  };
  await ask("quarterly walrus report");
  const printed = page.locator(".recall-passage", { hasText: "fish are plentiful" }).filter({ hasText: "Result of shell" });
  await printed.first().waitFor();
  ensure((await printed.first().locator("a").count()) === 0, "what a command printed is a link");
  await ask("changed in the browser");
  await page.locator(".recall-passage a", { hasText: "typed.txt" }).first().click();
  await page.locator(".code-line.marked", { hasText: "changed in the browser" }).waitFor();
  // Changes against git, while the machine lives.
  await shell(job, "git init -q . && git add -A && git -c user.name=a -c user.email=a@b commit -qm first && echo more >> typed.txt");
  await page.goto(address(job, "changes"));
  const hasGit = (await shell(job, "command -v git")).exit_code === 0;
  if (hasGit) await page.locator(".diff-new", { hasText: "more" }).waitFor();
  else await page.getByText("no git repository").waitFor();
  // Ports that programs listen on.
  const server = "import http.server; http.server.HTTPServer(('127.0.0.1', 5173), http.server.SimpleHTTPRequestHandler).serve_forever()";
  if ((await shell(job, "command -v python3")).exit_code === 0) {
    await shell(job, `nohup python3 -c "${server}" >/dev/null 2>&1 & for i in $(seq 50); do grep -q :1435 /proc/net/tcp && break; sleep 0.1; done`);
    await page.goto(address(job, "previews"));
    const port = page.locator(".ports li", { hasText: "5173" });
    await port.waitFor();
    // The preview opens in a tab of its own, on an origin of its own.
    const [preview] = await Promise.all([context.waitForEvent("page"), port.getByRole("button", { name: "Open" }).click()]);
    await preview.getByRole("link", { name: "typed.txt" }).waitFor();
    ensure(new URL(preview.url()).hostname === `5173-${job}.localhost`, preview.url());
    await preview.close();
  }
  await page.keyboard.press("a");
  await page.locator(".audit-line", { hasText: "terminal" }).first().waitFor();
  await page.keyboard.press("c");
  await page.getByRole("button", { name: "Cancel the job" }).click();
  await badge(page, "cancelled").waitFor();
}

async function kinds(context) {
  const page = await open(context, `${base}/`);
  await start(page, "Python", "import sys\nprint('python', 6 * 7)");
  await badge(page, "succeeded").waitFor();
  await page.locator(".timeline .output-stdout", { hasText: "python 42" }).waitFor();
  await start(page, "TypeScript", "const answer: number = 6 * 7;\nconsole.log(`typescript ${answer}`);");
  await badge(page, "succeeded").waitFor();
  await page.locator(".timeline .output-stdout", { hasText: "typescript 42" }).waitFor();
  await start(page, "Desktop", "exec --sync xsetroot -solid '#336699'");
  await badge(page, "succeeded").waitFor();
  // What was made is explained, with a picture.
  const made = await schedule({ kind: "shell", name: "Two modules", code: "printf 'import helper\\nprint(helper.work())\\n' > main.py; printf 'def work():\\n    return 1\\n' > helper.py" });
  ensure((await ended(made)).explanation, "no explanation");
  await page.goto(address(made));
  await page.getByRole("tab", { name: "Explanation" }).click();
  await page.getByRole("heading", { name: "What was made" }).waitFor();
  await until("the picture", () => page.locator(".diagram img").evaluateAll(([image]) => (image?.naturalWidth ?? 0) > 0));
  await looks(page, "explanation");
  // The desktop beside the timeline: look, take over, type, give back.
  const job = await start(page, "Session");
  await badge(page, "running").waitFor();
  await shell(job, "xterm -geometry 80x24+100+100 >/dev/null 2>&1 & disown; sleep 1");
  await page.keyboard.press("v");
  await page.locator(".desktop-room[data-phase=looking]").waitFor();
  await looks(page, "desktop");
  await page.locator(".desktop-room[data-phase=looking]").waitFor();
  await page.getByRole("button", { name: "Take control" }).click();
  await page.locator(".desktop-room[data-phase=controlling]").waitFor();
  const canvas = page.locator(".desktop-place canvas");
  const box = await canvas.boundingBox();
  const scale = box.width / 1280;
  await until("typed into the window", async () => {
    await canvas.click({ position: { x: 250 * scale, y: 250 * scale } });
    await page.keyboard.type("touch by-person\n");
    return (await shell(job, "for i in $(seq 20); do test -e by-person && exit 0; sleep 0.1; done; exit 1")).exit_code === 0;
  });
  await page.getByRole("button", { name: "Give control back" }).click();
  await page.locator(".desktop-room[data-phase=looking]").waitFor();
  // The page of the desktop alone.
  const alone = await open(context, `${base}/jobs/${job}/desktop/`);
  await until("live", () => alone.evaluate(() => document.documentElement.dataset.state === "live"));
  await looks(alone, "desktop-alone");
  await alone.close();
  // JupyterLab opens in a tab of its own.
  await page.keyboard.press("p");
  const button = page.getByRole("button", { name: "Open JupyterLab" });
  const [lab] = await Promise.all([context.waitForEvent("page"), button.click()]);
  await lab.locator(".jp-Launcher").first().waitFor();
  ensure(new URL(lab.url()).hostname.endsWith(`-${job}.localhost`), lab.url());
}

async function task(context) {
  const page = await open(context, `${base}/`);
  const job = await start(page, "Task", "Write a colour");
  // A word to the agent while it works.
  await page.locator(".timeline .call", { hasText: "echo begun" }).waitFor();
  await badge(page, "running").waitFor();
  await looks(page, "task-running");
  await page.keyboard.press("i");
  await page.getByLabel("Message to the agent").fill("hurry, please");
  await page.keyboard.press("Enter");
  await page.locator(".said", { hasText: "hurry, please" }).waitFor();
  ensure((await page.getByLabel("Message to the agent").inputValue()) === "", "the message stands in the box still");
  await api(`/jobs/${job}/files/go`, { method: "PUT", body: "" });
  await page.locator(".reply.asks .question", { hasText: "Which colour?" }).waitFor();
  ensure(await page.locator(".question strong", { hasText: "colour" }).isVisible(), "the question is not set");
  await looks(page, "task-asks");
  await page.locator(".reply textarea").fill("green, please");
  await page.keyboard.press("Enter");
  await badge(page, "succeeded").waitFor();
  await page.locator(".said", { hasText: "green, please" }).waitFor();
  await page.locator(".overview", { hasText: "It is green." }).waitFor();
  // The changes are one key away.
  await page.locator("body").press("d");
  await page.locator(".diff-file", { hasText: "colour.txt" }).waitFor();
  await page.locator(".diff-new", { hasText: "green" }).waitFor();
  await looks(page, "task-done");
}

// What the agent saw of its desktop is a thumbnail in the timeline, and larger when it is pressed.
async function thumbnails(context) {
  const page = await open(context, `${base}/`);
  await start(page, "Task", "Paint the desktop");
  await badge(page, "succeeded").waitFor();
  const thumbnail = page.locator(".timeline .picture").first();
  await until("the thumbnail", () => thumbnail.locator("img").evaluate((image) => image.naturalWidth === 1280));
  const small = await thumbnail.boundingBox();
  await thumbnail.click();
  await until("the whole picture", async () => (await thumbnail.boundingBox()).height > small.height);
  await looks(page, "task-picture");
}

// The colour in the middle of the replayed desktop.
const shown = (page) => page.evaluate(() => {
  const canvas = document.querySelector(".replay-screen canvas");
  return canvas?.dataset.picture ? [...canvas.getContext("2d").getImageData(canvas.width - 10, canvas.height - 10, 1, 1).data.slice(0, 3)].join() : "";
});

async function replay(context) {
  const paint = "exec --sync xsetroot -solid";
  const code = `${paint} '#336699'\nsleep 3\n${paint} '#993366'\nsleep 3`;
  const job = await schedule({ kind: "gui", name: "A recorded desktop", code });
  const end = await ended(job);
  ensure(end.state === "succeeded" && end.recording.moments >= 2, JSON.stringify(end.recording));
  const { frames } = JSON.parse(await api(`/jobs/${job}/frames`));
  const page = await open(context, address(job));
  await badge(page, "succeeded").waitFor();
  await page.keyboard.press("y");
  // The scrubber, by keyboard: from the beginning to the end, and back by a moment.
  const track = page.getByRole("slider", { name: "Moment" });
  await track.focus();
  await page.keyboard.press("End");
  await until("the last look", async () => (await shown(page)) === "153,51,102");
  const blue = frames.findLast((frame) => frame.picture < frames.at(-1).picture);
  await page.keyboard.press("ArrowLeft");
  await until("the timeline follows", async () => (await page.locator(".row.marked").count()) === 1);
  ensure(new URL(page.url()).searchParams.has("event"), page.url());
  // A link leads to its moment.
  await page.goto(`${address(job, "replay")}?event=${blue.event}`);
  await until("the look of the link", async () => (await shown(page)) === "51,102,153");
  // With the pointer.
  const box = await track.boundingBox();
  await page.mouse.click(box.x + box.width - 2, box.y + box.height / 2);
  await until("the end again", async () => (await shown(page)) === "153,51,102");
  // Played from the beginning, it comes to its end.
  await page.keyboard.press("Home");
  await page.getByRole("combobox", { name: "Speed" }).selectOption("1");
  await page.getByRole("button", { name: "Play" }).click();
  await page.getByRole("button", { name: "Pause" }).waitFor();
  await page.getByRole("button", { name: "Play" }).waitFor();
  await until("played to its end", async () => (await shown(page)) === "153,51,102");
  // What was printed is a cast, and is shown at its moment.
  const talk = await schedule({ kind: "shell", name: "It talks", code: "echo first; sleep 2; echo second; sleep 2" });
  await ended(talk);
  await page.goto(address(talk, "replay"));
  await page.locator(".replay-terminal").waitFor();
  await track.focus();
  await page.keyboard.press("End");
  await page.locator(".replay-terminal", { hasText: "second" }).waitFor();
  await page.keyboard.press("Home");
  await until("before it was printed", async () => !(await page.locator(".replay-terminal").innerText()).includes("second"));
  const [head, ...lines] = (await api(`/jobs/${talk}/terminal.cast`)).trim().split("\n").map((line) => JSON.parse(line));
  ensure(head.version === 2 && head.title === "It talks", JSON.stringify(head));
  ensure(lines.map(([, , text]) => text).join("") === "first\r\nsecond\r\n" && lines.at(-1)[0] > lines[0][0], JSON.stringify(lines));
  const saving = page.waitForEvent("download");
  await page.getByRole("button", { name: /asciicast/ }).click();
  ensure((await saving).suggestedFilename() === `${talk}.cast`, "no cast");
}

// A job of 45,000 events, which no script prints in reasonable time: the server's answers about events are made here.
async function longReplay(context) {
  const LAST = 45_000;
  const job = await schedule({ kind: "shell", name: "A long one", code: "echo end" });
  const end = Date.parse((await ended(job)).finished_at);
  const event = (id) => ({ type: "stdout", at: new Date(end - (LAST - id) * 100).toISOString(), offset: id, length: 10, text: `line ${id}\n` });
  await context.route((url) => url.pathname === `/jobs/${job}/events`, (route) => {
    const query = new URL(route.request().url()).searchParams;
    const after = query.has("tail") ? LAST - Number(query.get("tail")) : Number(query.get("after"));
    const last = Math.min(LAST, after + Number(query.get("limit") ?? LAST));
    const blocks = [];
    for (let id = after + 1; id <= last; id += 1) blocks.push(`id: ${id}\ndata: ${JSON.stringify(id === LAST ? { type: "state", at: event(id).at, state: "succeeded" } : event(id))}\n\n`);
    return route.fulfill({ status: 200, contentType: "text/event-stream", body: blocks.join("") });
  });
  const page = await open(context, address(job, "replay"));
  const earlier = page.locator(".replay-earlier");
  // It plays the end first, says so, and reads back when it is asked.
  await earlier.getByText(/after event 25.000/).waitFor();
  await looks(page, "replay-long");
  await earlier.getByRole("button").click();
  await earlier.getByText(/after event 5.000/).waitFor();
  await page.getByRole("slider", { name: "Moment" }).focus();
  await page.keyboard.press("Home");
  await page.locator(".replay-terminal", { hasText: "line 5001" }).waitFor();
  await page.keyboard.press("End");
  await page.locator(".replay-terminal", { hasText: "line 44999" }).waitFor();
  // A link to a moment before all that is known leads there.
  await page.goto(`${address(job, "replay")}?event=120`);
  await until("the moment of the link", async () => /line 120\s*$/.test(await page.locator(".replay-terminal").innerText()));
  await earlier.waitFor({ state: "detached" });
}

const HOSTILE = String.raw`
printf '<img src=x onerror=alert(1)><script>alert(2)</script>\n'
printf '\033[31mred\033[0m \033]0;title\007 \033[2J bell\007\n'
printf 'abc\342\200\256evil\342\200\254def\n'
head -c 10000000 /dev/zero | tr '\0' x; echo
mkdir -p '<b>bold<'; echo '<script>alert(3)</script>' > '<img src=x onerror=alert(4)>.html'
printf '<svg xmlns="http://www.w3.org/2000/svg" onload="alert(5)"><script>alert(6)</script></svg>' > evil.svg
printf '<svg xmlns="http://www.w3.org/2000/svg" onload="alert(7)"/>' > evil.png
`;

async function hostile(context) {
  const name = "<img src=x onerror=alert(8)>";
  const job = await schedule({ kind: "shell", name, code: HOSTILE });
  await ended(job);
  const page = await open(context, address(job));
  await page.locator(".job-head h1", { hasText: name }).waitFor();
  await page.goto(`${address(job)}?density=events`);
  await page.locator(".raw-type", { hasText: "stdout" }).first().waitFor();
  await page.goto(address(job));
  await page.locator(".timeline .output-stdout").first().waitFor();
  await page.locator(".timeline .virtual").press("Home");
  await page.locator(".row-state", { hasText: "Queued" }).waitFor();
  const output = page.locator(".timeline .output-stdout").first();
  const fold = output.locator(".fold");
  if (await fold.count()) await fold.click();
  await page.locator(".timeline", { hasText: "<script>alert(2)</script>" }).waitFor();
  await page.locator(".ansi-1", { hasText: "red" }).waitFor();
  const text = await page.locator(".timeline").innerText();
  ensure(text.includes("\u27e8U+202E\u27e9") && !text.includes("\u202e"), "a character turns the text around");
  ensure(!text.includes("\u001b") && !text.includes("]0;title"), "an escape sequence is shown");
  ensure(text.length < 60_000, `a line of 10 MB is laid out: ${text.length}`);
  await page.goto(address(job, "files"));
  await page.locator(".tree-entry", { hasText: "<b>bold<" }).waitFor();
  await page.locator(".tree-entry", { hasText: "onerror=alert(4)" }).click();
  await page.locator(".code-line", { hasText: "<script>alert(3)</script>" }).waitFor();
  await page.locator(".tree-entry", { hasText: "evil.svg" }).click();
  await page.locator(".code-line", { hasText: "alert(6)" }).waitFor();
  await page.locator(".tree-entry", { hasText: "evil.png" }).click();
  await page.locator(".image-view img").waitFor();
  await page.goto(`${base}/`);
  await page.locator(".job-title", { hasText: name }).waitFor();
  ensure((await page.locator("script:not([src]), img[src=x], b").count()) === 0, "markup of the job is in the page");
}

async function signIn(context) {
  const [key] = rest;
  const job = await schedule({ kind: "shell", code: "echo behind-a-key; echo x > x.txt" }, { authorization: `Bearer ${key}` });
  const page = await open(context, address(job));
  await page.locator("#key").fill("wrong");
  await page.locator(".sign-in button").click();
  await page.getByText("does not take this key").waitFor();
  await looks(page, "sign-in");
  await page.locator("#key").fill(key);
  await page.locator(".sign-in button").click();
  await page.locator(".timeline .output-stdout", { hasText: "behind-a-key" }).waitFor();
  // A download can't send the key: it has a ticket.
  const saving = page.waitForEvent("download");
  await page.locator(".job-head .primary").click();
  await saving;
  const cookies = await context.cookies();
  ensure(cookies.length === 0, `the console set cookies: ${JSON.stringify(cookies)}`);
  // A link with the key in its fragment signs in, and the key leaves the address.
  const other = await open(await context.browser().newContext(), `${base}/#key=${key}`);
  await other.locator(".job-row").waitFor();
  ensure(!other.url().includes(key), other.url());
  // Another tab has no key. The page behind a link to a sandbox asks for it, and tells why it opens nothing.
  const third = await open(await context.browser().newContext(), `${base}/`);
  await third.locator(".sign-in").waitFor();
  await third.goto(`${base}/jobs/${"a".repeat(26)}/lab`);
  await third.locator("#sign-in").waitFor();
  await looks(third, "open");
  await third.locator("#key").fill(key);
  await third.locator("#use-key").click();
  await third.locator("#notice:not(:empty)").waitFor();
  await looks(third, "open-refused");
  // The page of a desktop asks likewise.
  const fourth = await open(await context.browser().newContext(), `${base}/jobs/${job}/desktop/`);
  await fourth.locator("#sign-in").waitFor();
  await looks(fourth, "desktop-alone-key");
}

async function restart(context) {
  const [job, file] = rest;
  const relay = net.createServer((incoming) => {
    incoming.on("error", () => {});
    readFile(file, "utf8").then((url) => {
      const outgoing = net.connect(Number(new URL(url).port), "127.0.0.1");
      outgoing.on("error", () => incoming.destroy());
      outgoing.on("close", () => incoming.destroy());
      incoming.on("close", () => outgoing.destroy());
      incoming.pipe(outgoing).pipe(incoming);
    });
  });
  await new Promise((resolve) => relay.listen(0, "127.0.0.1", resolve));
  const origin = `http://127.0.0.1:${relay.address().port}`;
  const page = await open(context, `${origin}/console/jobs/${job}?density=events`, { origin });
  await page.locator(".raw-text", { hasText: "line-5-end" }).waitFor();
  await writeFile(`${file}.watching`, "");
  await badge(page, "succeeded").waitFor();
  await page.locator(".connection-ended").waitFor();
  // Each number once, in order, without a gap: as the server has them.
  const last = Number(await page.locator(".timeline .connection").getAttribute("data-last"));
  await page.goto(`${origin}/console/jobs/${job}`);
  const fold = page.locator(".timeline .output-stdout .fold");
  await fold.first().waitFor();
  const folds = await fold.count();
  for (let at = 0; at < folds; at += 1) await fold.nth(at).click();
  const lines = [...(await page.locator(".timeline").innerText()).matchAll(/line-(\d+)-end/g)].map((match) => Number(match[1]));
  ensure(lines.join() === Array.from({ length: 60 }, (_, at) => at + 1).join(), `the lines are ${lines}`);
  const seen = Number(await page.locator(".timeline .connection").getAttribute("data-last"));
  ensure(last === seen && last > 20, `the last event is ${last}, read again ${seen}`);
  relay.close();
}

const SCENARIOS = { jobs, session, kinds, task, thumbnails, replay, "long-replay": longReplay, hostile, pages, boxes, restart, "sign-in": signIn };

run(async (context) => {
  await SCENARIOS[scenario](context);
  ensure(problems.length === 0, problems.join("\n"));
  ensure(found.length === 0, found.join("\n"));
});
