// Bundles the pages into dist/: names with a hash of their content, each compressed once with brotli, and an index
// `assets.tsv` (name, media type, file, ETag) from which crates/web embeds them.
import { createHash } from "node:crypto";
import { cp, mkdir, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";

import { build } from "esbuild";

const OUT = "dist";
const MEDIA_TYPES = {
  css: "text/css; charset=utf-8",
  html: "text/html; charset=utf-8",
  js: "text/javascript; charset=utf-8",
  svg: "image/svg+xml",
};

const options = {
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  legalComments: "none",
  jsx: "automatic",
  jsxImportSource: "preact",
  outdir: OUT,
  logLevel: "warning",
};

await rm(OUT, { recursive: true, force: true });
await mkdir(OUT);
// The console and the small pages: modules with a hash in their names, split where they are loaded later.
const bundle = await build({
  ...options,
  entryPoints: { console: "src/console.tsx", open: "src/open/open.ts", docs: "src/docs/docs.ts" },
  splitting: true,
  entryNames: "[name]-[hash]",
  chunkNames: "part-[hash]",
  assetNames: "[name]-[hash]",
  metafile: true,
});
// The page of a desktop is served inside sandboxes too, under fixed names and as one file.
await build({ ...options, entryPoints: { desktop: "src/desktop/page.ts" } });
await cp("src/desktop/desktop.css", `${OUT}/desktop.css`);
await cp("static", OUT, { recursive: true });

const outputs = Object.keys(bundle.metafile.outputs).map((path) => path.slice(OUT.length + 1));
const named = (name, ending) => {
  const found = outputs.find((file) => file.startsWith(`${name}-`) && file.endsWith(ending));
  if (!found) throw new Error(`${name}${ending} was not built`);
  return `/assets/${found}`;
};
// Which chunks a page needs before it shows something, for the test of sizes.
const first = (entry, seen = new Set()) => {
  if (seen.has(entry)) return seen;
  seen.add(entry);
  const facts = bundle.metafile.outputs[entry];
  for (const { path, kind } of facts?.imports ?? []) if (kind === "import-statement") first(path, seen);
  if (facts?.cssBundle) seen.add(facts.cssBundle);
  return seen;
};
for (const [page, source] of [["console", "src/console.html"], ["open", "src/open/open.html"], ["docs", "src/docs/docs.html"], ["desktop", "src/desktop/desktop.html"]]) {
  const entry = Object.keys(bundle.metafile.outputs).find((path) => path.startsWith(`${OUT}/${page}-`) && path.endsWith(".js"));
  // Parts of a page are named in it, so that a browser fetches them beside the script that imports them.
  const parts = entry ? [...first(entry)].filter((path) => path !== entry && path.endsWith(".js")) : [];
  const preloads = parts.map((path) => `<link rel="modulepreload" href="/assets/${path.slice(OUT.length + 1)}">\n`).join("");
  const html = (await readFile(source, "utf8")).replace("%parts%\n", preloads).replace(/%([a-z]+)(\.[a-z]+)%/g, (_, name, ending) => named(name, ending));
  await writeFile(`${OUT}/${page}.html`, html);
}

const console_ = Object.keys(bundle.metafile.outputs).find((path) => path.startsWith(`${OUT}/console-`) && path.endsWith(".js"));
const firstLoad = [...first(console_)].map((path) => path.slice(OUT.length + 1));
const firstNames = new Set(["console.html", ...firstLoad]);

const rows = [];
const sizes = [];
for (const file of (await readdir(OUT)).sort()) {
  const media = MEDIA_TYPES[file.split(".").pop()];
  if (!media) continue;
  const bytes = await readFile(`${OUT}/${file}`);
  const quality = { params: { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length } };
  await writeFile(`${OUT}/${file}.br`, brotliCompressSync(bytes, quality));
  if (!file.startsWith("desktop.")) sizes.push([file, gzipSync(bytes, { level: 9 }).length, firstNames.has(file) ? "first" : "later"].join("\t"));
  rows.push([file, media, createHash("sha256").update(bytes).digest("hex").slice(0, 16)].join("\t"));
}
// Compressed sizes, for the test that bounds them.
await writeFile(`${OUT}/sizes.tsv`, sizes.join("\n"));
await writeFile(`${OUT}/assets.tsv`, rows.join("\n"));
