//! The standard input of a command of `sandyard shell`.
//!
//! The API takes text beside the command. Other bytes, and long input, go into a file of the workspace first; the command opens
//! it and removes its name before it begins.

use std::fs::File;
use std::io::{Read, Seek};

use super::upload::{body_of, spool_stdin};
use crate::client::{ApiClient, ClientError};
use crate::errors::CommandError;
use crate::ui::Ui;

/// Longer input is no part of a request.
const TEXT_BYTES: u64 = 1024 * 1024;

/// What a command reads.
pub(super) enum ShellInput {
    /// Nothing.
    Nothing,
    /// Text that is part of the request.
    Text(String),
    /// A file of the workspace.
    Uploaded(String),
}

impl ShellInput {
    /// Reads standard input to its end and uploads it if it is long or not text.
    pub(super) async fn read(ui: &Ui, client: &ApiClient, job: &str) -> Result<Self, CommandError> {
        let (mut file, length) = spool_stdin()?;
        if let Some(text) = short_text(&mut file, length)? {
            return Ok(Self::Text(text));
        }
        file.rewind()?;
        let name = sandyard_server::job::random_id().map_err(std::io::Error::other)?;
        let path = format!(".sandyard-input-{name}");
        let progress = ui.transfer("send", Some(length));
        let body = body_of(tokio::fs::File::from_std(file), length, &progress);
        client.write_file(job, &path, 0o600, length, body).await?;
        progress.finish();
        Ok(Self::Uploaded(path))
    }

    /// Returns the command line that reads the input, and the text that goes with it.
    pub(super) fn feeds(&self, line: String) -> (String, Option<String>) {
        match self {
            Self::Nothing => (line, None),
            Self::Text(text) => (line, Some(text.clone())),
            Self::Uploaded(path) => (format!("exec < {path} && rm -f {path} || exit\n{line}"), None),
        }
    }

    /// Removes what a command that did not begin has left.
    pub(super) async fn discard(&self, client: &ApiClient, job: &str) -> Result<(), ClientError> {
        match self {
            Self::Uploaded(path) => client.remove_file(job, path).await,
            Self::Nothing | Self::Text(_) => Ok(()),
        }
    }
}

fn short_text(file: &mut File, length: u64) -> std::io::Result<Option<String>> {
    if length > TEXT_BYTES {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8(bytes).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_opens_uploaded_input_before_it_begins() {
        let uploaded = ShellInput::Uploaded(".in".to_owned());
        let line = "exec < .in && rm -f .in || exit\ntar x".to_owned();
        assert_eq!(uploaded.feeds("tar x".to_owned()), (line, None));
        let text = ShellInput::Text("hi".to_owned());
        assert_eq!(text.feeds("cat".to_owned()), ("cat".to_owned(), Some("hi".to_owned())));
    }
}
