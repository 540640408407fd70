//! Jobs that start from a repository or from files, and the patch of what they changed.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::downloads::read_entry;
use crate::git_server::{GitServer, Manner, command};
use crate::yard::Yard;

async fn yard_for(server: &GitServer) -> Yard {
    let private = server.private();
    Yard::start_in(&std::env::temp_dir(), &[], &[("SANDYARD_EGRESS_PRIVATE", Path::new(&private))]).await
}

fn job(server: &GitServer, reference: Option<&str>, code: &str) -> Value {
    let mut git = json!({"url": server.url()});
    if let Some(reference) = reference {
        git["ref"] = reference.into();
    }
    json!({"kind": "shell", "code": code, "git": git, "egress": [server.rule()]})
}

fn entries(zip: &[u8]) -> BTreeSet<String> {
    let archive = zip::ZipArchive::new(std::io::Cursor::new(zip)).unwrap();
    archive.file_names().map(|name| name.unwrap().into_owned()).collect()
}

async fn patch(yard: &Yard, status: &Value) -> String {
    let zip = yard.download(status["job_id"].as_str().unwrap()).await;
    String::from_utf8(read_entry(&zip, "changes.patch")).unwrap()
}

#[tokio::test]
async fn a_branch_a_tag_a_commit_or_the_default_is_cloned() {
    for manner in [Manner::Smart, Manner::Dumb] {
        let server = GitServer::start(manner);
        let yard = yard_for(&server).await;
        let commit = server.ask(&["rev-parse", "main~1"]);
        for (reference, content) in
            [(None, "two"), (Some("topic"), "topic"), (Some("v1"), "one"), (Some(commit.as_str()), "one")]
        {
            let code = "cat src/a.txt; test -x run.sh; git status --porcelain; git log --oneline | tail -1 | cut -d' ' -f2; \
                        ls .git/hooks x 2>/dev/null; git remote get-url origin > /dev/null";
            let status = yard.run(&job(&server, reference, code)).await;
            assert_eq!(status["stdout"], format!("{content}\nfirst\n"), "{reference:?} {status}");
            let told = yard.events(status["job_id"].as_str().unwrap()).await;
            assert!(
                told.iter().any(|(_, kind, data)| kind == "egress" && data["decision"] == "allowed"),
                "{told:?}"
            );
            let zip = yard.download(status["job_id"].as_str().unwrap()).await;
            assert!(!entries(&zip).contains("changes.patch"), "nothing was changed");
        }
        yard.expect_no_leftovers().await;
    }
}

#[tokio::test]
async fn files_come_after_the_clone_and_the_patch_tells_what_the_job_did() {
    let server = GitServer::start(Manner::Smart);
    let yard = yard_for(&server).await;
    let code = "cat keep.txt; echo three > src/a.txt; rm run.sh; mkdir new; head -c 3000 /dev/urandom > new/bin; \
                echo mine > changes.patch; echo changed > ignored.txt; mkdir -p node_modules/x && echo no > node_modules/x/y; \
                git add --all && git -c user.name=a -c user.email=a@b commit --quiet --message=done";
    let mut request = job(&server, None, code);
    request["files"] = json!({"keep.txt": "from the request\n", "deep/ü.txt": "x"});
    let status = yard.run(&request).await;
    assert_eq!(status["stdout"], "from the request\n", "{status}");
    assert_eq!(status["state"], "succeeded", "{status}");
    let zip = yard.download(status["job_id"].as_str().unwrap()).await;
    let told = yard.events(status["job_id"].as_str().unwrap()).await;
    assert!(entries(&zip).contains("changes-2.patch"), "{:?} {told:?}", entries(&zip));
    assert_eq!(read_entry(&zip, "changes.patch"), b"mine\n", "what the job wrote stays");
    let patch = String::from_utf8(read_entry(&zip, "changes-2.patch")).unwrap();
    for part in
        ["-two\n+three", "deleted file mode 100755", "b/new/bin", "GIT binary patch", "-tracked\n+changed"]
    {
        assert!(patch.contains(part), "{part}: {patch}");
    }
    assert!(!patch.contains("from the request") && !patch.contains("node_modules"), "{patch}");
    apply(&server, &request, &zip, &patch);
    let start = yard.data().join("jobs").join(status["job_id"].as_str().unwrap()).join("start");
    let deadline = Instant::now() + Duration::from_secs(30);
    while start.exists() {
        assert!(Instant::now() < deadline, "the start is kept though nobody needs it");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The patch on the start gives what is in the download.
fn apply(server: &GitServer, request: &Value, zip: &[u8], patch: &str) {
    let folder = tempfile::tempdir().unwrap();
    let repository = server.ask(&["rev-parse", "--absolute-git-dir"]);
    assert!(
        command("git", folder.path())
            .args(["clone", "--quiet", &repository, "."])
            .status()
            .unwrap()
            .success()
    );
    for (path, text) in request["files"].as_object().unwrap() {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text.as_str().unwrap()).unwrap();
    }
    let file = folder.path().with_extension("patch");
    std::fs::write(&file, patch).unwrap();
    let applied = command("git", folder.path()).arg("apply").arg(&file).output().unwrap();
    std::fs::remove_file(&file).unwrap();
    assert!(applied.status.success(), "{}", String::from_utf8_lossy(&applied.stderr));
    for path in ["src/a.txt", "new/bin", "keep.txt", "deep/ü.txt", "ignored.txt"] {
        assert_eq!(std::fs::read(folder.path().join(path)).unwrap(), read_entry(zip, path), "{path}");
    }
    assert!(!folder.path().join("run.sh").exists());
}

#[tokio::test]
async fn a_clone_that_fails_fails_the_job_and_says_why() {
    let server = GitServer::start(Manner::Smart);
    let yard = yard_for(&server).await;
    let status = yard.run(&job(&server, Some("no-such-branch"), "true")).await;
    assert_eq!(status["error"]["code"], "git_failed", "{status}");
    assert!(status["error"]["message"].as_str().unwrap().contains("no-such-branch"), "{status}");
    let missing = "f".repeat(40);
    let status = yard.run(&job(&server, Some(&missing), "true")).await;
    assert_eq!(status["error"]["code"], "git_failed", "{status}");
    let refused = json!({"kind": "session", "git": {"url": "https://repository.example/x.git"}, "egress": ["other.example"]});
    let status = yard.run(&refused).await;
    assert_eq!(
        (&status["state"], &status["error"]["code"]),
        (&json!("failed"), &json!("git_failed")),
        "{status}"
    );
    let hint = status["error"]["hint"].as_str().unwrap();
    assert!(hint.contains("repository.example:443") && hint.contains("--egress"), "{status}");
    yard.expect_no_leftovers().await;
}

#[tokio::test]
async fn a_clone_that_hangs_can_be_cancelled() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let target = format!("localhost:{}", silent.local_addr().unwrap().port());
    let private = format!("{target}=127.0.0.1,{target}=::1");
    let environment = [("SANDYARD_EGRESS_PRIVATE", Path::new(&private))];
    let yard = Yard::start_in(&std::env::temp_dir(), &[], &environment).await;
    let git = json!({"url": format!("http://{target}/x.git")});
    let id = yard.schedule(&json!({"kind": "session", "git": git, "egress": [target]})).await;
    let cloning =
        |status: &Value| status["reason"].as_str().is_some_and(|reason| reason.starts_with("cloning"));
    yard.wait_for(&id, cloning).await;
    let started = Instant::now();
    yard.post_json(&format!("/jobs/{id}/cancel"), &json!({})).await;
    let status = yard.wait_end(&id).await;
    assert_eq!(status["state"], "cancelled", "{status}");
    assert!(started.elapsed() < Duration::from_secs(20));
    yard.expect_no_leftovers().await;
}

