// Words of a model: paragraphs, lists, headings, fenced code, `code` and **bold**. Everything else stays the text it is.

import type { ComponentChildren } from "preact";

import { plain } from "./plain-text";

const INLINE = /(`[^`\n]+`|\*\*[^*\n]+\*\*)/g;

function inline(text: string): ComponentChildren[] {
  return text.split(INLINE).map((part) => {
    if (part.startsWith("`") && part.endsWith("`") && part.length > 2) return <code>{part.slice(1, -1)}</code>;
    if (part.startsWith("**") && part.endsWith("**") && part.length > 4) return <strong>{part.slice(2, -2)}</strong>;
    return part;
  });
}

export function Prose({ text }: { text: string }) {
  const blocks: ComponentChildren[] = [];
  let paragraph: string[] = [];
  let fence: string[] | null = null;
  let items: string[] = [];
  const close = () => {
    if (paragraph.length > 0) blocks.push(<p>{inline(paragraph.join("\n"))}</p>);
    if (items.length > 0) blocks.push(<ul>{items.map((item) => <li>{inline(item)}</li>)}</ul>);
    paragraph = [];
    items = [];
  };
  for (const line of plain(text).split("\n")) {
    if (line.trimStart().startsWith("```")) {
      close();
      if (fence) blocks.push(<pre>{fence.join("\n")}</pre>);
      fence = fence ? null : [];
    } else if (fence) fence.push(line);
    else if (/^#{1,4} /.test(line)) {
      close();
      blocks.push(<p class="prose-heading">{inline(line.replace(/^#+ /, ""))}</p>);
    } else if (/^\s*(?:[-*]|\d+\.) /.test(line)) {
      if (paragraph.length > 0) close();
      items.push(line.replace(/^\s*(?:[-*]|\d+\.) /, ""));
    } else if (line.trim() === "") close();
    else if (items.length > 0 && /^\s{2,}/.test(line)) items[items.length - 1] += ` ${line.trim()}`;
    else {
      if (items.length > 0) close();
      paragraph.push(line);
    }
  }
  if (fence) blocks.push(<pre>{fence.join("\n")}</pre>);
  close();
  return <div class="prose">{blocks}</div>;
}
