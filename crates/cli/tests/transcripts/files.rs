//! Files to and from a live sandbox, and commands in it.

use std::os::unix::fs::PermissionsExt;

use crate::served::Served;

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
