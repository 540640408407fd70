//! Images in container engines: loads an image into the engine of this machine or writes a file that any engine can load; lists
//! and removes images.

use std::path::{Path, PathBuf};

use sandyard_protocol::ErrorChain;
use sandyard_sandbox::drivers::docker::{self, LoadedImage};
use sandyard_sandbox::image::{self, Image, ImageDigest};

use super::ImageError;
use crate::config::DriverSettings;
use crate::ui::Ui;

/// Destination of an image.
pub(crate) enum EngineDestination {
    /// The engine behind this socket.
    Engine(PathBuf),
    /// The archive is written to a new file.
    File(PathBuf),
}

/// Sends the image to its destination. Returns its name and its id in an engine.
pub(crate) async fn deliver(
    image: Image,
    to: EngineDestination,
    ui: Ui,
) -> Result<(String, String), ImageError> {
    let name = image::reference(&image);
    let mut progress = ui.progress(&format!("docker image {}", image.flavour));
    let id = match to {
        EngineDestination::Engine(socket) => {
            let tell = move |percent| progress.set(percent, "loading into the engine");
            docker::load_image(&socket, image, tell).await.map_err(ImageError::Engine)?
        }
        EngineDestination::File(path) => {
            write(image, path, move |percent| progress.set(percent, "writing")).await?
        }
    };
    Ok((name, id))
}

async fn write(
    image: Image,
    path: PathBuf,
    mut percent: impl FnMut(u8) + Send + 'static,
) -> Result<String, ImageError> {
    let writing = tokio::task::spawn_blocking(move || image::write_file(&image, &path, &mut percent));
    match writing.await {
        Ok(written) => written.map_err(ImageError::Archive),
        Err(panicked) => Err(ImageError::Interrupted(std::io::Error::other(panicked))),
    }
}

/// Returns the configured socket, or the first one at which an engine listens.
pub(crate) fn socket(set: Option<&Path>) -> PathBuf {
    let known = docker::SOCKETS.iter().map(Path::new);
    let first = || known.clone().find(|path| path.exists()).or_else(|| known.clone().next());
    set.or_else(first).unwrap_or(Path::new("")).to_owned()
}

/// Lists Sandyard's images in the engine of this machine. An engine that does not answer is reported and counts as empty.
pub(crate) async fn loaded(drivers: &DriverSettings, ui: Ui) -> Vec<LoadedImage> {
    let socket = socket(drivers.docker.socket.as_deref());
    if !socket.exists() {
        return Vec::new();
    }
    docker::loaded_images(&socket).await.unwrap_or_else(|error| {
        ui.note(&format!("images in an engine are not known: {}", ErrorChain(&error)));
        Vec::new()
    })
}

/// Removes Sandyard's images from the engine, except those in `keep` and those of a container. Returns the names of the removed
/// images.
pub(crate) async fn prune(drivers: &DriverSettings, keep: &[ImageDigest], ui: Ui) -> Vec<String> {
    let socket = socket(drivers.docker.socket.as_deref());
    let mut removed = Vec::new();
    for image in loaded(drivers, ui).await.into_iter().filter(|image| !keep.contains(&image.digest)) {
        match docker::remove_image(&socket, &image).await {
            Ok(()) => removed.push(image.name),
            Err(error) => ui.note(&format!("{} stays in the engine: {}", image.name, ErrorChain(&error))),
        }
    }
    removed
}
