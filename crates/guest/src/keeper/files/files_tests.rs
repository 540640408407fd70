//! The file worker against a real directory, request by request, as keeper would drive it. Attack ids are of ATTACKS.md.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use sandyard_pipe::Frame;
use sandyard_protocol::limits::LIST_ENTRIES;
use sandyard_protocol::{
    DirectoryEntry, Edit, EntryHeader, EntryKind, FileRange, FileStat, GuestErrorCode, Reply, Request,
};

use super::wire::WorkerWire;
use super::worker::serve;

/// All that a worker says to one request that is followed by `data`.
fn ask_with(root: &Path, request: &Request, data: &[&[u8]]) -> (Reply, Vec<Frame>) {
    let (mut input, mut output) = (Vec::new(), Vec::new());
    let mut nothing = std::io::empty();
    let mut wire = WorkerWire::new(&mut nothing, &mut input);
    wire.send_message(request).unwrap();
    for chunk in data {
        wire.payload()[..chunk.len()].copy_from_slice(chunk);
        wire.send_payload(chunk.len()).unwrap();
    }
    wire.send_end().unwrap();
    serve(root, &mut input.as_slice(), &mut output).unwrap();
    let (mut said, mut sink) = (output.as_slice(), std::io::sink());
    let mut wire = WorkerWire::new(&mut said, &mut sink);
    let Some(Frame::Message(reply)) = wire.receive().unwrap() else { panic!("no reply") };
    let mut frames = Vec::new();
    while let Some(frame) = wire.receive().unwrap() {
        frames.push(frame);
    }
    assert_eq!(frames.pop(), Some(Frame::Data(Bytes::new())), "an operation must end with an empty frame");
    (serde_json::from_slice(&reply).unwrap(), frames)
}

fn ask(root: &Path, request: &Request) -> Reply {
    ask_with(root, request, &[]).0
}

fn failure(reply: Reply) -> GuestErrorCode {
    match reply {
        Reply::Failed(error) => error.code,
        other => panic!("expected a failure, got {other:?}"),
    }
}

fn stat(root: &Path, path: &str) -> FileStat {
    match ask(root, &Request::Stat { path: path.into() }) {
        Reply::Stat(stat) => stat,
        other => panic!("{path}: {other:?}"),
    }
}

fn read(root: &Path, path: &str, range: Option<FileRange>) -> Result<Vec<u8>, GuestErrorCode> {
    let (reply, frames) = ask_with(root, &Request::Read { path: path.into(), range }, &[]);
    let length = match reply {
        Reply::Content { length, .. } => length,
        other => return Err(failure(other)),
    };
    let bytes: Vec<u8> = frames.into_iter().flat_map(payload).collect();
    assert_eq!(bytes.len() as u64, length);
    Ok(bytes)
}

fn payload(frame: Frame) -> Bytes {
    match frame {
        Frame::Data(data) | Frame::Message(data) => data,
    }
}

fn write(root: &Path, path: &str, content: &[u8]) -> Reply {
    let request = Request::Write { path: path.into(), size: content.len() as u64, mode: None };
    ask_with(root, &request, &[content]).0
}

/// Every operation that takes a path.
fn requests_for(path: &str) -> Vec<Request> {
    let path = path.to_owned();
    vec![
        Request::Stat { path: path.clone() },
        Request::List { path: path.clone(), after: None },
        Request::Read { path: path.clone(), range: None },
        Request::Write { path: path.clone(), size: 0, mode: None },
        Request::Move { path: path.clone(), to: "taken-out".into() },
        Request::Move { path: "inside".into(), to: path.clone() },
        Request::Edit { path: path.clone(), edits: vec![Edit { old: "canary".into(), new: "gone".into() }] },
        Request::Remove { path: path.clone(), recursive: true },
        Request::MakeDirectory { path: path.clone() },
        Request::Search { path: path.clone(), text: "canary".into(), limit: 10 },
        Request::Export { path },
    ]
}

/// A workspace beside a directory with a canary that must never be read, changed or removed.
fn yard() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("workspace");
    fs::create_dir(&root).unwrap();
    fs::create_dir(folder.path().join("outside")).unwrap();
    fs::write(folder.path().join("outside/canary"), "canary bytes").unwrap();
    fs::write(root.join("inside"), "inside bytes").unwrap();
    (folder, root)
}

