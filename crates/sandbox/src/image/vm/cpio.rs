//! Writes the archive that a kernel unpacks as its first root file system: cpio, form `newc`
//! (Documentation/driver-api/early-userspace/buffer-format.rst). All entries belong to root and are dated
//! 1970.

use std::io::{self, Write};

const REGULAR: u32 = 0o100_000;
const DIRECTORY: u32 = 0o040_000;
const LINK: u32 = 0o120_000;
const LAST_NAME: &str = "TRAILER!!!";

pub(super) struct CpioArchive<W: Write> {
    output: W,
    entries: u32,
    written: usize,
}

impl<W: Write> CpioArchive<W> {
    pub(super) fn new(output: W) -> Self {
        Self { output, entries: 0, written: 0 }
    }

    /// Writes a directory. Its parents must be written before.
    pub(super) fn directory(&mut self, path: &str, mode: u32) -> io::Result<()> {
        self.entry(path, DIRECTORY | mode, &[])
    }

    /// Writes a file with all its bytes.
    pub(super) fn file(&mut self, path: &str, mode: u32, content: &[u8]) -> io::Result<()> {
        self.entry(path, REGULAR | mode, content)
    }

    pub(super) fn link(&mut self, path: &str, target: &str) -> io::Result<()> {
        self.entry(path, LINK | 0o777, target.as_bytes())
    }

    /// Writes the end and returns the output.
    pub(super) fn finish(mut self) -> io::Result<W> {
        self.entry(LAST_NAME, 0, &[])?;
        self.output.flush()?;
        Ok(self.output)
    }

    fn entry(&mut self, path: &str, mode: u32, content: &[u8]) -> io::Result<()> {
        let too_long = |_| io::Error::new(io::ErrorKind::FileTooLarge, path.to_owned());
        let size = u32::try_from(content.len()).map_err(too_long)?;
        let name_size = u32::try_from(path.len() + 1).map_err(too_long)?;
        self.entries += 1;
        let links = if mode & 0o170_000 == DIRECTORY { 2 } else { 1 };
        // inode, mode, uid, gid, links, time, size, device (2), special device (2), length of the name, checksum
        let fields = [self.entries, mode, 0, 0, links, 0, size, 0, 0, 0, 0, name_size, 0];
        self.put(b"070701")?;
        for field in fields {
            self.put(format!("{field:08x}").as_bytes())?;
        }
        self.put(path.as_bytes())?;
        self.put(&[0])?;
        self.align()?;
        self.put(content)?;
        self.align()
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.written += bytes.len();
        self.output.write_all(bytes)
    }

    /// Pads with zeros: names and contents end on a multiple of four.
    fn align(&mut self) -> io::Result<()> {
        let missing = self.written.next_multiple_of(4) - self.written;
        self.put([0_u8; 3].get(..missing).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    fn sample() -> Vec<u8> {
        let mut archive = CpioArchive::new(Vec::new());
        archive.directory("modules", 0o755).unwrap();
        archive.file("modules/a.ko", 0o600, b"12345").unwrap();
        archive.link("init", "modules/a.ko").unwrap();
        archive.finish().unwrap()
    }

    #[test]
    fn entries_are_aligned_and_the_end_is_marked() {
        let bytes = sample();
        assert!(bytes.len().is_multiple_of(4));
        let text = String::from_utf8_lossy(&bytes);
        assert_eq!(text.matches("070701").count(), 4);
        assert!(text.contains(LAST_NAME));
    }

    /// Another reader of the form agrees, where the host has one.
    #[test]
    fn cpio_lists_what_was_written() {
        let command = Command::new("cpio")
            .args(["--list", "--verbose", "--numeric-uid-gid"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let Ok(mut cpio) = command else { return };
        cpio.stdin.take().unwrap().write_all(&sample()).unwrap();
        let listed = String::from_utf8(cpio.wait_with_output().unwrap().stdout).unwrap();
        let modes: Vec<_> = listed.lines().map(|line| line.split_whitespace().next().unwrap()).collect();
        assert_eq!(modes, ["drwxr-xr-x", "-rw-------", "lrwxrwxrwx"]);
    }
}
