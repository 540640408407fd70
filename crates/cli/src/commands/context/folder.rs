//! The memory of a folder, made and asked by the reader.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use sandyard_memory::ContentDigest;
use sandyard_memory::messages::FolderMemory;
use sandyard_programs::PROGRAMS;
use sandyard_sandbox::reader::{ReaderError, run_reader};

use crate::config::Flags;
use crate::context::CommandContext;
use crate::errors::CommandError;

/// What is done with the index.
#[derive(Debug, Clone, Copy)]
pub(super) enum FolderTask<'q> {
    /// It is brought up to date.
    Index,
    /// It is brought up to date and asked.
    Recall { question: &'q str, count: u16 },
    /// It is looked at.
    Look,
}

/// Runs the reader, which blocks, on a thread of its own.
pub(super) async fn read_folder(
    context: &CommandContext,
    folder: &Path,
    index: Option<&Path>,
    task: FolderTask<'_>,
) -> Result<FolderMemory, CommandError> {
    let folder = fs::canonicalize(folder).map_err(CommandError::file("open", folder))?;
    let index = match index {
        Some(index) => index.to_owned(),
        None => usual_index(context, &folder)?,
    };
    // The reader may write in this folder, but not make it.
    fs::create_dir_all(&index).map_err(CommandError::file("create", &index))?;
    let mut arguments: Vec<OsString> = vec!["folder-memory".into(), folder.into(), index.into()];
    let mut input = String::new();
    match task {
        FolderTask::Index => {}
        FolderTask::Look => arguments.push("--stands".into()),
        FolderTask::Recall { question, count } => {
            arguments.extend(["--count".into(), count.to_string().into()]);
            question.clone_into(&mut input);
        }
    }
    let result =
        tokio::task::spawn_blocking(move || run_reader(PROGRAMS.reader, &arguments, input.as_bytes()));
    let bytes = match result.await {
        Ok(result) => result.map_err(CommandError::Reader)?,
        Err(error) => return Err(CommandError::Output(std::io::Error::other(error))),
    };
    serde_json::from_slice(&bytes).map_err(|error| {
        CommandError::Reader(ReaderError::Failed(format!("its result can't be read: {error}")))
    })
}

/// Below the cache, named by the path of the folder.
fn usual_index(context: &CommandContext, folder: &Path) -> Result<PathBuf, CommandError> {
    let settings = context.settings(&Flags::default())?;
    let name = ContentDigest::of(folder.as_os_str().as_encoded_bytes());
    Ok(settings.cache.join("context").join(name.to_string()))
}
