//! What a call of the API did to a sandbox: the command or code, and what it printed, as it passes the server.
//!
//! Output is kept in parts while it arrives, so a long one takes little memory here. The last part is kept before the caller learns
//! that the call is over. A caller who goes away takes nothing along: what arrived until then is kept.

use std::sync::Arc;

use bytes::Bytes;
use sandyard_memory::SourceOrigin;
use sandyard_protocol::ErrorChain;

use super::texts::{KeptTexts, PlainText, TextOwner};

/// Output is kept in parts of this size.
const PART_BYTES: usize = 256 * 1024;
/// Output of one call that is kept. Whoever prints more writes a log, and logs of jobs are kept elsewhere.
const MOST_BYTES: u64 = 16 * 1024 * 1024;
/// Longest command or code that is kept.
const MAX_CALL_BYTES: usize = 1024 * 1024;

/// The memory of one call.
pub(crate) struct CallMemory {
    texts: KeptTexts,
    owner: Arc<TextOwner>,
    /// Name of the tool or language.
    path: String,
    /// What its output is.
    output: SourceOrigin,
    waiting: Vec<PlainText>,
    part: Vec<u8>,
    kept_bytes: u64,
}

impl CallMemory {
    /// Begins with the command or code.
    pub(crate) fn new(
        texts: KeptTexts,
        owner: TextOwner,
        path: &str,
        output: SourceOrigin,
        call: &str,
    ) -> Self {
        let call = &call[..call.floor_char_boundary(MAX_CALL_BYTES)];
        let bytes = Bytes::copy_from_slice(call.as_bytes());
        let call = PlainText { origin: SourceOrigin::Call, path: path.to_owned(), bytes };
        Self {
            texts,
            owner: Arc::new(owner),
            path: path.to_owned(),
            output,
            waiting: vec![call],
            part: Vec::new(),
            kept_bytes: 0,
        }
    }

    /// Takes output.
    pub(crate) async fn push(&mut self, bytes: &[u8]) {
        let room = MOST_BYTES.saturating_sub(self.kept_bytes + self.part.len() as u64);
        let taken = bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        self.part.extend_from_slice(&bytes[..taken]);
        if self.part.len() >= PART_BYTES {
            self.end_part();
            self.keep().await;
        }
    }

    /// Keeps what is left.
    pub(crate) async fn finish(&mut self) {
        self.end_part();
        self.keep().await;
    }

    fn end_part(&mut self) {
        let bytes = std::mem::take(&mut self.part);
        self.kept_bytes += bytes.len() as u64;
        if !bytes.is_empty() {
            self.waiting.push(PlainText {
                origin: self.output,
                path: self.path.clone(),
                bytes: bytes.into(),
            });
        }
    }

    async fn keep(&mut self) {
        keep(&self.texts, &self.owner, std::mem::take(&mut self.waiting)).await;
    }
}

impl Drop for CallMemory {
    fn drop(&mut self) {
        self.end_part();
        let waiting = std::mem::take(&mut self.waiting);
        if !waiting.is_empty()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let (texts, owner) = (self.texts.clone(), Arc::clone(&self.owner));
            runtime.spawn(async move { keep(&texts, &owner, waiting).await });
        }
    }
}

/// A call must not fail because its memory could not be kept.
async fn keep(texts: &KeptTexts, owner: &TextOwner, waiting: Vec<PlainText>) {
    if let Err(error) = texts.keep(owner, waiting).await {
        tracing::warn!(job = %owner.id, error = %ErrorChain(&error), "a call is missing in the memory");
    }
}
