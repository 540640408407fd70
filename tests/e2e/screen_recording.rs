//! The recording of a desktop: changed pictures only, in order with the other events, over a restart of the server, gone with the
//! job; and the desktops that a recording must leave alone.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::desktop::{decode, gui};
use crate::origins::full_yard;
use crate::yard::{PATIENCE, Yard};

/// The background of the screen, away from windows.
const CORNER: usize = 3 * (1280 * 790 + 1270);

async fn paint(yard: &Yard, id: &str, colour: &str) {
    yard.shell(id, &format!("xsetroot -solid '{colour}'")).await;
}

/// The colours of the recorded moments in order.
async fn colours(yard: &Yard, id: &str) -> Vec<[u8; 3]> {
    let page = yard.get_json(&format!("/jobs/{id}/frames")).await;
    let mut colours = Vec::new();
    for frame in page["frames"].as_array().unwrap() {
        let answer = yard.get(&format!("/jobs/{id}/frames/{}", frame["picture"])).await;
        assert_eq!(answer.headers()["content-type"], "image/png");
        let (width, height, pixels) = decode(&answer.bytes().await.unwrap());
        assert_eq!((json!(width), json!(height)), (frame["width"].clone(), frame["height"].clone()));
        colours.push(pixels[CORNER..CORNER + 3].try_into().unwrap());
    }
    colours
}

async fn until_recorded(yard: &Yard, id: &str, colour: [u8; 3]) {
    let deadline = Instant::now() + PATIENCE;
    while colours(yard, id).await.last() != Some(&colour) {
        assert!(Instant::now() < deadline, "never recorded: {colour:?}, but {:?}", colours(yard, id).await);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

#[tokio::test]
async fn changes_of_a_desktop_are_recorded_over_a_restart_and_removed_with_the_job() {
    let Some(mut yard) = full_yard(&[]).await else { return };
    let id = yard.session().await;
    gui(&yard, &id, json!([{"type": "windows"}])).await;
    paint(&yard, &id, "#336699").await;
    until_recorded(&yard, &id, [0x33, 0x66, 0x99]).await;
    paint(&yard, &id, "#993366").await;
    until_recorded(&yard, &id, [0x99, 0x33, 0x66]).await;
    let before = yard.get_json(&format!("/jobs/{id}/frames")).await;

    // A look that comes again is a moment without a picture of its own.
    paint(&yard, &id, "#336699").await;
    until_recorded(&yard, &id, [0x33, 0x66, 0x99]).await;
    let again = yard.get_json(&format!("/jobs/{id}/frames")).await;
    let frames = again["frames"].as_array().unwrap();
    let last = number(&frames.last().unwrap()["picture"]);
    assert!(last < number(&frames[frames.len() - 2]["picture"]), "{again}");
    assert!(frames.len() > before["frames"].as_array().unwrap().len());
    let events: Vec<u64> = frames.iter().map(|frame| number(&frame["event"])).collect();
    assert!(events.is_sorted(), "{events:?}");

    // Another server goes on where the row stands.
    yard.crash_and_serve().await;
    paint(&yard, &id, "#669933").await;
    until_recorded(&yard, &id, [0x66, 0x99, 0x33]).await;
    let whole = colours(&yard, &id).await;
    assert!(whole.len() > frames.len() && whole.contains(&[0x99, 0x33, 0x66]), "{whole:?}");

    let status = yard.status(&id).await;
    assert_eq!(number(&status["recording"]["moments"]), whole.len() as u64);
    let folder = yard.data().join("jobs").join(&id).join("frames");
    let bytes: u64 =
        std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap().metadata().unwrap().len()).sum();
    assert_eq!(number(&status["recording"]["bytes"]), bytes, "what retention counts is what is there");

    let at = |event: usize| frames[event]["at"].as_str().unwrap().to_owned();
    assert!(at(0) < at(frames.len() - 1));
    yard.delete(&id).await;
    assert!(!folder.exists());
}

#[tokio::test]
async fn a_recording_starts_no_desktop_and_may_be_refused() {
    let Some(yard) = full_yard(&[]).await else { return };
    let untouched = yard.session().await;
    let body = json!({"kind": "session", "limits": {"recording_mib": 0}});
    let unrecorded = yard.schedule(&body).await;
    yard.wait_for(&unrecorded, |status| status["sandbox"] == "live").await;
    paint(&yard, &unrecorded, "#336699").await;
    // A third one shows that recordings work here, and takes longer than a look at the others would have.
    let recorded = yard.session().await;
    paint(&yard, &recorded, "#336699").await;
    until_recorded(&yard, &recorded, [0x33, 0x66, 0x99]).await;
    let server = yard.shell(&untouched, "cat /proc/[0-9]*/comm | grep -c Xvnc").await;
    assert_eq!(server["stdout"], "0\n", "{server}");
    for id in [&untouched, &unrecorded] {
        assert_eq!(yard.get_json(&format!("/jobs/{id}/frames")).await["frames"], json!([]));
        assert_eq!(yard.status(id).await["recording"], Value::Null);
    }
}
