//! Failures, in words that a person can use, with an exit code that a script can use.

use crate::served::{Served, command, said};

#[tokio::test]
async fn without_a_server_the_hint_says_how_to_get_one() {
    let home = tempfile::tempdir().unwrap();
    let said = said(command("http://127.0.0.1:9", home.path(), &["ps"])).await.expect(3);
    let expected = "error: no server answers at http://127.0.0.1:9\n  caused by: Connection refused (os error 111)\n  \
                    hint: start one with `sandyard up`, or set SANDYARD_URL to where it is\n";
    assert_eq!((said.err.as_str(), said.out.as_str()), (expected, ""));
}

/// A mistyped address must not lead to the yard of this machine, where it would run, list or prune other jobs.
#[tokio::test]
async fn a_named_address_is_never_replaced_by_the_yard_of_this_machine() {
    let home = tempfile::tempdir().unwrap();
    for arguments in [&["run", "--kind", "shell", "true"][..], &["prune", "--yes"], &["status", "abcd"]] {
        let said = said(command("http://127.0.0.1:9", home.path(), arguments)).await.expect(3);
        assert!(said.err.starts_with("error: no server answers at http://127.0.0.1:9\n"), "{}", said.err);
        assert!(!home.path().join("data").exists(), "{arguments:?} opened the yard of this machine");
    }
}

#[tokio::test]
async fn what_the_server_refuses_is_passed_on() {
    let yard = Served::start().await;
    let task = yard.run(&["run", "build", "me", "an", "app"]).await.expect(4);
    assert!(task.err.starts_with("error: ") && task.err.contains("\n  hint: "), "{}", task.err);
    let unknown = yard.run(&["status", "aaaaaaaaaaaaaaaaaaaaaaaaaa"]).await.expect(4);
    assert!(unknown.err.starts_with("error: "), "{}", unknown.err);
    yard.run(&["status", "nobody"]).await.expect(4);
}

#[tokio::test]
async fn a_wrong_configuration_names_key_layer_and_the_nearest() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("c.toml"), "lisen = '127.0.0.1:1'\n").unwrap();
    let unknown =
        said(command("http://127.0.0.1:9", home.path(), &["up", "--config", "c.toml"])).await.expect(2);
    assert_eq!(unknown.err, "error: unknown key `lisen` in `c.toml`\n  hint: did you mean `listen`?\n");
    let bad =
        said(command("http://127.0.0.1:9", home.path(), &["up", "--listen", "nowhere"])).await.expect(2);
    assert!(
        bad.err.starts_with("error: `nowhere` is no value for `listen` (from: command line)\n"),
        "{}",
        bad.err
    );
    let driver = said(command(
        "http://127.0.0.1:9",
        home.path(),
        &["up", "--driver", "nativ", "--listen", "127.0.0.1:0"],
    ));
    let driver = driver.await.expect(1);
    assert!(driver.err.contains("there is no driver `nativ`"), "{}", driver.err);
}

#[tokio::test]
async fn every_setting_tells_where_it_came_from() {
    let home = tempfile::tempdir().unwrap();
    let mut up = command("http://127.0.0.1:9", home.path(), &["up", "--show-config", "--queue", "7"]);
    up.env("SANDYARD_CONCURRENCY", "3");
    let shown = said(up).await.expect(0).out;
    let row = |key: &str| {
        shown.lines().find(|line| line.starts_with(key)).unwrap().split_whitespace().collect::<Vec<_>>()
    };
    assert_eq!(row("queue"), ["queue", "7", "command", "line"]);
    assert_eq!(row("concurrency"), ["concurrency", "3", "SANDYARD_CONCURRENCY"]);
    assert_eq!(row("log "), ["log", "info", "default"]);
}

#[tokio::test]
async fn completions_and_manual_are_made() {
    let home = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish"] {
        let script =
            said(command("http://127.0.0.1:9", home.path(), &["completions", shell])).await.expect(0);
        assert!(script.out.contains("sandyard") && !script.out.contains("native-launcher"), "{shell}");
    }
    said(command("http://127.0.0.1:9", home.path(), &["man", "man1"])).await.expect(0);
    assert!(home.path().join("man1/sandyard-run.1").is_file());
}
