import { element, key, request, setKey } from "/assets/page.js";

const METHODS = ["get", "post", "put", "patch", "delete"];

function example(schema, definitions, depth = 0) {
  if (!schema || depth > 4) return null;
  if (schema.$ref) return example(definitions[schema.$ref.split("/").pop()], definitions, depth + 1);
  if (schema.example !== undefined) return schema.example;
  if (schema.enum) return schema.enum[0];
  const choice = schema.oneOf ?? schema.anyOf ?? schema.allOf;
  if (choice) return example(choice.find((one) => one.type !== "null") ?? choice[0], definitions, depth + 1);
  const type = Array.isArray(schema.type) ? schema.type[0] : schema.type;
  if (type === "object") {
    const wanted = schema.required ?? [];
    const members = Object.entries(schema.properties ?? {}).filter(([name]) => wanted.includes(name));
    return Object.fromEntries(members.map(([name, member]) => [name, example(member, definitions, depth + 1)]));
  }
  return { string: "", integer: 0, number: 0, boolean: false, array: [] }[type] ?? null;
}

const SAMPLES = {
  "/schedule": { kind: "shell", code: "echo hello" },
  "/submit": { kind: "session" },
  "/jobs/{id}/shell": { command: "ls -la" },
  "/jobs/{id}/files/{path}": { edits: [{ old: "before", new: "after" }] },
};

function operation(path, method, facts, definitions) {
  const inputs = (facts.parameters ?? []).map((parameter) => ({ parameter, input: element("input", { type: "text" }) }));
  const json = facts.requestBody?.content?.["application/json"];
  const bytes = facts.requestBody && !json;
  const body = facts.requestBody ? element("textarea", { rows: 5, spellcheck: false }) : null;
  if (json) body.value = JSON.stringify(SAMPLES[path] ?? example(json.schema, definitions), null, 2);
  const output = element("pre", { hidden: true });
  const send = element("button", { type: "button", textContent: "Send" });
  send.addEventListener("click", () => run({ path, method, inputs, body, bytes, output }));
  const rows = inputs.map(({ parameter, input }) => element("div", { className: "row" },
    element("label", {}, `${parameter.name} (${parameter.in})`),
    element("div", {}, input, element("div", { className: "quiet", textContent: parameter.description ?? "" }))));
  const answers = Object.entries(facts.responses ?? {}).map(([status, answer]) =>
    element("div", { className: "row" }, element("code", { textContent: status }), answer.description || " "));
  return element("details", {},
    element("summary", {}, element("span", { className: "method", textContent: method.toUpperCase() }),
      element("code", { textContent: path }), " ", element("span", { className: "quiet", textContent: facts.summary ?? "" })),
    element("p", { textContent: facts.description ?? "" }), ...rows, ...(body ? [body] : []),
    element("p", {}, send), output, element("h3", { textContent: "Answers" }), ...answers);
}

async function run({ path, method, inputs, body, bytes, output }) {
  const headers = {};
  const query = new URLSearchParams();
  let target = path;
  for (const { parameter, input } of inputs) {
    const value = input.value;
    if (parameter.in === "path") {
      target = target.replace(`{${parameter.name}}`, value.split("/").map(encodeURIComponent).join("/"));
    } else if (value && parameter.in === "query") query.set(parameter.name, value);
    else if (value) headers[parameter.name] = value;
  }
  if (body) headers["content-type"] = bytes ? "application/octet-stream" : "application/json";
  const suffix = query.size ? `?${query}` : "";
  output.hidden = false;
  output.textContent = "…";
  try {
    const answer = await request(target + suffix, { method: method.toUpperCase(), headers, body: body?.value });
    const kind = answer.headers.get("content-type") ?? "";
    const readable = kind.includes("json") || kind.startsWith("text/");
    const text = readable ? await answer.text() : `${(await answer.blob()).size} bytes`;
    output.textContent = `${answer.status} ${answer.statusText}\n\n${pretty(kind, text)}`;
  } catch (error) {
    output.textContent = String(error);
  }
}

function pretty(kind, text) {
  if (!kind.includes("json")) return text;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

const description = await (await request("/openapi.json")).json();
const definitions = description.components?.schemas ?? {};
const groups = new Map((description.tags ?? []).map((tag) => [tag.name, { tag, operations: [] }]));
for (const [path, item] of Object.entries(description.paths)) {
  for (const method of METHODS.filter((name) => item[name])) {
    const facts = item[method];
    groups.get(facts.tags?.[0])?.operations.push(operation(path, method, facts, definitions));
  }
}
const sections = [...groups.values()].filter(({ operations }) => operations.length).map(({ tag, operations }) =>
  element("section", {}, element("h2", { textContent: tag.name }),
    element("p", { className: "quiet", textContent: tag.description ?? "" }), ...operations));
document.getElementById("operations").replaceChildren(...sections);

const field = document.getElementById("key");
field.value = key();
field.addEventListener("change", () => setKey(field.value));
