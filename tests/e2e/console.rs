//! The console in a real browser: everything a person does there, what a hostile job shows, and a server that dies meanwhile.

use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use serde_json::json;
use tokio::process::Command;

use crate::git_server::{GitServer, Manner};
use crate::origins::{browse, finish as finish_command, full_yard, full_yard_with, modules, root};
use crate::recording::{call, finish, replay, shell};
use crate::yard::{PATIENCE, Yard};

/// A yard and a browser; `None`, with the reason told, if this machine has none.
async fn yard(flags: &[&str]) -> Option<Yard> {
    if !can_browse().await {
        return None;
    }
    Some(Yard::start_with(flags).await)
}

/// False, with the reason told, if this machine has no browser.
async fn can_browse() -> bool {
    let can = modules("browser").await.is_some() && Path::new("/usr/bin/chromium").exists();
    if !can {
        eprintln!("skipped: needs chromium and the browser modules (scripts/setup.sh test)");
    }
    can
}

#[tokio::test]
async fn the_console_speaks_the_documented_api() {
    if modules("web").await.is_none() {
        eprintln!("skipped: needs the web modules (scripts/setup.sh test)");
        return;
    }
    finish_command(Command::new(root().join("scripts/check-web.sh"))).await;
}

#[tokio::test]
async fn a_person_starts_watches_repeats_and_removes_jobs() {
    let Some(yard) = yard(&[]).await else { return };
    browse(&yard, "console.mjs", &["jobs"]).await;
    yard.expect_no_leftovers().await;
}

#[tokio::test]
async fn a_person_works_in_a_session() {
    let Some(yard) = yard(&[]).await else { return };
    browse(&yard, "console.mjs", &["session"]).await;
}

#[tokio::test]
async fn every_kind_is_started_from_the_box() {
    let Some(yard) = full_yard(&["browser"]).await else { return };
    browse(&yard, "console.mjs", &["kinds"]).await;
}

#[tokio::test]
async fn a_person_replays_a_desktop_and_a_terminal() {
    let Some(yard) = full_yard(&["browser"]).await else { return };
    browse(&yard, "console.mjs", &["replay"]).await;
}

#[tokio::test]
async fn a_long_replay_reads_back() {
    let Some(yard) = yard(&[]).await else { return };
    browse(&yard, "console.mjs", &["long-replay"]).await;
}

#[tokio::test]
async fn the_box_forgets_nothing_of_a_request() {
    if !can_browse().await {
        return;
    }
    let server = GitServer::start(Manner::Smart);
    let private = server.private();
    let environment = [("SANDYARD_EGRESS_PRIVATE", Path::new(&private))];
    let yard = Yard::start_in(&std::env::temp_dir(), &[], &environment).await;
    browse(&yard, "console.mjs", &["boxes", &server.url(), &server.rule()]).await;
}

#[tokio::test]
async fn what_the_agent_saw_is_a_thumbnail() {
    let paint =
        json!({ "actions": [{ "type": "xdotool", "script": "exec --sync xsetroot -solid '#336699'" }] });
    let (_recording, spec) = replay(&[vec![call("gui", &paint)], vec![finish("It is blue.")]]);
    let Some(yard) = full_yard_with(&["browser"], &["--model", &spec]).await else { return };
    browse(&yard, "console.mjs", &["thumbnails"]).await;
}

#[tokio::test]
async fn a_task_asks_is_answered_and_shows_its_changes() {
    // Until the browser has said something and makes the file.
    let wait = "echo begun; for turn in $(seq 1000); do test -e go && break; sleep 0.1; done";
    let ask = call("ask", &json!({ "question": "Which **colour**?" }));
    let write = call("files", &json!({ "action": "write", "path": "colour.txt", "content": "green\n" }));
    let (_recording, spec) =
        replay(&[vec![shell(wait)], vec![ask], vec![write], vec![finish("It is green.")]]);
    let Some(yard) = yard(&["--model", &spec]).await else { return };
    browse(&yard, "console.mjs", &["task"]).await;
}

#[tokio::test]
async fn w18_hostile_output_shows_as_text() {
    let Some(yard) = yard(&[]).await else { return };
    browse(&yard, "console.mjs", &["hostile"]).await;
}

#[tokio::test]
async fn every_page_of_the_yard_is_accessible_in_light_dark_and_on_a_phone() {
    let Some(yard) = yard(&[]).await else { return };
    browse(&yard, "console.mjs", &["pages", "yard"]).await;
}

#[tokio::test]
async fn every_room_of_a_job_is_accessible_in_light_dark_and_on_a_phone() {
    let Some(yard) = yard(&[]).await else { return };
    browse(&yard, "console.mjs", &["pages", "job"]).await;
}

#[tokio::test]
async fn a_person_signs_in_with_a_key() {
    let Some(mut yard) = yard(&[]).await else { return };
    yard.stop().await;
    let file = yard.data().join("api.key");
    std::fs::write(&file, "sy_key\n").unwrap();
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    yard.serve().await;
    browse(&yard, "console.mjs", &["sign-in", "sy_key"]).await;
}

#[tokio::test]
async fn a_restart_in_mid_stream_loses_no_event() {
    let Some(mut yard) = yard(&[]).await else { return };
    let code = "for i in $(seq 1 60); do echo line-$i-end; sleep 0.1; done";
    let id = yard.schedule(&json!({"kind": "shell", "code": code})).await;
    // A restarted server has another port. The script relays a port of its own to the address in this file.
    let address = yard.data().join("address");
    std::fs::write(&address, &yard.url).unwrap();
    let mut browser = Command::new("node")
        .arg(root().join("tests/browser/console.mjs"))
        .arg(&yard.url)
        .args(["restart", &id])
        .arg(&address)
        .env("SANDYARD_BROWSER_MODULES", modules("browser").await.unwrap())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let watching = yard.data().join("address.watching");
    let began = Instant::now();
    while !watching.exists() {
        assert!(
            began.elapsed() < PATIENCE && browser.try_wait().unwrap().is_none(),
            "the browser does not watch"
        );
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    yard.crash_and_serve().await;
    std::fs::write(&address, &yard.url).unwrap();
    let output = tokio::time::timeout(PATIENCE, browser.wait_with_output()).await.expect("no end").unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
