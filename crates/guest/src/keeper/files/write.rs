//! Writing a whole file: into a nameless temporary file in the target's directory, then into place in one step.
//!
//! Until the last step nothing can be seen in the directory, and a crash leaves nothing behind. A link or file at the
//! target is replaced, never written through.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, fchmod, linkat, openat, renameat, unlinkat};
use rustix::io::Errno;
use sandyard_pipe::Frame;
use sandyard_protocol::Request;

use super::error::FileError;
use super::look::reply_stat;
use super::path::RelativePath;
use super::wire::WorkerWire;
use super::workspace::Workspace;

/// Permission bits of a file whose writer set none.
const DEFAULT_MODE: u32 = 0o644;

/// Writes a file from the host's data frames.
pub(super) fn write(
    workspace: &Workspace,
    wire: &mut WorkerWire<'_>,
    request: &Request,
) -> Result<(), FileError> {
    let Request::Write { path, size, mode } = request else {
        return Err(FileError::BadRequest("not a write"));
    };
    let path = RelativePath::parse(path)?;
    let (directory, name) = workspace.make_parent(&path)?;
    let mut file = NewFile::create(directory)?;
    file.receive(wire, *size)?;
    file.place(name, mode.unwrap_or(DEFAULT_MODE))?;
    reply_stat(workspace, wire, &path)
}

/// A file without a name, or with a hidden one where the file system has no unnamed files.
pub(super) struct NewFile {
    directory: OwnedFd,
    file: File,
    hidden_name: Option<String>,
}

impl NewFile {
    /// Makes it in the directory it will be placed in.
    pub(super) fn create(directory: OwnedFd) -> Result<Self, FileError> {
        let mode = Mode::from_raw_mode(0o600);
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        match openat(&directory, ".", flags | OFlags::TMPFILE, mode) {
            Ok(file) => return Ok(Self { directory, file: file.into(), hidden_name: None }),
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {}
            Err(errno) => return Err(FileError::Kernel { what: "create a file", errno }),
        }
        let hidden = hidden_name()?;
        let file = openat(
            &directory,
            hidden.as_str(),
            flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW,
            mode,
        )
        .map_err(FileError::kernel("create a file"))?;
        Ok(Self { directory, file: file.into(), hidden_name: Some(hidden) })
    }

    /// Takes exactly this many bytes from data frames, up to the empty frame.
    pub(super) fn receive(&mut self, wire: &mut WorkerWire<'_>, size: u64) -> Result<(), FileError> {
        let mut left = size;
        loop {
            match wire.receive()? {
                Some(Frame::Data(data)) if data.is_empty() => break,
                Some(Frame::Data(data)) => {
                    left = left
                        .checked_sub(data.len() as u64)
                        .ok_or(FileError::BadRequest("more bytes than announced"))?;
                    self.append(&data)?;
                }
                Some(Frame::Message(_)) => return Err(FileError::BadRequest("a message where data belongs")),
                None => return Err(FileError::Pipe(std::io::ErrorKind::UnexpectedEof.into())),
            }
        }
        if left > 0 {
            return Err(FileError::BadRequest("fewer bytes than announced"));
        }
        Ok(())
    }

    /// Gives it a hidden, unused name and the usual mode. The caller removes the name.
    pub(super) fn name_hidden(mut self) -> Result<(OwnedFd, String), FileError> {
        fchmod(&self.file, Mode::from_raw_mode(DEFAULT_MODE)).map_err(FileError::kernel("set the mode"))?;
        let hidden = match self.hidden_name.take() {
            Some(hidden) => hidden,
            None => {
                let hidden = hidden_name()?;
                self.link(&hidden).map_err(FileError::kernel("name the file"))?;
                hidden
            }
        };
        let directory =
            self.directory.try_clone().map_err(|_| FileError::LimitReached("no descriptor is free"))?;
        Ok((directory, hidden))
    }

    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<(), FileError> {
        self.file.write_all(bytes).map_err(|error| FileError::Kernel {
            what: "write the file",
            errno: error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error),
        })
    }

    /// Gives the file its name and mode in one step. Replaces a file or link that has the name.
    pub(super) fn place(mut self, name: &str, mode: u32) -> Result<(), FileError> {
        // Before the file has its name, so that nobody sees it with another mode. Set-user-id bits are not for the caller to set.
        fchmod(&self.file, Mode::from_raw_mode(mode & 0o777)).map_err(FileError::kernel("set the mode"))?;
        let hidden = match &self.hidden_name {
            Some(hidden) => hidden.clone(),
            None => {
                if self.link(name).is_ok() {
                    return Ok(());
                }
                let hidden = hidden_name()?;
                self.link(&hidden).map_err(FileError::kernel("name the file"))?;
                self.hidden_name = Some(hidden.clone());
                hidden
            }
        };
        renameat(&self.directory, hidden.as_str(), &self.directory, name)
            .map_err(FileError::kernel("put the file into place"))?;
        self.hidden_name = None;
        Ok(())
    }

    /// Links the nameless file through /proc, because linking by descriptor alone needs a capability.
    fn link(&self, name: &str) -> Result<(), Errno> {
        let own = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        linkat(CWD, own.as_str(), &self.directory, name, AtFlags::SYMLINK_FOLLOW)
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some(hidden) = &self.hidden_name {
            // Best effort: the name is random and hidden, and the workspace is the job's own.
            let _ = unlinkat(&self.directory, hidden.as_str(), AtFlags::empty());
        }
    }
}

/// Returns a hidden name from 64 random bits, so that it does not collide with a file of the job.
pub(super) fn hidden_name() -> Result<String, FileError> {
    let number =
        getrandom::u64().map_err(|_| FileError::Kernel { what: "get randomness", errno: Errno::IO })?;
    Ok(format!(".sandyard-{number:016x}"))
}
