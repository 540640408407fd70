// Colours for code: comments, strings, numbers, keywords. Enough to read by, for every language with the usual lexical habits.

export interface Token {
  text: string;
  kind: "comment" | "string" | "number" | "keyword" | "name" | "";
}

const WORDS =
  "abstract and as async await auto bool boolean break case catch chan char class const continue crate def default defer del do double elif else end enum esac except export extends extern false fi final finally float fn for from func function global go if impl implements import in include instanceof int interface is lambda let local long loop match mod module move mut namespace new nil none None not null nullptr of or override package pass private protected pub public raise range ref return select self Self short signed static str string struct super switch then this throw throws trait true True False try type typeof union unsafe unsigned use using var virtual void volatile when where while with yield";
const KEYWORDS = new Set(WORDS.split(" "));
const HASH_COMMENTS = /\.(py|sh|bash|rb|pl|toml|yaml|yml|r|tcl|mk|cmake|conf|ini|dockerfile|gitignore|env)$|(^|\/)(dockerfile|makefile|\.[a-z]+ignore|\.bashrc|\.profile)$/i;
const SLASHES = /\.(c|h|cc|cpp|hpp|cs|css|scss|go|java|js|jsx|mjs|cjs|ts|tsx|kt|rs|swift|php|scala|dart|zig|json|jsonc)$/i;
const NO_CODE = /\.(md|txt|log|csv|tsv|patch|diff)$/i;

const pattern = (comment: string): RegExp =>
  new RegExp(`(${comment})|("(?:[^"\\\\\\n]|\\\\.)*"?|'(?:[^'\\\\\\n]|\\\\.)*'?|\`(?:[^\`\\\\]|\\\\.)*\`?)|(\\b\\d[\\w.]*)|([A-Za-z_$][\\w$]*)`, "g");
const HASHED = pattern("#[^\\n]*");
const SLASHED = pattern("//[^\\n]*|/\\*[\\s\\S]*?(?:\\*/|$)");
const MARKUP = /(<!--[\s\S]*?(?:-->|$))|("[^"<>]*"|'[^'<>]*')|(\b\d[\w.]*)|(<\/?[A-Za-z][\w:-]*)/g;

/** The tokens of a file by its name. Text that is no code is one token. */
export function tokens(path: string, text: string): Token[] {
  if (NO_CODE.test(path)) return [{ text, kind: "" }];
  const markup = /\.(html?|xml|svg|vue|svelte)$/i.test(path);
  const rule = markup ? MARKUP : HASH_COMMENTS.test(path) ? HASHED : SLASHES.test(path) ? SLASHED : null;
  if (!rule) return [{ text, kind: "" }];
  const found: Token[] = [];
  let from = 0;
  for (const match of text.matchAll(rule)) {
    const kind = match[1] !== undefined ? "comment" : match[2] !== undefined ? "string" : match[3] !== undefined ? "number" : markup || KEYWORDS.has(match[0]) ? "keyword" : "";
    if (kind === "") continue;
    if (match.index > from) found.push({ text: text.slice(from, match.index), kind: "" });
    found.push({ text: match[0], kind });
    from = match.index + match[0].length;
  }
  if (from < text.length) found.push({ text: text.slice(from), kind: "" });
  return found;
}

/** Tokens line by line, for a list that shows only some lines. */
export function tokenLines(path: string, text: string): Token[][] {
  const lines: Token[][] = [[]];
  for (const token of tokens(path, text)) {
    token.text.split("\n").forEach((part, index) => {
      if (index > 0) lines.push([]);
      if (part) lines.at(-1)?.push({ text: part, kind: token.kind });
    });
  }
  return lines;
}