fn assert_outside_untouched(folder: &Path) {
    let names: Vec<_> =
        fs::read_dir(folder.join("outside")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["canary"]);
    assert_eq!(fs::read(folder.join("outside/canary")).unwrap(), b"canary bytes");
}

#[test]
fn f1_no_operation_accepts_a_path_that_leads_out() {
    let (folder, root) = yard();
    let absolute = folder.path().join("outside/canary").display().to_string();
    let long = "x".repeat(5000);
    for path in
        ["..", "../outside", "../outside/canary", "a/../../outside/canary", "./..", &absolute, "a\0b", &long]
    {
        for request in requests_for(path) {
            let code = failure(ask(&root, &request));
            assert_eq!(code, GuestErrorCode::InvalidPath, "{request:?}");
        }
    }
    assert_outside_untouched(folder.path());
}

#[test]
fn f1_encoded_and_foreign_separators_are_plain_names() {
    let (folder, root) = yard();
    for path in ["%2e%2e/outside/canary", "..%2foutside%2fcanary", "..\\outside\\canary", "%252e%252e"] {
        assert_eq!(
            failure(ask(&root, &Request::Stat { path: path.into() })),
            GuestErrorCode::NotFound,
            "{path}"
        );
    }
    assert_outside_untouched(folder.path());
}

#[test]
fn f2_links_are_never_followed_out() {
    let (folder, root) = yard();
    symlink(folder.path().join("outside"), root.join("absolute")).unwrap();
    symlink("../outside", root.join("relative")).unwrap();
    symlink("loop-b", root.join("loop-a")).unwrap();
    symlink("loop-a", root.join("loop-b")).unwrap();
    symlink("/proc/self/root", root.join("magic")).unwrap();
    for path in ["absolute/canary", "relative/canary", "absolute/new", "loop-a/x", "magic/etc/passwd"] {
        for request in requests_for(path) {
            let reply = ask(&root, &request);
            assert!(matches!(reply, Reply::Failed(_)), "{request:?} answered {reply:?}");
        }
    }
    symlink(folder.path().join("outside/canary"), root.join("file")).unwrap();
    assert_eq!(read(&root, "file", None), Err(GuestErrorCode::InvalidPath));
    assert_eq!(stat(&root, "file").kind, EntryKind::Symlink);
    assert_eq!(
        failure(ask(&root, &Request::List { path: "absolute".into(), after: None })),
        GuestErrorCode::InvalidPath
    );
    assert_outside_untouched(folder.path());
}

#[test]
fn a_link_at_the_target_is_replaced_not_written_through() {
    let (folder, root) = yard();
    symlink(folder.path().join("outside/canary"), root.join("link")).unwrap();
    assert!(matches!(write(&root, "link", b"mine"), Reply::Stat(_)));
    assert_eq!(fs::read(root.join("link")).unwrap(), b"mine");
    symlink(folder.path().join("outside"), root.join("directory")).unwrap();
    assert_eq!(ask(&root, &Request::Remove { path: "directory".into(), recursive: true }), Reply::Done);
    assert_outside_untouched(folder.path());
}

#[test]
fn links_that_stay_inside_are_followed() {
    let (_folder, root) = yard();
    fs::create_dir_all(root.join("a/b")).unwrap();
    symlink("../../inside", root.join("a/b/up")).unwrap();
    symlink("a/b", root.join("short")).unwrap();
    assert_eq!(read(&root, "short/up", None).unwrap(), b"inside bytes");
    assert!(matches!(write(&root, "short/new", b"x"), Reply::Stat(_)));
    assert_eq!(fs::read(root.join("a/b/new")).unwrap(), b"x");
}

/// F3: a directory and a link out of the workspace change places all the time; the canary must never be seen.
#[test]
fn f3_a_swapped_link_leaks_nothing() {
    let (folder, root) = yard();
    fs::create_dir(root.join("swap")).unwrap();
    fs::write(root.join("swap/canary"), "harmless").unwrap();
    symlink(folder.path().join("outside"), root.join("spare")).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let (one, other) = (root.join("swap"), root.join("spare"));
                renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).unwrap();
            }
        });
        let mut seen = 0;
        for _ in 0..20_000 {
            if let Ok(bytes) = read(&root, "swap/canary", None) {
                assert_eq!(bytes, b"harmless");
                seen += 1;
            }
            write(&root, "swap/new", b"n");
        }
        for _ in 0..200 {
            let (_, frames) = ask_with(&root, &Request::Export { path: String::new() }, &[]);
            assert!(
                !frames
                    .into_iter()
                    .map(payload)
                    .any(|bytes| bytes.windows(12).any(|part| part == b"canary bytes"))
            );
        }
        stop.store(true, Ordering::Relaxed);
        assert!(seen > 0, "the race never let the harmless file be read");
    });
    assert_outside_untouched(folder.path());
}

