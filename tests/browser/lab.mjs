// JupyterLab: opens by its link, lists files, runs a cell, has a terminal, and shows the kernel of somebody else.
import { api, arguments_, base, ensure, run, shell, until } from "./browser.mjs";

const [job, external] = arguments_;

async function openLab(context) {
  const page = await context.newPage();
  await page.goto(`${base}/jobs/${job}/lab`);
  await page.waitForURL(/\.localhost:\d+\/lab($|[?/])/);
  // Without what an earlier visit had open.
  await page.goto(new URL("/lab?reset", page.url()).href);
  await page.locator(".jp-Launcher").first().waitFor();
  return page;
}

async function listsFiles(page) {
  await page.locator(".jp-DirListing-item", { hasText: "hello.txt" }).waitFor();
}

async function runsACell(page) {
  await page.locator('.jp-LauncherCard[data-category="Notebook"]', { hasText: "Python 3" }).first().click();
  await runIn(page, "print(6 * 7)", "42");
}

async function runIn(page, code, expected) {
  const notebook = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)");
  // A cell that is run while its kernel still starts may be lost.
  await notebook.locator('.jp-Notebook-ExecutionIndicator[data-status="idle"]').first().waitFor({ state: "attached" });
  const output = notebook.locator(".jp-OutputArea-output", { hasText: expected }).first();
  // Keys that come before the editor has the focus are commands of the notebook: then it is typed again.
  await until(`the output ${expected}`, async () => {
    const cell = notebook.locator(".jp-CodeCell .cm-content").last();
    await cell.click();
    await page.keyboard.press("Control+A");
    await page.keyboard.type(code);
    if ((await cell.innerText()).trim() === code) await page.keyboard.press("Shift+Enter");
    return output.waitFor({ timeout: 10_000 }).then(() => true, () => false);
  }, 120);
}

async function hasATerminal(page) {
  await page.keyboard.press("Escape");
  await page.keyboard.press("Control+Shift+L");
  await page.locator(".jp-LauncherCard:visible", { hasText: "Terminal" }).first().click();
  const input = page.locator(".jp-Terminal .xterm-helper-textarea").last();
  await input.waitFor({ state: "attached" });
  // The shell behind it may take a moment; a line that was typed too early is typed again.
  await until("the terminal's file", async () => {
    await input.focus();
    await page.keyboard.type("echo $((40+3)) > term.txt\n");
    await page.waitForTimeout(500);
    return (await shell(job, "cat term.txt 2>/dev/null")).stdout.trim() === "43";
  });
}

// The kernel that others started is in the list, and a notebook on it sees its state.
async function sharesAKernel(page) {
  const kernels = await page.evaluate(async () => (await fetch("/api/kernels")).json());
  const found = kernels.map((kernel) => kernel.id);
  const own = await page.evaluate(async () => (await fetch("/api/sessions")).json());
  const shared = found.filter((id) => !own.some((session) => session.kernel.id === id));
  ensure(shared.length === 1, `one kernel of others expected: ${JSON.stringify(kernels)}`);
  const notebook = { cells: [], metadata: { kernelspec: { name: "python3", display_name: "Python 3" } }, nbformat: 4, nbformat_minor: 5 };
  notebook.cells.push({ cell_type: "code", id: "a", source: "", metadata: {}, outputs: [], execution_count: null });
  await api(`/jobs/${job}/files/shared.ipynb`, { method: "PUT", body: JSON.stringify(notebook) });
  await page.evaluate(async (id) => {
    const token = document.cookie.match(/_xsrf=([^;]*)/)?.[1];
    const body = JSON.stringify({ path: "shared.ipynb", name: "", type: "notebook", kernel: { id } });
    await fetch("/api/sessions", { method: "POST", body, headers: { "X-XSRFToken": token ?? "" } });
  }, shared[0]);
  await page.goto(new URL("/lab/tree/shared.ipynb", page.url()).href);
  await page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)").waitFor();
  await runIn(page, `print("from", ${external})`, "from the agent");
}

// The notebook that records the API's executions opens with the kernel that ran them.
async function opensTheRecordedNotebook(page) {
  await python("told = 'by the API'");
  await until("the notebook", async () => (await shell(job, "grep -c told session.python.ipynb")).exit_code === 0);
  await page.goto(new URL("/lab/tree/session.python.ipynb?reset", page.url()).href);
  await page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)").waitFor();
  await runIn(page, 'print("was told", told)', "was told by the API");
  await runIn(page, "told = 'by a person'; print('set')", "set");
  const answer = await python("told");
  ensure(answer.includes("by a person"), answer);
}

function python(code) {
  const headers = { "content-type": "application/json" };
  return api(`/jobs/${job}/code`, { method: "POST", headers, body: JSON.stringify({ language: "python", code }) });
}

run(async (context) => {
  const page = await openLab(context);
  const source = await page.content();
  ensure(source.includes('"token": ""') && !/"token": "[^"]/.test(source), "a token is in the page");
  await listsFiles(page);
  await runsACell(page);
  await hasATerminal(page);
  if (external) await sharesAKernel(page);
  await opensTheRecordedNotebook(page);
});
