//! `sandyard completions`: print a completion script for a shell.

use clap::{Args, Command};
use clap_complete::Shell;

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
    /// Prints the script. The whole command line is passed in: this verb is a part of it.
    pub(crate) fn run(self, mut program: Command) -> Result<CommandExit, CommandError> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut program, "sandyard", &mut script);
        std::io::Write::write_all(&mut std::io::stdout(), &script)?;
        Ok(CommandExit::Success)
    }
}
