//! Unpacks a workspace. A program in the sandbox chose its names and links, so none of them is trusted:
//! nothing is written outside the folder or through a link, and links that lead out are skipped.
//!
//! Files are written first and links last, so no file of the archive can pass through a link of the archive. A link that was in
//! the folder before is rejected in place of a directory and replaced in place of a file.

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Seek};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

use reqwest::Response;
use zip::ZipArchive;

use super::stream_to_file::stream_to;
use crate::errors::CommandError;
use crate::ui::Ui;

/// Longest target of a link: the kernel's PATH_MAX.
const LINK_BYTES: u64 = 4096;

/// Unpacks a received zip. Returns the number of files and links that were created.
pub(crate) async fn unpack(ui: &Ui, response: Response, folder: &Path) -> Result<usize, CommandError> {
    fs::create_dir_all(folder).map_err(CommandError::file("create", folder))?;
    // In the target folder, because a result of many gigabytes may not fit on the file system of /tmp.
    let mut file = tempfile::tempfile_in(folder).map_err(CommandError::file("create a file in", folder))?;
    stream_to(response, &mut file, folder, "download").await?;
    unpack_file(ui, file, folder)
}

fn unpack_file(ui: &Ui, file: impl Read + Seek, folder: &Path) -> Result<usize, CommandError> {
    let broken = |source| CommandError::Archive { path: folder.to_owned(), source };
    let mut archive = ZipArchive::new(file).map_err(broken)?;
    let mut links = Vec::new();
    let mut count = 0;
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).map_err(broken)?;
        let name = entry.name().map_err(broken)?.into_owned();
        let Some(path) = inside(Path::new(&name)) else {
            ui.warn(&format!("left out `{}`: its name leads out of the folder", crate::ui::clean(&name)));
            continue;
        };
        let target = folder.join(&path);
        if entry.is_dir() {
            make_folder(folder, &path)?;
        } else if entry.is_symlink() {
            // A link's target is bounded: the sandbox could announce any size.
            let mut text = String::new();
            entry
                .by_ref()
                .take(LINK_BYTES)
                .read_to_string(&mut text)
                .map_err(CommandError::file("read", &target))?;
            links.push((path, text));
        } else {
            make_folder(folder, path.parent().unwrap_or(Path::new("")))?;
            // `make_folder` has checked every parent; `create_new` in `write_file` refuses whatever appeared
            // since.
            write_file(&mut entry, &target)?;
            count += 1;
        }
    }
    // Links last, so that no file of the archive is written through one of its own links.
    Ok(count + make_links(ui, folder, links)?)
}

/// Returns the path if it stays below the folder.
fn inside(path: &Path) -> Option<PathBuf> {
    let plain = path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    let clean: PathBuf = path.components().filter(|part| matches!(part, Component::Normal(_))).collect();
    (plain && !clean.as_os_str().is_empty()).then_some(clean)
}

/// Creates each missing parent folder. An existing one must be a real folder.
fn make_folder(folder: &Path, below: &Path) -> Result<(), CommandError> {
    let mut at = folder.to_owned();
    for part in below.components() {
        at.push(part);
        match fs::symlink_metadata(&at) {
            Ok(found) if found.is_dir() => {}
            Ok(_) => {
                let source = io::Error::new(io::ErrorKind::NotADirectory, "something else is there");
                return Err(CommandError::File { action: "make the folder", path: at, source });
            }
            Err(_) => fs::create_dir(&at).map_err(CommandError::file("make the folder", &at))?,
        }
    }
    Ok(())
}

fn write_file(entry: &mut zip::read::ZipFile<'_, impl Read>, target: &Path) -> Result<(), CommandError> {
    remove_old(target)?;
    // Only the permission bits of the user: a setuid bit of a sandbox must not work here.
    let mode = entry.unix_mode().unwrap_or(0o644) & 0o777;
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(target)
        .map_err(CommandError::file("create", target))?;
    io::copy(entry, &mut file).map_err(CommandError::file("write", target))?;
    let permissions = fs::Permissions::from_mode(mode);
    file.set_permissions(permissions).map_err(CommandError::file("set the mode of", target))
}

fn remove_old(target: &Path) -> Result<(), CommandError> {
    match fs::symlink_metadata(target) {
        Ok(found) if !found.is_dir() => {
            fs::remove_file(target).map_err(CommandError::file("replace", target))
        }
        _ => Ok(()),
    }
}

fn make_links(ui: &Ui, folder: &Path, links: Vec<(PathBuf, String)>) -> Result<usize, CommandError> {
    let mut count = 0;
    for (path, text) in links {
        if !leads_inside(&path, Path::new(&text)) {
            ui.warn(&format!("left out the link `{}`: it leads out of the folder", path.display()));
            continue;
        }
        let target = folder.join(&path);
        make_folder(folder, path.parent().unwrap_or(Path::new("")))?;
        remove_old(&target)?;
        std::os::unix::fs::symlink(&text, &target).map_err(CommandError::file("make the link", &target))?;
        count += 1;
    }
    Ok(count)
}

/// True if a link at `path` with this target stays below the folder, without following other links.
fn leads_inside(path: &Path, text: &Path) -> bool {
    let mut depth = path.components().count().saturating_sub(1);
    for part in text.components() {
        match part {
            Component::Normal(_) => depth += 1,
            Component::CurDir => {}
            Component::ParentDir if depth > 0 => depth -= 1,
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return false,
        }
    }
    !text.as_os_str().is_empty()
}

#[cfg(test)]
#[path = "archive_tests.rs"]
mod tests;
