//! One execution as a cell of a notebook, in nbformat 4.5.

use std::collections::BTreeMap;

use sandyard_protocol::{ExecutionError, OutputKind, OutputStream};
use serde::Serialize;
use serde_json::Value;

use super::jupyter::{MimeBundle, cut};
use crate::limits::kernels::{CELL_BYTES, TREE_BYTES};

/// The outputs of a cell, bounded.
#[derive(Debug, Default)]
pub(super) struct NotebookCell {
    outputs: Vec<CellOutput>,
    bytes: usize,
    full: bool,
}

#[derive(Debug, Serialize)]
#[serde(tag = "output_type", rename_all = "snake_case")]
enum CellOutput {
    Stream { name: &'static str, text: String },
    DisplayData { data: BTreeMap<String, Value>, metadata: EmptyObject },
    ExecuteResult { execution_count: Option<u64>, data: BTreeMap<String, Value>, metadata: EmptyObject },
    Error { ename: String, evalue: String, traceback: Vec<String> },
}

#[derive(Debug, Default, Serialize)]
struct EmptyObject {}

#[derive(Serialize)]
struct CellJson<'a> {
    cell_type: &'static str,
    execution_count: Option<u64>,
    id: &'a str,
    metadata: EmptyObject,
    outputs: &'a [CellOutput],
    source: &'a str,
}

impl NotebookCell {
    pub(super) fn text(&mut self, stream: OutputStream, text: &str) {
        let name = match stream {
            OutputStream::Stdout => "stdout",
            OutputStream::Stderr => "stderr",
        };
        let text = self.room_for(text);
        if text.is_empty() {
            return;
        }
        match self.outputs.last_mut() {
            Some(CellOutput::Stream { name: last, text: before }) if *last == name => before.push_str(&text),
            _ => self.outputs.push(CellOutput::Stream { name, text }),
        }
    }

    /// Returns the part of a text that there is room for, with a line in place of the rest.
    fn room_for(&mut self, text: &str) -> String {
        if self.full {
            return String::new();
        }
        let room = CELL_BYTES.saturating_sub(self.bytes);
        self.bytes += text.len();
        if text.len() <= room {
            return text.to_owned();
        }
        self.full = true;
        cut(text, room) + "\n[… the rest is not kept in the notebook …]\n"
    }

    pub(super) fn output(&mut self, kind: OutputKind, count: Option<u64>, bundle: MimeBundle) {
        let lawful = |(mime, value): &(String, Value)| {
            mime == "application/json" || mime.ends_with("+json") || value.is_string()
        };
        let data: BTreeMap<_, _> = bundle.0.into_iter().filter(lawful).collect();
        let bytes: usize = data.values().map(|value| value.as_str().map_or(TREE_BYTES, str::len)).sum();
        if self.full || self.bytes + bytes > CELL_BYTES {
            self.room_for("[an output too large for the notebook]\n");
            return;
        }
        self.bytes += bytes;
        let metadata = EmptyObject {};
        self.outputs.push(match kind {
            OutputKind::Display => CellOutput::DisplayData { data, metadata },
            OutputKind::Result => CellOutput::ExecuteResult { execution_count: count, data, metadata },
        });
    }

    pub(super) fn error(&mut self, error: &ExecutionError) {
        self.outputs.push(CellOutput::Error {
            ename: error.name.clone(),
            evalue: error.value.clone(),
            traceback: error.traceback.clone(),
        });
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// The cell as JSON.
    pub(super) fn render(&self, id: &str, code: &str, execution_count: Option<u64>) -> Option<Vec<u8>> {
        let whole = CellJson {
            cell_type: "code",
            execution_count,
            id,
            metadata: EmptyObject {},
            outputs: &self.outputs,
            source: code,
        };
        serde_json::to_vec(&whole).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bundle(json: &str) -> MimeBundle {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn text_of_one_stream_is_one_output() {
        let mut cell = NotebookCell::default();
        cell.text(OutputStream::Stdout, "a");
        cell.text(OutputStream::Stdout, "b");
        cell.text(OutputStream::Stderr, "c");
        cell.output(
            OutputKind::Result,
            Some(3),
            bundle(r#"{"text/plain": "7", "image/png": {"not": "text"}}"#),
        );
        let json: serde_json::Value =
            serde_json::from_slice(&cell.render("x1", "code", Some(3)).unwrap()).unwrap();
        assert_eq!(
            json["outputs"][0],
            serde_json::json!({"output_type": "stream", "name": "stdout", "text": "ab"})
        );
        assert_eq!(json["outputs"][2]["data"], serde_json::json!({"text/plain": "7"}));
        assert_eq!((&json["source"], &json["id"]), (&"code".into(), &"x1".into()));
    }

    #[test]
    fn a_cell_has_an_end() {
        let mut cell = NotebookCell::default();
        for _ in 0..100 {
            cell.text(OutputStream::Stdout, &"x".repeat(CELL_BYTES / 10));
            cell.output(OutputKind::Display, None, bundle(r#"{"text/plain": "7"}"#));
        }
        assert!(cell.render("x", "", None).unwrap().len() < CELL_BYTES + 10_000);
    }
}
