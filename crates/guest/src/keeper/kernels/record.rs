//! The output of an execution on keeper's disk: frames as they go over a stream, written once, read by any number of
//! followers from the beginning.
//!
//! Bounded: beyond `EXECUTION_BYTES` only the last of the text is kept, in memory, and written at the end.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use sandyard_pipe::Frame;
use sandyard_protocol::limits::{DATA_BYTES, EXECUTION_BYTES, MESSAGE_BYTES, OUTPUT_BYTES};
use sandyard_protocol::{ExecutionInfo, KernelEvent, OutputKind, OutputPart, OutputStream};
use tokio::sync::watch;

use super::jupyter::MimeBundle;
use crate::limits::JOB_RESERVE;
use crate::limits::kernels::{TAIL_BYTES, TEXT_BYTES};

const HEADER_BYTES: usize = 5;
const MESSAGE: u8 = 1;
const DATA: u8 = 2;

/// The frames of one execution.
#[derive(Debug)]
pub(super) struct ExecutionRecord {
    path: PathBuf,
    state: Mutex<RecordState>,
    progress: watch::Sender<RecordProgress>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RecordProgress {
    end: u64,
    closed: bool,
}

#[derive(Debug)]
struct RecordState {
    file: File,
    left_out: u64,
    tail: Vec<(OutputStream, String)>,
    tail_bytes: usize,
}

impl ExecutionRecord {
    /// Creates a record. Its first frame names the execution.
    pub(super) fn create(path: PathBuf, info: &ExecutionInfo) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
        let record = Self::over(path, file, RecordProgress { end: 0, closed: false });
        record.append(&[(MESSAGE, &serde_json::to_vec(info)?)]);
        Ok(record)
    }

    /// Opens a record of an earlier keeper; half a frame at its end is cut off. Also returns the execution that the first frame names.
    pub(super) fn open(path: PathBuf) -> io::Result<(Self, ExecutionInfo)> {
        let file = OpenOptions::new().read(true).write(true).open(&path)?;
        let length = file.metadata()?.len();
        let (mut end, mut closed, mut info) = (0, false, None);
        while let Some(frame) = read_frame(&file, end, length)? {
            end += (HEADER_BYTES + payload(&frame).len()) as u64;
            if let Frame::Message(message) = &frame {
                match &info {
                    None => info = Some(serde_json::from_slice(message)?),
                    Some(_) => closed = message.starts_with(b"{\"done\""),
                }
            }
        }
        // Remains of half a frame behind a shorter new one would later be read as a frame.
        file.set_len(end)?;
        let info = info.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
        Ok((Self::over(path, file, RecordProgress { end, closed }), info))
    }

