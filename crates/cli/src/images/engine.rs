//! An image for container engines: loaded into the one of this machine, or written to a file that any of them loads.

use std::path::{Path, PathBuf};

use sandyard_sandbox::drivers::docker;
use sandyard_sandbox::image::{self, Image};

use super::ImageError;
use crate::ui::Ui;

/// Where the image goes.
pub(crate) enum Destination {
    /// The engine behind this socket.
    Engine(PathBuf),
    /// A new file.
    File(PathBuf),
}

/// Brings the image there, and returns its name in an engine and the engine's id of it.
pub(crate) async fn deliver(image: Image, to: Destination, ui: Ui) -> Result<(String, String), ImageError> {
    let name = image::reference(&image);
    let mut progress = ui.progress(&format!("docker image {}", image.flavour));
    let id = match to {
        Destination::Engine(socket) => {
            let tell = move |percent| progress.set(percent, "loading into the engine");
            docker::load_image(&socket, image, tell).await.map_err(ImageError::Engine)?
        }
        Destination::File(path) => {
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
