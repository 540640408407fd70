//! The verbs of `sandyard`, one file each. This file is the table of verbs.

mod attach;
mod audit;
mod cancel;
mod code;
mod completions;
mod context;
mod cp;
mod demo;
mod doctor;
mod download;
mod events;
mod explain;
mod extend;
mod image;
mod inspect;
mod kernels;
mod keys;
mod logs;
mod man;
mod mcp;
mod open;
mod prune;
mod ps;
mod reply;
mod rm;
mod run;
mod run_arguments;
mod run_end;
mod run_files;
mod run_input;
mod run_session;
mod run_source;
mod screenshot;
mod shell;
mod shell_input;
mod stats;
mod status;
mod store;
mod up;
mod upload;
mod version;
mod wait;

use std::ffi::OsString;

use clap::{Args, ColorChoice, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::config::ColourWish;
use crate::context::CommandContext;
use crate::errors::CommandError;
use crate::exit_codes::{self, CommandExit};
use crate::runtime::block_on;
use crate::ui;

/// Columns of help at most: longer lines are hard to read.
const WIDEST_HELP: usize = 100;

/// The heading of options that every verb takes.
const GLOBAL: &str = "Global options";

const EXAMPLES: &str = "\
Examples:
  sandyard up                            serve at http://127.0.0.1:8000
  sandyard demo -o todo                  see an agent at work, without a key
  sandyard run -k shell 'uname -a'       run something, with or without a server
  sandyard run 'Build me a todo app'     a task for the agent
  sandyard ps                            what runs and what ran

`sandyard help VERB` shows the options and examples of a verb.";

/// A self-hosted yard of sandboxes for coding agents.
#[derive(Debug, Parser)]
#[command(name = "sandyard", version, propagate_version = false)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{}", exit_codes::HELP))]
#[command(subcommand_help_heading = "Verbs", subcommand_value_name = "VERB", max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) server: ServerArguments,
    #[command(subcommand)]
    pub(crate) command: CliVerb,
}

impl Cli {
    /// Reads the command line. Ends the process after help and after a mistake.
    pub(crate) fn read(arguments: Vec<OsString>, colours: ColourWish) -> Self {
        let choice = match colours {
            ColourWish::OnTerminals => ColorChoice::Auto,
            ColourWish::Always => ColorChoice::Always,
            ColourWish::Never => ColorChoice::Never,
        };
        let width = ui::terminal_columns().map_or(WIDEST_HELP, |columns| columns.min(WIDEST_HELP));
        let matches = Self::command().term_width(width).color(choice).get_matches_from(arguments);
        Self::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
    }
}

/// The server that a command uses.
#[derive(Debug, Clone, Args)]
pub(crate) struct ServerArguments {
    /// Address of the server, `http://` or `https://`, or `local` for the yard in the data folder
    ///
    /// A named address is used, or the command fails. Without one: http://127.0.0.1:8000, then the data folder.
    #[arg(long, global = true, env = "SANDYARD_URL", value_name = "URL", hide_env_values = true)]
    #[arg(help_heading = GLOBAL)]
    pub(crate) url: Option<String>,
    /// Key of the server
    #[arg(long, global = true, env = "SANDYARD_TOKEN", value_name = "KEY", hide_env_values = true)]
    #[arg(help_heading = GLOBAL)]
    pub(crate) token: Option<String>,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum CliVerb {
    Run(run::RunCommand),
    Demo(demo::DemoCommand),
    Ps(ps::PsCommand),
    Status(status::StatusCommand),
    Inspect(inspect::InspectCommand),
    Attach(attach::AttachCommand),
    Logs(logs::LogsCommand),
    Events(events::EventsCommand),
    Stats(stats::StatsCommand),
    Wait(wait::WaitCommand),
    Reply(reply::ReplyCommand),
    Extend(extend::ExtendCommand),
    Cancel(cancel::CancelCommand),
    Download(download::DownloadCommand),
    Rm(rm::RmCommand),
    Prune(prune::PruneCommand),
    Context(context::ContextCommand),
    Shell(shell::ShellCommand),
    Code(code::CodeCommand),
    Kernels(kernels::KernelsCommand),
    Cp(cp::CpCommand),
    Screenshot(screenshot::ScreenshotCommand),
    Open(open::OpenCommand),
    Explain(explain::ExplainCommand),
    Audit(audit::AuditCommand),
    Up(up::UpCommand),
    Doctor(doctor::DoctorCommand),
    Image(image::ImageCommand),
    Store(store::StoreCommand),
    Keys(keys::KeysCommand),
    Mcp(mcp::McpCommand),
    Completions(completions::CompletionsCommand),
    Version(version::VersionCommand),
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
            Self::Store(command) => block_on(command.run(context)),
            Self::Doctor(command) => block_on(command.run(context)),
            Self::Attach(command) => block_on(command.run(context)),
            Self::Events(command) => block_on(command.run(context)),
            Self::Extend(command) => block_on(command.run(context)),
            Self::Inspect(command) => block_on(command.run(context)),
            Self::Kernels(command) => block_on(command.run(context)),
            Self::Stats(command) => block_on(command.run(context)),
            Self::Version(command) => block_on(command.run(context)),
            Self::Wait(command) => block_on(command.run(context)),
            Self::Keys(command) => command.run(context),
            Self::Completions(command) => command.run(Cli::command()),
            Self::Man(command) => command.run(context, Cli::command()),
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
