//! The role `explain FOLDER [--in-sandbox] [--notes] [--name NAME]`: prints the explanation of a folder as JSON.
//!
//! With `--notes`, standard input holds what is known about the job, as JSON.

use std::ffi::OsString;
use std::io::Read as _;
use std::path::PathBuf;

use sandyard_explain::{JobNotes, explain};
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
}

pub(crate) fn run(arguments: &[OsString]) -> Result<Vec<u8>, ReaderFailure> {
    let arguments = parse(arguments)?;
    let surroundings =
        if arguments.in_sandbox { ReaderSurroundings::Sandbox } else { ReaderSurroundings::Host };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(4);
    confine(&ReaderFolders { read: Some(&arguments.folder), written: None }, surroundings)?;
    let notes = if arguments.notes { read_notes()? } else { JobNotes::default() };
    let mut tree = read_folder(&arguments.folder, WalkLimits::default())
        .map_err(|failure| ReaderFailure::Read(failure.to_string(), failure.source))?;
    if let Some(name) = arguments.name {
        tree.name = name;
    }
    let facts = survey(&tree, SurveyLimits { threads, ..SurveyLimits::default() });
    drop(tree);
    Ok(serde_json::to_vec(&explain(&facts, &notes))?)
}

fn parse(arguments: &[OsString]) -> Result<ExplainArguments, ReaderFailure> {
    let mut parsed = ExplainArguments::default();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.to_str() {
            Some("--in-sandbox") => parsed.in_sandbox = true,
            Some("--notes") => parsed.notes = true,
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
        let parsed = parse(&words("--notes /x --name y --in-sandbox")).unwrap();
        let expected = ExplainArguments {
            folder: PathBuf::from("/x"),
            in_sandbox: true,
            notes: true,
            name: Some("y".to_owned()),
        };
        assert_eq!(parsed, expected);
        assert!(parse(&words("/x /y")).is_err() && parse(&[]).is_err());
    }
}