#[tokio::test]
async fn a_server_that_dies_while_it_clones_leaves_the_job_whole() {
    let server = GitServer::start(Manner::Smart);
    let mut yard = yard_for(&server).await;
    let id = yard.schedule(&job(&server, None, "cat src/a.txt; ls -A")).await;
    let deadline = Instant::now() + Duration::from_secs(30);
    while yard.status(&id).await["state"] == "queued" {
        assert!(Instant::now() < deadline);
    }
    yard.crash_and_serve().await;
    let status = yard.wait_end(&id).await;
    assert_eq!(status["state"], "succeeded", "{status}");
    assert!(status["stdout"].as_str().unwrap().starts_with("two\n"), "{status}");
}

#[tokio::test]
async fn a_hostile_repository_neither_fools_nor_holds_up_the_patch() {
    let yard = Yard::start().await;
    let code = "git init --quiet . && git config core.fsmonitor 'touch ran; sleep 1000' && \
                git config diff.x.command 'touch ran; sleep 1000' && git config filter.x.clean 'touch ran; sleep 1000' && \
                echo '* diff=x filter=x' > .gitattributes && mkdir -p .git/hooks nested && \
                printf '#!/bin/sh\\ntouch ran\\n' > .git/hooks/post-index-change && chmod +x .git/hooks/* && \
                (cd nested && git init --quiet) && ln -s /etc/passwd link && \
                printf '[core]\\n\\tfsmonitor = touch ran; sleep 1000\\n' > ~/.gitconfig && echo changed > a.txt";
    let started = Instant::now();
    let status = yard
        .run(&json!({"kind": "shell", "code": code, "files": {"a.txt": "start\n", "b \"c\".txt": "b\n"}}))
        .await;
    assert_eq!(status["state"], "succeeded", "{status}");
    assert!(started.elapsed() < Duration::from_secs(30), "it was held up");
    let zip = yard.download(status["job_id"].as_str().unwrap()).await;
    assert!(!entries(&zip).contains("ran"), "a program of the job's was run for us");
    let patch = patch(&yard, &status).await;
    assert!(patch.contains("-start\n+changed") && patch.contains("b/.gitattributes"), "{patch}");
    assert!(!patch.contains("b \\\"c\\\"") && !patch.contains("root:"), "{patch}");
    // A pipe in the place of a file blocks whoever opens it; the job ends all the same, and says what is missing.
    let status = yard
        .run(&json!({"kind": "shell", "code": "rm a.txt; mkfifo a.txt; head -c 40000000 /dev/urandom > big", "files": {"a.txt": "x"}}))
        .await;
    assert_eq!(status["state"], "succeeded", "{status}");
    let zip = yard.download(status["job_id"].as_str().unwrap()).await;
    assert!(!entries(&zip).contains("changes.patch"));
    let told = yard.events(status["job_id"].as_str().unwrap()).await;
    let noted =
        told.iter().any(|(_, kind, data)| kind == "note" && data.to_string().contains("changes.patch"));
    assert!(noted, "{told:?}");
}

#[tokio::test]
async fn a_machine_that_dies_has_its_patch_made_by_the_next_one() {
    let yard = Yard::start().await;
    let id = yard.schedule(&json!({"kind": "shell", "code": "echo changed > a.txt; sync; echo ready; sleep 100", "files": {"a.txt": "start\n"}})).await;
    yard.wait_for(&id, |status| status["stdout"] == "ready\n").await;
    for pid in yard.sandbox_pids() {
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
    let status = yard.wait_end(&id).await;
    assert_eq!(status["error"]["code"], "sandbox_died", "{status}");
    assert!(patch(&yard, &status).await.contains("-start\n+changed"));
}
