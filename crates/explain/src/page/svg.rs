//! SVG as Graphviz writes it, read strictly and written anew.
//!
//! Only elements and attributes of the lists below survive, each value checked by its kind. An element that is not known
//! disappears with everything inside. A text that is no balanced SVG is refused.

use crate::page::{LinkRewrite, escape_text, is_relative};

/// Longer pictures are none of ours.
const MAX_SVG_BYTES: usize = 4 << 20;
/// Nesting of elements. Graphviz has six levels.
const MAX_DEPTH: usize = 32;

const ELEMENTS: &[&str] = &["svg", "g", "a", "title", "polygon", "polyline", "path", "ellipse", "text"];

/// What the value of an attribute may be.
#[derive(Clone, Copy)]
enum ValueKind {
    /// Digits, signs, units, and letters of path commands.
    Numbers,
    /// Functions such as `translate(4 5)`.
    Transform,
    /// A name or number of a colour.
    Colour,
    /// Words.
    Words,
}

const ATTRIBUTES: &[(&str, ValueKind)] = &[
    ("viewBox", ValueKind::Numbers),
    ("width", ValueKind::Numbers),
    ("height", ValueKind::Numbers),
    ("points", ValueKind::Numbers),
    ("d", ValueKind::Numbers),
    ("cx", ValueKind::Numbers),
    ("cy", ValueKind::Numbers),
    ("rx", ValueKind::Numbers),
    ("ry", ValueKind::Numbers),
    ("x", ValueKind::Numbers),
    ("y", ValueKind::Numbers),
    ("stroke-width", ValueKind::Numbers),
    ("stroke-dasharray", ValueKind::Numbers),
    ("font-size", ValueKind::Numbers),
    ("transform", ValueKind::Transform),
    ("fill", ValueKind::Colour),
    ("stroke", ValueKind::Colour),
    ("class", ValueKind::Words),
    ("text-anchor", ValueKind::Words),
    ("font-family", ValueKind::Words),
    ("font-weight", ValueKind::Words),
];

impl ValueKind {
    fn allows(self, value: &str) -> bool {
        let of = |more: &[u8]| value.bytes().all(|byte| byte.is_ascii_alphanumeric() || more.contains(&byte));
        value.len() < 100_000
            && match self {
                Self::Numbers => of(b" .,-+"),
                Self::Transform => of(b" .,-+()"),
                Self::Colour => of(b"#") && value.len() < 32,
                Self::Words => of(b" _,-") && value.len() < 200,
            }
    }
}

/// Colours of the classes, for light and dark surroundings.
pub(crate) const DIAGRAM_STYLE: &str = "svg text{fill:#1c2430}svg .graph>text{fill:#5a6472}\
svg a:hover path,svg a:hover polygon,svg a:hover polyline,svg a:hover ellipse{stroke-width:2.4}\
@media(prefers-color-scheme:dark){svg text{fill:#e6e9ef}svg .graph>text{fill:#9aa5b5}\
svg .node path,svg .node polygon,svg .node ellipse{fill:#232b38;stroke:#8a93a1}\
svg .node.part path,svg .node.part polygon{fill:#1d2b45;stroke:#7fa3dd}\
svg .node.entry path,svg .node.entry polygon{fill:#3a2d12;stroke:#d8a545}\
svg .node.store path,svg .node.store polygon,svg .node.store polyline{fill:#173122;stroke:#6fbf83}\
svg .node.added path,svg .node.added polygon{fill:#14361f;stroke:#5fce7f}\
svg .node.removed path,svg .node.removed polygon{fill:#431c1c;stroke:#f08a80}\
svg .node.changed path,svg .node.changed polygon{fill:#3a2d12;stroke:#d8a545}\
svg .edge path{stroke:#8e9bb0}svg .edge polygon{fill:#8e9bb0;stroke:#8e9bb0}\
svg .edge.added path{stroke:#5fce7f}svg .edge.removed path{stroke:#f08a80}}";

/// A picture for a page: no style, no scripts, links through `rewrite`. `None` if the text is no SVG of Graphviz.
pub fn sanitise_svg(svg: &str, rewrite: LinkRewrite<'_>) -> Option<String> {
    write_svg(svg, "", rewrite)
}

