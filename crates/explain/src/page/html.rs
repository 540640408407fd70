//! The whole page: text, pictures, colours for light and dark, and a policy that allows nothing else.

use serde::{Deserialize, Serialize};

use crate::page::markdown::markdown_to_html;
use crate::page::svg::DIAGRAM_STYLE;
use crate::page::{LinkRewrite, escape_text, sanitise_svg};

/// Slug of the picture of changes. No part has it: slugs of parts begin with a letter or a digit.
pub const CHANGES_SLUG: &str = "-changes";

/// A picture of the page.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PageDiagram {
    /// Slug of the part; empty for the picture of all parts.
    pub slug: String,
    /// Name for people.
    pub name: String,
    /// SVG as `dot` wrote it.
    pub svg: String,
}

const PAGE_STYLE: &str = ":root{color-scheme:light dark;--back:#fff;--text:#1c2430;--soft:#5a6472;--line:#d9dee6;--link:#22569b;--code:#f2f4f8}\
@media(prefers-color-scheme:dark){:root{--back:#12161d;--text:#e6e9ef;--soft:#9aa5b5;--line:#2c3543;--link:#8ab4f8;--code:#1c232e}}\
body{margin:0 auto;max-width:60rem;padding:2rem 1.25rem 4rem;background:var(--back);color:var(--text);font:16px/1.55 system-ui,sans-serif}\
h1,h2,h3{line-height:1.25}h2{margin-top:2.5rem;border-bottom:1px solid var(--line);padding-bottom:.3rem}\
a{color:var(--link)}code{background:var(--code);padding:.1em .3em;border-radius:4px;font:.88em ui-monospace,monospace;overflow-wrap:anywhere}\
pre{background:var(--code);padding:1rem;overflow:auto;border-radius:6px}.table{overflow-x:auto}\
table{border-collapse:collapse;width:100%;font-size:.92em}td,th{border-bottom:1px solid var(--line);padding:.45rem .6rem;text-align:left;vertical-align:top}\
li{margin:.3rem 0}hr{border:0;border-top:1px solid var(--line);margin:2.5rem 0 1rem}svg{max-width:100%;height:auto}figure{margin:1.5rem 0;overflow-x:auto}";

/// Content security policy of the page: its own styles and nothing else. No scripts, no requests, no frames.
pub const PAGE_POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// Makes the page. Links of text and pictures pass `rewrite`; links to the picture of a part become anchors.
pub fn explained_page(
    title: &str,
    markdown: &str,
    diagrams: &[PageDiagram],
    rewrite: LinkRewrite<'_>,
) -> String {
    let anchor = |link: &str| {
        let slug = link.strip_prefix("diagrams/").unwrap_or(link).strip_suffix(".svg")?;
        diagrams
            .iter()
            .any(|diagram| diagram.slug == slug && !slug.is_empty())
            .then(|| format!("#part-{slug}"))
    };
    let links = |link: &str| anchor(link).or_else(|| rewrite(link));
    let draw = |diagram: &PageDiagram| sanitise_svg(&diagram.svg, &links);
    let drawn = |slug: &str| diagrams.iter().find(|diagram| diagram.slug == slug).and_then(draw);
    let (overview, changes) = (drawn(""), drawn(CHANGES_SLUG));
    let picture = |source: &str| {
        let svg = match source {
            "diagram.svg" => overview.as_ref(),
            "changes.svg" => changes.as_ref(),
            _ => None,
        };
        Some(format!("<figure>{}</figure>", svg?))
    };
    let mut body = markdown_to_html(markdown, &links, &picture);
    let inner: Vec<(&PageDiagram, String)> = diagrams
        .iter()
        .filter(|diagram| !diagram.slug.is_empty() && diagram.slug != CHANGES_SLUG)
        .filter_map(|diagram| Some((diagram, draw(diagram)?)))
        .collect();
    if !inner.is_empty() {
        body.push_str("<h2>Inside the parts</h2>\n");
    }
    for (diagram, svg) in inner {
        let slug: String =
            diagram.slug.chars().filter(|letter| letter.is_ascii_alphanumeric() || *letter == '-').collect();
        body.push_str(&format!(
            "<h3 id=\"part-{slug}\">{}</h3>\n<figure>{svg}</figure>\n",
            escape_text(&diagram.name)
        ));
    }
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta http-equiv=\"Content-Security-Policy\" content=\"{PAGE_POLICY}\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"referrer\" content=\"no-referrer\">\n<title>{}</title>\n<style>{PAGE_STYLE}{DIAGRAM_STYLE}</style>\n</head>\n<body>\n{body}</body>\n</html>\n",
        escape_text(title)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_become_anchors_and_text_stays_text() {
        let svg = "<svg><a xlink:href=\"diagrams/core.svg\"><text>x</text></a></svg>";
        let diagrams = [
            PageDiagram { slug: String::new(), name: String::new(), svg: svg.to_owned() },
            PageDiagram { slug: "core".to_owned(), name: "<core>".to_owned(), svg: "<svg></svg>".to_owned() },
        ];
        let page = explained_page("</title><script>", "# A\n\n![p](diagram.svg)\n", &diagrams, &|_| None);
        assert!(page.contains("<a href=\"#part-core\">"));
        assert!(page.contains("<h3 id=\"part-core\">&lt;core&gt;</h3>"));
        assert!(!page.contains("<script"));
    }
}
