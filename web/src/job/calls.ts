// A tool call in words: what a person wants to know first. Arguments are cut after 2,000 bytes, so they may be no JSON any more.

export interface CallWords {
  tool: string;
  title: string;
  detail: { kind: "text"; text: string } | { kind: "edit"; old: string[]; new: string[] } | null;
}

const FIRST_LINE = 160;
const COMMAND_TOOLS = new Set(["shell", "code"]);

/** The command or code that a call runs; null for the tools that run none. */
export function commandOf(tool: string, text: string): string | null {
  if (!COMMAND_TOOLS.has(tool)) return null;
  const found = parsed(text);
  const command = found["command"] ?? found["code"];
  return typeof command === "string" ? command.trimEnd() : "";
}

export function describeCall(tool: string, text: string): CallWords {
  const found = parsed(text);
  const word = (name: string): string => (typeof found[name] === "string" ? (found[name] as string) : "");
  const firstLine = (value: string): string => value.split("\n").find((line) => line.trim())?.slice(0, FIRST_LINE) ?? "";
  const body = (value: string): CallWords["detail"] => (value.includes("\n") || value.length > FIRST_LINE ? { kind: "text", text: value } : null);
  const path = word("path");
  if (word("command")) return { tool, title: firstLine(word("command")), detail: body(word("command")) };
  if (word("code")) return { tool: word("language") || tool, title: firstLine(word("code")), detail: body(word("code")) };
  if (path && (word("old") || word("new") || Array.isArray(found["edits"]))) {
    const edits = Array.isArray(found["edits"]) ? (found["edits"] as { old?: unknown; new?: unknown }[]) : [{ old: word("old"), new: word("new") }];
    const side = (name: "old" | "new"): string[] => edits.flatMap((edit) => { const value = edit?.[name]; return typeof value === "string" && value ? value.split("\n") : []; });
    return { tool: "edit", title: path, detail: { kind: "edit", old: side("old"), new: side("new") } };
  }
  if (path && word("content")) return { tool: "write", title: path, detail: { kind: "text", text: word("content") } };
  if (path) return { tool: word("action") || tool, title: [path, word("text")].filter(Boolean).join("  "), detail: null };
  if (Array.isArray(found["actions"])) return { tool, title: (found["actions"] as Record<string, unknown>[]).map(actionWords).join(", "), detail: { kind: "text", text } };
  const words = word("question") || word("summary") || word("query") || word("text");
  if (words) return { tool, title: firstLine(words), detail: body(words) };
  return { tool, title: text.slice(0, FIRST_LINE), detail: text.length > FIRST_LINE ? { kind: "text", text } : null };
}

/** One action on a desktop: its type, then what it is done with. */
function actionWords(action: Record<string, unknown> | null): string {
  const { type, ...rest } = action ?? {};
  const values = Object.values(rest).filter((value) => typeof value === "string" || typeof value === "number");
  return [String(type ?? ""), ...values.map(String)].join(" ").slice(0, FIRST_LINE);
}

function parsed(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return beginning(text);
  }
}

/** The text members of JSON that was cut; the last one may be incomplete. */
function beginning(text: string): Record<string, unknown> {
  const found: Record<string, unknown> = {};
  for (const match of text.matchAll(/"([a-z_]+)"\s*:\s*"((?:[^"\\]|\\.)*)/g)) {
    const [, name, raw] = match;
    if (!name || raw === undefined || name in found) continue;
    try {
      found[name] = JSON.parse(`"${raw.replace(/\\(u[0-9a-fA-F]{0,3})?$/, "")}"`) as string;
    } catch {
      found[name] = raw;
    }
  }
  return found;
}
