//! An image as the archive that `docker load` and `podman load` take: one layer, its configuration, a
//! manifest.
//!
//! No engine and no registry takes part. The same tree always gives the same bytes, and so the same image id.
//! The tree is walked once for the layer's size, which a tar header states before the content, and a second
//! time while its bytes flow through the digest.

mod layer;

use std::fs::File;
use std::io::{self, Write};

use serde::Serialize;
use sha2::{Digest, Sha256};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::Image;
use layer::{LayerContent, write_layer};

/// Label with the digest of the image, by which a loaded image is found again.
pub const IMAGE_LABEL: &str = "dev.sandyard.image";
/// Label with the digest of the recipe, equal for all days of the build.
const RECIPE_LABEL: &str = "dev.sandyard.recipe";
/// Label with the flavour of the image.
pub const FLAVOUR_LABEL: &str = "dev.sandyard.flavour";
/// Default `PATH` of the image.
const PATH: &str = "PATH=/usr/local/bin:/usr/bin:/bin";
/// Size of a block of a tar; two empty blocks end it.
const BLOCK_BYTES: u64 = 512;

/// The archive could not be written.
#[derive(Debug, thiserror::Error)]
#[error("{step}")]
pub struct ArchiveError {
    /// Operation that failed, in the imperative.
    step: &'static str,
    /// The operating system's error.
    #[source]
    source: io::Error,
}

fn at(step: &'static str) -> impl FnOnce(io::Error) -> ArchiveError {
    move |source| ArchiveError { step, source }
}

/// An image about to be written.
#[derive(Debug)]
pub struct ImageArchive<'a> {
    image: &'a Image,
    layer_bytes: u64,
}

impl<'a> ImageArchive<'a> {
    /// Measures an image, so that its archive has a known size.
    pub fn of(image: &'a Image) -> Result<Self, ArchiveError> {
        let mut counted = Through::new(io::sink());
        write_layer(&image.root, &mut counted, LayerContent::Zeros).map_err(at("measure the image"))?;
        Ok(Self { image, layer_bytes: counted.bytes })
    }

    /// Writes the archive, reports every new percent, and returns the id that an engine will give the image.
    pub fn write(&self, out: impl Write, percent: &mut dyn FnMut(u8)) -> Result<String, ArchiveError> {
        let mut out = tar::Builder::new(out);
        let header = header(self.layer_bytes, "layer.tar").map_err(at("name the layer"))?;
        out.get_mut().write_all(header.as_bytes()).map_err(at("write the archive"))?;
        let mut layer = Through::new(out.get_mut()).telling(self.layer_bytes, percent);
        write_layer(&self.image.root, &mut layer, LayerContent::Files).map_err(at("write the layer"))?;
        let (digest, bytes) = (hex::encode(layer.hash.finalize()), layer.bytes);
        // The header with the size is already written, so a different length can only be an error.
        if bytes != self.layer_bytes {
            return Err(at("write the layer")(io::Error::other("the image's tree changed meanwhile")));
        }
        let padding = usize::try_from(bytes.next_multiple_of(BLOCK_BYTES) - bytes).unwrap_or(0);
        out.get_mut().write_all(&[0; BLOCK_BYTES as usize][..padding]).map_err(at("write the archive"))?;
        let id = self.write_documents(&mut out, &digest).map_err(at("write the image's documents"))?;
        out.into_inner().and_then(|mut out| out.flush()).map_err(at("finish the archive"))?;
        Ok(id)
    }

    /// Writes configuration and manifest, and returns the id, which is the configuration's digest.
    fn write_documents<W: Write>(&self, out: &mut tar::Builder<W>, layer: &str) -> io::Result<String> {
        let config = serde_json::to_vec(&self.config(layer)?)?;
        let id = hex::encode(Sha256::digest(&config));
        let config_name = format!("{id}.json");
        out.append(&header(config.len() as u64, &config_name)?, config.as_slice())?;
        let manifest = [EngineManifest {
            config: config_name,
            repo_tags: [reference(self.image)],
            layers: ["layer.tar"],
        }];
        let manifest = serde_json::to_vec(&manifest)?;
        out.append(&header(manifest.len() as u64, "manifest.json")?, manifest.as_slice())?;
        Ok(format!("sha256:{id}"))
    }

