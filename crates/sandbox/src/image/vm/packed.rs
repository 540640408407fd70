//! Unpacks kernels and modules with the programs of the host, since distributions pack them in several forms.

use std::io::{self, Write};
use std::process::{Command, Stdio};

pub(super) const GZIP: &[u8] = &[0x1f, 0x8b];
/// Formats by their first bytes, and the programs that unpack them.
const UNPACKERS: [(&[u8], &[&str]); 3] = [
    (GZIP, &["gzip", "-dcq"]),
    (b"\xfd7zXZ", &["xz", "-dcq"]),
    (&[0x28, 0xb5, 0x2f, 0xfd], &["zstd", "-dcq"]),
];

/// Unpacks a file. Returns `None` if its format is unknown.
pub(super) fn unpack(packed: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let known = UNPACKERS.iter().find(|(magic, _)| packed.starts_with(magic));
    known.map(|(_, program)| through(program, packed)).transpose()
}

fn through(program: &[&str], packed: &[u8]) -> io::Result<Vec<u8>> {
    let (name, arguments) = program.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut child = Command::new(name)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| io::Error::new(error.kind(), format!("{name} is needed to unpack it: {error}")))?;
    let mut input = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
    std::thread::scope(|scope| {
        // A program that has read enough closes its end, and the write fails; its output decides.
        scope.spawn(move || drop(input.write_all(packed)));
        Ok(child.wait_with_output()?.stdout)
    })
}
