// A program that knows the API by generated types alone. A wrong member or type does not compile.
import type { components, paths } from "./schema.js";

type Body<Path extends keyof paths & string> = paths[Path] extends { post: { requestBody: { content: { "application/json": infer Sent } } } } ? Sent : never;
type Status = components["schemas"]["JobView"];

declare const process: { argv: string[] };
const url = process.argv[2];

async function post<Path extends keyof paths & string>(path: Path, body: Body<Path>): Promise<Response> {
  return fetch(url + path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
}

const scheduled: components["schemas"]["ScheduleView"] = await (await post("/schedule", { kind: "shell", code: "printf typed" })).json();
const status: Status = await (await fetch(`${url}/status/${scheduled.job_id}?wait=60&wait_for=end`)).json();
if (status.state !== "succeeded" || status.stdout !== "typed") throw new Error(JSON.stringify(status));

// A union is told apart by its `type`, with the members of each variant.
const events = await (await fetch(`${url}/jobs/${scheduled.job_id}/events?wait=0`)).text();
for (const line of events.split("\n").filter((line) => line.startsWith("data: "))) {
  const event: components["schemas"]["JobEvent"] = JSON.parse(line.slice(6));
  if (!event.at) throw new Error(line);
}
