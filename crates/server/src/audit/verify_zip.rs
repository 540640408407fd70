//! Checks a download without a server: its audit, and that its files are those that were exported.
//!
//! The host writes its audit as the last entry of the archive, whatever it is called, and names the list of files in the
//! record of the export. Every other entry is hashed and compared with that list, so that a changed file is named.

use std::collections::BTreeMap;
use std::io::{Read, Seek};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use zip::ZipArchive;
use zip::read::ZipFile;
use zip::result::ZipError;

use super::canonical::encode;
use super::key::PublicKey;
use super::verify::{Verdict, VerifyError, verify_lines};

/// The longest audit or list that is read into memory: beyond what bounds in the server let it become.
const TEXT_BYTES: u64 = 1024 * 1024 * 1024;
/// Files that are named.
const NAMED: usize = 20;

/// What was found.
#[derive(Debug)]
pub struct ZipVerdict {
    /// Of the audit in it.
    pub audit: Verdict,
    /// Files that were compared with the list.
    pub files: u64,
    /// What is wrong with them.
    pub faults: Vec<ZipFault>,
}

/// An entry that is not as it was exported.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ZipFault {
    /// It is another.
    #[error("the file `{0}` was altered")]
    Altered(String),
    /// It is not there.
    #[error("the file `{0}` is missing")]
    Missing(String),
    /// It is not in the list.
    #[error("the file `{0}` was added")]
    Added(String),
    /// The list of files is not the one in the record of the export.
    #[error("the list of files `{0}` was altered")]
    List(String),
    /// There is no such record, or no such list.
    #[error("the audit tells of no export, so the files can't be compared")]
    NoExport,
    /// There is more to say than was said.
    #[error("{0} more files are not as they were exported")]
    More(usize),
}

/// A download that can't be checked at all.
#[derive(Debug, thiserror::Error)]
pub enum ZipVerifyError {
    /// It is no archive, or can't be read.
    #[error("read the archive")]
    Zip(#[from] ZipError),
    /// It has no audit as its last entry.
    #[error("the archive has no audit as its last entry")]
    NoAudit,
    /// Its audit can't be checked.
    #[error(transparent)]
    Audit(#[from] VerifyError),
}

/// Checks a download.
pub fn verify_zip(file: impl Read + Seek, expected: Option<PublicKey>) -> Result<ZipVerdict, ZipVerifyError> {
    let mut archive = ZipArchive::new(file)?;
    let last = archive.len().checked_sub(1).ok_or(ZipVerifyError::NoAudit)?;
    let text = text_of(archive.by_index(last)?).ok_or(ZipVerifyError::NoAudit)?;
    let audit = verify_lines(&text, expected)?;
    let mut found = Found::default();
    match list(&mut archive, audit.export.as_ref()) {
        Some(Ok((name, listed))) => compare(&mut archive, last, &name, listed, &mut found)?,
        Some(Err(name)) => found.fault(ZipFault::List(name)),
        None => found.fault(ZipFault::NoExport),
    }
    Ok(ZipVerdict { audit, files: found.files, faults: found.end() })
}

/// Name of a list of files, and its lines by path.
type FileList = (String, BTreeMap<String, String>);

/// The list of files that the record of the export names; only its name if it was altered.
fn list(
    archive: &mut ZipArchive<impl Read + Seek>,
    export: Option<&Value>,
) -> Option<Result<FileList, String>> {
    let facts = &export?["facts"];
    let (name, sha256) = (facts["manifest"].as_str()?, facts["manifest_sha256"].as_str()?);
    let text = archive.by_name(name).ok().and_then(text_of);
    let Some(text) = text.filter(|text| super::digest(text.as_bytes()) == sha256) else {
        return Some(Err(name.to_owned()));
    };
    let path = |line: &str| Some(serde_json::from_str::<Value>(line).ok()?["path"].as_str()?.to_owned());
    let lines = text.lines().filter_map(|line| Some((path(line)?, line.to_owned()))).collect();
    Some(Ok((name.to_owned(), lines)))
}

fn compare(
    archive: &mut ZipArchive<impl Read + Seek>,
    audit: usize,
    list: &str,
    mut listed: BTreeMap<String, String>,
    found: &mut Found,
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
            // An entry that can't be read, say because its checksum is wrong, is another one too.
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

/// The line of an entry, as the list has it.
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

/// One line of a list of files. Of a link the target is what is hashed.
pub(crate) fn manifest_line(path: &str, kind: &str, mode: u32, size: u64, sha256: &[u8]) -> String {
    let sha256: String = sha256.iter().map(|byte| format!("{byte:02x}")).collect();
    let mode = format!("{:04o}", mode & 0o777);
    encode(&json!({ "path": path, "kind": kind, "mode": mode, "size": size, "sha256": sha256 }))
}

fn text_of(entry: ZipFile<'_, impl Read>) -> Option<String> {
    let mut text = String::new();
    entry.take(TEXT_BYTES).read_to_string(&mut text).ok()?;
    Some(text)
}

#[derive(Default)]
struct Found {
    files: u64,
    faults: Vec<ZipFault>,
    more: usize,
}

impl Found {
    fn fault(&mut self, fault: ZipFault) {
        if self.faults.len() < NAMED {
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
