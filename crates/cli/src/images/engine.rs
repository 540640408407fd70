//! Images in container engines: loaded into the one of this machine, or written to a file that any of them loads; listed and removed.

use std::path::{Path, PathBuf};

use sandyard_sandbox::drivers::docker::{self, LoadedImage};
use sandyard_sandbox::image::{self, Image, ImageDigest};

use super::{ImageError, chain};
use crate::config::DriverSettings;
use crate::ui::Ui;

/// Where the image goes.
pub(crate) enum EngineDestination {
    /// The engine behind this socket.
    Engine(PathBuf),
    /// A new file.
    File(PathBuf),
}

/// Brings the image there, and returns its name in an engine and the engine's id of it.
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

/// The socket that was set, or the first at which an engine listens.
pub(crate) fn socket(set: Option<&Path>) -> PathBuf {
    let known = docker::SOCKETS.iter().map(Path::new);
    let first = || known.clone().find(|path| path.exists()).or_else(|| known.clone().next());
    set.or_else(first).unwrap_or(Path::new("")).to_owned()
}

/// Ours in the engine of this machine. One that does not answer has none that could be told of, and is named.
pub(crate) async fn loaded(drivers: &DriverSettings, ui: Ui) -> Vec<LoadedImage> {
    let socket = socket(drivers.docker.socket.as_deref());
    if !socket.exists() {
        return Vec::new();
    }
    docker::loaded_images(&socket).await.unwrap_or_else(|error| {
        ui.note(&format!("images in an engine are not known: {}", chain(&error)));
        Vec::new()
    })
}

/// Removes ours from the engine but for those in `keep` and those of a container; returns what to call the removed ones.
pub(crate) async fn prune(drivers: &DriverSettings, keep: &[ImageDigest], ui: Ui) -> Vec<String> {
    let socket = socket(drivers.docker.socket.as_deref());
    let mut removed = Vec::new();
    for image in loaded(drivers, ui).await.into_iter().filter(|image| !keep.contains(&image.digest)) {
        match docker::remove_image(&socket, &image).await {
            Ok(()) => removed.push(image.name),
            Err(error) => ui.note(&format!("{} stays in the engine: {}", image.name, chain(&error))),
        }
    }
    removed
}
