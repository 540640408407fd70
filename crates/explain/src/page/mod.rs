//! The explanation as a page for browsers.
//!
//! Markdown and SVG are untrusted: the first may come from a model, the second from a program inside a sandbox. Both
//! are taken apart and written anew from short lists of what is known; nothing is passed through.

mod html;
mod markdown;
mod svg;

pub use html::{CHANGES_SLUG, PAGE_POLICY, PageDiagram, explained_page};
pub use markdown::{PictureSource, markdown_to_html};
pub use svg::{sanitise_svg, standalone_svg};

/// Turns a link of the explanation into one of the page, or refuses it. The input is relative: a path, maybe with
/// `#L` and a line.
pub type LinkRewrite<'page> = &'page dyn Fn(&str) -> Option<String>;

/// Text for HTML or XML, in elements and quoted attributes.
pub(crate) fn escape_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(letter),
            letter if letter.is_control() => out.push(' '),
            letter => out.push(letter),
        }
    }
    out
}

/// True if a link leads to a place of the same site and names no scheme, host or way up.
pub(crate) fn is_relative(link: &str) -> bool {
    let path = link.split('#').next().unwrap_or_default();
    let safe = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-~%#".contains(&byte);
    link.bytes().all(safe)
        && !link.starts_with('/')
        && !path.split('/').any(|part| part == "..")
        && !path.to_ascii_lowercase().contains("%2e%2e")
        && !path.to_ascii_lowercase().contains("%5c")
}
