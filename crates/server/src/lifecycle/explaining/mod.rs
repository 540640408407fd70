//! The explanation of a result: a summary, a page and diagrams, computed from the code in the workspace.
//!
//! The reader and Graphviz run in the guest, as the job's user and within its limits, so the host parses no source code. Their
//! answers are hostile: bounded, read as data, and sanitised again where they are shown. A job never fails or waits long for
//! its explanation; without one it ends as it would have.

use std::time::Duration;

use bytes::Bytes;
use sandyard_explain::page::{PageDiagram, standalone_svg};
use sandyard_explain::{Explanation, JobNotes};
use sandyard_protocol::{EntryKind, ErrorChain};
use sandyard_sandbox::machine::Machine;
use tokio::io::AsyncReadExt as _;

use super::guest_scripts::{GuestScript, ScriptError};
use super::owner::JobOwner;
use crate::artifacts::{HostFile, StoredExplanation};
use crate::blobs::{BlobError, BlobKey, BlobNoun, Durability};
use crate::job::{ExplanationRow, JobRow};

/// Time for the facts. A tree that takes longer gets no explanation.
const READ_TIMEOUT: Duration = Duration::from_secs(5);
/// Time to draw all diagrams in one format.
const DRAW_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest explanation, as JSON: some megabytes for a project of a million lines.
const MAX_EXPLANATION_BYTES: u64 = 8 * 1024 * 1024;
/// Longest output of Graphviz: up to nine diagrams of at most 25 nodes.
const MAX_DRAWING_BYTES: u64 = 4 * 1024 * 1024;
/// Longest summary in a status.
const MAX_SUMMARY_CHARS: usize = 400;
/// Endings of files that are no source code. A top folder with nothing else is not worth a start of the reader.
const NO_SOURCE: [&str; 16] = [
    "bin", "csv", "db", "gz", "ipynb", "jpg", "json", "log", "md", "pdf", "png", "svg", "tar", "txt", "xml",
    "zip",
];

