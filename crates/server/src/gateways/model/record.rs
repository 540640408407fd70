//! Writes a recording of a live run, one line for each turn that was answered whole.

use std::io;
use std::path::Path;

use sandyard_protocol::{ModelCall, ModelEvent};
use serde::Serialize;
use tokio::fs::{File, OpenOptions};
use tokio::io::AsyncWriteExt;
use tokio::sync::Mutex;

use super::recording::{FORMAT, Head, Turn, template_of, turn_of};

/// An open recording. Lines are appended whole, so that a run that goes on after a crash goes on in the same file.
#[derive(Debug)]
pub(crate) struct Recorder {
    file: Mutex<File>,
}

impl Recorder {
    /// Opens or makes a file; only its owner can read a new one, for answers may quote what was in the workspace.
    pub(crate) async fn open(path: &Path, model: &str) -> io::Result<Self> {
        let mut file = OpenOptions::new().create(true).append(true).mode(0o600).open(path).await?;
        if file.metadata().await?.len() == 0 {
            let head = Head { sandyard_recording: FORMAT, model: model.to_owned() };
            file.write_all(&line(&head)?).await?;
            file.flush().await?;
        }
        Ok(Self { file: Mutex::new(file) })
    }

    /// Adds a turn: what was answered, the end included.
    pub(super) async fn write(&self, call: &ModelCall, events: Vec<ModelEvent>) -> io::Result<()> {
        let turn = Turn { turn: turn_of(call), template: template_of(call), events };
        let line = line(&turn)?;
        let mut file = self.file.lock().await;
        file.write_all(&line).await?;
        file.flush().await
    }
}

fn line(value: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(line)
}
