//! One output stream on disk: files named by the offset of their first byte, appended to, read at any offset, dropped
//! from the front.
//!
//! Bytes go from the job's pipe into a file by splice(2): they leave the one and enter the other in one system call, so
//! a killed keeper neither loses nor repeats any. The size of the last file is the only record of the stream's length.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::pipe::{SpliceFlags, splice};

use crate::limits::SEGMENT_BYTES;

/// The files of one stream, in order and without gaps. There is always a last one.
#[derive(Debug)]
pub(in crate::keeper) struct Segments {
    directory: PathBuf,
    earlier: VecDeque<Segment>,
    last: Segment,
    file: File,
    reserve: u64,
}

#[derive(Debug, Clone, Copy)]
struct Segment {
    start: u64,
    length: u64,
}

impl Segment {
    fn end(self) -> u64 {
        self.start.saturating_add(self.length)
    }
}

/// The result of taking bytes from a pipe or a terminal.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::keeper) enum TakenBytes {
    /// This many bytes were added.
    Bytes(usize),
    /// There is nothing to take now.
    Nothing,
    /// There will be nothing more.
    End,
    /// The disk is full.
    Full,
}

impl Segments {
    /// Opens existing files, or begins at offset 0. A new file is begun only while the disk has more than `reserve` bytes free.
    pub(in crate::keeper) fn open(directory: PathBuf, reserve: u64) -> io::Result<Self> {
        fs::create_dir_all(&directory)?;
        let mut found = Vec::new();
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            if let Some(start) = entry.file_name().to_str().and_then(|name| name.parse().ok()) {
                found.push(Segment { start, length: entry.metadata()?.len() });
            }
        }
        found.sort_by_key(|segment| segment.start);
        let mut earlier: VecDeque<Segment> = found.into();
        let last = earlier.pop_back().unwrap_or(Segment { start: 0, length: 0 });
        // Keeper never makes a gap. If there is one, the files before it can't be trusted.
        while earlier
            .iter()
            .zip(earlier.iter().skip(1).chain([&last]))
            .any(|(one, next)| one.end() != next.start)
        {
            earlier.pop_front();
        }
        let file = OpenOptions::new()
            .create(true)
            // The last file goes on where the earlier keeper left it: its size is the only record of the stream's length.
            .truncate(false)
            .write(true)
            .open(path_of(&directory, last.start))?;
        Ok(Self { directory, earlier, last, file, reserve })
    }

    /// Offset of the first byte that is kept.
    pub(in crate::keeper) fn start(&self) -> u64 {
        self.earlier.front().unwrap_or(&self.last).start
    }

    /// Offset after the last byte.
    pub(in crate::keeper) fn end(&self) -> u64 {
        self.last.end()
    }

    /// Bytes between the first one that is kept and the end.
    pub(in crate::keeper) fn bytes(&self) -> u64 {
        self.end() - self.start()
    }

    /// Takes up to `most` bytes from a non-blocking pipe.
    pub(in crate::keeper) fn take_from_pipe(
        &mut self,
        pipe: impl AsFd,
        most: usize,
    ) -> io::Result<TakenBytes> {
        if let Err(error) = self.make_room() {
            return full_or(error);
        }
        let room = usize::try_from(SEGMENT_BYTES - self.last.length).unwrap_or(most);
        // An explicit position instead of the file's own: after a failed write, the next one starts at the length that is accounted for.
        let mut position = self.last.length;
        let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
        match splice(pipe, None, &self.file, Some(&mut position), most.min(room), flags) {
            Ok(0) => Ok(TakenBytes::End),
            Ok(count) => {
                self.last.length += count as u64;
                Ok(TakenBytes::Bytes(count))
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(TakenBytes::Nothing),
            Err(errno) => full_or(errno.into()),
        }
    }

    /// Adds bytes that were read already, from a terminal.
    pub(in crate::keeper) fn append(&mut self, bytes: &[u8]) -> io::Result<TakenBytes> {
        let outcome = self.make_room().and_then(|()| self.file.write_all_at(bytes, self.last.length));
        match outcome {
            Ok(()) => {
                self.last.length += bytes.len() as u64;
                Ok(TakenBytes::Bytes(bytes.len()))
            }
            Err(error) => full_or(error),
        }
    }

    /// Begins a new file if the last one is full.
    fn make_room(&mut self) -> io::Result<()> {
        if self.last.length < SEGMENT_BYTES {
            return Ok(());
        }
        let disk = rustix::fs::fstatvfs(&self.file)?;
        if disk.f_bavail.saturating_mul(disk.f_frsize) < self.reserve + SEGMENT_BYTES {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let next = Segment { start: self.end(), length: 0 };
        self.file = OpenOptions::new()
            .create(true)
            .write(true)
            .truncate(true)
            .open(path_of(&self.directory, next.start))?;
        // Only once the new file exists: a failed open must leave the list without a gap.
        self.earlier.push_back(self.last);
        self.last = next;
        Ok(())
    }

    /// Drops files that hold nothing at or after `offset`. Returns true if there was one.
    pub(in crate::keeper) fn drop_before(&mut self, offset: u64) -> bool {
        let mut dropped = false;
        while self.earlier.front().is_some_and(|first| first.end() <= offset) {
            dropped |= self.drop_first();
        }
        dropped
    }

    /// Drops the oldest file, unless it is the only one.
    pub(in crate::keeper) fn drop_first(&mut self) -> bool {
        let Some(first) = self.earlier.pop_front() else { return false };
        // A file that stays behind is found again by the next keeper and dropped then.
        let _ = fs::remove_file(path_of(&self.directory, first.start));
        true
    }

    /// Bytes of the oldest file that could be dropped.
    pub(in crate::keeper) fn first_bytes(&self) -> u64 {
        self.earlier.front().map_or(0, |first| first.length)
    }

    /// Reads at an offset that is kept; fewer bytes than asked for at the end of a file.
    pub(in crate::keeper) fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let index = self.earlier.partition_point(|segment| segment.end() <= offset);
        let segment = self.earlier.get(index).unwrap_or(&self.last);
        let left = segment.end().saturating_sub(offset);
        // Followers look after every change of either stream: most looks find nothing and must not cost an open.
        if left == 0 {
            return Ok(0);
        }
        let most = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let file = File::open(path_of(&self.directory, segment.start))?;
        file.read_at(&mut buffer[..most], offset - segment.start)
    }
}