/// Why there is no explanation.
#[derive(Debug, thiserror::Error)]
enum ExplainError {
    #[error(transparent)]
    Script(#[from] ScriptError),
    #[error("the reader failed: {0}")]
    Reader(String),
    #[error("its answer can't be read")]
    Answer(#[source] serde_json::Error),
    #[error("it could not be stored")]
    Store(#[from] BlobError),
}

/// An explanation that is stored, and that no row names yet.
pub(super) struct ExplainedResult {
    pub(super) row: ExplanationRow,
    /// The files that join the download.
    pub(super) files: Vec<HostFile>,
}

impl JobOwner {
    /// Explains the workspace and stores the explanation. `None` if it holds no code, or if no explanation could be made.
    pub(super) async fn explain_result(&self, row: &JobRow, machine: &Machine) -> Option<ExplainedResult> {
        let reader = self.context.config.reader?;
        // A job that left no file must not pay for a start of the reader.
        if !may_hold_code(machine).await {
            return None;
        }
        match self.explain_with(reader, row, machine).await {
            Ok(explained) => explained,
            Err(error) => {
                tracing::warn!(job = %row.id, error = %ErrorChain(&error), "the result could not be explained");
                None
            }
        }
    }

    async fn explain_with(
        &self,
        reader: &'static [u8],
        row: &JobRow,
        machine: &Machine,
    ) -> Result<Option<ExplainedResult>, ExplainError> {
        let name = row.name.as_deref().unwrap_or("workspace");
        let explanation = read_facts(machine, reader, name, &JobNotes::default()).await?;
        if explanation.summary.source_files == 0 {
            return Ok(None);
        }
        let diagrams = draw(machine, &explanation).await;
        let picture = draw_picture(machine, &explanation).await;
        let stored = StoredExplanation { explanation, diagrams };
        let bytes = serde_json::to_vec(&stored).map_err(ExplainError::Answer)?;
        let blob = (BlobKey::new(&row.id, BlobNoun::Explanation), bytes.into());
        // Stored before the row names it. A crash in between repeats the export, which replaces it.
        self.context.blobs.put_all(vec![blob], Durability::Synced).await?;
        let summary = stored.explanation.summary.sentence.chars().take(MAX_SUMMARY_CHARS).collect();
        Ok(Some(ExplainedResult { row: ExplanationRow { summary }, files: files(&stored, picture) }))
    }
}

/// True unless the workspace is known to hold no source file. One page of its top folder is enough to tell for most jobs that
/// only print something.
async fn may_hold_code(machine: &Machine) -> bool {
    match machine.list("", None).await {
        Ok((entries, false)) => {
            entries.iter().any(|entry| entry.stat.kind == EntryKind::Directory || may_be_source(&entry.name))
        }
        Ok((_, true)) | Err(_) => true,
    }
}

/// True if a file of that name may be source code.
fn may_be_source(name: &str) -> bool {
    let ending = name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase());
    ending.is_some_and(|ending| !NO_SOURCE.contains(&ending.as_str()))
}

async fn read_facts(
    machine: &Machine,
    reader: &'static [u8],
    name: &str,
    notes: &JobNotes,
) -> Result<Explanation, ExplainError> {
    let length = reader.len().to_string();
    let script = GuestScript {
        text: include_str!("scripts/explain.sh"),
        arguments: &[&length, name],
        time: READ_TIMEOUT,
        most_output: MAX_EXPLANATION_BYTES,
    };
    let notes = serde_json::to_vec(notes).map_err(ExplainError::Answer)?;
    let mut answer = Vec::new();
    let ran = script.run(machine, reader.chain(notes.as_slice()), &mut answer).await?;
    if !ran.succeeded() {
        return Err(ExplainError::Reader(ran.words));
    }
    // Megabytes of JSON take milliseconds, which other connections of this thread must not wait for.
    let parsed = tokio::task::spawn_blocking(move || serde_json::from_slice(&answer)).await;
    match parsed {
        Ok(parsed) => parsed.map_err(ExplainError::Answer),
        Err(panicked) => Err(ExplainError::Reader(panicked.to_string())),
    }
}

/// Draws the picture of all parts and one of each part, by one start of Graphviz. Empty without Graphviz, or if it fails.
async fn draw(machine: &Machine, explanation: &Explanation) -> Vec<PageDiagram> {
    let mut graphs = explanation.dot.clone();
    let mut names = vec![(String::new(), explanation.name.clone())];
    for part in &explanation.parts {
        if let Some(dot) = &part.dot {
            graphs.push_str(dot);
            names.push((part.slug.clone(), part.name.clone()));
        }
    }
    let Some(drawn) = run_graphviz(machine, "svg", graphs).await else { return Vec::new() };
    let drawn = String::from_utf8_lossy(&drawn);
    let documents: Vec<&str> = drawn.split_inclusive("</svg>").filter(|text| text.contains("<svg")).collect();
    // A document more or less means that a picture would stand under the name of another part.
    if documents.len() != names.len() {
        return Vec::new();
    }
    let diagram =
        |((slug, name), svg): ((String, String), &str)| PageDiagram { slug, name, svg: svg.to_owned() };
    names.into_iter().zip(documents).map(diagram).collect()
}

/// Draws the picture of all parts as a PNG, for programs that show nothing else.
async fn draw_picture(machine: &Machine, explanation: &Explanation) -> Option<Vec<u8>> {
    let drawn = run_graphviz(machine, "png", explanation.dot.clone()).await?;
    drawn.starts_with(b"\x89PNG\r\n\x1a\n").then_some(drawn)
}

async fn run_graphviz(machine: &Machine, format: &str, graphs: String) -> Option<Vec<u8>> {
    let script = GuestScript {
        text: include_str!("scripts/draw.sh"),
        arguments: &[format],
        time: DRAW_TIMEOUT,
        most_output: MAX_DRAWING_BYTES,
    };
    let mut drawn = Vec::new();
    let ran = script.run(machine, graphs.as_bytes(), &mut drawn).await.ok()?;
    ran.succeeded().then_some(drawn)
}

/// The files of an explanation in the download.
fn files(stored: &StoredExplanation, picture: Option<Vec<u8>>) -> Vec<HostFile> {
    let file = |name, bytes: Bytes| HostFile { name, bytes };
    let mut files = vec![
        file("EXPLAINED.md", stored.explanation.markdown.clone().into()),
        file("diagram.dot", stored.explanation.dot.clone().into()),
    ];
    let overview = stored.diagrams.iter().find(|diagram| diagram.slug.is_empty());
    // Beside the picture are the files that it links to, but not the pictures of the parts.
    let links = |link: &str| (!link.starts_with("diagrams/")).then(|| link.to_owned());
    if let Some(svg) = overview.and_then(|diagram| standalone_svg(&diagram.svg, &links)) {
        files.push(file("diagram.svg", svg.into()));
    }
    files.extend(picture.map(|png| file("diagram.png", png.into())));
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_only_hold_data_are_not_explained() {
        for name in ["main.py", "App.TSX", "notes.rs"] {
            assert!(may_be_source(name), "{name}");
        }
        for name in ["answer", "answer.txt", "OUT.LOG", "session.python.ipynb"] {
            assert!(!may_be_source(name), "{name}");
        }
    }
}
