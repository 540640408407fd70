//! The unpacked kernel from a distribution's kernel file: Firecracker boots nothing that unpacks itself.
//!
//! A `bzImage` says where its packed payload is (Documentation/arch/x86/boot.rst). Debian packs with LZ4,
//! which is read here; other forms are left to their own programs. A kernel that is not packed is used
//! unchanged.

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::packed::{self, GZIP};
use super::unfinished::unfinished;

const ELF: &[u8] = b"\x7fELF";
const LZ4_LEGACY: &[u8] = &[0x02, 0x21, 0x4c, 0x18];
/// Length of the word behind the payload with its unpacked size. gzip ends with the same word.
const SIZE_BYTES: usize = 4;
/// Largest unpacked kernel that is accepted, in bytes.
const MAX_KERNEL_BYTES: usize = 512 * 1024 * 1024;

/// Returns the unpacked kernel beside a packed one, made if it is missing.
pub(super) fn ensure(kernel: &Path) -> io::Result<PathBuf> {
    let target = kernel.with_file_name("vmlinux");
    if target.exists() {
        return Ok(target);
    }
    let temporary = unfinished(&target)?;
    let mut file = File::create(&temporary)?;
    file.write_all(&unpacked(fs::read(kernel)?)?)?;
    // Every machine runs as a user of its own and must be able to read the file.
    file.set_permissions(Permissions::from_mode(0o444))?;
    file.sync_all()?;
    fs::rename(&temporary, &target)?;
    Ok(target)
}

/// Returns the kernel as an ELF file.
fn unpacked(kernel: Vec<u8>) -> io::Result<Vec<u8>> {
    if kernel.starts_with(ELF) {
        return Ok(kernel);
    }
    let (payload, size) = payload(&kernel).ok_or_else(|| bad("is neither an ELF file nor a bzImage"))?;
    let without_size = payload.get(..payload.len() - SIZE_BYTES).unwrap_or_default();
    let packed = if payload.starts_with(GZIP) { payload } else { without_size };
    let unpacked = if packed.starts_with(LZ4_LEGACY) {
        lz4(packed, size).ok_or_else(|| bad("is packed with LZ4 and damaged"))?
    } else {
        packed::unpack(packed)?.ok_or_else(|| bad("is packed in a form that is not known"))?
    };
    if unpacked.len() == size && unpacked.starts_with(ELF) {
        Ok(unpacked)
    } else {
        Err(bad("does not unpack to an ELF file"))
    }
}

fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the kernel {what}"))
}

/// Returns the packed kernel in a `bzImage` and its unpacked size, the last word of the payload.
fn payload(kernel: &[u8]) -> Option<(&[u8], usize)> {
    let word = |at: usize| Some(u32::from_le_bytes(kernel.get(at..at + 4)?.try_into().ok()?));
    let has_header = kernel.get(0x202..0x206)? == b"HdrS" && word(0x206)? & 0xffff >= 0x208;
    let sectors = match kernel.get(0x1f1)? {
        0 => 4,
        &count => usize::from(count),
    };
    let start = (sectors + 1) * 512 + usize::try_from(word(0x248)?).ok()?;
    let end = start.checked_add(usize::try_from(word(0x24c)?).ok()?)?;
    let size = usize::try_from(word(end.checked_sub(SIZE_BYTES)?)?).ok()?;
    // `get` and the checked sums: a file of the operator may be damaged, and its numbers point anywhere.
    has_header.then_some((kernel.get(start..end)?, size)).filter(|_| size <= MAX_KERNEL_BYTES)
}

/// Unpacks the legacy form: a magic word, then blocks, each behind its length.
fn lz4(packed: &[u8], size: usize) -> Option<Vec<u8>> {
    let mut output = Vec::with_capacity(size);
    let mut rest = packed.get(LZ4_LEGACY.len()..)?;
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
        lz4_block(after.get(..length)?, &mut output, size)?;
        rest = after.get(length..)?;
    }
    rest.is_empty().then_some(output)
}