#[test]
fn a_file_is_written_whole_or_not_at_all() {
    let (_folder, root) = yard();
    assert!(
        matches!(write(&root, "new/deep/file", b"content"), Reply::Stat(stat) if stat.size == 7 && stat.mode == 0o644)
    );
    let short = Request::Write { path: "inside".into(), size: 10, mode: None };
    assert_eq!(failure(ask_with(&root, &short, &[b"short"]).0), GuestErrorCode::BadRequest);
    let long = Request::Write { path: "inside".into(), size: 2, mode: None };
    assert_eq!(failure(ask_with(&root, &long, &[b"too long", b"and more"]).0), GuestErrorCode::BadRequest);
    assert_eq!(fs::read(root.join("inside")).unwrap(), b"inside bytes");
    let executable = Request::Write { path: "inside".into(), size: 4, mode: Some(0o4755) };
    assert!(
        matches!(ask_with(&root, &executable, &[b"a", b"bc", b"d"]).0, Reply::Stat(stat) if stat.mode == 0o755)
    );
    assert_eq!(fs::read(root.join("inside")).unwrap(), b"abcd");
    assert_eq!(failure(write(&root, "new/deep", b"x")), GuestErrorCode::IsADirectory);
    assert_eq!(failure(write(&root, "inside/x", b"x")), GuestErrorCode::NotADirectory);
    let mut names: Vec<_> = fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["inside", "new"], "a temporary file was left");
}

#[test]
fn ranges_are_cut_to_the_file() {
    let (_folder, root) = yard();
    for (start, length, expected) in [
        (0, None, "inside bytes"),
        (7, None, "bytes"),
        (7, Some(2), "by"),
        (7, Some(99), "bytes"),
        (99, None, ""),
    ] {
        assert_eq!(read(&root, "inside", Some(FileRange { start, length })).unwrap(), expected.as_bytes());
    }
    assert_eq!(read(&root, "", None), Err(GuestErrorCode::IsADirectory));
    rustix::fs::mkfifoat(CWD, root.join("pipe"), rustix::fs::Mode::RWXU).unwrap();
    assert_eq!(read(&root, "pipe", None), Err(GuestErrorCode::BadRequest));
}

#[test]
fn moves_and_edits_never_destroy() {
    let (_folder, root) = yard();
    fs::write(root.join("other"), "other").unwrap();
    let taken = Request::Move { path: "inside".into(), to: "other".into() };
    assert_eq!(failure(ask(&root, &taken)), GuestErrorCode::AlreadyExists);
    let absent = Request::Move { path: "absent".into(), to: "new/place".into() };
    assert_eq!(failure(ask(&root, &absent)), GuestErrorCode::NotFound);
    assert!(!root.join("new").exists());
    let good = Request::Move { path: "inside".into(), to: "new/place".into() };
    assert!(matches!(ask(&root, &good), Reply::Stat(_)));
    let edit = |edits: &[(&str, &str)]| Request::Edit {
        path: "new/place".into(),
        edits: edits.iter().map(|(old, new)| Edit { old: (*old).into(), new: (*new).into() }).collect(),
    };
    fs::set_permissions(root.join("new/place"), fs::Permissions::from_mode(0o700)).unwrap();
    let half = edit(&[("inside", "outer"), ("absent", "x")]);
    assert_eq!(failure(ask(&root, &half)), GuestErrorCode::EditMismatch);
    assert_eq!(fs::read(root.join("new/place")).unwrap(), b"inside bytes");
    assert!(matches!(ask(&root, &edit(&[("inside", "outer")])), Reply::Stat(stat) if stat.mode == 0o700));
    assert_eq!(fs::read(root.join("new/place")).unwrap(), b"outer bytes");
}

