//! Twenty desktops at once, each watched: part of `make test-all`.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::json;

use crate::desktop::{gui, until, window};
use crate::desktop_view::Viewer;
use crate::origins::full_yard;
use crate::yard::Yard;

const DESKTOPS: usize = 20;

#[tokio::test]
async fn twenty_desktops_are_watched_at_once_and_give_their_memory_back() {
    if std::env::var_os("SANDYARD_SOAK").is_none() {
        eprintln!("skipped: a soak of minutes, run by `make test-all`");
        return;
    }
    let Some(yard) = full_yard(&[]).await else { return };
    let session =
        json!({"kind": "session", "limits": {"memory_mib": 512}, "env": {"SANDYARD_DESKTOP_IDLE_S": "5"}});
    let ids = join_all((0..DESKTOPS).map(async |_| yard.schedule(&session).await)).await;
    join_all(ids.iter().map(|id| yard.wait_for(id, |status| status["sandbox"] == "live"))).await;
    let began = Instant::now();
    let seen = join_all(ids.iter().map(|id| watch(&yard, id))).await;
    eprintln!("{DESKTOPS} desktops watched in {:?}; bytes of pixels each: {seen:?}", began.elapsed());
    for id in &ids {
        yard.shell(id, "pkill xterm").await;
    }
    // Closed and idle: nothing of the desktops is left in any of them.
    for id in &ids {
        until(&yard, id, "! pgrep Xvnc").await;
    }
    for id in &ids {
        yard.delete(id).await;
    }
    yard.expect_no_leftovers().await;
}

/// A viewer that sees ten pictures of a terminal that prints.
async fn watch(yard: &Yard, id: &str) -> usize {
    yard.shell(id, "xterm -T xterm -e 'while sleep 0.2; do date +%N; done' >/dev/null 2>&1 & disown").await;
    window(yard, id, "xterm").await;
    let mut viewer = Viewer::connect(yard, id, "").await.unwrap();
    let mut bytes = 0;
    for _ in 0..10 {
        bytes += viewer.look().await;
        gui(yard, id, json!([{"type": "move", "x": 10, "y": 10}])).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    bytes
}
