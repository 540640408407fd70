// Makes types of a server's OpenAPI document, checks openapi.ts with them, and runs it: `openapi.mjs URL`.
import { execFileSync } from "node:child_process";
import { writeFile } from "node:fs/promises";

import openapi, { astToString } from "openapi-typescript";

const [url] = process.argv.slice(2);
const document = await (await fetch(`${url}/openapi.json`)).json();
await writeFile("schema.d.ts", astToString(await openapi(document, { alphabetize: true })));
await writeFile("package.json", '{"type": "module"}');
const options = ["--strict", "--target", "es2022", "--module", "nodenext", "--skipLibCheck", "--lib", "es2022,dom"];
execFileSync("node_modules/.bin/tsc", [...options, "openapi.ts"], { stdio: "inherit" });
execFileSync("node", ["openapi.js", url], { stdio: "inherit" });
