//! What `run` takes: scripts, folders, standard input, arguments; and how it ends.

use std::process::Stdio;

use tokio::io::AsyncWriteExt;

use crate::person::Person;
use crate::served::{PATIENCE, Served};

fn write(yard: &Served, path: &str, text: &str) {
    let path = yard.home.path().join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

#[tokio::test]
async fn a_path_is_a_script_with_arguments_and_its_code_is_passed_on() {
    let yard = Served::start().await;
    write(&yard, "job.sh", "echo \"$1|$2\"; exit 17\n");
    let said = yard.run(&["run", "./job.sh", "--", "a b", "$HOME"]).await.expect(17);
    assert_eq!(said.out, "a b|$HOME\n");
    yard.run(&["run", "-k", "shell", "exit 126"]).await.expect(1);
    yard.run(&["run", "-k", "shell", "kill -9 $$"]).await.expect(1);
    write(&yard, "README", "words\n");
    let unclear = yard.run(&["run", "README"]).await.expect(2);
    assert!(unclear.err.contains("does not tell what it is"), "{}", unclear.err);
}

#[tokio::test]
async fn standard_input_is_code_with_and_without_a_dash() {
    let yard = Served::start().await;
    for arguments in [&["run", "-k", "shell", "-"][..], &["run"], &["run", "--file", "-"]] {
        let mut command = yard.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(b"echo piped").await.unwrap();
        let output = tokio::time::timeout(PATIENCE, child.wait_with_output()).await.unwrap().unwrap();
        assert_eq!(output.stdout, b"piped\n", "{arguments:?}: {output:?}");
    }
    let nothing = yard.run(&["run"]).await.expect(2);
    assert!(nothing.err.starts_with("error: there is nothing to run\n"), "{}", nothing.err);
}

#[tokio::test]
async fn files_and_folders_are_in_the_workspace_without_what_gitignore_names() {
    let yard = Served::start().await;
    for (path, text) in [("p/.gitignore", "*.log\n"), ("p/src/a", "A"), ("p/x.log", "x"), ("data.csv", "1,2")]
    {
        write(&yard, path, text);
    }
    let code = "find . -type f | sort; cat in/d.csv";
    let arguments =
        ["run", "-k", "shell", "--dir", "p", "--file", "data.csv:in/d.csv", "--output", "out", code];
    let said = yard.run(&arguments).await.expect(0);
    assert_eq!(said.out, "./.gitignore\n./in/d.csv\n./src/a\n1,2");
    assert!(said.err.contains("· sending 3 files, 10 bytes\n"), "{}", said.err);
    assert_eq!(std::fs::read_to_string(yard.home.path().join("out/in/d.csv")).unwrap(), "1,2");
}

#[tokio::test]
async fn a_job_that_is_to_be_removed_leaves_its_result_alone() {
    let yard = Served::start().await;
    yard.run(&["run", "--rm", "-k", "shell", "echo x > f", "--output", "out"]).await.expect(0);
    assert_eq!(std::fs::read_to_string(yard.home.path().join("out/f")).unwrap(), "x\n");
    assert_eq!(yard.run(&["ps", "-q"]).await.out, "");
}

#[tokio::test]
async fn a_session_says_how_to_use_it_or_opens_a_terminal() {
    let yard = Served::start().await;
    let said = yard.run(&["run", "-k", "session"]).await.expect(0);
    let id = said.out.trim().to_owned();
    assert_eq!(id.len(), 26, "{said:?}");
    assert!(said.err.contains(&format!("sandyard shell {}", &id[..8])), "{}", said.err);
    assert_eq!(yard.run(&["shell", &id, "echo", "hi"]).await.expect(0).out, "hi\n");

    let mut person = Person::at(yard.command(&["run", "-k", "session", "--shell", "--rm"]));
    person.types("echo ma''rk; exit 5\n");
    person.sees("mark").await;
    assert_eq!(person.leaves().await, 5);
    assert_eq!(yard.run(&["ps", "-q"]).await.out, format!("{id}\n"));
}

#[tokio::test]
async fn jobs_are_waited_for_extended_measured_and_attached_to() {
    let yard = Served::start().await;
    let id = yard.session().await;
    let said = yard.run(&["extend", &id[..6], "2h"]).await.expect(0);
    assert!(said.err.contains("may run for 1 h 59 min") || said.err.contains("2 h 0 min"), "{}", said.err);
    let stats = yard.run(&["stats", &id, "--once", "--json"]).await.expect(0).json();
    assert_eq!(stats["sandbox"], "live");
    let inspected = yard.run(&["inspect", &id]).await.expect(0).json();
    assert!(inspected["limits"]["timeout_s"].as_u64() >= Some(7200), "{inspected}");
    yard.run(&["code", &id, "-l", "bash", "echo hi"]).await.expect(0);
    assert!(yard.run(&["kernels", &id]).await.expect(0).out.contains("bash"));
    yard.run(&["cancel", &id]).await.expect(0);
    yard.run(&["wait", &id]).await.expect(6);

    yard.run(&["run", "-k", "shell", "--name", "told", "echo story; exit 9"]).await.expect(9);
    let attached = yard.run(&["attach", "told"]).await.expect(9);
    assert_eq!(attached.out, "story\n");
    assert!(attached.err.contains("· failed after "), "{}", attached.err);
    assert_eq!(yard.run(&["attach", "told", "--since", "now"]).await.expect(9).out, "");
    let events = yard.run(&["events", "told", "--type", "stdout"]).await.expect(0).out;
    let event: serde_json::Value = serde_json::from_str(&events).unwrap();
    assert_eq!((event["type"].as_str(), event["text"].as_str()), (Some("stdout"), Some("story\n")));
}

#[tokio::test]
async fn several_files_standard_streams_and_links_are_copied() {
    let yard = Served::start().await;
    let id = yard.session().await;
    for (path, text) in [("a", "A"), ("b", "B"), ("d/f", "F")] {
        write(&yard, path, text);
    }
    std::os::unix::fs::symlink("f", yard.home.path().join("d/l")).unwrap();
    yard.run(&["cp", "a", "b", &format!("{id}:in")]).await.expect(0);
    yard.run(&["cp", "d", &format!("{id}:d")]).await.expect(0);
    let found = yard.run(&["shell", &id, "cat in/a in/b d/l; readlink d/l"]).await.expect(0);
    assert_eq!(found.out, "ABFf\n");
    assert_eq!(yard.run(&["cp", &format!("{id}:in/a"), "-"]).await.expect(0).out, "A");
    let mut command = yard.command(&["cp", "-", &format!("{id}:s")]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"stream").await.unwrap();
    assert!(tokio::time::timeout(PATIENCE, child.wait()).await.unwrap().unwrap().success());
    yard.run(&["cp", &format!("{id}:s"), &format!("{id}:d/f"), "back"]).await.expect(0);
    assert_eq!(std::fs::read_to_string(yard.home.path().join("back/s")).unwrap(), "stream");
    assert_eq!(std::fs::read_to_string(yard.home.path().join("back/f")).unwrap(), "F");
}

#[tokio::test]
async fn keys_are_made_listed_and_revoked_in_the_data_folder() {
    let yard = Served::start().await;
    std::fs::create_dir(yard.home.path().join("data")).unwrap();
    let first = yard.run(&["keys", "create"]).await.expect(0).out;
    let second = yard.run(&["keys", "create"]).await.expect(0).out;
    assert!(first.starts_with("sy_") && first != second);
    let listed = yard.run(&["keys", "list", "--json"]).await.expect(0).json();
    let ids = listed["keys"].as_array().unwrap().clone();
    assert_eq!(ids.len(), 2);
    yard.run(&["keys", "revoke", ids[0].as_str().unwrap()]).await.expect(0);
    let last = yard.run(&["keys", "revoke", ids[1].as_str().unwrap()]).await.expect(2);
    assert!(last.err.contains("the only key"), "{}", last.err);
    yard.run(&["keys", "revoke", "000000000000"]).await.expect(2);
}
