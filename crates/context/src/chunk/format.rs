//! How a text is cut, by its path and its first bytes.

use super::logs;

/// The ways to cut a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextFormat {
    /// A program in a known language or not.
    Code,
    /// Text for people: Markdown, reStructuredText, plain text.
    Prose,
    /// Lines with times, or the output of a command.
    Log,
    /// One JSON value.
    Json,
    /// One JSON value per line.
    JsonLines,
    /// A Jupyter notebook.
    Notebook,
}

/// Endings of paths and their formats. Everything else is decided by content.
const ENDINGS: [(&str, TextFormat); 21] = [
    ("adoc", TextFormat::Prose),
    ("geojson", TextFormat::Json),
    ("ipynb", TextFormat::Notebook),
    ("json", TextFormat::Json),
    ("jsonl", TextFormat::JsonLines),
    ("log", TextFormat::Log),
    ("markdown", TextFormat::Prose),
    ("md", TextFormat::Prose),
    ("mdx", TextFormat::Prose),
    ("ndjson", TextFormat::JsonLines),
    ("org", TextFormat::Prose),
    ("out", TextFormat::Log),
    ("rst", TextFormat::Prose),
    ("tex", TextFormat::Prose),
    ("text", TextFormat::Prose),
    ("txt", TextFormat::Prose),
    ("stderr", TextFormat::Log),
    ("stdout", TextFormat::Log),
    ("trace", TextFormat::Log),
    ("csv", TextFormat::Log),
    ("tsv", TextFormat::Log),
];

impl TextFormat {
    /// The format of a text.
    pub fn of(path: &str, text: &str) -> Self {
        let name = path.rsplit('/').next().unwrap_or(path);
        let ending = name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase());
        let by_ending = ending
            .as_deref()
            .and_then(|ending| ENDINGS.iter().find(|(known, _)| *known == ending).map(|&(_, format)| format));
        match (by_ending, ending) {
            (Some(Self::Prose), _) if logs::is_log(text) => Self::Log,
            (Some(format), _) => format,
            (None, Some(_)) => Self::Code,
            (None, None) => Self::by_content(text),
        }
    }

    fn by_content(text: &str) -> Self {
        let first = text.trim_start();
        if first.starts_with('{') || first.starts_with('[') {
            let line = first.lines().next().unwrap_or("").trim_end();
            if line.ends_with('}') && first.lines().nth(1).is_some_and(|next| next.starts_with('{')) {
                return Self::JsonLines;
            }
            // A log may begin with a bracket too.
            if !logs::is_log(text) {
                return Self::Json;
            }
        }
        if first.starts_with("#!") {
            return Self::Code;
        }
        if logs::is_log(text) { Self::Log } else { Self::Prose }
    }
}