    fn over(path: PathBuf, file: File, progress: RecordProgress) -> Self {
        let state = RecordState { file, left_out: 0, tail: Vec::new(), tail_bytes: 0 };
        Self { path, state: Mutex::new(state), progress: watch::Sender::new(progress) }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Length of the record, whole frames only.
    pub(super) fn bytes(&self) -> u64 {
        self.progress.borrow().end
    }

    /// True if nothing more will be added.
    pub(super) fn is_closed(&self) -> bool {
        self.progress.borrow().closed
    }

    /// Adds text, cut into events.
    pub(super) fn text(&self, stream: OutputStream, text: &str) {
        for piece in pieces(text) {
            let event = KernelEvent::Text { stream, text: piece.to_owned() };
            // Once something did not fit, nothing after it may come before it.
            if !self.state().tail.is_empty() || !self.event(&event) {
                self.state().keep_tail(stream, piece);
            }
        }
    }

    /// Adds an output in all its media types.
    pub(super) fn output(&self, kind: OutputKind, bundle: &MimeBundle) {
        let encode = |(mime, value): &(String, serde_json::Value)| {
            Some((mime.clone(), serde_json::to_vec(value).ok()?))
        };
        let mut forms: Vec<(String, Vec<u8>)> = bundle.0.iter().filter_map(encode).collect();
        // Escapes make a text longer: the largest forms go until the rest is within the bound.
        while forms.iter().map(|(_, bytes)| bytes.len()).sum::<usize>() > OUTPUT_BYTES {
            let largest = (0..forms.len()).max_by_key(|index| forms[*index].1.len()).unwrap_or(0);
            self.state().left_out += forms.remove(largest).1.len() as u64;
        }
        let part =
            |(mime, bytes): &(String, Vec<u8>)| OutputPart { mime: mime.clone(), bytes: bytes.len() as u64 };
        let event = KernelEvent::Output { kind, parts: forms.iter().map(part).collect() };
        let Ok(message) = serde_json::to_vec(&event) else { return };
        let mut frames: Vec<(u8, &[u8])> = vec![(MESSAGE, &message)];
        for (_, bytes) in &forms {
            frames.extend(bytes.chunks(DATA_BYTES).map(|data| (DATA, data)));
        }
        if !self.append(&frames) {
            self.state().left_out += forms.iter().map(|(_, bytes)| bytes.len() as u64).sum::<u64>();
        }
    }

    /// Adds an event that has no data; false if there is no room.
    pub(super) fn event(&self, event: &KernelEvent) -> bool {
        serde_json::to_vec(event).is_ok_and(|message| self.append(&[(MESSAGE, &message)]))
    }

    /// Adds the last event, which always finds room, after the number of dropped bytes and the last of the text.
    pub(super) fn close(&self, end: &KernelEvent) {
        let (left_out, tail) = {
            let mut state = self.state();
            (state.left_out, std::mem::take(&mut state.tail))
        };
        if left_out > 0 {
            self.append_always(&KernelEvent::Truncated { bytes: left_out });
        }
        for (stream, text) in tail {
            self.append_always(&KernelEvent::Text { stream, text });
        }
        self.append_always(end);
        self.progress.send_modify(|progress| progress.closed = true);
    }

    fn append_always(&self, event: &KernelEvent) {
        if let Ok(message) = serde_json::to_vec(event) {
            self.write(&[(MESSAGE, &message)]);
        }
    }

    fn append(&self, frames: &[(u8, &[u8])]) -> bool {
        let bytes: usize = frames.iter().map(|(_, payload)| HEADER_BYTES + payload.len()).sum();
        self.bytes() + bytes as u64 <= EXECUTION_BYTES && self.disk_has_room(bytes) && self.write(frames)
    }

    /// Large additions leave the disk to the job's own output.
    fn disk_has_room(&self, bytes: usize) -> bool {
        if bytes < TEXT_BYTES {
            return true;
        }
        let state = self.state();
        rustix::fs::fstatvfs(&state.file)
            .is_ok_and(|disk| disk.f_bavail.saturating_mul(disk.f_frsize) > JOB_RESERVE + bytes as u64)
    }

    fn write(&self, frames: &[(u8, &[u8])]) -> bool {
        let mut bytes = Vec::new();
        for (kind, payload) in frames {
            bytes.push(*kind);
            bytes.extend_from_slice(&u32::try_from(payload.len()).unwrap_or(0).to_be_bytes());
            bytes.extend_from_slice(payload);
        }
        let state = self.state();
        let end = self.progress.borrow().end;
        // A full disk is a full record: bytes that can't be written count as dropped.
        // All frames in one write at the old end. The end moves only after a whole write, so a reader never sees half a frame.
        let written = state.file.write_all_at(&bytes, end).is_ok();
        drop(state);
        if written {
            self.progress.send_modify(|progress| progress.end = end + bytes.len() as u64);
        }
        written
    }

    fn state(&self) -> MutexGuard<'_, RecordState> {
        self.state.lock()
    }
}

impl RecordState {
    fn keep_tail(&mut self, stream: OutputStream, text: &str) {
        self.tail_bytes += text.len();
        self.tail.push((stream, text.to_owned()));
        while self.tail_bytes > TAIL_BYTES && self.tail.len() > 1 {
            let (_, gone) = self.tail.remove(0);
            self.tail_bytes -= gone.len();
            self.left_out += gone.len() as u64;
        }
    }
}

/// Reads a record from its beginning.
#[derive(Debug)]
pub(super) struct RecordReader {
    file: File,
    progress: watch::Receiver<RecordProgress>,
    offset: u64,
}

impl RecordReader {
    /// Starts after the frame that names the execution.
    pub(super) fn new(record: &ExecutionRecord) -> io::Result<Self> {
        let progress = record.progress.subscribe();
        let file = record.state().file.try_clone()?;
        let end = progress.borrow().end;
        let first = read_frame(&file, 0, end)?.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
        Ok(Self { file, progress, offset: (HEADER_BYTES + payload(&first).len()) as u64 })
    }

    /// The next frame; waits for it. `None` at the end.
    pub(super) async fn next(&mut self) -> io::Result<Option<Frame>> {
        loop {
            let RecordProgress { end, closed } = *self.progress.borrow_and_update();
            if let Some(frame) = read_frame(&self.file, self.offset, end)? {
                self.offset += (HEADER_BYTES + payload(&frame).len()) as u64;
                return Ok(Some(frame));
            }
            if closed || self.progress.changed().await.is_err() {
                return Ok(None);
            }
        }
    }
}

