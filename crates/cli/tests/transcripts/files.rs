//! Files to and from a live sandbox, and commands in it.

use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use tokio::io::AsyncWriteExt;

use crate::served::{PATIENCE, Served};

#[tokio::test]
async fn a_command_in_a_sandbox_gives_its_output_and_its_code() {
    let yard = Served::start().await;
    let id = yard.session().await;
    let said = yard.run(&["shell", &id, "--", "echo out; echo err >&2; exit 7"]).await.expect(7);
    assert_eq!((said.out.as_str(), said.err.as_str()), ("out\n", "err\n"));
    let words = yard.run(&["shell", &id, "--", "printf", "%s|", "a b", "$HOME"]).await.expect(0);
    assert_eq!(words.out, "a b|$HOME|");
}

#[tokio::test]
async fn a_command_reads_bytes_that_are_no_text_and_text_of_any_length() {
    let yard = Served::start().await;
    let id = yard.session().await;
    let long = "word\n".repeat(500_000);
    for (input, code) in [
        (&b"text"[..], "cat; echo -n \"|$(ls -A | wc -l)\"; exit 4"),
        (b"\x1f\x8b\x00\xff", "od -An -tx1 | tr -d ' \\n'; echo -n \"|$(ls -A | wc -l)\"; exit 4"),
        (long.as_bytes(), "wc -c | tr -d '\\n'; echo -n \"|$(ls -A | wc -l)\"; exit 4"),
    ] {
        let mut command = yard.command(&["shell", "-i", &id, code]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input).await.unwrap();
        let output = tokio::time::timeout(PATIENCE, child.wait_with_output()).await.unwrap().unwrap();
        let out = String::from_utf8(output.stdout).unwrap();
        let (told, left) = out.split_once('|').unwrap();
        let expected = match input.len() {
            4 if input == b"text" => "text",
            4 => "1f8b00ff",
            _ => "2500000",
        };
        assert_eq!((told, left, output.status.code()), (expected, "0", Some(4)));
    }
}

#[tokio::test]
async fn input_of_a_command_that_does_not_begin_leaves_nothing() {
    let yard = Served::start().await;
    let id = yard.session().await;
    // A little shorter than any command may be, so that the line before it makes it too long.
    let mut command = yard.command(&["shell", "-i", &id, &"x".repeat(128 * 1024 - 2)]);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"\xff").await.unwrap();
    let status = tokio::time::timeout(PATIENCE, child.wait()).await.unwrap().unwrap();
    assert_eq!(status.code(), Some(4));
    assert_eq!(yard.run(&["shell", &id, "ls -A | wc -l"]).await.expect(0).out.trim(), "0");
}

#[tokio::test]
async fn files_and_folders_go_in_and_come_back() {
    let yard = Served::start().await;
    let id = yard.session().await;
    let source = yard.home.path().join("source");
    std::fs::create_dir_all(source.join("deep/er")).unwrap();
    std::fs::write(source.join("deep/er/süß.txt"), "sugar").unwrap();
    std::fs::write(source.join("run.sh"), "#!/bin/sh\n").unwrap();
    std::fs::set_permissions(source.join("run.sh"), std::fs::Permissions::from_mode(0o755)).unwrap();

    yard.run(&["cp", "source", &format!("{id}:in")]).await.expect(0);
    let found = yard.run(&["shell", &id, "--", "cat in/deep/er/süß.txt; test -x in/run.sh"]).await.expect(0);
    assert_eq!(found.out, "sugar");

    yard.run(&["cp", &format!("{id}:in"), "back"]).await.expect(0);
    assert_eq!(std::fs::read_to_string(yard.home.path().join("back/deep/er/süß.txt")).unwrap(), "sugar");
    let mode = std::fs::metadata(yard.home.path().join("back/run.sh")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o755);

    yard.run(&["cp", &format!("{id}:/workspace/in/run.sh"), "."]).await.expect(0);
    assert_eq!(std::fs::read_to_string(yard.home.path().join("run.sh")).unwrap(), "#!/bin/sh\n");
    yard.run(&["cp", "run.sh", &format!("{id}:in/deep")]).await.expect(0);
    yard.run(&["shell", &id, "--", "test -f in/deep/run.sh"]).await.expect(0);
}

/// The server accepts that many bytes only for a file whose length it knows.
#[tokio::test]
async fn a_large_file_goes_in() {
    let yard = Served::start().await;
    let id = yard.session().await;
    let length = 17 * 1024 * 1024;
    std::fs::write(yard.home.path().join("large"), vec![7; length]).unwrap();
    yard.run(&["cp", "large", &format!("{id}:large")]).await.expect(0);
    let found = yard.run(&["shell", &id, "--", "stat -c %s large"]).await.expect(0);
    assert_eq!(found.out, format!("{length}\n"));
}

#[tokio::test]
async fn what_is_not_there_is_said() {
    let yard = Served::start().await;
    let id = yard.session().await;
    let absent = yard.run(&["cp", &format!("{id}:absent"), "."]).await.expect(2);
    assert!(absent.err.starts_with("error: there is no `absent` in the sandbox\n"), "{}", absent.err);
    yard.run(&["cp", "a", "b"]).await.expect(2);
}
