//! The verbs of `sandyard`, one file each. This file is the table of verbs.

mod audit;
mod cancel;
mod code;
mod completions;
mod context;
mod cp;
mod demo;
mod doctor;
mod download;
mod explain;
mod image;
mod logs;
mod man;
mod mcp;
mod open;
mod prune;
mod ps;
mod reply;
mod rm;
mod run;
mod run_input;
mod screenshot;
mod shell;
mod status;
mod up;

use clap::{Args, Parser, Subcommand};

use crate::context::CommandContext;
use crate::errors::CommandError;
use crate::exit_codes::{self, CommandExit};
use crate::runtime::block_on;

/// A self-hosted yard of sandboxes for coding agents.
#[derive(Debug, Parser)]
#[command(name = "sandyard", version, after_long_help = exit_codes::HELP, propagate_version = false)]
#[command(disable_help_subcommand = true, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) server: ServerArguments,
    #[command(subcommand)]
    pub(crate) command: CliVerb,
}

/// The server that a command uses.
#[derive(Debug, Clone, Args)]
pub(crate) struct ServerArguments {
    /// Address of the server, `http://` or `https://`, or `local` for the yard in the data folder
    ///
    /// A named address is used, or the command fails. Without one: http://127.0.0.1:8000, then the data folder.
    #[arg(long, global = true, env = "SANDYARD_URL", value_name = "URL", hide_env_values = true)]
    pub(crate) url: Option<String>,
    /// Key of the server
    #[arg(long, global = true, env = "SANDYARD_TOKEN", value_name = "KEY", hide_env_values = true)]
    pub(crate) token: Option<String>,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum CliVerb {
    Up(up::UpCommand),
    Run(run::RunCommand),
    Demo(demo::DemoCommand),
    Ps(ps::PsCommand),
    Status(status::StatusCommand),
    Logs(logs::LogsCommand),
    Reply(reply::ReplyCommand),
    Cancel(cancel::CancelCommand),
    Rm(rm::RmCommand),
    Prune(prune::PruneCommand),
    Download(download::DownloadCommand),
    Explain(explain::ExplainCommand),
    Context(context::ContextCommand),
    Audit(audit::AuditCommand),
    Shell(shell::ShellCommand),
    Code(code::CodeCommand),
    Cp(cp::CpCommand),
    Screenshot(screenshot::ScreenshotCommand),
    Open(open::OpenCommand),
    Mcp(mcp::McpCommand),
    Image(image::ImageCommand),
    Doctor(doctor::DoctorCommand),
    Completions(completions::CompletionsCommand),
    #[command(hide = true)]
    Man(man::ManCommand),
}

impl CliVerb {
    /// Runs the chosen subcommand.
    pub(crate) fn run(self, context: &CommandContext) -> Result<CommandExit, CommandError> {
        match self {
            Self::Up(command) => command.run(context),
            Self::Run(command) => block_on(command.run(context)),
            Self::Demo(command) => block_on(command.run(context)),
            Self::Ps(command) => block_on(command.run(context)),
            Self::Status(command) => block_on(command.run(context)),
            Self::Logs(command) => block_on(command.run(context)),
            Self::Reply(command) => block_on(command.run(context)),
            Self::Cancel(command) => block_on(command.run(context)),
            Self::Rm(command) => block_on(command.run(context)),
            Self::Prune(command) => block_on(command.run(context)),
            Self::Download(command) => block_on(command.run(context)),
            Self::Explain(command) => block_on(command.run(context)),
            Self::Context(command) => block_on(command.run(context)),
            Self::Audit(command) => block_on(command.run(context)),
            Self::Shell(command) => block_on(command.run(context)),
            Self::Code(command) => block_on(command.run(context)),
            Self::Cp(command) => block_on(command.run(context)),
            Self::Screenshot(command) => block_on(command.run(context)),
            Self::Open(command) => block_on(command.run(context)),
            Self::Mcp(command) => block_on(command.run(context)),
            Self::Image(command) => block_on(command.run(context)),
            Self::Doctor(command) => block_on(command.run(context)),
            Self::Completions(command) => command.run(context),
            Self::Man(command) => command.run(context),
        }
    }

    /// Serves for a `run` of root that has these arguments.
    pub(crate) fn serve(self, context: &CommandContext) -> Result<CommandExit, CommandError> {
        match self {
            Self::Run(command) => command.serve(context),
            Self::Demo(command) => command.as_run().serve(context),
            _ => Err(CommandError::usage("only `run` and `demo` have a server of their own")),
        }
    }
}

#[cfg(test)]
#[path = "help_tests.rs"]
mod tests;
