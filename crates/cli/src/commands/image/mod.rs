//! `sandyard image`: build, list and remove the images of sandboxes.

mod build;
mod list;
mod prune;
mod vm;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use sandyard_sandbox::image::ImageStore;

use self::build::Build;
use self::list::List;
use self::prune::PruneImages;
use crate::config::Flags;
use crate::context::CommandContext;
use crate::errors::CommandError;
use crate::exit_codes::CommandExit;

const EXAMPLES: &str = "\
Examples:
  sandyard image build --flavour base
  sandyard image list
  sandyard image prune";

/// Build, list and remove the images of sandboxes
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ImageCommand {
    /// Image cache [default: /var/cache/sandyard, or the user's own] [env: SANDYARD_CACHE]
    #[arg(long, global = true, value_name = "DIR")]
    cache: Option<PathBuf>,
    #[command(subcommand)]
    action: ImageAction,
}

/// The verbs of `sandyard image`.
#[derive(Debug, Subcommand)]
enum ImageAction {
    Build(Build),
    List(List),
    Prune(PruneImages),
}

impl ImageCommand {
    pub(crate) async fn run(self, context: &CommandContext) -> Result<CommandExit, CommandError> {
        let mut flags = Flags::default();
        flags.set("cache", self.cache.as_ref().map(|path| path.display()));
        let settings = context.settings(&flags)?;
        let store = ImageStore::new(&settings.cache);
        match self.action {
            ImageAction::Build(build) => build.run(context, store, &settings.drivers).await,
            ImageAction::List(list) => list.run(context, &store, &settings.drivers).await,
            ImageAction::Prune(prune) => prune.run(context, &store, &settings.drivers).await,
        }
    }
}
