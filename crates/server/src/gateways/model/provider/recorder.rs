//! Writes a recording of a live run: one line for each complete answer.

use std::io;
use std::path::Path;

use sandyard_protocol::{ModelCall, ModelEvent};
use serde::Serialize;
use tokio::fs::{File, OpenOptions};
use tokio::io::AsyncWriteExt;
use tokio::sync::Mutex;

use super::recording::{FORMAT, RecordingHead, ReplayTurn, template_of, turn_of};

/// An open recording. Lines are appended whole, so that a run can continue in the same file after a crash.
#[derive(Debug)]
pub(crate) struct AnswerRecorder {
    file: Mutex<File>,
}

impl AnswerRecorder {
    /// Opens or makes a file. Only the owner can read a new file, because answers may quote the workspace.
    pub(crate) async fn open(path: &Path, model: &str) -> io::Result<Self> {
        let mut file = OpenOptions::new().create(true).append(true).mode(0o600).open(path).await?;
        if file.metadata().await?.len() == 0 {
            let head = RecordingHead { sandyard_recording: FORMAT, model: model.to_owned() };
            file.write_all(&line(&head)?).await?;
            file.flush().await?;
        }
        Ok(Self { file: Mutex::new(file) })
    }

    /// Appends a turn. `events` is the whole answer, with its end.
    pub(in crate::gateways::model) async fn write(
        &self,
        call: &ModelCall,
        events: Vec<ModelEvent>,
    ) -> io::Result<()> {
        let turn = ReplayTurn { turn: turn_of(call), template: template_of(call), events };
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
