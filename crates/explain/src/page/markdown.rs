//! Markdown to HTML: headings, paragraphs, lists, tables, code, bold text, links and pictures. No HTML inside.

use crate::page::{LinkRewrite, escape_text, is_relative};

/// Longer texts are cut.
const MAX_MARKDOWN_BYTES: usize = 1 << 20;

/// Replaces a picture by HTML of the caller, who knows which pictures there are.
pub type PictureSource<'page> = &'page dyn Fn(&str) -> Option<String>;

/// Converts a text. Links pass `rewrite`; a link that is refused becomes plain text.
pub fn markdown_to_html(markdown: &str, rewrite: LinkRewrite<'_>, picture: PictureSource<'_>) -> String {
    let mut end = markdown.len().min(MAX_MARKDOWN_BYTES);
    while !markdown.is_char_boundary(end) {
        end -= 1;
    }
    let inline = InlineWriter { rewrite, picture };
    let lines: Vec<&str> = markdown[..end].lines().collect();
    let mut out = String::new();
    let mut at = 0;
    while at < lines.len() {
        at = block(&lines, at, &inline, &mut out);
    }
    out
}

/// Writes the block that begins at a line and returns the line after it, which is always a later one.
fn block(lines: &[&str], at: usize, inline: &InlineWriter<'_>, out: &mut String) -> usize {
    let line = lines[at].trim_end();
    if line.trim().is_empty() {
        return at + 1;
    }
    if line.starts_with("```") {
        let end = (at + 1..lines.len()).find(|next| lines[*next].starts_with("```")).unwrap_or(lines.len());
        out.push_str(&format!("<pre><code>{}</code></pre>\n", escape_text(&lines[at + 1..end].join("\n"))));
        return end + 1;
    }
    let level = line.bytes().take_while(|byte| *byte == b'#').count();
    if (1..=6).contains(&level) && line.as_bytes().get(level) == Some(&b' ') {
        out.push_str(&format!("<h{level}>{}</h{level}>\n", inline.write(&line[level + 1..])));
        return at + 1;
    }
    if line == "---" {
        out.push_str("<hr>\n");
        return at + 1;
    }
    if line.starts_with('|')
        && lines.get(at + 1).is_some_and(|next| next.starts_with("|-") || next.starts_with("| -"))
    {
        return table(lines, at, inline, out);
    }
    if item(line).is_some() {
        return list(lines, at, inline, out);
    }
    let ends = |next: &usize| {
        let text = lines[*next];
        text.trim().is_empty()
            || text.starts_with('#')
            || text.starts_with("```")
            || text.starts_with('|')
            || item(text).is_some()
    };
    let end = (at + 1..lines.len()).find(ends).unwrap_or(lines.len());
    out.push_str(&format!("<p>{}</p>\n", inline.write(&lines[at..end].join("\n"))));
    end
}

/// The text of a list item and whether the list is numbered.
fn item(line: &str) -> Option<(bool, &str)> {
    if let Some(text) = line.strip_prefix("- ").or_else(|| line.strip_prefix("* ")) {
        return Some((false, text));
    }
    let (number, text) = line.split_once(". ")?;
    (!number.is_empty() && number.len() < 4 && number.bytes().all(|byte| byte.is_ascii_digit()))
        .then_some((true, text))
}

fn list(lines: &[&str], at: usize, inline: &InlineWriter<'_>, out: &mut String) -> usize {
    let numbered = item(lines[at]).is_some_and(|(numbered, _)| numbered);
    let tag = if numbered { "ol" } else { "ul" };
    out.push_str(&format!("<{tag}>\n"));
    let mut next = at;
    while let Some((kind, text)) = lines.get(next).and_then(|line| item(line)) {
        if kind != numbered {
            break;
        }
        out.push_str(&format!("<li>{}</li>\n", inline.write(text)));
        next += 1;
    }
    out.push_str(&format!("</{tag}>\n"));
    next
}

fn table(lines: &[&str], at: usize, inline: &InlineWriter<'_>, out: &mut String) -> usize {
    let mut row = |line: &str, tag: &str| {
        let cells = line.trim().trim_start_matches('|').trim_end_matches('|');
        let cells: Vec<String> =
            cells.split(" | ").map(|cell| format!("<{tag}>{}</{tag}>", inline.write(cell.trim()))).collect();
        out.push_str(&format!("<tr>{}</tr>\n", cells.concat()));
    };
    row(lines[at], "th");
    let mut next = at + 2;
    while let Some(line) = lines.get(next).filter(|line| line.starts_with('|')) {
        row(line, "td");
        next += 1;
    }
    let written = std::mem::take(out);
    let start = written.rfind("<tr><th>").unwrap_or(written.len());
    *out =
        format!("{}<div class=\"table\"><table>\n{}</table></div>\n", &written[..start], &written[start..]);
    next
}

/// Writes text inside blocks.
struct InlineWriter<'page> {
    rewrite: LinkRewrite<'page>,
    picture: PictureSource<'page>,
}

