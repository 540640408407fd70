// Text of a job, made safe to look at. It only ever becomes text nodes; this also takes away its power over what is around it:
// escape sequences of terminals, characters that turn the reading direction, and lines too long to lay out.

/** Characters of a line that are shown; a browser lays out longer ones in seconds. */
const LINE_CHARACTERS = 2000;

// eslint-disable-next-line no-control-regex
const ESCAPES = /\x1b(?:\[([0-9;:]*)([A-Za-z])|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[PX^_][^\x1b]*(?:\x1b\\)?|[@-Z\\-_a-z=>()#][0-9A-B]?)|\x9b[0-9;]*[A-Za-z]/g;
const DIRECTION = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
// eslint-disable-next-line no-control-regex
const CONTROL = /[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]/g;

/** A run of characters with the colours of a terminal: class names such as `ansi-1` and `ansi-bold`. */
export interface TextRun {
  text: string;
  style: string;
}

const visible = (text: string): string =>
  text
    .replace(DIRECTION, (letter) => `\u27e8U+${letter.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}\u27e9`)
    .replace(CONTROL, "\ufffd");

/** A carriage return goes back to the beginning of its line, as progress bars do: only the last state is shown. */
function settleLine(line: string): string {
  const text = line.endsWith("\r") ? line.slice(0, -1) : line;
  const back = text.lastIndexOf("\r");
  return back < 0 ? text : text.slice(back + 1);
}

function cutLine(line: string): string {
  if (line.length <= LINE_CHARACTERS) return line;
  return `${line.slice(0, LINE_CHARACTERS)} \u2026 ${(line.length - LINE_CHARACTERS).toLocaleString("en")} more characters`;
}

/** Text without colours. */
export function plain(text: string): string {
  return text.split("\n").map((line) => visible(cutLine(settleLine(line)).replace(ESCAPES, ""))).join("\n");
}

/** Text with the colours that escape sequences give it. */
export function coloured(text: string): TextRun[] {
  const runs: TextRun[] = [];
  let style = "";
  const add = (piece: string) => {
    if (!piece) return;
    const last = runs.at(-1);
    if (last?.style === style) last.text += piece;
    else runs.push({ text: piece, style });
  };
  text.split("\n").forEach((raw, index) => {
    if (index > 0) add("\n");
    const line = cutLine(settleLine(raw));
    let from = 0;
    for (const match of line.matchAll(ESCAPES)) {
      add(visible(line.slice(from, match.index)));
      from = match.index + match[0].length;
      if (match[2] === "m") style = applySgr(style, match[1] ?? "");
    }
    add(visible(line.slice(from)));
  });
  return runs;
}

function applySgr(style: string, parameters: string): string {
  const classes = new Set(style.split(" ").filter(Boolean));
  const drop = (prefix: RegExp) => { for (const name of classes) if (prefix.test(name)) classes.delete(name); };
  const codes = parameters.split(/[;:]/).map(Number);
  for (let at = 0; at < codes.length; at += 1) {
    const code = codes[at] ?? 0;
    if (code === 0) classes.clear();
    else if (code === 1) classes.add("ansi-bold");
    else if (code === 2) classes.add("ansi-dim");
    else if (code === 4) classes.add("ansi-under");
    else if (code === 22) drop(/^ansi-(bold|dim)$/);
    else if (code === 24) classes.delete("ansi-under");
    else if (code === 38 || code === 48) at += codes[at + 1] === 5 ? 2 : 4;
    else if ((code >= 30 && code <= 37) || (code >= 90 && code <= 97)) {
      drop(/^ansi-\d+$/);
      classes.add(`ansi-${code < 90 ? code - 30 : code - 82}`);
    } else if (code === 39) drop(/^ansi-\d+$/);
  }
  return [...classes].sort().join(" ");
}
