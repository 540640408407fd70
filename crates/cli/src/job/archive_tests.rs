//! Archives that a hostile sandbox could make.

use std::io::{Cursor, Write};

use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use super::*;

fn archive(make: impl FnOnce(&mut ZipWriter<Cursor<Vec<u8>>>)) -> Cursor<Vec<u8>> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    make(&mut writer);
    let mut bytes = writer.finish().unwrap();
    bytes.set_position(0);
    bytes
}

fn put(writer: &mut ZipWriter<Cursor<Vec<u8>>>, name: &str, mode: u32, text: &str) {
    writer.start_file(name, SimpleFileOptions::default().unix_permissions(mode)).unwrap();
    writer.write_all(text.as_bytes()).unwrap();
}

fn ui() -> Ui {
    Ui::detect(crate::config::ColourWish::Never)
}

#[test]
fn files_modes_folders_and_links_come_out() {
    let home = tempfile::tempdir().unwrap();
    let zip = archive(|writer| {
        writer.add_directory("empty/", SimpleFileOptions::default()).unwrap();
        put(writer, "bin/run.sh", 0o755, "#!/bin/sh\n");
        writer.add_symlink("run", "bin/run.sh", SimpleFileOptions::default()).unwrap();
        put(writer, "süß.txt", 0o600, "x");
    });
    assert_eq!(unpack_file(&ui(), zip, home.path()).unwrap(), 3);
    assert!(home.path().join("empty").is_dir());
    let mode =
        |name: &str| fs::symlink_metadata(home.path().join(name)).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode("bin/run.sh"), mode("süß.txt")), (0o755, 0o600));
    assert_eq!(fs::read_link(home.path().join("run")).unwrap(), Path::new("bin/run.sh"));
}

#[test]
fn nothing_is_written_outside_the_folder() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("inner/folder");
    let zip = archive(|writer| {
        put(writer, "../../escaped", 0o644, "x");
        put(writer, "/escaped", 0o644, "x");
        writer.add_symlink("up", "../..", SimpleFileOptions::default()).unwrap();
        writer.add_symlink("abs", "/etc", SimpleFileOptions::default()).unwrap();
        put(writer, "fine", 0o644, "x");
    });
    fs::create_dir_all(&folder).unwrap();
    unpack_file(&ui(), zip, &folder).unwrap();
    assert!(!home.path().join("escaped").exists());
    assert!(!folder.join("up").is_symlink() && !folder.join("abs").is_symlink());
    assert_eq!(fs::read_to_string(folder.join("fine")).unwrap(), "x");
}

#[test]
fn a_file_never_goes_through_a_link_of_the_archive() {
    let home = tempfile::tempdir().unwrap();
    let zip = archive(|writer| {
        writer.add_symlink("d", "e", SimpleFileOptions::default()).unwrap();
        put(writer, "d/f", 0o644, "x");
    });
    let result = unpack_file(&ui(), zip, home.path());
    assert!(result.is_err() || !home.path().join("e/f").exists());
}

#[test]
fn a_link_that_was_there_is_neither_followed_nor_kept() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("folder");
    fs::create_dir(&folder).unwrap();
    let victim = home.path().join("victim");
    fs::write(&victim, "untouched").unwrap();
    std::os::unix::fs::symlink(&victim, folder.join("file")).unwrap();
    std::os::unix::fs::symlink(home.path(), folder.join("dir")).unwrap();
    let zip = archive(|writer| put(writer, "file", 0o644, "new"));
    unpack_file(&ui(), zip, &folder).unwrap();
    assert_eq!(fs::read_to_string(&victim).unwrap(), "untouched");
    assert_eq!(fs::read_to_string(folder.join("file")).unwrap(), "new");
    let zip = archive(|writer| put(writer, "dir/planted", 0o644, "x"));
    assert!(unpack_file(&ui(), zip, &folder).is_err());
    assert!(!home.path().join("planted").exists());
}

#[test]
fn a_setuid_bit_is_dropped() {
    let home = tempfile::tempdir().unwrap();
    let zip = archive(|writer| put(writer, "s", 0o4755, "x"));
    unpack_file(&ui(), zip, home.path()).unwrap();
    assert_eq!(fs::metadata(home.path().join("s")).unwrap().permissions().mode() & 0o7777, 0o755);
}

#[test]
fn an_archive_that_is_none_is_an_error() {
    let home = tempfile::tempdir().unwrap();
    let result = unpack_file(&ui(), Cursor::new(b"not a zip".to_vec()), home.path());
    assert!(matches!(result, Err(CommandError::Archive { .. })));
}
