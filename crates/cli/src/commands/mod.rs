//! The verbs of `sandyard`, one file each. This file is only the table of them.

mod audit;
mod cancel;
mod code;
mod completions;
mod cp;
mod demo;
mod doctor;
mod download;
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

use crate::context::Context;
use crate::errors::CommandError;
use crate::exit_codes::{self, Exit};

/// A self-hosted yard of sandboxes for coding agents.
#[derive(Debug, Parser)]
#[command(name = "sandyard", version, after_long_help = exit_codes::HELP, propagate_version = false)]
#[command(disable_help_subcommand = true, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) server: ServerArguments,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Which server a command talks to.
#[derive(Debug, Clone, Args)]
pub(crate) struct ServerArguments {
    /// Address of the server [default: http://127.0.0.1:8000, then the socket in the data folder]
    #[arg(long, global = true, env = "SANDYARD_URL", value_name = "URL", hide_env_values = true)]
    pub(crate) url: Option<String>,
    /// Key of the server
    #[arg(long, global = true, env = "SANDYARD_TOKEN", value_name = "KEY", hide_env_values = true)]
    pub(crate) token: Option<String>,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Up(up::Up),
    Run(run::Run),
    Demo(demo::Demo),
    Ps(ps::Ps),
    Status(status::Status),
    Logs(logs::Logs),
    Reply(reply::Reply),
    Cancel(cancel::Cancel),
    Rm(rm::Rm),
    Prune(prune::Prune),
    Download(download::Download),
    Audit(audit::Audit),
    Shell(shell::Shell),
    Code(code::Code),
    Cp(cp::Cp),
    Screenshot(screenshot::Screenshot),
    Open(open::Open),
    Mcp(mcp::Mcp),
    Image(image::Image),
    Doctor(doctor::Doctor),
    Completions(completions::Completions),
    #[command(hide = true)]
    Man(man::Man),
}

impl Command {
    /// Carries it out.
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, CommandError> {
        match self {
            Self::Up(command) => command.run(context).await,
            Self::Run(command) => command.run(context).await,
            Self::Demo(command) => command.run(context).await,
            Self::Ps(command) => command.run(context).await,
            Self::Status(command) => command.run(context).await,
            Self::Logs(command) => command.run(context).await,
            Self::Reply(command) => command.run(context).await,
            Self::Cancel(command) => command.run(context).await,
            Self::Rm(command) => command.run(context).await,
            Self::Prune(command) => command.run(context).await,
            Self::Download(command) => command.run(context).await,
            Self::Audit(command) => command.run(context).await,
            Self::Shell(command) => command.run(context).await,
            Self::Code(command) => command.run(context).await,
            Self::Cp(command) => command.run(context).await,
            Self::Screenshot(command) => command.run(context).await,
            Self::Open(command) => command.run(context).await,
            Self::Mcp(command) => command.run(context).await,
            Self::Image(command) => command.run(context).await,
            Self::Doctor(command) => command.run(context).await,
            Self::Completions(command) => command.run(context),
            Self::Man(command) => command.run(context),
        }
    }
}

#[cfg(test)]
#[path = "help_tests.rs"]
mod tests;
