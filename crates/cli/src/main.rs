//! The `sandyard` command: reads the command line and the environment, and hands both to a verb.
//!
//! `commands/` has one file for each verb; `client` talks to a server, `serve` is one, and `ui` prints for people. The same program is
//! also the launcher of the native driver, the privileged process beside a server of root (`warden`), and the server of a `run` of
//! root, when it is called as such. All of these begin before any thread exists.

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
mod runtime;
mod serve;
mod table;
mod terminal;
mod trial;
mod ui;
mod warden;

use std::process::ExitCode;

use sandyard_sandbox::drivers::native::{LAUNCHER_COMMAND, launcher_main};

use commands::Cli;
use config::Surroundings;
use context::CommandContext;
use exit_codes::CommandExit;
use serve::embedded::EMBEDDED_COMMAND;
use ui::Ui;
use warden::WARDEN_COMMAND;

fn main() -> ExitCode {
    let mut arguments: Vec<_> = std::env::args_os().collect();
    let role = arguments.get(1).and_then(|argument| argument.to_str()).map(str::to_owned);
    match role.as_deref() {
        Some(LAUNCHER_COMMAND) => return launcher_main(),
        Some(WARDEN_COMMAND) => return warden::main(),
        _ => {}
    }
    // Clients are built with it; the first one chosen in a process stays, and this is the first.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let embedded = role.as_deref() == Some(EMBEDDED_COMMAND);
    if embedded {
        arguments.remove(1);
    }
    let surroundings = Surroundings::read();
    let cli = Cli::read(arguments, surroundings.colours());
    let ui = Ui::detect(surroundings.colours());
    let context = CommandContext { ui, surroundings, url: cli.server.url, token: cli.server.token };
    let ended = if embedded { cli.command.serve(&context) } else { cli.command.run(&context) };
    match ended {
        Ok(exit) => exit.into(),
        Err(error) => {
            if error.exit() != CommandExit::BrokenPipe {
                ui.error(&error, error.hint().as_deref());
            }
            error.exit().into()
        }
    }
}
