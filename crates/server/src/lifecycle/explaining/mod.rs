//! The explanation of a result: a summary, a page and diagrams, computed from the code in the workspace.
//!
//! The reader (`reading`) and Graphviz (`drawing`) run in the guest, as the job's user and within its limits, so the host parses
//! no source code. Their answers are hostile: bounded, read as data, and sanitised again where they are shown. A task's model
//! may add words (`narrating`), which are checked against the facts. A job never fails for its explanation; without one it ends
//! as it would have.

mod budget;
mod commands;
mod drawing;
mod narrating;
mod reading;

use bytes::Bytes;
use sandyard_explain::page::{CHANGES_SLUG, explained_page, standalone_svg};
use sandyard_protocol::{EntryKind, ErrorChain};
use sandyard_sandbox::machine::Machine;

use super::guest_scripts::ScriptError;
use super::owner::JobOwner;
use crate::artifacts::{HostFile, StoredExplanation};
use crate::blobs::{BlobError, BlobKey, BlobNoun, Durability};
use crate::job::{ExplanationRow, JobRow};
use crate::store::{StoreError, StoredRequest};
use budget::FactsBudget;
use drawing::DrawnDiagrams;

/// Longest summary in a status.
const MAX_SUMMARY_CHARS: usize = 400;
/// The page in the download.
const PAGE_NAME: &str = "explained.html";
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
    #[error("the facts took too long")]
    Late,
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
    /// Explains the workspace and stores the explanation. `None` if it holds no code, or if no explanation could be made. Only
    /// failures of the store are errors.
    pub(super) async fn explain_result(
        &self,
        row: &mut JobRow,
        request: Option<&StoredRequest>,
        machine: &Machine,
    ) -> Result<Option<ExplainedResult>, StoreError> {
        let Some(reader) = self.context.config.reader else { return Ok(None) };
        // A job that left no file must not pay for a start of the reader.
        if !may_hold_code(machine).await {
            return Ok(None);
        }
        let mut stored = match self.explain_with(reader, row, request, machine).await {
            Ok(Some(stored)) => stored,
            Ok(None) => return Ok(None),
            Err(error) => return Ok(unexplained(row, &error)),
        };
        if let Some(request) = request {
            self.narrate(row, request, &mut stored).await?;
        }
        Ok(match self.store_explained(row, stored).await {
            Ok(explained) => Some(explained),
            Err(error) => unexplained(row, &error.into()),
        })
    }

    async fn explain_with(
        &self,
        reader: &'static [u8],
        row: &JobRow,
        request: Option<&StoredRequest>,
        machine: &Machine,
    ) -> Result<Option<DrawnExplanation>, ExplainError> {
        let name = row.name.as_deref().unwrap_or("workspace");
        let budget = FactsBudget::begin();
        let notes = commands::job_notes(row, request, machine, budget).await;
        let start = match request {
            Some(request) => budget.within(self.start_tree(row, request)).await.flatten(),
            None => None,
        };
        let explained = reading::read_facts(machine, reader, name, &notes, start, budget).await?;
        if explained.explanation.summary.source_files == 0 {
            return Ok(None);
        }
        let diagrams = drawing::draw(machine, &explained.explanation, budget).await;
        let pictures = drawing::draw_pictures(machine, &explained.explanation, budget).await;
        let sandyard_explain::ExplainedFacts { explanation, facts } = explained;
        Ok(Some(DrawnExplanation { stored: StoredExplanation { explanation, diagrams }, facts, pictures }))
    }

    async fn store_explained(
        &self,
        row: &JobRow,
        drawn: DrawnExplanation,
    ) -> Result<ExplainedResult, BlobError> {
        let DrawnExplanation { stored, pictures, .. } = drawn;
        // Texts and numbers: nothing in it can fail to become JSON.
        let bytes = serde_json::to_vec(&stored).unwrap_or_default();
        let blob = (BlobKey::new(&row.id, BlobNoun::Explanation), bytes.into());
        // Stored before the row names it. A crash in between repeats the export, which replaces it.
        self.context.blobs.put_all(vec![blob], Durability::Synced).await?;
        let summary = stored.explanation.summary.sentence.chars().take(MAX_SUMMARY_CHARS).collect();
        Ok(ExplainedResult { row: ExplanationRow { summary }, files: files(&stored, pictures) })
    }
}

/// An explanation with its pictures, before words of a model.
struct DrawnExplanation {
    stored: StoredExplanation,
    facts: sandyard_explain::facts::ProjectFacts,
    pictures: DrawnDiagrams,
}

fn unexplained(row: &JobRow, error: &ExplainError) -> Option<ExplainedResult> {
    tracing::warn!(job = %row.id, error = %ErrorChain(error), "the result could not be explained");
    None
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

/// The files of an explanation in the download.
fn files(stored: &StoredExplanation, pictures: DrawnDiagrams) -> Vec<HostFile> {
    let file = |name, bytes: Bytes| HostFile { name, bytes };
    // Beside the picture are the files that it links to, and the page with the pictures of the parts.
    let links = |link: &str| {
        let part = link.strip_prefix("diagrams/").and_then(|link| link.strip_suffix(".svg"));
        Some(part.map_or_else(|| link.to_owned(), |slug| format!("{PAGE_NAME}#part-{slug}")))
    };
    let drawn = |slug: &str| {
        let diagram = stored.diagrams.iter().find(|diagram| diagram.slug == slug)?;
        standalone_svg(&diagram.svg, &links)
    };
    let mut files = vec![
        file("EXPLAINED.md", stored.explanation.markdown.clone().into()),
        file("diagram.dot", stored.explanation.dot.clone().into()),
    ];
    if !stored.diagrams.is_empty() {
        files.push(file(PAGE_NAME, explained_file(stored).into()));
    }
    files.extend(drawn("").map(|svg| file("diagram.svg", svg.into())));
    files.extend(pictures.overview.map(|png| file("diagram.png", png.into())));
    if let Some(changes) = &stored.explanation.changes {
        files.push(file("changes.dot", changes.dot.clone().into()));
        files.extend(drawn(CHANGES_SLUG).map(|svg| file("changes.svg", svg.into())));
        files.extend(pictures.changes.map(|png| file("changes.png", png.into())));
    }
    files
}

/// The page with all pictures, for a browser that opens it beside the files. A link to a line leads to the file.
fn explained_file(stored: &StoredExplanation) -> String {
    let StoredExplanation { explanation, diagrams } = stored;
    let title = format!("{} explained", explanation.name);
    explained_page(&title, &explanation.markdown, diagrams, &|link| Some(link.to_owned()))
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