/// Unpacks one block: literal bytes and copies of earlier output, in turn.
fn lz4_block(block: &[u8], output: &mut Vec<u8>, most: usize) -> Option<()> {
    // A copy never reaches beyond the start of its own block.
    let first = output.len();
    let mut input = block;
    loop {
        let (&token, rest) = input.split_first()?;
        input = rest;
        let literals = length(token >> 4, &mut input)?;
        output.extend_from_slice(input.get(..literals)?);
        input = input.get(literals..)?;
        if output.len() > most {
            return None;
        }
        let Some((distance, rest)) = input.split_first_chunk::<2>() else {
            return input.is_empty().then_some(());
        };
        input = rest;
        let copied = length(token & 15, &mut input)?.checked_add(4)?;
        let start = output.len().checked_sub(usize::from(u16::from_le_bytes(*distance)))?;
        // A damaged block could name bytes before its start or grow without end.
        if start < first || start == output.len() || output.len() + copied > most {
            return None;
        }
        for at in start..start + copied {
            output.push(*output.get(at)?);
        }
    }
}

/// Returns a length. Fifteen is continued by the next bytes, up to one that is not 255.
fn length(nibble: u8, input: &mut &[u8]) -> Option<usize> {
    let mut length = usize::from(nibble);
    let mut more = nibble == 15;
    while more {
        let (&byte, rest) = input.split_first()?;
        *input = rest;
        length = length.checked_add(usize::from(byte))?;
        more = byte == 255;
    }
    Some(length)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    /// A kernel file around a payload.
    fn packed(payload: &[u8]) -> Vec<u8> {
        let mut kernel = vec![0; 1024];
        kernel[0x1f1] = 1;
        kernel[0x202..0x206].copy_from_slice(b"HdrS");
        kernel[0x206..0x208].copy_from_slice(&0x20f_u16.to_le_bytes());
        kernel[0x24c..0x250].copy_from_slice(&u32::try_from(payload.len()).unwrap().to_le_bytes());
        kernel.extend_from_slice(payload);
        kernel
    }

    /// `\x7fELF`, then four times the same, by a copy that overlaps itself, then literals alone.
    fn sample() -> (Vec<u8>, Vec<u8>) {
        let block = [&[0x4c][..], ELF, &[4, 0], &[0x10], b"."].concat();
        let mut payload = LZ4_LEGACY.to_vec();
        payload.extend_from_slice(&u32::try_from(block.len()).unwrap().to_le_bytes());
        payload.extend_from_slice(&block);
        let whole = [ELF.repeat(5).as_slice(), b"."].concat();
        payload.extend_from_slice(&u32::try_from(whole.len()).unwrap().to_le_bytes());
        (payload, whole)
    }

    #[test]
    fn what_debian_packs_is_unpacked() {
        let (payload, whole) = sample();
        assert_eq!(unpacked(packed(&payload)).unwrap(), whole);
        assert_eq!(unpacked(whole.clone()).unwrap(), whole);
    }

    #[test]
    fn what_other_programs_pack_is_left_to_them() {
        let whole = ELF.repeat(1000);
        let mut gzip =
            Command::new("gzip").arg("-c").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        gzip.stdin.take().unwrap().write_all(&whole).unwrap();
        let payload = gzip.wait_with_output().unwrap().stdout;
        assert_eq!(unpacked(packed(&payload)).unwrap(), whole);
    }

    #[test]
    fn damage_is_an_error_and_never_a_panic() {
        let (payload, _) = sample();
        let good = packed(&payload);
        assert!(unpacked(Vec::new()).is_err());
        assert!(unpacked(packed(b"plain and simple")).is_err());
        for end in 0..good.len() {
            assert!(unpacked(good[..end].to_vec()).is_err(), "cut at {end}");
        }
        for at in 1024..good.len() {
            let mut bent = good.clone();
            bent[at] ^= 0x55;
            // A literal may be bent unseen; nothing else may.
            assert!(unpacked(bent).is_err() || at > 1032);
        }
    }
}
