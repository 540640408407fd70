//! `sandyard open`: things of a live sandbox that people look at. One file for each thing.

mod browser;
mod desktop;
mod vnc;

use clap::{Args, Subcommand};

use crate::context::Context;
use crate::errors::CommandError;
use crate::exit_codes::Exit;

/// Open something of a sandbox: its desktop in a browser, or for a VNC client
#[derive(Debug, Args)]
pub(crate) struct Open {
    #[command(subcommand)]
    thing: Thing,
}

#[derive(Debug, Subcommand)]
enum Thing {
    Desktop(desktop::Desktop),
    Vnc(vnc::Vnc),
}

impl Open {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, CommandError> {
        match self.thing {
            Thing::Desktop(thing) => thing.run(context).await,
            Thing::Vnc(thing) => thing.run(context).await,
        }
    }
}
