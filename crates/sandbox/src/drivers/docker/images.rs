//! Images in the engine. The driver finds one by the label that names its tree, loads it once if it is
//! missing, and removes it when nobody needs it.

use std::io;
use std::path::Path;

use bytes::Bytes;
use tokio::sync::mpsc;

use super::engine::Engine;
use crate::image::{ArchiveError, FLAVOUR_LABEL, IMAGE_LABEL, Image, ImageArchive, ImageDigest, ImageFacts};

/// Pieces of an archive that wait for the engine. A slow engine slows the reader down.
const MAX_WAITING_PIECES: usize = 8;
/// Bytes of a piece: the size of one write to a socket.
const PIECE_BYTES: usize = 256 * 1024;

/// An image could not be brought into an engine.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The path is not a tree of the image cache.
    #[error("{0} is not a tree of the image cache")]
    NoImage(String),
    /// The image could not be read.
    #[error("read the image")]
    Archive(#[from] ArchiveError),
    /// The engine did not accept the image.
    #[error("load the image into the engine")]
    Engine(#[source] io::Error),
}

impl From<LoadError> for io::Error {
    fn from(error: LoadError) -> Self {
        match error {
            LoadError::Engine(source) => source,
            other => Self::other(other),
        }
    }
}

/// Returns the image of a tree, `<cache>/images/<digest>/root`.
pub(super) fn image_of(root: &Path) -> Result<Image, LoadError> {
    let found = || {
        let folder = root.parent()?;
        let digest = ImageDigest::parse(folder.file_name()?.to_str()?)?;
        let facts: ImageFacts =
            serde_json::from_slice(&std::fs::read(folder.join("manifest.json")).ok()?).ok()?;
        Some(Image { digest, flavour: facts.flavour, root: root.to_owned(), facts })
    };
    found().ok_or_else(|| LoadError::NoImage(root.display().to_string()))
}

/// Returns the engine's id of the image; loads the image if it is missing. `percent` receives the progress.
pub(super) async fn ensure(
    engine: &Engine,
    image: Image,
    percent: impl FnMut(u8) + Send + 'static,
) -> Result<String, LoadError> {
    let label = image.digest.to_string();
    if let Some(id) = engine.image_with(IMAGE_LABEL, &label).await.map_err(LoadError::Engine)? {
        return Ok(id);
    }
    let (sender, mut pieces) = mpsc::channel(MAX_WAITING_PIECES);
    let reading = tokio::task::spawn_blocking(move || read(&image, sender, percent));
    let archive = futures_util::stream::poll_fn(move |context| pieces.poll_recv(context));
    let loaded = engine.load(archive).await;
    // The reader's failure counts only if the engine accepted the archive; otherwise the reader failed
    // because the engine did.
    match reading.await.map_err(|error| LoadError::Engine(io::Error::other(error)))? {
        Err(error) if loaded.is_ok() => return Err(error.into()),
        _ => loaded.map_err(LoadError::Engine)?,
    }
    let id = engine.image_with(IMAGE_LABEL, &label).await.map_err(LoadError::Engine)?;
    id.ok_or_else(|| LoadError::Engine(io::Error::other("the engine took the image and does not have it")))
}

/// Writes the archive into the channel. After a failure it sends the error too, so that the engine never
/// takes a part for the whole.
fn read(
    image: &Image,
    sender: mpsc::Sender<io::Result<Bytes>>,
    mut percent: impl FnMut(u8),
) -> Result<(), ArchiveError> {
    let out = io::BufWriter::with_capacity(PIECE_BYTES, Pieces(sender.clone()));
    let written = ImageArchive::of(image).and_then(|archive| archive.write(out, &mut percent));
    if let Err(error) = &written {
        // The engine may have refused and closed the channel already.
        let _ = sender.blocking_send(Err(io::Error::other(error.to_string())));
    }
    written.map(drop)
}

/// Writes into a channel.
struct Pieces(mpsc::Sender<io::Result<Bytes>>);

impl io::Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
        self.0.blocking_send(Ok(Bytes::copy_from_slice(bytes))).map_err(gone)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Loads an image into the engine behind a socket. Returns the engine's id of the image.
pub async fn load_image(
    socket: &Path,
    image: Image,
    percent: impl FnMut(u8) + Send + 'static,
) -> Result<String, LoadError> {
    ensure(&Engine::new(socket), image, percent).await
}

/// An image of ours that an engine has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadedImage {
    /// Id of the image in the engine.
    pub id: String,
    /// Name in the engine, or the id if the name was removed.
    pub name: String,
    /// Digest of the tree that it was made of.
    pub digest: ImageDigest,
    /// Flavour of the image.
    pub flavour: String,
    /// Time of the build, in seconds since 1970.
    pub created_s: u64,
    /// Size in the engine, in bytes.
    pub size_bytes: u64,
}

/// Returns every image of ours in the engine behind a socket, whichever yard loaded it.
pub async fn loaded_images(socket: &Path) -> io::Result<Vec<LoadedImage>> {
    let found = Engine::new(socket).images_labelled(IMAGE_LABEL).await?.into_iter();
    let ours = found.filter_map(|image| {
        let digest = ImageDigest::parse(image.labels.get(IMAGE_LABEL)?)?;
        let flavour = image.labels.get(FLAVOUR_LABEL).cloned().unwrap_or_default();
        let name = image.repo_tags.first().unwrap_or(&image.id).clone();
        let (created_s, size_bytes) = (image.created.try_into().ok()?, image.size.try_into().ok()?);
        Some(LoadedImage { name, digest, flavour, created_s, size_bytes, id: image.id })
    });
    Ok(ours.collect())
}

/// Removes an image from the engine behind a socket. Fails if a container uses it.
pub async fn remove_image(socket: &Path, image: &LoadedImage) -> io::Result<()> {
    Engine::new(socket).remove_image(&image.id).await
}