    fn config(&self, layer: &str) -> io::Result<Config<'_>> {
        let facts = &self.image.facts;
        let created = i64::try_from(facts.created_s).map_err(io::Error::other)?;
        let created = OffsetDateTime::from_unix_timestamp(created).map_err(io::Error::other)?;
        let labels = [
            (FLAVOUR_LABEL, facts.flavour.as_str()),
            (IMAGE_LABEL, self.image.digest.as_str()),
            (RECIPE_LABEL, facts.recipe.as_str()),
        ];
        Ok(Config {
            architecture: facts.architecture.debian_name(),
            config: Defaults { env: [PATH], labels: labels.into_iter().collect() },
            created: created.format(&Rfc3339).map_err(io::Error::other)?,
            os: "linux",
            rootfs: RootFs { kind: "layers", diff_ids: [format!("sha256:{layer}")] },
        })
    }
}

/// Returns the name by which people find the image in an engine: `sandyard/base:<first digits>`.
pub fn reference(image: &Image) -> String {
    format!("sandyard/{}:{}", image.flavour, image.digest.short())
}

/// The image configuration of the OCI image specification, with the members that engines need.
#[derive(Serialize)]
struct Config<'a> {
    architecture: &'static str,
    config: Defaults<'a>,
    created: String,
    os: &'static str,
    rootfs: RootFs,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Defaults<'a> {
    env: [&'static str; 1],
    labels: std::collections::BTreeMap<&'static str, &'a str>,
}

#[derive(Serialize)]
struct RootFs {
    #[serde(rename = "type")]
    kind: &'static str,
    diff_ids: [String; 1],
}

/// `manifest.json` of an archive.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct EngineManifest {
    config: String,
    repo_tags: [String; 1],
    layers: [&'static str; 1],
}

/// Returns the header of a file of the archive itself.
fn header(size: u64, name: &str) -> io::Result<tar::Header> {
    let mut header = tar::Header::new_gnu();
    header.set_path(name)?;
    header.set_size(size);
    header.set_mode(0o644);
    header.set_entry_type(tar::EntryType::Regular);
    header.set_cksum();
    Ok(header)
}

/// Counts and digests the bytes written through it.
struct Through<'p, W> {
    out: W,
    hash: Sha256,
    bytes: u64,
    telling: Option<(u64, &'p mut dyn FnMut(u8))>,
}

impl<'p, W: Write> Through<'p, W> {
    fn new(out: W) -> Self {
        Self { out, hash: Sha256::new(), bytes: 0, telling: None }
    }

    fn telling(self, expected: u64, percent: &'p mut dyn FnMut(u8)) -> Self {
        Self { telling: Some((expected, percent)), ..self }
    }
}

impl<W: Write> Write for Through<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write_all(bytes)?;
        let before = self.bytes;
        self.bytes += bytes.len() as u64;
        if let Some((expected, percent)) = &mut self.telling {
            self.hash.update(bytes);
            let part = |bytes: u64| u8::try_from(bytes * 100 / (*expected).max(1)).unwrap_or(100).min(100);
            if part(before) != part(self.bytes) {
                percent(part(self.bytes));
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Writes the archive to a file that appears when it is complete.
pub fn write_file(
    image: &Image,
    path: &std::path::Path,
    percent: &mut dyn FnMut(u8),
) -> Result<String, ArchiveError> {
    let temporary = path.with_added_extension("new");
    let file = File::create(&temporary).map_err(at("make the file"))?;
    let written = ImageArchive::of(image)?.write(io::BufWriter::with_capacity(1 << 20, &file), percent);
    let finished = written.and_then(|id| {
        // Synced before the rename: after a power cut the name must not show an empty file.
        file.sync_all().map_err(at("save the file"))?;
        std::fs::rename(&temporary, path).map_err(at("name the file"))?;
        Ok(id)
    });
    if finished.is_err() {
        // The error to report is the one of the write.
        let _ = std::fs::remove_file(&temporary);
    }
    finished
}

#[cfg(test)]
#[path = "archive_tests.rs"]
mod tests;
