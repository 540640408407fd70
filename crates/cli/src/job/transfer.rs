//! Results taken home: streamed to a temporary file beside the target, then renamed or unpacked.

use std::fs::Permissions;
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use futures_util::StreamExt;
use reqwest::Response;

use super::archive::unpack;
use crate::client::{Client, ClientError};
use crate::errors::CommandError;
use crate::progress::ProgressLine;
use crate::ui::{Ui, counted};

/// Where a result goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Destination {
    /// As a zip.
    Zip(PathBuf),
    /// Unpacked into this folder.
    Folder(PathBuf),
    /// As a zip to standard output.
    Stdout,
}

impl Destination {
    /// `FILE.zip` is a zip, `-` is standard output, everything else a folder.
    pub(crate) fn parse(text: &Path) -> Self {
        if text == Path::new("-") {
            return Self::Stdout;
        }
        let is_zip = text.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("zip"));
        if is_zip && !text.is_dir() { Self::Zip(text.to_owned()) } else { Self::Folder(text.to_owned()) }
    }
}

/// Takes the result of an ended job home.
pub(crate) async fn take_home(
    ui: &Ui,
    client: &Client,
    job: &str,
    to: &Destination,
) -> Result<(), CommandError> {
    let response = client.download(job).await?;
    match to {
        Destination::Zip(path) => {
            let length = save(response, path, "download").await?;
            ui.note(&format!("{}: {length} bytes", path.display()));
            Ok(())
        }
        Destination::Folder(folder) => {
            let count = unpack(ui, response, folder).await?;
            ui.note(&format!("{}: {}", folder.display(), counted(count, "file")));
            Ok(())
        }
        Destination::Stdout => copy_to_stdout(response).await,
    }
}

/// Streams a body into a file; a broken transfer leaves the old file as it was.
pub(crate) async fn save(response: Response, path: &Path, what: &str) -> Result<u64, CommandError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder).map_err(CommandError::file("create", folder))?;
    let mut file = tempfile::Builder::new()
        .prefix(".sandyard-")
        // What the user's mask leaves of it, as for any file of theirs.
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(folder)
        .map_err(CommandError::file("create a file in", folder))?;
    let length = stream_to(response, file.as_file_mut(), path, what).await?;
    file.persist(path).map_err(|error| CommandError::file("write", path)(error.error))?;
    Ok(length)
}

/// Streams a body to standard output.
async fn copy_to_stdout(response: Response) -> Result<(), CommandError> {
    let mut body = response.bytes_stream();
    let mut out = io::stdout();
    while let Some(bytes) = body.next().await {
        out.write_all(&bytes.map_err(ClientError::Lost)?)?;
    }
    Ok(out.flush()?)
}

/// Streams a body to a writer, with progress.
pub(super) async fn stream_to(
    response: Response,
    file: &mut impl Write,
    path: &Path,
    what: &str,
) -> Result<u64, CommandError> {
    let progress = ProgressLine::transfer(what, io::stderr().is_terminal(), response.content_length());
    let mut body = response.bytes_stream();
    let mut length = 0;
    while let Some(bytes) = body.next().await {
        let bytes = bytes.map_err(ClientError::Lost)?;
        file.write_all(&bytes).map_err(CommandError::file("write", path))?;
        progress.advance(bytes.len());
        length += bytes.len() as u64;
    }
    progress.finish();
    Ok(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_says_how_it_is_kept() {
        assert_eq!(Destination::parse(Path::new("out.zip")), Destination::Zip("out.zip".into()));
        assert_eq!(Destination::parse(Path::new("OUT.ZIP")), Destination::Zip("OUT.ZIP".into()));
        assert_eq!(Destination::parse(Path::new("out")), Destination::Folder("out".into()));
        assert_eq!(Destination::parse(Path::new("-")), Destination::Stdout);
    }
}
