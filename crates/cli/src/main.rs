//! The `sandyard` command: reads the command line and the environment, and hands both to a verb.
//!
//! `commands/` has one file for each verb; `client` talks to a server, `serve` is one, and `ui` prints for people. The process
//! is also the launcher of the native driver when it is called as such, which must happen before any thread exists.

mod client;
mod clock;
mod commands;
mod config;
mod context;
mod demo;
mod drivers;
mod errors;
mod exit_codes;
mod host_checks;
mod images;
mod job;
mod log;
mod machine;
mod progress;
mod serve;
mod terminal;
mod ui;

use std::process::ExitCode;

use clap::Parser;
use sandyard_sandbox::drivers::native::{LAUNCHER_COMMAND, launcher_main};

use commands::Cli;
use config::Surroundings;
use context::CommandContext;
use errors::CommandError;
use exit_codes::CommandExit;
use ui::Ui;

fn main() -> ExitCode {
    if std::env::args_os().nth(1).is_some_and(|argument| argument == LAUNCHER_COMMAND) {
        return launcher_main();
    }
    // Clients are built with it; the first one chosen in a process stays, and this is the first.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let cli = Cli::parse();
    let surroundings = Surroundings::read();
    let ui = Ui::detect(surroundings.colourless());
    let context = CommandContext { ui, surroundings, url: cli.server.url, token: cli.server.token };
    match run(cli.command, &context) {
        Ok(exit) => exit.into(),
        Err(error) => {
            if error.exit() != CommandExit::BrokenPipe {
                ui.error(&error, error.hint().as_deref());
            }
            error.exit().into()
        }
    }
}

fn run(command: commands::CliVerb, context: &CommandContext) -> Result<CommandExit, CommandError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let result = runtime.block_on(command.run(context));
    // Threads that read the keyboard can't be ended, so they are not waited for.
    runtime.shutdown_background();
    result
}