#[test]
fn r14_odd_names_are_listed_read_and_removed() {
    let (_folder, root) = yard();
    for name in ["line\nbreak", "-rf", " ", "\u{202e}txt", "e\u{301}", "\u{e9}"] {
        assert!(matches!(write(&root, name, b"odd"), Reply::Stat(_)), "{name:?}");
        assert_eq!(read(&root, name, None).unwrap(), b"odd");
    }
    fs::write(root.join(std::ffi::OsStr::from_bytes(b"bad\xff")), "").unwrap();
    let names: Vec<_> = list_all(&root, "").into_iter().map(|entry| entry.name).collect();
    // F17: names that differ in normalisation only are two files, in a fixed order.
    assert_eq!(names, [" ", "-rf", "bad%FF", "e\u{301}", "inside", "line\nbreak", "\u{e9}", "\u{202e}txt"]);
    let depth = 300;
    let deep = vec!["d"; depth].join("/");
    assert!(matches!(ask(&root, &Request::MakeDirectory { path: format!("tree/{deep}") }), Reply::Stat(_)));
    fs::write(root.join("tree/d/d/file"), "").unwrap();
    symlink("/", root.join("tree/d/link")).unwrap();
    fs::set_permissions(root.join("tree/d/d"), fs::Permissions::from_mode(0o000)).unwrap();
    let plain = Request::Remove { path: "tree".into(), recursive: false };
    assert_eq!(failure(ask(&root, &plain)), GuestErrorCode::NotEmpty);
    assert_eq!(ask(&root, &Request::Remove { path: "tree".into(), recursive: true }), Reply::Done);
    assert!(!root.join("tree").exists());
}

