//! Verifies a download without a server: its audit, and that its files are the exported ones.
//!
//! The audit is always the last entry of the archive, whatever its name. The record of the export names the list of files
//! in the archive. The verifier hashes every other entry and compares it with that list.

use std::collections::BTreeMap;
use std::io::{Read, Seek};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use zip::ZipArchive;
use zip::read::ZipFile;
use zip::result::ZipError;

use super::canonical::encode;
use super::digest::digest;
use super::facts::ExportFacts;
use super::key::PublicKey;
use super::verify::{AuditVerdict, VerifyError, verify_lines};

/// The longest audit or list that is read into memory. The server's own limits keep both far below it.
const MAX_TEXT_BYTES: u64 = 1024 * 1024 * 1024;
/// Files that a verdict names.
const MAX_FAULTS: usize = 20;

/// The result of verifying a download.
#[derive(Debug)]
pub struct ZipVerdict {
    /// The result for the audit in the archive.
    pub audit: AuditVerdict,
    /// Number of files compared with the list.
    pub files: u64,
    /// Files that differ from the exported ones.
    pub faults: Vec<ZipFault>,
}

/// A difference between the archive and the export.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ZipFault {
    /// A file has another content, size or mode.
    #[error("the file `{0}` was altered")]
    Altered(String),
    /// A listed file is not in the archive.
    #[error("the file `{0}` is missing")]
    Missing(String),
    /// A file is not in the list.
    #[error("the file `{0}` was added")]
    Added(String),
    /// The list of files does not match the record of the export.
    #[error("the list of files `{0}` was altered")]
    List(String),
    /// The audit has no record of an export.
    #[error("the audit has no record of an export, so the files can't be compared")]
    NoExport,
    /// Number of further differences.
    #[error("{0} more files differ from the exported ones")]
    More(usize),
}

/// The download can't be verified at all.
#[derive(Debug, thiserror::Error)]
pub enum ZipVerifyError {
    /// The file is not a readable zip archive.
    #[error("read the archive")]
    Zip(#[from] ZipError),
    /// The last entry is not an audit.
    #[error("the archive has no audit as its last entry")]
    NoAudit,
    /// The audit can't be verified.
    #[error(transparent)]
    Audit(#[from] VerifyError),
}

/// Verifies a download: first its audit, then its files against the list that the audit names.
pub fn verify_zip(file: impl Read + Seek, expected: Option<PublicKey>) -> Result<ZipVerdict, ZipVerifyError> {
    let mut archive = ZipArchive::new(file)?;
    let last = archive.len().checked_sub(1).ok_or(ZipVerifyError::NoAudit)?;
    let text = text_of(archive.by_index(last)?).ok_or(ZipVerifyError::NoAudit)?;
    let audit = verify_lines(&text, expected)?;
    let mut found = ZipFindings::default();
    match list(&mut archive, audit.export.as_ref()) {
        Some(Ok((name, listed))) => compare(&mut archive, last, &name, listed, &mut found)?,
        Some(Err(name)) => found.fault(ZipFault::List(name)),
        // A job that never ran has no files, and so no record of an export.
        None if audit.never_ran && last == 0 => {}
        None => found.fault(ZipFault::NoExport),
    }
    Ok(ZipVerdict { audit, files: found.files, faults: found.end() })
}

/// The name of a list of files, and its lines by path.
type FileList = (String, BTreeMap<String, String>);

/// Reads the list of files that the record of the export names. The inner error is the name of an altered list.
fn list(
    archive: &mut ZipArchive<impl Read + Seek>,
    export: Option<&ExportFacts>,
) -> Option<Result<FileList, String>> {
    let ExportFacts { manifest: name, manifest_sha256, .. } = export?;
    let text = archive.by_name(name).ok().and_then(text_of);
    let Some(text) = text.filter(|text| digest(text.as_bytes()) == *manifest_sha256) else {
        return Some(Err(name.clone()));
    };
    let path = |line: &str| serde_json::from_str::<ListedPath>(line).ok().map(|listed| listed.path);
    let lines = text.lines().filter_map(|line| Some((path(line)?, line.to_owned()))).collect();
    Some(Ok((name.clone(), lines)))
}

fn compare(
    archive: &mut ZipArchive<impl Read + Seek>,
    audit: usize,
    list: &str,
    mut listed: BTreeMap<String, String>,
    found: &mut ZipFindings,
) -> Result<(), ZipError> {
    for place in (0..archive.len()).filter(|place| *place != audit) {
        let entry = archive.by_index(place)?;
        let path = entry.name()?.trim_end_matches('/').to_owned();
        if path == list {
            continue;
        }
        found.files += 1;
        match listed.remove(&path) {
            None => found.fault(ZipFault::Added(path)),
            // An unreadable entry, for example one with a wrong checksum, counts as altered.
            Some(line) if describe(entry, &path).as_ref() != Some(&line) => {
                found.fault(ZipFault::Altered(path))
            }
            Some(_) => {}
        }
    }
    for path in listed.into_keys() {
        found.fault(ZipFault::Missing(path));
    }
    Ok(())
}

/// Returns the line that the list must have for an entry; none if the entry can't be read.
fn describe(mut entry: ZipFile<'_, impl Read>, path: &str) -> Option<String> {
    let mode = entry.unix_mode().unwrap_or(0);
    let (kind, mode) = if entry.is_dir() {
        ("directory", mode)
    } else if entry.is_symlink() {
        ("symlink", 0o777)
    } else {
        ("file", mode)
    };
    let (mut hasher, mut size) = (Sha256::new(), 0);
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let count = entry.read(&mut buffer).ok()?;
        if count == 0 {
            break;
        }
        hasher.update(&buffer[..count]);
        size += count as u64;
    }
    Some(manifest_line(path, kind, mode, size, &hasher.finalize()))
}

/// A line of a list of files, as far as it names the file.
#[derive(Deserialize)]
struct ListedPath {
    path: String,
}

/// A line of a list of files.
#[derive(Serialize)]
struct ManifestLine<'a> {
    path: &'a str,
    kind: &'a str,
    mode: String,
    size: u64,
    sha256: String,
}

/// Returns one line of a list of files. For a symbolic link, `size` and `sha256` are those of its target text.
pub(crate) fn manifest_line(path: &str, kind: &str, mode: u32, size: u64, sha256: &[u8]) -> String {
    let line =
        ManifestLine { path, kind, mode: format!("{:04o}", mode & 0o777), size, sha256: hex::encode(sha256) };
    encode(&serde_json::to_value(line).unwrap_or_default())
}

fn text_of(entry: ZipFile<'_, impl Read>) -> Option<String> {
    let mut text = String::new();
    entry.take(MAX_TEXT_BYTES).read_to_string(&mut text).ok()?;
    Some(text)
}

#[derive(Default)]
struct ZipFindings {
    files: u64,
    faults: Vec<ZipFault>,
    more: usize,
}

impl ZipFindings {
    fn fault(&mut self, fault: ZipFault) {
        if self.faults.len() < MAX_FAULTS {
            self.faults.push(fault);
        } else {
            self.more += 1;
        }
    }

    fn end(mut self) -> Vec<ZipFault> {
        if self.more > 0 {
            self.faults.push(ZipFault::More(self.more));
        }
        self.faults
    }
}