fn full_or(error: io::Error) -> io::Result<TakenBytes> {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Ok(TakenBytes::Full),
        _ => Err(error),
    }
}

fn path_of(directory: &Path, start: u64) -> PathBuf {
    directory.join(format!("{start:020}"))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn all(segments: &Segments) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut buffer = vec![0; 100_000];
        loop {
            match segments.read_at(segments.start() + bytes.len() as u64, &mut buffer).unwrap() {
                0 => return bytes,
                count => bytes.extend_from_slice(&buffer[..count]),
            }
        }
    }

    #[test]
    fn what_a_pipe_held_is_on_disk_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let (reader, mut writer) = io::pipe().unwrap();
        rustix::io::ioctl_fionbio(&reader, true).unwrap();
        let mut expected = Vec::new();
        for round in 0..60_u8 {
            let mut segments = Segments::open(folder.path().join("stdout"), 0).unwrap();
            let chunk = vec![round; 50_001];
            writer.write_all(&chunk).unwrap();
            expected.extend_from_slice(&chunk);
            while let TakenBytes::Bytes(_) = segments.take_from_pipe(&reader, 1 << 20).unwrap() {}
            assert_eq!(segments.end(), expected.len() as u64);
        }
        let mut segments = Segments::open(folder.path().join("stdout"), 0).unwrap();
        assert!(segments.bytes() > 2 * SEGMENT_BYTES);
        assert_eq!(all(&segments), expected);
        assert!(segments.drop_before(SEGMENT_BYTES + 1));
        assert_eq!(segments.start(), SEGMENT_BYTES);
        assert_eq!(all(&segments), &expected[SEGMENT_BYTES as usize..]);
        drop(writer);
        assert_eq!(segments.take_from_pipe(&reader, 1).unwrap(), TakenBytes::End);
    }

    #[test]
    fn the_reserve_of_the_disk_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let mut segments = Segments::open(folder.path().to_owned(), u64::MAX / 2).unwrap();
        let full = vec![1; SEGMENT_BYTES as usize];
        assert_eq!(segments.append(&full).unwrap(), TakenBytes::Bytes(full.len()));
        assert_eq!(segments.append(b"more").unwrap(), TakenBytes::Full);
        assert_eq!(segments.end(), SEGMENT_BYTES);
    }

    #[test]
    fn the_offset_is_known_even_when_everything_was_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let mut segments = Segments::open(folder.path().to_owned(), 0).unwrap();
        for _ in 0..3 {
            segments.append(&vec![1; SEGMENT_BYTES as usize]).unwrap();
        }
        segments.drop_before(u64::MAX);
        let end = segments.end();
        let segments = Segments::open(folder.path().to_owned(), 0).unwrap();
        assert_eq!((segments.end(), segments.bytes()), (end, SEGMENT_BYTES));
    }
}