/// A picture for a file of its own, with the style inside.
pub fn standalone_svg(svg: &str, rewrite: LinkRewrite<'_>) -> Option<String> {
    // In XML the `>` of a selector needs no escape, and `<` and `&` do not occur.
    write_svg(svg, &format!("<style>{DIAGRAM_STYLE}</style>"), rewrite)
}

fn write_svg(svg: &str, after_start: &str, rewrite: LinkRewrite<'_>) -> Option<String> {
    if svg.len() > MAX_SVG_BYTES {
        return None;
    }
    let mut out = String::with_capacity(svg.len());
    let mut open: Vec<&str> = Vec::new();
    // Depth of unknown elements that are being left out.
    let mut skipped = 0_usize;
    let mut rest = svg;
    while let Some(at) = rest.find('<') {
        let text = &rest[..at];
        if skipped == 0 && matches!(open.last(), Some(&("text" | "title"))) {
            out.push_str(&escape_text(&decode(text)));
        }
        rest = &rest[at..];
        if let Some(after) = skip_declaration(rest) {
            rest = after?;
            continue;
        }
        let end = tag_end(rest)?;
        let tag = &rest[1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            if skipped > 0 {
                skipped -= 1;
            } else {
                (open.pop()? == name.trim()).then_some(())?;
                out.push_str(&format!("</{}>", name.trim()));
                if open.is_empty() {
                    return Some(out);
                }
            }
            continue;
        }
        let (body, empty) = tag.strip_suffix('/').map_or((tag, false), |body| (body, true));
        let (name, attributes) =
            body.split_once(|letter: char| letter.is_ascii_whitespace()).unwrap_or((body, ""));
        let known = ELEMENTS.iter().find(|known| **known == name);
        let Some(name) = known.filter(|_| skipped == 0 && (!open.is_empty() || name == "svg")) else {
            (!open.is_empty()).then_some(())?;
            skipped += usize::from(!empty);
            continue;
        };
        if open.len() >= MAX_DEPTH || (*name == "svg" && !open.is_empty()) {
            return None;
        }
        out.push_str(&start_tag(name, attributes, rewrite)?);
        if *name == "svg" {
            out.push_str(after_start);
        }
        if empty {
            out.push_str(&format!("</{name}>"));
        } else {
            open.push(name);
        }
    }
    None
}

/// What follows a comment, declaration or instruction. `Some(None)` if it does not end.
fn skip_declaration(text: &str) -> Option<Option<&str>> {
    let after = |end: &str| text.find(end).map(|at| &text[at + end.len()..]);
    if text.starts_with("<!--") {
        Some(after("-->"))
    } else if text.starts_with("<?") {
        Some(after("?>"))
    } else if text.starts_with("<!") {
        // A document type with entities of its own is not one of Graphviz.
        Some(after(">").filter(|rest| !text[..text.len() - rest.len()].contains('[')))
    } else {
        None
    }
}

/// The `>` that ends a tag, outside of quotes.
fn tag_end(text: &str) -> Option<usize> {
    let mut quote = None;
    for (at, byte) in text.bytes().enumerate() {
        match (quote, byte) {
            (None, b'>') => return Some(at),
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(open), byte) if open == byte => quote = None,
            _ => {}
        }
    }
    None
}

fn start_tag(name: &str, attributes: &str, rewrite: LinkRewrite<'_>) -> Option<String> {
    let mut out = format!("<{name}");
    if name == "svg" {
        out.push_str(" xmlns=\"http://www.w3.org/2000/svg\" role=\"img\"");
    }
    let mut rest = attributes.trim_start();
    while !rest.is_empty() {
        let (key, after) = rest.split_once('=')?;
        let key = key.trim();
        let after = after.trim_start();
        let quote = after.chars().next().filter(|letter| *letter == '"' || *letter == '\'')?;
        let (value, after) = after[1..].split_once(quote)?;
        rest = after.trim_start();
        let value = decode(value);
        if name == "a" && (key == "xlink:href" || key == "href") {
            let link = Some(value.as_str()).filter(|link| is_relative(link)).and_then(rewrite);
            out.push_str(&link.map(|link| format!(" href=\"{}\"", escape_text(&link))).unwrap_or_default());
        } else if ATTRIBUTES.iter().any(|(known, kind)| *known == key && kind.allows(&value)) {
            out.push_str(&format!(" {key}=\"{}\"", escape_text(&value)));
        }
    }
    out.push('>');
    Some(out)
}

