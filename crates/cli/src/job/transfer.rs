//! Downloads results: streams them to a temporary file beside the target, then renames or unpacks it.

use std::fs::Permissions;
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use futures_util::StreamExt;
use reqwest::Response;

use super::archive::unpack;
use super::stream_to_file::stream_to;
use crate::client::{ApiClient, ClientError};
use crate::errors::CommandError;
use crate::ui::{Ui, counted};

/// Destination of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ResultDestination {
    /// The result is saved as this zip file.
    Zip(PathBuf),
    /// A folder to unpack into.
    Folder(PathBuf),
    /// Standard output, as a zip.
    Stdout,
}

impl ResultDestination {
    /// Parses a destination: `FILE.zip` is a zip, `-` is standard output, everything else is a folder.
    pub(crate) fn parse(text: &Path) -> Self {
        if text == Path::new("-") {
            return Self::Stdout;
        }
        let is_zip = text.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("zip"));
        if is_zip && !text.is_dir() { Self::Zip(text.to_owned()) } else { Self::Folder(text.to_owned()) }
    }
}

/// Downloads the result of an ended job.
pub(crate) async fn download(
    ui: &Ui,
    client: &ApiClient,
    job: &str,
    to: &ResultDestination,
) -> Result<(), CommandError> {
    let response = client.download(job).await?;
    match to {
        ResultDestination::Zip(path) => {
            let length = save(response, path, "download").await?;
            ui.note(&format!("{}: {length} bytes", path.display()));
            Ok(())
        }
        ResultDestination::Folder(folder) => {
            let count = unpack(ui, response, folder).await?;
            ui.note(&format!("{}: {}", folder.display(), counted(count, "file")));
            Ok(())
        }
        ResultDestination::Stdout if io::stdout().is_terminal() => Err(CommandError::usage_with_hint(
            "a zip can't be shown on a terminal",
            "redirect standard output, or name a file or a folder",
        )),
        ResultDestination::Stdout => copy_to_stdout(response).await,
    }
}

/// Streams a body into a file. A broken transfer leaves an existing file unchanged.
pub(crate) async fn save(response: Response, path: &Path, what: &str) -> Result<u64, CommandError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder).map_err(CommandError::file("create", folder))?;
    let mut file = tempfile::Builder::new()
        .prefix(".sandyard-")
        // The umask of the user applies, as for any new file.
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(folder)
        .map_err(CommandError::file("create a file in", folder))?;
    let length = stream_to(response, file.as_file_mut(), path, what).await?;
    // Renamed only when the whole body has arrived, so a broken transfer never replaces an older result.
    file.persist(path).map_err(|error| CommandError::file("write", path)(error.error))?;
    Ok(length)
}

/// Streams a body to standard output.
pub(crate) async fn copy_to_stdout(response: Response) -> Result<(), CommandError> {
    let mut body = response.bytes_stream();
    let mut out = io::stdout();
    while let Some(bytes) = body.next().await {
        out.write_all(&bytes.map_err(ClientError::Lost)?)?;
    }
    Ok(out.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_says_how_it_is_kept() {
        assert_eq!(ResultDestination::parse(Path::new("out.zip")), ResultDestination::Zip("out.zip".into()));
        assert_eq!(ResultDestination::parse(Path::new("OUT.ZIP")), ResultDestination::Zip("OUT.ZIP".into()));
        assert_eq!(ResultDestination::parse(Path::new("out")), ResultDestination::Folder("out".into()));
        assert_eq!(ResultDestination::parse(Path::new("-")), ResultDestination::Stdout);
    }
}
