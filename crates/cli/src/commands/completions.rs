//! `sandyard completions`: print a completion script for a shell.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::Cli;
use crate::context::CommandContext;
use crate::errors::CommandError;
use crate::exit_codes::CommandExit;

const EXAMPLES: &str = "\
Examples:
  sandyard completions bash > /etc/bash_completion.d/sandyard";

/// Print completions for a shell
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CompletionsCommand {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

impl CompletionsCommand {
    pub(crate) fn run(self, _context: &CommandContext) -> Result<CommandExit, CommandError> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "sandyard", &mut script);
        std::io::Write::write_all(&mut std::io::stdout(), &script)?;
        Ok(CommandExit::Success)
    }
}
