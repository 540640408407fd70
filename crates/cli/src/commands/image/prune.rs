//! `sandyard image prune`: removes images that nobody needs, with all their forms: the tree, the disk beside it, the copy in an engine.

use clap::Args;
use sandyard_sandbox::image::{Flavour, ImageDigest, ImageRequest, ImageStore};

use crate::config::DriverSettings;
use crate::context::CommandContext;
use crate::errors::CommandError;
use crate::exit_codes::Exit;
use crate::images::{ImageError, engine, in_use};

/// Remove images that are neither the newest of their flavour nor in use
///
/// With all their forms: tree, disk of virtual machines, and what was loaded into an engine.
#[derive(Debug, Args)]
pub(super) struct PruneImages {
    /// Also the newest ones
    #[arg(long)]
    all: bool,
}

impl PruneImages {
    pub(super) async fn run(
        &self,
        context: &CommandContext,
        store: &ImageStore,
        drivers: &DriverSettings,
    ) -> Result<Exit, CommandError> {
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
        Ok(Exit::Success)
    }
}

fn newest(store: &ImageStore) -> Result<Vec<ImageDigest>, ImageError> {
    let find = |flavour| Ok(store.find(&ImageRequest::plain(flavour))?.map(|image| image.digest));
    Flavour::ALL.into_iter().filter_map(|flavour| find(flavour).transpose()).collect()
}