/// Replaces the entities that XML knows by itself, and numbers.
fn decode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let Some((name, after)) = rest.split_once(';').filter(|(name, _)| name.len() < 10) else {
            out.push('&');
            continue;
        };
        let number = name.strip_prefix("#x").map(|hex| u32::from_str_radix(hex, 16).ok());
        let number = number.or_else(|| name.strip_prefix('#').map(|digits| digits.parse().ok())).flatten();
        let letter = match name {
            "amp" => Some('&'),
            "lt" => Some('<'),
            "gt" => Some('>'),
            "quot" => Some('"'),
            "apos" => Some('\''),
            "nbsp" => Some(' '),
            _ => number.and_then(char::from_u32),
        };
        match letter {
            Some(letter) => {
                out.push(letter);
                rest = after;
            }
            None => out.push('&'),
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn clean(svg: &str) -> Option<String> {
        sanitise_svg(svg, &|link| Some(format!("/files/{link}")))
    }

    #[test]
    fn what_graphviz_writes_survives() {
        let svg = "<?xml version=\"1.0\"?>\n<!DOCTYPE svg PUBLIC \"x\"\n \"y\">\n<!-- a --><svg width=\"8pt\" viewBox=\"0 0 8 8\" xmlns=\"x\"><g id=\"n\" class=\"node part\"><title>p0</title><a xlink:href=\"src/a.py#L3\" xlink:title=\"t\"><path fill=\"#eaf1fb\" d=\"M1,2C3,4\"/><text x=\"1\">a &amp; b</text></a></g></svg>\n";
        assert_eq!(
            clean(svg).unwrap(),
            "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"8pt\" viewBox=\"0 0 8 8\"><g class=\"node part\"><title>p0</title><a href=\"/files/src/a.py#L3\"><path fill=\"#eaf1fb\" d=\"M1,2C3,4\"></path><text x=\"1\">a &amp; b</text></a></g></svg>"
        );
        assert!(standalone_svg(svg, &|link| Some(link.to_owned())).unwrap().contains("<style>"));
    }

    #[test]
    fn scripts_handlers_and_foreign_links_disappear() {
        let cases = [
            "<svg><script>alert(1)</script></svg>",
            "<svg onload=\"alert(1)\"></svg>",
            "<svg><a xlink:href=\"javascript:alert(1)\"></a></svg>",
            "<svg><a href=\"//evil\"></a></svg>",
            "<svg><a href=\"a/../../x\"></a></svg>",
            "<svg><foreignObject><p>alert</p></foreignObject></svg>",
            "<svg><g style=\"background:url(alert)\"></g></svg>",
            "<svg><path fill=\"url(#alert)\"/></svg>",
            "<svg><image href=\"alert\"/><use href=\"alert\"/></svg>",
            "<svg><g>alert<![CDATA[alert]]></g></svg>",
            "<svg><style>alert</style></svg>",
        ];
        for case in cases {
            let out = clean(case).unwrap_or_default();
            assert!(
                !out.contains("alert") && !out.contains("evil") && !out.contains(".."),
                "{case} gave {out}"
            );
        }
        assert_eq!(clean("<svg><text>&lt;script&gt;</text></svg>").unwrap().matches("<script").count(), 0);
    }

    #[test]
    fn what_is_no_svg_is_refused() {
        for case in [
            "",
            "x",
            "<svg>",
            "<svg><g></svg></g>",
            "<html></html>",
            "<!DOCTYPE a [<!ENTITY x 'y'>]><svg></svg>",
            "<svg",
        ] {
            assert_eq!(clean(case), None, "{case}");
        }
    }

    proptest! {
        #[test]
        fn nothing_but_known_tags_comes_out(text in "[<>/a-z\"'= &;#!-]{0,60}") {
            if let Some(out) = clean(&format!("<svg>{text}</svg>")) {
                for tag in out.split('<').skip(1) {
                    let name: String = tag.trim_start_matches('/').chars().take_while(|letter| letter.is_ascii_alphanumeric()).collect();
                    prop_assert!(ELEMENTS.contains(&name.as_str()), "{}", out);
                }
                prop_assert!(!out.contains("script") || !out.contains("<script"));
            }
        }
    }
}
