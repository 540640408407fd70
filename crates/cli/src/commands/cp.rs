//! `sandyard cp`: copy files between this machine and a live sandbox, folders recursively.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use clap::Args;
use sandyard_api::EntryKind;

use super::run_arguments::quote;
use super::run_files::size;
use super::upload::{body_of, spool_stdin};
use crate::client::ApiClient;
use crate::context::CommandContext;
use crate::errors::CommandError;
use crate::exit_codes::CommandExit;
use crate::job;
use crate::progress::ProgressLine;
use crate::ui::{Ui, counted};

/// Links that one command makes: their words must fit into an argument.
const LINKS_AT_ONCE: usize = 10;

const EXAMPLES: &str = "\
Examples:
  sandyard cp notes.txt data.csv abcd1234:in/   several files into a folder
  sandyard cp src abcd1234:                     a folder, recursively
  sandyard cp abcd1234:out ./out                and back
  sandyard cp abcd1234:a.log - | less           standard output
  make report | sandyard cp - abcd1234:r.txt    standard input";

/// Copy files between this machine and a live sandbox
///
/// A path in a sandbox is written JOB:PATH, relative to the workspace. Folders are copied recursively, with the symbolic links
/// in them as links; a link that is named itself stands for its file. From a sandbox, links that lead out of the folder are left
/// out.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CpCommand {
    /// Sources and, last, the destination: PATH, JOB:PATH, or - for standard input and output
    #[arg(required = true, num_args = 2.., value_names = ["FROM", "TO"])]
    places: Vec<String>,
}

/// One side of a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
enum CopyPlace {
    Here(PathBuf),
    There { job: String, path: String },
}

impl CopyPlace {
    fn is_there(&self) -> bool {
        matches!(self, Self::There { .. })
    }

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
        let Some((target, sources)) = self.places.split_last() else { return Err(one_side_each()) };
        let target = CopyPlace::parse(target);
        let sources: Vec<_> = sources.iter().map(|text| CopyPlace::parse(text)).collect();
        let crosses = |source: &CopyPlace| source.is_there() != target.is_there();
        if !sources.iter().all(crosses) {
            return Err(one_side_each());
        }
        let client = context.client().await?;
        let copy = FileCopy { context, client: &client, several: sources.len() > 1 };
        match target {
            CopyPlace::There { job, path } => {
                let id = job::resolve(&client, &job).await?;
                for source in &sources {
                    if let CopyPlace::Here(source) = source {
                        copy.push(&id, source, &path).await?;
                    }
                }
            }
            CopyPlace::Here(target) => {
                if copy.several && target != Path::new("-") {
                    std::fs::create_dir_all(&target)
                        .map_err(CommandError::file("make the folder", &target))?;
                }
                for source in &sources {
                    if let CopyPlace::There { job, path } = source {
                        let id = job::resolve(&client, job).await?;
                        copy.fetch(&id, path, &target).await?;
                    }
                }
            }
        }
        Ok(CommandExit::Success)
    }
}

fn one_side_each() -> CommandError {
    CommandError::usage_with_hint(
        "one side must be in a sandbox and the other on this machine",
        "write JOB:PATH for the sandbox, as in `sandyard cp JOB:src ./src`",
    )
}

/// A copy under way.
struct FileCopy<'a> {
    context: &'a CommandContext,
    client: &'a ApiClient,
    /// True if there are several sources: the destination is a folder then.
    several: bool,
}

