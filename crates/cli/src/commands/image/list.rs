//! `sandyard image list`: list the images of the cache with their forms, and images that only an engine still has.

use clap::Args;
use sandyard_sandbox::drivers::docker::LoadedImage;
use sandyard_sandbox::image::{Image as BuiltImage, ImageArchitecture, ImageStore, vm};
use serde_json::{Value, json};

use crate::clock::now;
use crate::config::DriverSettings;
use crate::context::CommandContext;
use crate::errors::CommandError;
use crate::exit_codes::CommandExit;
use crate::images::{ImageError, engine};
use crate::job;
use crate::ui::TableCell;

const EXAMPLES: &str = "\
Examples:
  sandyard image list
  sandyard image list --json";

/// List the images of this machine
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct List {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl List {
    pub(super) async fn run(
        &self,
        context: &CommandContext,
        store: &ImageStore,
        drivers: &DriverSettings,
    ) -> Result<CommandExit, CommandError> {
        let images = store.list().map_err(ImageError::from)?;
        let loaded = engine::loaded(drivers, context.ui).await;
        let listed = ListedImage { images: &images, loaded: &loaded };
        if self.json {
            context.ui.json(&listed.views())?;
        } else {
            let header = ["IMAGE", "FLAVOUR", "SIZE", "AGE", "FORMS", "WITH", "ROOT"];
            context.ui.table(&header, &listed.rows(now().unix_ms()))?;
        }
        Ok(CommandExit::Success)
    }
}

/// An image of the cache or of an engine.
struct ListedImage<'a> {
    images: &'a [BuiltImage],
    loaded: &'a [LoadedImage],
}

impl ListedImage<'_> {
    fn in_engine(&self, image: &BuiltImage) -> Option<&LoadedImage> {
        self.loaded.iter().find(|loaded| loaded.digest == image.digest)
    }

    /// Images of an engine whose tree is gone.
    fn in_engine_alone(&self) -> impl Iterator<Item = &LoadedImage> {
        let has_tree = |loaded: &&LoadedImage| self.images.iter().any(|image| image.digest == loaded.digest);
        self.loaded.iter().filter(move |loaded| !has_tree(loaded))
    }

    /// Returns the forms of an image as `image build --format` names them.
    fn forms(&self, image: &BuiltImage) -> Vec<&'static str> {
        let disk = vm::root_disk_of(&image.root).map(|_| "vm");
        let engine = self.in_engine(image).map(|_| "docker");
        [Some("tree"), disk, engine].into_iter().flatten().collect()
    }

    fn views(&self) -> Vec<Value> {
        let view = |image: &BuiltImage| {
            json!({
                "digest": image.digest,
                "flavour": image.flavour,
                "root": image.root,
                "forms": self.forms(image),
                "docker_id": self.in_engine(image).map(|loaded| &loaded.id),
                "facts": image.facts,
            })
        };
        let orphan = |loaded: &LoadedImage| json!({"digest": loaded.digest, "flavour": loaded.flavour, "root": null, "forms": ["docker"], "docker_id": loaded.id});
        self.images.iter().map(view).chain(self.in_engine_alone().map(orphan)).collect()
    }

    fn rows(&self, now_ms: i64) -> Vec<Vec<TableCell>> {
        let row = |image: &BuiltImage| {
            vec![
                TableCell::plain(image.digest.short()),
                TableCell::plain(image.flavour.as_str()),
                TableCell::plain(mebibytes(image.facts.size_bytes)),
                TableCell::plain(age(now_ms, image.facts.created_s)),
                TableCell::plain(self.forms(image).join(" ")),
                TableCell::plain(added(image)),
                TableCell::plain(image.root.display().to_string()),
            ]
        };
        let orphan = |loaded: &LoadedImage| {
            vec![
                TableCell::plain(loaded.digest.short()),
                TableCell::plain(&loaded.flavour),
                TableCell::plain(mebibytes(loaded.size_bytes)),
                TableCell::plain(age(now_ms, loaded.created_s)),
                TableCell::plain("docker"),
                TableCell::plain(""),
                TableCell::plain("-"),
            ]
        };
        self.images.iter().map(row).chain(self.in_engine_alone().map(orphan)).collect()
    }
}

/// Returns what tells an image from others of its flavour: packages, another processor, the moment that packages come from.
fn added(image: &BuiltImage) -> String {
    let architecture = image.facts.architecture;
    let other = (architecture != ImageArchitecture::native()).then(|| architecture.to_string());
    let moment = image.facts.snapshot.as_ref().map(|moment| format!("snapshot={moment}"));
    image.facts.with.iter().cloned().chain(other).chain(moment).collect::<Vec<_>>().join(" ")
}

fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes / (1024 * 1024))
}

fn age(now_ms: i64, created_s: u64) -> String {
    let created_ms = i64::try_from(created_s).unwrap_or(0).saturating_mul(1000);
    job::duration((now_ms - created_ms).max(0))
}
