//! The contents of a kernel's messages that matter, read with bounds: lists and maps of a hostile kernel stop growing.

use std::fmt;

use sandyard_protocol::limits::{OUTPUT_BYTES, OUTPUT_PARTS};
use sandyard_protocol::{ExecutionError, OutputKind, OutputStream};
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::message::Incoming;
use crate::limits::kernels::{ERROR_BYTES, TRACEBACK_LINES, TREE_BYTES};

/// Longest MIME type; the registry's longest has 73 letters.
const MIME_BYTES: usize = 128;

/// The content of a published message.
#[derive(Debug)]
pub(super) enum Published {
    Text(OutputStream, String),
    /// An output in several media types.
    Output(OutputKind, MimeBundle),
    Error(ExecutionError),
    /// The next output replaces the output so far.
    Clear,
    /// The kernel has done with the request.
    Idle,
    /// The kernel began with the request; carries its count.
    Input(Option<u64>),
    /// A message that was too large to be taken, with the number of bytes that were left out.
    TooLarge(u64),
    /// A message that does not concern an execution.
    Other,
}

/// The kernel's answer to an execution.
#[derive(Debug, Clone, Default)]
pub(super) struct ExecuteReply {
    pub(super) status: String,
    pub(super) execution_count: Option<u64>,
    pub(super) error: ExecutionError,
}

#[derive(Deserialize)]
struct StreamContent {
    #[serde(default)]
    name: String,
    #[serde(default)]
    text: String,
}

#[derive(Deserialize)]
struct DisplayContent {
    #[serde(default)]
    data: MimeBundle,
}

/// As `DisplayContent`, with its texts alone.
#[derive(Deserialize)]
struct ShownTexts {
    #[serde(default)]
    data: Texts,
}

#[derive(Deserialize)]
struct StatusContent {
    #[serde(default)]
    execution_state: String,
}

#[derive(Deserialize)]
struct Counted {
    #[serde(default)]
    execution_count: Option<u64>,
}

#[derive(Deserialize, Default)]
struct ErrorContent {
    #[serde(default)]
    status: String,
    #[serde(default)]
    execution_count: Option<u64>,
    #[serde(default)]
    ename: String,
    #[serde(default)]
    evalue: String,
    #[serde(default)]
    traceback: Lines,
}

impl Published {
    /// Parses a message. Malformed content counts as `Other`, because the kernel may send anything.
    pub(super) fn read(message: &Incoming) -> Self {
        Self::understand(message).unwrap_or(Self::Other)
    }

    fn understand(message: &Incoming) -> Option<Self> {
        let content = message.content.as_ref();
        if message.left_out > 0 {
            return Some(match message.kind.as_str() {
                "stream" => cut_stream(content, message.left_out),
                "status" => return None,
                _ => Self::TooLarge(message.left_out),
            });
        }
        Some(match message.kind.as_str() {
            "stream" => {
                let stream: StreamContent = serde_json::from_slice(content).ok()?;
                Self::Text(stream_named(&stream.name), stream.text)
            }
            "display_data" | "update_display_data" => Self::Output(OutputKind::Display, bundle(content)?),
            "execute_result" => Self::Output(OutputKind::Result, bundle(content)?),
            "error" => Self::Error(serde_json::from_slice::<ErrorContent>(content).ok()?.into_error()),
            "clear_output" => Self::Clear,
            "status" => match serde_json::from_slice::<StatusContent>(content).ok()?.execution_state.as_str()
            {
                "idle" => Self::Idle,
                _ => Self::Other,
            },
            "execute_input" => Self::Input(serde_json::from_slice::<Counted>(content).ok()?.execution_count),
            _ => Self::Other,
        })
    }
}

/// A tree of small values takes many times the room of its text, so a large output has texts only.
fn bundle(content: &[u8]) -> Option<MimeBundle> {
    if content.len() <= TREE_BYTES {
        return serde_json::from_slice::<DisplayContent>(content).ok().map(|shown| shown.data);
    }
    serde_json::from_slice::<ShownTexts>(content).ok().map(|shown| shown.data.0)
}

fn stream_named(name: &str) -> OutputStream {
    if name == "stderr" { OutputStream::Stderr } else { OutputStream::Stdout }
}

/// Reads the head of a text whose message was too long. The JSON is cut in the middle of its last member, so the member is closed
/// by hand.
fn cut_stream(head: &[u8], left_out: u64) -> Published {
    let head = String::from_utf8_lossy(head);
    let begin = head.find("\"text\"").and_then(|at| head[at + 6..].find('"').map(|quote| at + 6 + quote + 1));
    let Some(text) = begin.and_then(|begin| head.get(begin..)) else { return Published::TooLarge(left_out) };
    let name = if cut(&head, 64).contains("stderr") { "stderr" } else { "stdout" };
    let mut end = text.len();
    // A cut inside an escape takes a few bytes more away.
    for _ in 0..16 {
        if let Some(part) = text.get(..end)
            && let Ok(text) = serde_json::from_str::<String>(&format!("\"{part}\""))
        {
            let note = format!("{text}\n[… {left_out} bytes left out …]\n");
            return Published::Text(stream_named(name), note);
        }
        end = end.saturating_sub(1);
    }
    Published::TooLarge(left_out)
}

