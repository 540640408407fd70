//! `sandyard explain`: a picture and a page of any folder of code, without a server.
//!
//! The reader, a confined process, finds the facts. This command draws them with Graphviz and writes the files.

mod draw;
mod output;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args;
use sandyard_explain::{EXPLANATION_VERSION, Explanation};
use sandyard_programs::PROGRAMS;
use sandyard_sandbox::reader::{ReaderError, run_reader};

use crate::commands::open::browse;
use crate::context::CommandContext;
use crate::errors::CommandError;
use crate::exit_codes::CommandExit;
use crate::ui::{clean, counted};

const EXAMPLES: &str = "\
Examples:
  sandyard explain .
  sandyard explain ~/src/project --output page
  git worktree add /tmp/before main && sandyard explain . --before /tmp/before";

/// Explain a folder of code: its parts, how they use each other, how to run it, where to change what
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ExplainCommand {
    /// The folder
    #[arg(value_name = "FOLDER", default_value = ".")]
    folder: PathBuf,
    /// Where to write EXPLAINED.md, explained.html and the diagrams [default: NAME-explained]
    #[arg(long, short, value_name = "DIR")]
    output: Option<PathBuf>,
    /// An earlier state of the folder: show what is different, too
    #[arg(long, value_name = "FOLDER")]
    before: Option<PathBuf>,
    /// Print the explanation as JSON and write no files
    #[arg(long)]
    json: bool,
    /// Open the page in a browser
    #[arg(long, conflicts_with = "json")]
    open: bool,
}

impl ExplainCommand {
    pub(crate) async fn run(self, context: &CommandContext) -> Result<CommandExit, CommandError> {
        let folder = std::fs::canonicalize(&self.folder).map_err(CommandError::file("open", &self.folder))?;
        let before = self
            .before
            .as_ref()
            .map(|before| std::fs::canonicalize(before).map_err(CommandError::file("open", before)));
        let before = before.transpose()?;
        let progress = context.ui.progress("reading the code");
        let explanation = read(&folder, before.as_deref()).await;
        progress.finish();
        let explanation = explanation?;
        if self.json {
            context.ui.json(&explanation)?;
            return Ok(CommandExit::Success);
        }
        if explanation.summary.source_files + explanation.summary.test_files == 0 {
            context.ui.warn("no source code was found in this folder");
        }
        let name = folder.file_name().map(|name| name.to_string_lossy().into_owned());
        let target = self
            .output
            .unwrap_or_else(|| PathBuf::from(format!("{}-explained", name.as_deref().unwrap_or("folder"))));
        let drawn = draw::draw(&explanation).await;
        if let Err(failure) = &drawn {
            context.ui.warn(&format!("no pictures were drawn: {failure}"));
            context.ui.note(
                "install Graphviz (apt install graphviz) and try again; the .dot files are written anyway",
            );
        }
        let page = output::write(&explanation, drawn.unwrap_or_default(), &folder, &target)?;
        summary(context, &explanation, &target)?;
        if self.open {
            browse(context, &format!("file://{}", page.display()));
        }
        Ok(CommandExit::Success)
    }
}

/// Runs the reader, which blocks, on a thread of its own.
async fn read(folder: &Path, before: Option<&Path>) -> Result<Explanation, CommandError> {
    let mut arguments = vec![OsString::from("explain"), folder.into()];
    if let Some(before) = before {
        arguments.extend([OsString::from("--before"), before.into()]);
    }
    let result = tokio::task::spawn_blocking(move || run_reader(PROGRAMS.reader, &arguments, b""));
    let bytes = match result.await {
        Ok(result) => result.map_err(CommandError::Reader)?,
        Err(error) => return Err(CommandError::Output(std::io::Error::other(error))),
    };
    let explanation: Explanation = serde_json::from_slice(&bytes).map_err(|error| {
        CommandError::Reader(ReaderError::Failed(format!("its result can't be read: {error}")))
    })?;
    if explanation.version != EXPLANATION_VERSION {
        return Err(CommandError::Reader(ReaderError::Failed("its result has another version".to_owned())));
    }
    Ok(explanation)
}

fn summary(context: &CommandContext, explanation: &Explanation, target: &Path) -> Result<(), CommandError> {
    let summary = &explanation.summary;
    let languages: Vec<&str> = summary.languages.iter().take(3).map(|share| share.name.as_str()).collect();
    context.ui.note(&clean(&summary.sentence));
    context.ui.note(&format!(
        "{} lines of {} in {}, {} between {}",
        summary.lines,
        languages.join(", "),
        counted(explanation.parts.len(), "part"),
        counted(explanation.edges.len(), "use"),
        if explanation.parts.len() == 1 { "its files" } else { "them" },
    ));
    context.ui.line(&target.join("EXPLAINED.md").display().to_string())?;
    context.ui.line(&target.join("explained.html").display().to_string())?;
    Ok(())
}
