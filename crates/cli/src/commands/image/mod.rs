//! `sandyard image`: build, list and remove the images that sandboxes run, in whatever form they are.

mod build;
mod list;
mod prune;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use sandyard_sandbox::image::ImageStore;

use self::build::Build;
use self::list::List;
use self::prune::Prune;
use crate::config::Flags;
use crate::context::Context;
use crate::errors::CommandError;
use crate::exit_codes::Exit;

/// Build, list and remove the images of sandboxes
#[derive(Debug, Args)]
pub(crate) struct Image {
    /// Where images are kept [default: /var/cache/sandyard, or the user's own] [env: SANDYARD_CACHE]
    #[arg(long, global = true, value_name = "DIR")]
    cache: Option<PathBuf>,
    #[command(subcommand)]
    action: Action,
}

/// What to do with images.
#[derive(Debug, Subcommand)]
enum Action {
    Build(Build),
    List(List),
    Prune(Prune),
}

impl Image {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, CommandError> {
        let mut flags = Flags::default();
        flags.set("cache", self.cache.as_ref().map(|path| path.display()));
        let settings = context.settings(&flags)?;
        let store = ImageStore::new(&settings.cache);
        match self.action {
            Action::Build(build) => build.run(context, store, &settings.drivers).await,
            Action::List(list) => list.run(context, &store, &settings.drivers).await,
            Action::Prune(prune) => prune.run(context, &store, &settings.drivers).await,
        }
    }
}
