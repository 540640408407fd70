use std::path::Path;
use std::process::Command;

use super::*;

fn entry(name: &str, kind: EntryKind, mode: u32, size: u64, target: &str) -> ArchivePart {
    let modified_ms = 1_700_000_000_000;
    ArchivePart::Entry { name: name.into(), kind, mode, size, modified_ms, target: target.into() }
}

/// Writes an archive with a scratch folder in `data`, to the file `output.zip` there.
async fn archive(data: &Path, parts: impl Iterator<Item = ArchivePart> + Send) -> io::Result<ArtifactRow> {
    let (sender, receiver) = mpsc::channel(4);
    let scratch = Scratch::open(data).unwrap();
    let writer = tokio::task::spawn_blocking(move || ArchiveWriter::write(&scratch, receiver, u64::MAX));
    for part in parts {
        if sender.send(part).await.is_err() {
            break;
        }
    }
    drop(sender);
    let (row, file) = writer.await.unwrap()?;
    let mut file = file.into_unnamed();
    file.seek(SeekFrom::Start(0)).unwrap();
    io::copy(&mut file, &mut File::create(data.join("output.zip")).unwrap()).unwrap();
    Ok(row)
}

fn python(script: &str, path: &Path) -> String {
    let output = Command::new("python3").arg("-c").arg(script).arg(path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[tokio::test]
async fn f10_modes_links_and_names_are_right() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("output.zip");
    let parts = vec![
        entry("bin", EntryKind::Directory, 0o755, 0, ""),
        entry("bin/run.sh", EntryKind::File, 0o4755, 2, ""),
        ArchivePart::Bytes(Bytes::from_static(b"hi")),
        entry("grüße-世界.txt", EntryKind::File, 0o600, 0, ""),
        entry("link", EntryKind::Symlink, 0o777, 0, "/etc/passwd"),
        ArchivePart::End,
    ];
    let stored = archive(folder.path(), parts.into_iter()).await.unwrap();
    assert_eq!(stored.bytes, std::fs::metadata(&path).unwrap().len());
    let listing = python(
        "import sys,zipfile\nz=zipfile.ZipFile(sys.argv[1])\nassert z.testzip() is None\n\
         for i in z.infolist(): print(i.filename, oct(i.external_attr>>16), i.create_system, z.read(i).decode())",
        &path,
    );
    assert_eq!(
        listing,
        "bin/ 0o40755 3 \nbin/run.sh 0o100755 3 hi\ngrüße-世界.txt 0o100600 3 \nlink 0o120777 3 /etc/passwd"
    );
}

#[tokio::test]
async fn f12_an_archive_without_an_end_is_thrown_away() {
    let folder = tempfile::tempdir().unwrap();
    let error = archive(folder.path(), vec![entry("a", EntryKind::File, 0o644, 0, "")].into_iter())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    assert!(!folder.path().join("output.zip").exists());
    assert_eq!(std::fs::read_dir(folder.path().join("scratch")).unwrap().count(), 0);
}

#[tokio::test]
async fn more_than_65535_entries_open_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("output.zip");
    let parts = (0..66_000)
        .map(|number| entry(&format!("f{number}"), EntryKind::File, 0o644, 0, ""))
        .chain(std::iter::once(ArchivePart::End));
    archive(folder.path(), parts).await.unwrap();
    let count = python("import sys,zipfile\nprint(len(zipfile.ZipFile(sys.argv[1]).namelist()))", &path);
    assert_eq!(count, "66000");
}

#[tokio::test]
async fn a_file_over_4_gib_opens_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("output.zip");
    let block = Bytes::from(vec![0; 8 * 1024 * 1024]);
    let blocks = 513u64;
    let size = blocks * block.len() as u64;
    let parts = std::iter::once(entry("zeros", EntryKind::File, 0o644, size, ""))
        .chain((0..blocks).map(|_| ArchivePart::Bytes(block.clone())))
        .chain([
            entry("after", EntryKind::File, 0o644, 2, ""),
            ArchivePart::Bytes(Bytes::from_static(b"ok")),
            ArchivePart::End,
        ]);
    archive(folder.path(), parts).await.unwrap();
    let script = "import sys,zipfile\nz=zipfile.ZipFile(sys.argv[1])\n\
                  print(z.getinfo('zeros').file_size, z.read('after').decode())";
    assert_eq!(python(script, &path), format!("{size} ok"));
}

#[tokio::test]
async fn an_archive_takes_no_more_than_its_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let mut state = 1u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    };
    let noise: Vec<u8> = (0..1_000_000).map(|_| random()).collect();
    for (most_bytes, fits) in [(2_000_000, true), (100_000, false)] {
        let (sender, receiver) = mpsc::channel(8);
        let parts = [
            entry("noise", EntryKind::File, 0o644, 1_000_000, ""),
            ArchivePart::Bytes(noise.clone().into()),
            ArchivePart::End,
        ];
        for part in parts {
            sender.send(part).await.unwrap();
        }
        let scratch = Scratch::open(folder.path()).unwrap();
        let written =
            tokio::task::spawn_blocking(move || ArchiveWriter::write(&scratch, receiver, most_bytes))
                .await
                .unwrap();
        assert_eq!(written.is_ok(), fits);
        assert!(fits || written.is_err_and(|error| error.kind() == io::ErrorKind::FileTooLarge));
    }
}

#[test]
fn dates_outside_the_range_of_a_zip_do_not_fail() {
    for modified_ms in [i64::MIN, -1, 0, i64::MAX] {
        assert_eq!(date(modified_ms), DateTime::default(), "{modified_ms}");
    }
    assert_eq!(date(1_700_000_000_000).year(), 2023);
}