fn list_all(root: &Path, path: &str) -> Vec<DirectoryEntry> {
    let mut all: Vec<DirectoryEntry> = Vec::new();
    loop {
        let after = all.last().map(|entry| entry.name.clone());
        match ask(root, &Request::List { path: path.into(), after }) {
            Reply::Entries { entries, more } => {
                assert!(entries.len() <= LIST_ENTRIES);
                all.extend(entries);
                if !more {
                    return all;
                }
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_large_directory_comes_in_pages() {
    let (_folder, root) = yard();
    fs::create_dir(root.join("many")).unwrap();
    for number in 0..2500 {
        let name = format!("{number:05}{}", "\u{1}".repeat(200));
        fs::write(root.join("many").join(name), "").unwrap();
    }
    let names: Vec<_> = list_all(&root, "many").into_iter().map(|entry| entry.name).collect();
    assert_eq!(names.len(), 2500);
    assert!(names.is_sorted());
}

#[test]
fn search_finds_names_and_lines_but_no_binaries() {
    let (_folder, root) = yard();
    fs::create_dir(root.join("src")).unwrap();
    fs::write(root.join("src/needle.txt"), "nothing\nhas a needle here\n").unwrap();
    fs::write(root.join("src/binary"), b"\0needle").unwrap();
    symlink("src/needle.txt", root.join("link")).unwrap();
    let request = |limit| Request::Search { path: String::new(), text: "needle".into(), limit };
    let Reply::Hits { hits, more } = ask(&root, &request(10)) else { panic!("no hits") };
    let found: Vec<_> = hits.iter().map(|hit| (hit.path.as_str(), hit.line, hit.text.as_str())).collect();
    assert_eq!(found, [("src/needle.txt", 0, ""), ("src/needle.txt", 2, "has a needle here")]);
    assert!(!more);
    assert!(matches!(ask(&root, &request(1)), Reply::Hits { hits, more: true } if hits.len() == 1));
}

/// An export as the host would gather it.
/// Entries with their bytes, how many were told, and what was left out.
type Exported = (Vec<(EntryHeader, Vec<u8>)>, u64, Vec<String>);

fn exported(root: &Path, path: &str) -> Exported {
    let (reply, frames) = ask_with(root, &Request::Export { path: path.into() }, &[]);
    assert_eq!(reply, Reply::Done);
    let mut entries: Vec<(EntryHeader, Vec<u8>)> = Vec::new();
    for frame in frames {
        match frame {
            Frame::Data(data) => entries.last_mut().unwrap().1.extend_from_slice(&data),
            Frame::Message(message) => entries.push((serde_json::from_slice(&message).unwrap(), Vec::new())),
        }
    }
    match entries.pop() {
        Some((EntryHeader::End { entries: count, skipped }, _)) => (entries, count, skipped),
        other => panic!("the export ended with {other:?}"),
    }
}

#[test]
fn f10_an_export_is_faithful_sorted_and_follows_nothing() {
    let (folder, root) = yard();
    fs::create_dir_all(root.join("b/empty")).unwrap();
    fs::write(root.join("b/run.sh"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(root.join("b/run.sh"), fs::Permissions::from_mode(0o6755)).unwrap();
    fs::write(root.join("large"), vec![7; 200_000]).unwrap();
    fs::hard_link(root.join("large"), root.join("hard")).unwrap();
    symlink(folder.path().join("outside/canary"), root.join("out")).unwrap();
    symlink("gone", root.join("dangling\n")).unwrap();
    fs::write(root.join(std::ffi::OsStr::from_bytes(b"\xff")), "bytes").unwrap();
    rustix::fs::mkfifoat(CWD, root.join("pipe"), rustix::fs::Mode::RWXU).unwrap();
    let (entries, count, skipped) = exported(&root, "");
    let mut shown = Vec::new();
    for (header, bytes) in &entries {
        let EntryHeader::Entry { path, kind, mode, size, target, .. } = header else { panic!("{header:?}") };
        assert_eq!(bytes.len() as u64, *size, "{path}");
        assert!(!bytes.starts_with(b"canary"), "{path}");
        shown.push((path.as_str(), *kind, *mode & 0o7111, target.is_some()));
    }
    use EntryKind::{Directory, File, Symlink};
    assert_eq!(
        shown,
        [
            ("%FF", File, 0, false),
            ("b", Directory, 0o111, false),
            ("b/empty", Directory, 0o111, false),
            ("b/run.sh", File, 0o111, false),
            ("dangling\n", Symlink, 0o111, true),
            ("hard", File, 0, false),
            ("inside", File, 0, false),
            ("large", File, 0, false),
            ("out", Symlink, 0o111, true),
        ]
    );
    assert_eq!(count, 9);
    assert_eq!(skipped, ["pipe: a socket, pipe or device"]);
    let (below, ..) = exported(&root, "b");
    assert!(matches!(&below[0].0, EntryHeader::Entry { path, .. } if path == "empty"));
}

/// R5: a file of holes is nothing on its disk and would be terabytes in an archive.
#[test]
fn more_than_the_disk_holds_is_left_out_of_an_export() {
    let (_folder, root) = yard();
    let disk = rustix::fs::statvfs(&root).unwrap();
    let sparse = fs::File::create(root.join("b-sparse")).unwrap();
    sparse.set_len(disk.f_blocks * disk.f_frsize + 1).unwrap();
    fs::write(root.join("c-after"), "kept").unwrap();
    let (entries, _, skipped) = exported(&root, "");
    let named = |name: &str| {
        entries.iter().any(|(header, _)| matches!(header, EntryHeader::Entry { path, .. } if path == name))
    };
    assert!(!named("b-sparse") && named("c-after"));
    assert_eq!(skipped, ["b-sparse: with its holes and copies the workspace is larger than its disk"]);
}

#[test]
fn a_name_that_reads_like_another_is_left_out_of_an_export() {
    let (_folder, root) = yard();
    fs::write(root.join("%FF"), "text").unwrap();
    fs::write(root.join(std::ffi::OsStr::from_bytes(b"\xff")), "bytes").unwrap();
    let (entries, _, skipped) = exported(&root, "");
    let paths = entries
        .iter()
        .filter(|(header, _)| matches!(header, EntryHeader::Entry { path, .. } if path == "%FF"));
    assert_eq!(paths.count(), 1);
    assert_eq!(skipped.len(), 1);
}

#[test]
fn a_worker_serves_one_operation_after_another() {
    let (_folder, root) = yard();
    let (mut input, mut output) = (Vec::new(), Vec::new());
    let mut nothing = std::io::empty();
    let mut wire = WorkerWire::new(&mut nothing, &mut input);
    wire.send_message(&Request::Ping).unwrap();
    wire.send_end().unwrap();
    wire.send_message(&"not a request").unwrap();
    wire.send_end().unwrap();
    wire.send_message(&Request::Stat { path: "inside".into() }).unwrap();
    wire.send_end().unwrap();
    serve(&root, &mut input.as_slice(), &mut output).unwrap();
    let (mut said, mut sink) = (output.as_slice(), std::io::sink());
    let mut wire = WorkerWire::new(&mut said, &mut sink);
    let mut replies = Vec::new();
    while let Some(frame) = wire.receive().unwrap() {
        if let Frame::Message(message) = frame {
            replies.push(serde_json::from_slice::<Reply>(&message).unwrap());
        }
    }
    assert!(matches!(&replies[..], [Reply::Failed(_), Reply::Failed(_), Reply::Stat(_)]), "{replies:?}");
}