/// A whole frame at an offset; `None` if there is none before `end`.
fn read_frame(file: &File, offset: u64, end: u64) -> io::Result<Option<Frame>> {
    let mut header = [0; HEADER_BYTES];
    if offset + HEADER_BYTES as u64 > end {
        return Ok(None);
    }
    file.read_exact_at(&mut header, offset)?;
    let length = u32::from_be_bytes([header[1], header[2], header[3], header[4]]) as usize;
    let begin = offset + HEADER_BYTES as u64;
    if begin + length as u64 > end {
        return Ok(None);
    }
    // Bounded before the allocation: the file may be damaged.
    if length > MESSAGE_BYTES {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut payload = vec![0; length];
    file.read_exact_at(&mut payload, begin)?;
    let payload = Bytes::from(payload);
    Ok(Some(if header[0] == MESSAGE { Frame::Message(payload) } else { Frame::Data(payload) }))
}

fn payload(frame: &Frame) -> &Bytes {
    match frame {
        Frame::Message(payload) | Frame::Data(payload) => payload,
    }
}

/// A text in pieces that fit an event each.
pub(super) fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let mut end = rest.len().min(TEXT_BYTES);
        while !rest.is_char_boundary(end) {
            end -= 1;
        }
        let (piece, left) = rest.split_at(end);
        rest = left;
        Some(piece)
    })
}

#[cfg(test)]
mod tests {
    use sandyard_protocol::{ExecutionEnd, ExecutionId, KernelId, Language, Outcome};

    use super::*;

    fn info() -> ExecutionInfo {
        ExecutionInfo {
            id: ExecutionId("x1".into()),
            kernel: KernelId("python".into()),
            language: Language::Python,
        }
    }

    fn done() -> KernelEvent {
        KernelEvent::Done(ExecutionEnd { outcome: Outcome::Ok, execution_count: Some(1), exit: None })
    }

    async fn all(record: &ExecutionRecord) -> Vec<Frame> {
        let mut reader = RecordReader::new(record).unwrap();
        let mut frames = Vec::new();
        while let Some(frame) = reader.next().await.unwrap() {
            frames.push(frame);
        }
        frames
    }

    #[tokio::test]
    async fn what_an_earlier_keeper_wrote_is_there_and_half_a_frame_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x1");
        let record = ExecutionRecord::create(path.clone(), &info()).unwrap();
        record.text(OutputStream::Stdout, "one");
        let bytes = record.bytes();
        drop(record);
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all_at(&[MESSAGE, 0, 0, 0, 9, b'{'], bytes).unwrap();
        let (record, found) = ExecutionRecord::open(path.clone()).unwrap();
        assert_eq!((found, record.is_closed(), record.bytes()), (info(), false, bytes));
        record.close(&done());
        assert_eq!(all(&record).await.len(), 2);
        assert!(ExecutionRecord::open(path).unwrap().0.is_closed());
    }

    #[tokio::test]
    async fn a_flood_keeps_its_head_and_tail_and_says_what_is_missing() {
        let folder = tempfile::tempdir().unwrap();
        let record = ExecutionRecord::create(folder.path().join("x1"), &info()).unwrap();
        let line = "x".repeat(TEXT_BYTES - 1) + "\n";
        for _ in 0..400 {
            record.text(OutputStream::Stdout, &line);
        }
        record.text(OutputStream::Stderr, "the end");
        record.close(&done());
        assert!(record.bytes() < EXECUTION_BYTES + 2 * TEXT_BYTES as u64);
        let frames = all(&record).await;
        let events: Vec<KernelEvent> =
            frames.iter().map(|frame| serde_json::from_slice(payload(frame)).unwrap()).collect();
        assert!(
            events
                .iter()
                .any(|event| matches!(event, KernelEvent::Truncated { bytes } if *bytes > 1_000_000))
        );
        let last = &events[events.len() - 2];
        assert_eq!(*last, KernelEvent::Text { stream: OutputStream::Stderr, text: "the end".into() });
        assert_eq!(events.last(), Some(&done()));
    }

    #[test]
    fn pieces_are_cut_between_letters() {
        let text = "ü".repeat(TEXT_BYTES);
        let cut: Vec<_> = pieces(&text).collect();
        assert!(cut.iter().all(|piece| piece.len() <= TEXT_BYTES));
        assert_eq!(cut.concat(), text);
    }
}
