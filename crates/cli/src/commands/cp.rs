//! `sandyard cp`: copy files between this machine and a live sandbox, folders recursively.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use clap::Args;
use reqwest::Body;
use sandyard_api::EntryKind;
use tokio::io::AsyncReadExt;
use tokio_util::io::ReaderStream;

use crate::client::ApiClient;
use crate::context::CommandContext;
use crate::errors::CommandError;
use crate::exit_codes::CommandExit;
use crate::job;
use crate::ui::counted;

/// Copy files between this machine and a live sandbox
///
/// A path in a sandbox is written JOB:PATH, relative to the workspace. Folders are copied recursively;
/// symbolic links are never followed.
#[derive(Debug, Args)]
pub(crate) struct CpCommand {
    /// Source: PATH or JOB:PATH
    from: String,
    /// Destination: JOB:PATH or PATH
    to: String,
}

/// One side of a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
enum CopyPlace {
    Here(PathBuf),
    There { job: String, path: String },
}

impl CopyPlace {
    /// Parses one side: it is `JOB:PATH` if a colon comes before any slash.
    fn parse(text: &str) -> Self {
        match text.split_once(':') {
            Some((job, path)) if !job.is_empty() && !job.contains('/') && !job.starts_with('.') => {
                Self::There { job: job.to_owned(), path: in_workspace(path) }
            }
            _ => Self::Here(PathBuf::from(text)),
        }
    }
}

/// Strips `/workspace`, which people write because they see it inside.
fn in_workspace(path: &str) -> String {
    let below = path.strip_prefix("/workspace").filter(|rest| rest.is_empty() || rest.starts_with('/'));
    below.unwrap_or(path).trim_start_matches('/').to_owned()
}

impl CpCommand {
    pub(crate) async fn run(self, context: &CommandContext) -> Result<CommandExit, CommandError> {
        let client = context.client().await?;
        match (CopyPlace::parse(&self.from), CopyPlace::parse(&self.to)) {
            (CopyPlace::There { job, path }, CopyPlace::Here(target)) => {
                let id = job::resolve(&client, &job).await?;
                fetch(context, &client, &id, &path, &target).await?;
            }
            (CopyPlace::Here(source), CopyPlace::There { job, path }) => {
                let id = job::resolve(&client, &job).await?;
                push(context, &client, &id, &source, &path).await?;
            }
            _ => {
                return Err(CommandError::usage_with_hint(
                    "one side must be in a sandbox and the other on this machine",
                    "write JOB:PATH for the sandbox, as in `sandyard cp JOB:src ./src`",
                ));
            }
        }
        Ok(CommandExit::Success)
    }
}

async fn fetch(
    context: &CommandContext,
    client: &ApiClient,
    id: &str,
    path: &str,
    target: &Path,
) -> Result<(), CommandError> {
    let is_folder = path.is_empty() || kind_of(client, id, path).await? == EntryKind::Directory;
    if is_folder {
        let response = client.read_folder(id, path).await?;
        let count = job::unpack(&context.ui, response, target).await?;
        context.ui.note(&format!("{}: {}", target.display(), counted(count, "file")));
        return Ok(());
    }
    let name = path.rsplit('/').next().unwrap_or(path);
    let file = if target.is_dir() { target.join(name) } else { target.to_owned() };
    let length = job::save(client.read_file(id, path).await?, &file, "copy").await?;
    context.ui.note(&format!("{}: {length} bytes", file.display()));
    Ok(())
}

async fn kind_of(client: &ApiClient, id: &str, path: &str) -> Result<EntryKind, CommandError> {
    let stat = client.stat(id, path).await?;
    stat.map(|stat| stat.kind).ok_or_else(|| {
        CommandError::usage_with_hint(
            format!("there is no `{path}` in the sandbox"),
            "paths begin in /workspace",
        )
    })
}

/// Returns the target as `cp` chooses it: inside an existing folder, else under the given name.
async fn push(
    context: &CommandContext,
    client: &ApiClient,
    id: &str,
    source: &Path,
    path: &str,
) -> Result<(), CommandError> {
    let found = fs::symlink_metadata(source).map_err(CommandError::file("read", source))?;
    let into_folder = path.is_empty()
        || path.ends_with('/')
        || client.stat(id, path).await?.is_some_and(|stat| stat.kind == EntryKind::Directory);
    let base = path.trim_end_matches('/').to_owned();
    if found.is_dir() {
        let count = push_folder(context, client, id, source, &base).await?;
        context.ui.note(&format!("{} copied", counted(count, "file")));
        return Ok(());
    }
    let name = source.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let target = if into_folder { join(&base, &name) } else { base };
    push_file(client, id, source, &target).await
}

/// Walks without recursion, so that a deep tree can't exhaust the stack.
async fn push_folder(
    context: &CommandContext,
    client: &ApiClient,
    id: &str,
    source: &Path,
    base: &str,
) -> Result<usize, CommandError> {
    let mut count = 0;
    let mut folders = vec![(source.to_owned(), base.to_owned())];
    while let Some((folder, below)) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(CommandError::file("read", &folder))? {
            let entry = entry.map_err(CommandError::file("read", &folder))?;
            let kind = entry.file_type().map_err(CommandError::file("read", &entry.path()))?;
            let Ok(name) = entry.file_name().into_string() else {
                context.ui.warn(&format!("left out `{}`: its name is not UTF-8", entry.path().display()));
                continue;
            };
            let target = join(&below, &name);
            if kind.is_dir() {
                folders.push((entry.path(), target));
            } else if kind.is_file() {
                push_file(client, id, &entry.path(), &target).await?;
                count += 1;
            } else {
                context
                    .ui
                    .warn(&format!("left out `{}`: neither a file nor a folder", entry.path().display()));
            }
        }
    }
    Ok(count)
}

async fn push_file(client: &ApiClient, id: &str, source: &Path, target: &str) -> Result<(), CommandError> {
    let file = tokio::fs::File::open(source).await.map_err(CommandError::file("open", source))?;
    let facts = file.metadata().await.map_err(CommandError::file("read", source))?;
    // A file that grows meanwhile is sent with its size at the start, which the header announces.
    let body = Body::wrap_stream(ReaderStream::new(file.take(facts.len())));
    Ok(client.write_file(id, target, facts.permissions().mode() & 0o777, facts.len(), body).await?)
}

fn join(base: &str, name: &str) -> String {
    if base.is_empty() { name.to_owned() } else { format!("{base}/{name}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_colon_before_a_slash_is_a_sandbox() {
        let there = |job: &str, path: &str| CopyPlace::There { job: job.into(), path: path.into() };
        assert_eq!(CopyPlace::parse("abcd:src/main.rs"), there("abcd", "src/main.rs"));
        assert_eq!(CopyPlace::parse("abcd:/workspace/src"), there("abcd", "src"));
        assert_eq!(CopyPlace::parse("abcd:"), there("abcd", ""));
        assert_eq!(CopyPlace::parse("abcd:/workspaces"), there("abcd", "workspaces"));
        assert_eq!(CopyPlace::parse("./a:b"), CopyPlace::Here("./a:b".into()));
        assert_eq!(CopyPlace::parse("/tmp/x"), CopyPlace::Here("/tmp/x".into()));
    }
}
