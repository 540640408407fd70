//! The role `explain FOLDER [--in-sandbox] [--notes] [--name NAME] [--before FOLDER] [--facts]`: prints the explanation of a folder as
//! JSON, with what is different from an earlier state of it.
//!
//! With `--notes`, standard input holds what is known about the job, as JSON.

use std::ffi::OsString;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use sandyard_explain::facts::ProjectFacts;
use sandyard_explain::{ExplainedFacts, JobNotes, explain, explain_since};
use sandyard_survey::{SurveyLimits, WalkLimits, read_folder, survey};

use crate::confine::{ReaderFolders, ReaderSurroundings, confine};
use crate::failure::ReaderFailure;

/// Notes of a job are a list of commands.
const MAX_NOTES_BYTES: u64 = 1 << 20;

/// The arguments of the role.
#[derive(Debug, Default, PartialEq, Eq)]
struct ExplainArguments {
    folder: PathBuf,
    in_sandbox: bool,
    notes: bool,
    /// Name of the project, if the folder's own says nothing.
    name: Option<String>,
    /// An earlier state of the folder.
    before: Option<PathBuf>,
    /// Prints the facts, too, for those who check claims.
    facts: bool,
}

pub(crate) fn run(arguments: &[OsString]) -> Result<Vec<u8>, ReaderFailure> {
    let arguments = parse(arguments)?;
    let surroundings =
        if arguments.in_sandbox { ReaderSurroundings::Sandbox } else { ReaderSurroundings::Host };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(4);
    let folders: Vec<&Path> =
        std::iter::once(&arguments.folder).chain(&arguments.before).map(PathBuf::as_path).collect();
    confine(&ReaderFolders { read: &folders, written: None }, surroundings)?;
    let notes = if arguments.notes { read_notes()? } else { JobNotes::default() };
    let mut facts = read_facts(&arguments.folder, arguments.name.as_deref(), threads)?;
    let explanation = match &arguments.before {
        Some(before) => explain_since(&read_facts(before, None, threads)?, &facts, &notes),
        None => explain(&facts, &notes),
    };
    if arguments.facts {
        facts.uses.clear();
        return Ok(serde_json::to_vec(&ExplainedFacts { explanation, facts })?);
    }
    Ok(serde_json::to_vec(&explanation)?)
}

fn read_facts(folder: &Path, name: Option<&str>, threads: usize) -> Result<ProjectFacts, ReaderFailure> {
    let mut tree = read_folder(folder, WalkLimits::default())
        .map_err(|failure| ReaderFailure::Read(failure.to_string(), failure.source))?;
    if let Some(name) = name {
        name.clone_into(&mut tree.name);
    }
    Ok(survey(&tree, SurveyLimits { threads, ..SurveyLimits::default() }))
}

fn parse(arguments: &[OsString]) -> Result<ExplainArguments, ReaderFailure> {
    let mut parsed = ExplainArguments::default();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.to_str() {
            Some("--in-sandbox") => parsed.in_sandbox = true,
            Some("--facts") => parsed.facts = true,
            Some("--notes") => parsed.notes = true,
            Some("--before") => parsed.before = rest.next().map(PathBuf::from),
            Some("--name") => parsed.name = rest.next().map(|name| name.to_string_lossy().into_owned()),
            _ if parsed.folder.as_os_str().is_empty() => parsed.folder = PathBuf::from(argument),
            _ => {
                return Err(ReaderFailure::Usage(format!(
                    "unexpected argument {}",
                    argument.to_string_lossy()
                )));
            }
        }
    }
    if parsed.folder.as_os_str().is_empty() {
        return Err(ReaderFailure::Usage("no folder is named".to_owned()));
    }
    Ok(parsed)
}

fn read_notes() -> Result<JobNotes, ReaderFailure> {
    let mut bytes = Vec::new();
    let read = std::io::stdin().lock().take(MAX_NOTES_BYTES).read_to_end(&mut bytes);
    read.map_err(|error| ReaderFailure::Read("read the notes".to_owned(), error))?;
    Ok(serde_json::from_slice(&bytes)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read_in_any_order() {
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        let parsed = parse(&words("--facts --notes /x --name y --before /z --in-sandbox")).unwrap();
        let expected = ExplainArguments {
            folder: PathBuf::from("/x"),
            in_sandbox: true,
            notes: true,
            name: Some("y".to_owned()),
            before: Some(PathBuf::from("/z")),
            facts: true,
        };
        assert_eq!(parsed, expected);
        assert!(parse(&words("/x /y")).is_err() && parse(&[]).is_err());
    }
}
