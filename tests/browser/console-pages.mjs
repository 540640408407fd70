// Every page of the console that needs neither a model nor a desktop, as it looks in light, in dark and on a phone, among them what
// is empty, loading, failed and open in front of a page.
import { arguments_, base, ensure, shell, until } from "./browser.mjs";
import { address, open, schedule, status } from "./console-kit.mjs";
import { looks } from "./looks.mjs";

const NOTEBOOK = JSON.stringify({
  cells: [
    { cell_type: "markdown", source: ["# Sales\n", "Three **months** of them.<script>alert(9)</script>"] },
    { cell_type: "code", execution_count: 1, source: "values = [1, 2, 3]\nprint('sum', sum(values))", outputs: [{ output_type: "stream", name: "stdout", text: ["sum 6\n"] }] },
    { cell_type: "code", execution_count: 2, source: "1 / 0", outputs: [{ output_type: "error", ename: "ZeroDivisionError", evalue: "division by zero", traceback: ["ZeroDivisionError: division by zero"] }] },
  ],
  metadata: { kernelspec: { language: "python" } }, nbformat: 4, nbformat_minor: 5,
});
const BUILD = "for i in $(seq 30); do printf '\\033[32mok\\033[0m %s\\n' $i; done; echo careful >&2; mkdir src; echo 'def f(x): return 1  # one' > src/a.py";
async function made() {
  const job = {
    done: await schedule({ kind: "shell", name: "Build and test", code: BUILD, files: { "analysis.ipynb": NOTEBOOK }, env: { API_TOKEN: "secret" } }),
    busy: await schedule({ kind: "shell", name: "Counts for a while", code: "for i in 1 2 3 4 5 6 7; do timeout 1 sh -c 'while :; do :; done'; echo $i; done" }),
    failed: await schedule({ kind: "shell", name: "Something that fails", code: "echo no >&2; exit 3" }),
    live: await schedule({ kind: "session", name: "A session" }),
  };
  for (const id of [job.done, job.failed, job.busy]) await until("the end", async () => (await status(id)).finished_at);
  await until("live", async () => (await status(job.live)).sandbox === "live");
  await shell(job.live, "echo the quarterly report of the walrus pond: fish are plentiful");
  return job;
}

const press = (name) => (page) => page.getByRole("button", { name }).first().click();

// Name, address, what must be there, and what else is done before the page is looked at.
const PLACES = {
  yard: ({ done }) => [
    ["home", `${base}/`, ".job-row"],
    ["home-options", `${base}/`, ".job-row", async (page) => {
      await page.locator("#composer").fill("Make the walrus pond's report");
      await press("Options")(page);
      await page.getByText("Variables and further limits").click();
      await page.getByLabel("Repository").fill("https://example.com/pond.git");
    }],
    ["home-again", `${base}/?rerun=${done}`, ".lacks"],
    ["home-nothing", `${base}/?q=nothing-like-it`, ".empty"],
    ["home-away", `${base}/`, ".banner-bad", null, "abort"],
    ["home-loading", `${base}/`, ".skeleton-rows", null, "hold"],
    ["keys", `${base}/`, ".job-row", async (page) => { await page.locator("body").press("?"); await page.locator(".keys-dialog").waitFor(); }],
    ["system", `${base}/console/system`, ".driver-mark"],
    ["docs", `${base}/docs`, ".opblock"],
    ["docs-open", `${base}/docs#/jobs/post_jobs__id__cancel`, ".opblock.is-open .parameters"],
    ["job-gone", address("a".repeat(26)), ".empty"],
  ],
  job: ({ done, busy, failed, live }) => [
    ["job", address(done), ".output"],
    ["job-failed", address(failed), ".bad-text"],
    ["job-events", `${address(done, "timeline")}?density=events`, ".raw-type"],
    ["job-summary", `${address(done, "timeline")}?density=summary`, ".row-group"],
    ["confirm", address(live), ".job-head h1", async (page) => { await press("Delete the job")(page); await page.locator("dialog .danger").waitFor(); }],
    ["overview", address(done, "overview"), ".overview"],
    ["files", address(done, "files/src/a.py"), ".code-line"],
    ["notebook", address(done, "files/analysis.ipynb"), ".cell"],
    ["changes", address(done, "changes"), ".diff-file"],
    ["changes-none", address(failed, "changes"), ".empty"],
    ["terminal", address(live, "terminal"), ".xterm-rows"],
    ["desktop-gone", address(done, "desktop"), ".empty"],
    ["previews", address(live, "previews"), ".previews"],
    ["recall-empty", address(live, "recall"), ".empty"],
    ["audit", address(done, "audit"), ".audit-line"],
    ["replay", address(done, "replay"), ".replay-terminal"],
    ["usage", address(busy, "usage"), ".u-over"],
    ["recall", address(live, "recall"), ".recall-ask", async (page) => {
      await page.getByLabel("What to recall").fill("quarterly walrus report");
      await page.keyboard.press("Enter");
      await page.locator(".recall-passage", { hasText: "fish are plentiful" }).first().waitFor();
    }],
  ],
};

export async function pages(context) {
  const all = PLACES[arguments_[1]](await made());
  const page = await open(context, `${base}/`);
  for (const [name, url, wanted, work, fate] of all) {
    // A server that refuses, and one that takes its time.
    if (fate) await page.route("**/jobs?*", (route) => (fate === "abort" ? route.abort() : undefined));
    await page.goto("about:blank");
    await page.goto(url);
    await page.locator(wanted).first().waitFor();
    await work?.(page);
    await looks(page, name);
    if (fate) await page.unrouteAll({ behavior: "ignoreErrors" });
  }
  ensure(all.length > 8, "places are missing");
}
