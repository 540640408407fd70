//! `sandyard image prune`: remove unused images in all their forms: tree, disk of virtual machines, copy in an engine.

use clap::Args;
use sandyard_sandbox::image::{ImageDigest, ImageFlavour, ImageRequest, ImageStore};

use crate::config::DriverSettings;
use crate::context::CommandContext;
use crate::errors::CommandError;
use crate::exit_codes::CommandExit;
use crate::images::{ImageError, engine, in_use};

const EXAMPLES: &str = "\
Examples:
  sandyard image prune
  sandyard image prune --all    also the newest ones";

/// Remove images that are neither the newest of their flavour nor in use
///
/// Removes all their forms: tree, disk of virtual machines, and the copy in an engine.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct PruneImages {
    /// Also remove the newest images
    #[arg(long)]
    all: bool,
}

impl PruneImages {
    pub(super) async fn run(
        &self,
        context: &CommandContext,
        store: &ImageStore,
        drivers: &DriverSettings,
    ) -> Result<CommandExit, CommandError> {
        let mut keep = in_use::of(&store.list().map_err(ImageError::from)?);
        if !self.all {
            keep.extend(newest(store)?);
        }
        for digest in store.prune(&keep).map_err(ImageError::from)? {
            context.ui.line(digest.as_str())?;
        }
        for name in engine::prune(drivers, &keep, context.ui).await {
            context.ui.line(&name)?;
        }
        Ok(CommandExit::Success)
    }
}

fn newest(store: &ImageStore) -> Result<Vec<ImageDigest>, ImageError> {
    let find = |flavour| Ok(store.find(&ImageRequest::plain(flavour))?.map(|image| image.digest));
    ImageFlavour::ALL.into_iter().filter_map(|flavour| find(flavour).transpose()).collect()
}
