//! `sandyard man`: write the manual pages, one for each verb. Hidden, because only packagers need it.

use std::fs;
use std::path::PathBuf;

use clap::{Args, Command};

use crate::context::CommandContext;
use crate::errors::CommandError;
use crate::exit_codes::CommandExit;

/// Write the manual pages into a folder
#[derive(Debug, Args)]
pub(crate) struct ManCommand {
    /// Folder of the pages
    folder: PathBuf,
}

impl ManCommand {
    pub(crate) fn run(self, context: &CommandContext, program: Command) -> Result<CommandExit, CommandError> {
        fs::create_dir_all(&self.folder).map_err(CommandError::file("create", &self.folder))?;
        clap_mangen::generate_to(program, &self.folder)
            .map_err(CommandError::file("write the manual to", &self.folder))?;
        context.ui.note(&format!("the manual is in {}", self.folder.display()));
        Ok(CommandExit::Success)
    }
}