impl FileCopy<'_> {
    async fn fetch(&self, id: &str, path: &str, target: &Path) -> Result<(), CommandError> {
        let (client, ui) = (self.client, &self.context.ui);
        let is_folder = path.is_empty() || kind_of(client, id, path).await? == EntryKind::Directory;
        if target == Path::new("-") {
            if is_folder {
                return Err(CommandError::usage_with_hint(
                    "a folder can't be written to standard output",
                    "pack it: `sandyard shell JOB tar c FOLDER | tar x`",
                ));
            }
            return job::copy_to_stdout(client.read_file(id, path).await?).await;
        }
        let name = path.trim_end_matches('/').rsplit('/').next().unwrap_or(path);
        if is_folder {
            let folder = if self.several { target.join(name) } else { target.to_owned() };
            let count = job::unpack(ui, client.read_folder(id, path).await?, &folder).await?;
            ui.note(&format!("{}: {}", folder.display(), counted(count, "file")));
            return Ok(());
        }
        let file = if target.is_dir() { target.join(name) } else { target.to_owned() };
        let length = job::save(client.read_file(id, path).await?, &file, "copy").await?;
        ui.note(&format!("{}: {}", file.display(), size(length)));
        Ok(())
    }

    /// Copies to the target as `cp` chooses it: inside an existing folder, else under the given name.
    async fn push(&self, id: &str, source: &Path, path: &str) -> Result<(), CommandError> {
        let base = path.trim_end_matches('/').to_owned();
        if source == Path::new("-") {
            return self.push_stdin(id, &base).await;
        }
        let found = fs::metadata(source).map_err(CommandError::file("read", source))?;
        let into_folder = self.several
            || path.is_empty()
            || path.ends_with('/')
            || self.client.stat(id, path).await?.is_some_and(|stat| stat.kind == EntryKind::Directory);
        let name = source.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let target = if into_folder && !name.is_empty() { join(&base, &name) } else { base.clone() };
        if found.is_dir() {
            // A single folder is copied into the place that is named, as before there were several sources.
            let target = if self.several { target } else { base };
            return self.push_folder(id, source, &target).await;
        }
        let progress = self.context.ui.transfer("copy", Some(found.len()));
        push_file(self.client, id, source, &target, &progress).await?;
        progress.finish();
        Ok(())
    }

    async fn push_stdin(&self, id: &str, target: &str) -> Result<(), CommandError> {
        if target.is_empty() {
            return Err(CommandError::usage("standard input needs a name in the sandbox: JOB:NAME"));
        }
        let (file, length) = spool_stdin()?;
        let progress = self.context.ui.transfer("copy", Some(length));
        let body = body_of(tokio::fs::File::from_std(file), length, &progress);
        self.client.write_file(id, target, 0o644, length, body).await?;
        progress.finish();
        Ok(())
    }

    /// Walks without recursion, so that a deep tree can't exhaust the stack. Links are made last, so that no file goes through
    /// one.
    async fn push_folder(&self, id: &str, source: &Path, base: &str) -> Result<(), CommandError> {
        let tree = LocalTree::read(&self.context.ui, source, base)?;
        let progress = self.context.ui.transfer("copy", Some(tree.bytes));
        for (file, target) in &tree.files {
            push_file(self.client, id, file, target, &progress).await?;
        }
        progress.finish();
        let links = tree.links.len();
        make_links(self.client, id, &tree.links).await?;
        self.context.ui.note(&format!("{} copied", counted(tree.files.len() + links, "file")));
        Ok(())
    }
}

/// A folder of this machine, with the places of its entries in the sandbox.
#[derive(Debug, Default)]
struct LocalTree {
    files: Vec<(PathBuf, String)>,
    /// Place and target of each symbolic link.
    links: Vec<(String, String)>,
    bytes: u64,
}

impl LocalTree {
    fn read(ui: &Ui, source: &Path, base: &str) -> Result<Self, CommandError> {
        let mut tree = Self::default();
        let mut folders = vec![(source.to_owned(), base.to_owned())];
        while let Some((folder, below)) = folders.pop() {
            for entry in fs::read_dir(&folder).map_err(CommandError::file("read", &folder))? {
                let entry = entry.map_err(CommandError::file("read", &folder))?;
                let path = entry.path();
                let facts = fs::symlink_metadata(&path).map_err(CommandError::file("read", &path))?;
                let Ok(name) = entry.file_name().into_string() else {
                    ui.warn(&format!("left out `{}`: its name is not UTF-8", path.display()));
                    continue;
                };
                let target = join(&below, &name);
                if facts.is_dir() {
                    folders.push((path, target));
                } else if facts.is_file() {
                    tree.bytes += facts.len();
                    tree.files.push((path, target));
                } else if let Some(text) = link_text(&path) {
                    tree.links.push((target, text));
                } else {
                    ui.warn(&format!("left out `{}`: neither a file, a folder nor a link", path.display()));
                }
            }
        }
        Ok(tree)
    }
}

fn link_text(path: &Path) -> Option<String> {
    fs::read_link(path).ok()?.into_os_string().into_string().ok()
}

/// Makes symbolic links. The API has no call for them, so the sandbox's own `ln` does, in the workspace, where commands begin.
async fn make_links(client: &ApiClient, id: &str, links: &[(String, String)]) -> Result<(), CommandError> {
    for some in links.chunks(LINKS_AT_ONCE) {
        let lines = some.iter().map(|(place, text)| {
            let folder = place.rsplit_once('/').map_or(".", |(folder, _)| folder);
            format!("mkdir -p -- {} && ln -sfn -- {} {}", quote(folder), quote(text), quote(place))
        });
        let command = lines.collect::<Vec<_>>().join("\n");
        let answer = client.shell_once(id, &format!("set -e\n{command}")).await?;
        if answer.exit_code != 0 {
            return Err(CommandError::usage(format!("links could not be made: {}", answer.stderr.trim())));
        }
    }
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

async fn push_file(
    client: &ApiClient,
    id: &str,
    source: &Path,
    target: &str,
    progress: &ProgressLine,
) -> Result<(), CommandError> {
    let file = tokio::fs::File::open(source).await.map_err(CommandError::file("open", source))?;
    let facts = file.metadata().await.map_err(CommandError::file("read", source))?;
    let body = body_of(file, facts.len(), progress);
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