impl InlineWriter<'_> {
    fn write(&self, text: &str) -> String {
        let mut out = String::new();
        let mut rest = text;
        let mut bold = false;
        while let Some(letter) = rest.chars().next() {
            let taken = match letter {
                '\\' => self.escaped(rest, &mut out),
                '`' => self.code(rest, &mut out),
                '!' if rest.starts_with("![") => self.link(&rest[1..], true, &mut out).map(|taken| taken + 1),
                '[' => self.link(rest, false, &mut out),
                '*' if rest.starts_with("**") => {
                    bold = !bold;
                    out.push_str(if bold { "<strong>" } else { "</strong>" });
                    Some(2)
                }
                '&' if rest.starts_with("&amp;") => {
                    out.push_str("&amp;");
                    Some(5)
                }
                _ => None,
            };
            let taken = taken.unwrap_or_else(|| {
                out.push_str(&escape_text(&rest[..letter.len_utf8()]));
                letter.len_utf8()
            });
            rest = &rest[taken..];
        }
        if bold {
            out.push_str("</strong>");
        }
        out
    }

    fn escaped(&self, rest: &str, out: &mut String) -> Option<usize> {
        let next = rest[1..].chars().next().filter(|letter| letter.is_ascii_punctuation())?;
        out.push_str(&escape_text(&next.to_string()));
        Some(2)
    }

    fn code(&self, rest: &str, out: &mut String) -> Option<usize> {
        let fence = rest.bytes().take_while(|byte| *byte == b'`').count();
        let body = &rest[fence..];
        let mut from = 0;
        let end = loop {
            let at = from + body[from..].find(&rest[..fence])?;
            let run = body[at..].bytes().take_while(|byte| *byte == b'`').count();
            if run == fence {
                break at;
            }
            from = at + run;
        };
        let inner = &body[..end];
        let trimmed = if fence > 1 {
            inner.strip_prefix(' ').and_then(|inner| inner.strip_suffix(' ')).unwrap_or(inner)
        } else {
            inner
        };
        out.push_str(&format!("<code>{}</code>", escape_text(trimmed)));
        Some(fence * 2 + end)
    }

    /// A link or a picture: `[text](target)`. The text is not nested further.
    fn link(&self, rest: &str, picture: bool, out: &mut String) -> Option<usize> {
        let middle = rest.find("](")?;
        let target = &rest[middle + 2..];
        let length = target.find(')')?;
        let target = &target[..length];
        let label = &rest[1..middle];
        if label.contains('\n') || label.len() > 2000 {
            return None;
        }
        if picture {
            out.push_str(&(self.picture)(target).unwrap_or_else(|| escape_text(label)));
        } else {
            let shown = InlineWriter { rewrite: &|_| None, picture: &|_| None };
            // Links inside links do not exist; brackets of the label are text.
            let text = if label.contains('[') { escape_text(label) } else { shown.write(label) };
            match Some(target).filter(|target| is_relative(target)).and_then(self.rewrite) {
                Some(link) => out.push_str(&format!("<a href=\"{}\">{text}</a>", escape_text(&link))),
                None => out.push_str(&text),
            }
        }
        Some(middle + 2 + length + 1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn html(markdown: &str) -> String {
        markdown_to_html(markdown, &|link| Some(link.to_owned()), &|source| {
            (source == "diagram.svg").then(|| "<svg></svg>".to_owned())
        })
    }

    #[test]
    fn what_we_write_is_shown() {
        assert_eq!(html("# A \\*b\\*\n"), "<h1>A *b*</h1>\n");
        assert_eq!(html("x **y** `a<b`\n"), "<p>x <strong>y</strong> <code>a&lt;b</code></p>\n");
        assert_eq!(html("``` a``b ```"), "<pre><code></code></pre>\n");
        assert_eq!(html("x ``` a``b ```"), "<p>x <code>a``b</code></p>\n");
        assert_eq!(
            html("- [`a:1`](a#L1)\n- c\n"),
            "<ul>\n<li><a href=\"a#L1\"><code>a:1</code></a></li>\n<li>c</li>\n</ul>\n"
        );
        assert_eq!(
            html("| a | b |\n|---|---|\n| 1 | 2 |\n"),
            "<div class=\"table\"><table>\n<tr><th>a</th><th>b</th></tr>\n<tr><td>1</td><td>2</td></tr>\n</table></div>\n"
        );
        assert_eq!(html("![x](diagram.svg)"), "<p><svg></svg></p>\n");
        assert_eq!(html("1. a\n1. b\n"), "<ol>\n<li>a</li>\n<li>b</li>\n</ol>\n");
    }

    #[test]
    fn html_and_foreign_links_stay_text() {
        assert_eq!(html("<script>alert(1)</script>"), "<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>\n");
        assert_eq!(html("[x](javascript:alert)"), "<p>x</p>\n");
        assert_eq!(html("[x](//evil.example)"), "<p>x</p>\n");
        assert_eq!(html("![x](http://evil/x.png)"), "<p>x</p>\n");
        assert_eq!(html("[x](a\"onclick=)"), "<p>x</p>\n");
    }

    proptest! {
        #[test]
        fn only_our_tags_come_out(text in "[a-z#*`|\\[\\]()<>!&\\\\ \n-]{0,80}") {
            let out = html(&text);
            for tag in out.split('<').skip(1) {
                let name: String = tag.trim_start_matches('/').chars().take_while(|letter| letter.is_ascii_alphanumeric()).collect();
                prop_assert!(["p", "h1", "h2", "h3", "h4", "h5", "h6", "pre", "code", "strong", "a", "ul", "ol", "li", "hr", "table", "tr", "td", "th", "div", "svg"].contains(&name.as_str()), "{}", out);
            }
        }
    }
}