impl ExecuteReply {
    /// Parses a reply. One that can't be parsed is a failure.
    pub(super) fn read(message: &Incoming) -> Self {
        let failure: ErrorContent = serde_json::from_slice(&message.content)
            .unwrap_or(ErrorContent { status: "error".into(), ..ErrorContent::default() });
        Self {
            status: failure.status.clone(),
            execution_count: failure.execution_count,
            error: failure.into_error(),
        }
    }
}

impl ErrorContent {
    fn into_error(self) -> ExecutionError {
        let mut left = ERROR_BYTES;
        let mut bounded = |text: &str| {
            // No single text may take more than a quarter, so that the name, the message and some of the traceback always fit.
            let text = cut(&without_escapes(text), left.min(ERROR_BYTES / 4));
            left = left.saturating_sub(text.len());
            text
        };
        let (name, value) = (bounded(&self.ename), bounded(&self.evalue));
        let traceback = self.traceback.0.iter().map(|line| bounded(line)).collect();
        ExecutionError { name, value, traceback }
    }
}

/// The forms of an output: MIME type and value, in the kernel's order.
#[derive(Debug, Default)]
pub(in crate::keeper::kernels) struct MimeBundle(pub(in crate::keeper::kernels) Vec<(String, Value)>);

/// A bundle of which only the texts are read.
#[derive(Default)]
struct Texts(MimeBundle);

impl MimeBundle {
    /// The plain text, if there is one.
    pub(in crate::keeper::kernels) fn text(&self) -> Option<&str> {
        let (_, value) = self.0.iter().find(|(mime, _)| mime == "text/plain")?;
        value.as_str()
    }
}

impl<'de> Deserialize<'de> for MimeBundle {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MimeForms { texts_only: false })
    }
}

impl<'de> Deserialize<'de> for Texts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MimeForms { texts_only: true }).map(Self)
    }
}

struct MimeForms {
    texts_only: bool,
}

impl<'de> Visitor<'de> for MimeForms {
    type Value = MimeBundle;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("forms by MIME type")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<MimeBundle, A::Error> {
        let mut forms = Vec::new();
        let mut left = OUTPUT_BYTES;
        while let Some(mime) = map.next_key::<String>()? {
            let lawful = forms.len() < OUTPUT_PARTS && mime.len() <= MIME_BYTES && mime.contains('/');
            let value = match (lawful, self.texts_only) {
                (false, _) => map.next_value::<IgnoredAny>().map(|_| None)?,
                (true, false) => Some(map.next_value::<Value>()?),
                (true, true) => map.next_value::<MaybeText>()?.0.map(Value::String),
            };
            let Some(value) = value else { continue };
            // A text grows when it is written as JSON; the record bounds the written bytes again.
            let bytes = value.as_str().map_or(TREE_BYTES, str::len);
            if let Some(rest) = left.checked_sub(bytes) {
                left = rest;
                forms.push((mime, value));
            }
        }
        Ok(MimeBundle(forms))
    }
}

/// A text, or nothing for anything else.
struct MaybeText(Option<String>);

impl<'de> Deserialize<'de> for MaybeText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        impl<'de> Visitor<'de> for TextVisitor {
            type Value = MaybeText;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("anything")
            }
            fn visit_str<E>(self, text: &str) -> Result<MaybeText, E> {
                Ok(MaybeText(Some(text.to_owned())))
            }
            fn visit_bool<E>(self, _: bool) -> Result<MaybeText, E> {
                Ok(MaybeText(None))
            }
            fn visit_i64<E>(self, _: i64) -> Result<MaybeText, E> {
                Ok(MaybeText(None))
            }
            fn visit_u64<E>(self, _: u64) -> Result<MaybeText, E> {
                Ok(MaybeText(None))
            }
            fn visit_f64<E>(self, _: f64) -> Result<MaybeText, E> {
                Ok(MaybeText(None))
            }
            fn visit_unit<E>(self) -> Result<MaybeText, E> {
                Ok(MaybeText(None))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<MaybeText, A::Error> {
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(MaybeText(None))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<MaybeText, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(MaybeText(None))
            }
        }
        deserializer.deserialize_any(TextVisitor)
    }
}

/// The first lines of a list.
#[derive(Default)]
struct Lines(Vec<String>);

impl<'de> Deserialize<'de> for Lines {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct LinesVisitor;
        impl<'de> Visitor<'de> for LinesVisitor {
            type Value = Lines;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a list of lines")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Lines, A::Error> {
                let mut lines = Vec::new();
                while lines.len() < TRACEBACK_LINES {
                    match list.next_element()? {
                        Some(line) => lines.push(line),
                        None => return Ok(Lines(lines)),
                    }
                }
                // The rest is read past, not kept: a parser that stopped here would reject the whole message.
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Lines(lines))
            }
        }
        deserializer.deserialize_seq(LinesVisitor)
    }
}

/// Text without terminal escapes: CSI and OSC sequences.
pub(super) fn without_escapes(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter != '\u{1b}' {
            plain.push(letter);
            continue;
        }
        match letters.next() {
            Some('[') => while letters.next().is_some_and(|letter| !('@'..='~').contains(&letter)) {},
            Some(']') => while letters.next().is_some_and(|letter| !matches!(letter, '\u{7}' | '\\')) {},
            _ => {}
        }
    }
    plain
}

/// The beginning of a text: at most `bytes` bytes, cut between characters.
pub(in crate::keeper::kernels) fn cut(text: &str, bytes: usize) -> String {
    let mut end = text.len().min(bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

#[cfg(test)]
#[path = "content_tests.rs"]
mod tests;
