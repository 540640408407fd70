//! The desktop of a real sandbox: typed on, clicked, dragged and seen; programs that open on it; jobs of kind `gui`; its death,
//! its rest, and keeper's death beside it.

use std::time::{Duration, Instant};

use base64::Engine as _;
use serde_json::{Value, json};

use crate::origins::full_yard;
use crate::yard::{PATIENCE, Yard};

pub(crate) async fn gui(yard: &Yard, id: &str, actions: Value) -> Vec<Value> {
    let answer = yard.post_json(&format!("/jobs/{id}/gui"), &json!({ "actions": actions })).await;
    assert_eq!(answer["completed"], true, "{}", answer.to_string().chars().take(2000).collect::<String>());
    answer["results"].as_array().unwrap().clone()
}

/// Waits for a window by a part of its title.
pub(crate) async fn window(yard: &Yard, id: &str, title: &str) -> Value {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let results = gui(yard, id, json!([{"type": "windows"}])).await;
        let windows = results[0]["windows"].as_array().unwrap().clone();
        let found = windows.iter().find(|window| window["title"].as_str().unwrap().contains(title));
        if let Some(window) = found {
            return window.clone();
        }
        assert!(Instant::now() < deadline, "no window `{title}`: {windows:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Waits until a shell command succeeds.
pub(crate) async fn until(yard: &Yard, id: &str, command: &str) -> String {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let answer = yard.shell(id, command).await;
        if answer["exit_code"] == 0 {
            return answer["stdout"].as_str().unwrap().to_owned();
        }
        assert!(Instant::now() < deadline, "never true: {command}: {answer}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Width, height and pixels (three bytes each).
pub(crate) fn decode(png: &[u8]) -> (u32, u32, Vec<u8>) {
    let mut reader = png::Decoder::new(std::io::Cursor::new(png)).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    (info.width, info.height, pixels)
}

pub(crate) async fn screenshot(yard: &Yard, id: &str) -> (u32, u32, Vec<u8>) {
    let response = yard.get(&format!("/jobs/{id}/screenshot.png")).await;
    assert_eq!(
        (response.status().as_u16(), &response.headers()["content-type"]),
        (200, &"image/png".parse().unwrap())
    );
    decode(&response.bytes().await.unwrap())
}

async fn open_terminal(yard: &Yard, id: &str) -> Value {
    yard.shell(id, "xterm -geometry 80x24+100+100 >/dev/null 2>&1 & disown").await;
    window(yard, id, "xterm").await
}

#[tokio::test]
async fn the_desktop_is_typed_on_clicked_dragged_and_seen() {
    let Some(yard) = full_yard(&[]).await else { return };
    let id = yard.session().await;
    let (width, height, before) = screenshot(&yard, &id).await;
    assert_eq!((width, height), (1280, 800));
    let terminal = open_terminal(&yard, &id).await;
    let at = |name: &str| terminal[name].as_i64().unwrap();
    let (x, y) = (at("x"), at("y"));
    let text = "echo 'Grüße €5 日本語 Ωß 😀 ~{}\\' > typed.txt\n";
    let typed = gui(
        &yard,
        &id,
        json!([
            {"type": "click", "x": x + 50, "y": y + 50},
            {"type": "type", "text": text},
            {"type": "wait_for_stable", "quiet_ms": 300},
        ]),
    )
    .await;
    assert_eq!(typed[2]["stable"], true);
    assert_eq!(until(&yard, &id, "cat typed.txt").await, "Grüße €5 日本語 Ωß 😀 ~{}\\\n");
    gui(&yard, &id, json!([{"type": "type", "text": "printf '%s' part"}, {"type": "key", "keys": "ctrl+u"}, {"type": "type", "text": "echo keys > keys.txt"}, {"type": "key", "keys": "Return"}])).await;
    assert_eq!(until(&yard, &id, "cat keys.txt").await, "keys\n");
    assert_ne!(screenshot(&yard, &id).await.2, before);

    // On a machine that is busy a window manager may miss that it is held; then it stays where it was.
    let deadline = Instant::now() + PATIENCE;
    let moved = loop {
        let drag = json!([{"type": "drag", "x": x + 200, "y": y - 10, "to_x": x + 300, "to_y": y + 90}, {"type": "wait", "ms": 300}]);
        gui(&yard, &id, drag).await;
        let moved = window(&yard, &id, "xterm").await;
        if (moved["x"].as_i64().unwrap(), moved["y"].as_i64().unwrap()) == (x + 100, y + 100) {
            break moved;
        }
        assert!(Instant::now() < deadline, "not dragged: {moved}");
    };
    let script = "search --class xterm windowactivate --sync type 'echo script > script.txt'\nkey Return\ngetmouselocation";
    let run = gui(&yard, &id, json!([{"type": "xdotool", "script": script}])).await;
    assert!(run[0]["output"].as_str().unwrap().contains("x:"), "{run:?}");
    assert_eq!(until(&yard, &id, "cat script.txt").await, "script\n");
    let shot = gui(&yard, &id, json!([{"type": "screenshot", "window": moved["id"]}])).await;
    let png = base64::engine::general_purpose::STANDARD
        .decode(shot[0]["image"]["base64"].as_str().unwrap())
        .unwrap();
    let (width, height, _) = decode(&png);
    assert_eq!(
        (u64::from(width), u64::from(height)),
        (moved["width"].as_u64().unwrap(), moved["height"].as_u64().unwrap())
    );

    let wrong =
        json!({"actions": [{"type": "windows"}, {"type": "click", "x": 5000, "y": 1}, {"type": "windows"}]});
    let answer = yard.post_json(&format!("/jobs/{id}/gui"), &wrong).await;
    assert_eq!((&answer["completed"], answer["results"].as_array().unwrap().len()), (&json!(false), 2));
    assert!(
        answer["results"][1]["error"].as_str().unwrap().contains("outside the screen of 1280 × 800"),
        "{answer}"
    );
    yard.delete(&id).await;
    yard.expect_no_leftovers().await;
}

#[tokio::test]
async fn programs_open_on_the_desktop_by_their_plain_names() {
    let Some(yard) = full_yard(&[]).await else { return };
    let id =
        yard.schedule(&json!({"kind": "session", "env": {"SANDYARD_DESKTOP_GEOMETRY": "1024x768"}})).await;
    yard.wait_for(&id, |status| status["sandbox"] == "live").await;
    // The first program that looks for the display starts it.
    yard.shell(&id, "echo 'digraph { ein -> aus }' > graph.dot; xdot graph.dot >/dev/null 2>&1 & disown")
        .await;
    window(&yard, &id, "graph.dot").await;
    let page = "<title>Green page</title><body style='margin:0;background:#00c000'>";
    let script =
        format!("echo \"{page}\" > page.html; chromium file:///workspace/page.html >/dev/null 2>&1 & disown");
    yard.shell(&id, &script).await;
    window(&yard, &id, "Green page").await;
    let deadline = Instant::now() + PATIENCE;
    loop {
        let (width, _, pixels) = screenshot(&yard, &id).await;
        assert_eq!(width, 1024);
        let green = pixels.chunks_exact(3).filter(|pixel| **pixel == [0, 0xc0, 0]).count();
        if green > 100_000 {
            break;
        }
        assert!(Instant::now() < deadline, "the page is not shown: {green} green pixels");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let bus = yard
        .shell(
            &id,
            "dbus-send --session --print-reply --dest=org.freedesktop.DBus / org.freedesktop.DBus.ListNames",
        )
        .await;
    assert_eq!(bus["exit_code"], 0, "{bus}");
    // Neither X nor VNC listens on a network, and the page inside answers.
    let listening = yard.shell(&id, "cat /proc/net/tcp /proc/net/tcp6 | awk '$4==\"0A\"{print $2}'").await;
    let port = |line: &str| u16::from_str_radix(line.rsplit(':').next().unwrap(), 16).unwrap();
    let ports: Vec<u16> = listening["stdout"].as_str().unwrap().lines().map(port).collect();
    assert!(ports.contains(&6080), "{ports:?}");
    assert!(
        !ports.iter().any(|port| (5900..6000).contains(port) || (6000..6064).contains(port)),
        "{ports:?}"
    );
    let page = yard.shell(&id, "curl --noproxy '*' -s http://127.0.0.1:6080/").await;
    assert!(page["stdout"].as_str().unwrap().starts_with("<!doctype html>"), "{page}");
}

#[tokio::test]
async fn a_gui_job_acts_and_leaves_pictures() {
    let Some(yard) = full_yard(&[]).await else { return };
    let list = json!([{"type": "windows"}, {"type": "move", "x": 5, "y": 6}, {"type": "xdotool", "script": "getmouselocation"}]);
    let done = yard.run(&json!({"kind": "gui", "code": list.to_string()})).await;
    assert_eq!(done["state"], "succeeded", "{done}");
    let id = done["job_id"].as_str().unwrap();
    assert!(done["stdout"].as_str().unwrap().contains("x:5 y:6"), "{done}");
    let (width, height, _) = screenshot(&yard, id).await;
    assert_eq!((width, height), (1280, 800), "the last picture is kept beside the job");
    let mut archive = zip::ZipArchive::new(std::io::Cursor::new(yard.download(id).await)).unwrap();
    let mut png = Vec::new();
    std::io::Read::read_to_end(&mut archive.by_name("screenshot.png").unwrap(), &mut png).unwrap();
    assert_eq!(decode(&png).0, 1280);

    let done = yard.run(&json!({"kind": "gui", "code": "mousemove 7 8\ngetmouselocation"})).await;
    assert!(done["state"] == "succeeded" && done["stdout"].as_str().unwrap().contains("x:7 y:8"), "{done}");
    let failed =
        yard.run(&json!({"kind": "gui", "code": "[{\"type\": \"key\", \"keys\": \"Hyperdrive\"}]"})).await;
    assert_eq!((&failed["state"], &failed["exit_code"]), (&json!("failed"), &json!(1)), "{failed}");
    assert!(failed["stderr"].as_str().unwrap().contains("no key named `Hyperdrive`"), "{failed}");
    // A job without a desktop has no picture.
    let plain = yard.run_shell("true").await;
    let response = yard.get(&format!("/jobs/{}/screenshot.png", plain["job_id"].as_str().unwrap())).await;
    assert_eq!(response.status(), 404);
}

#[tokio::test]
async fn a_dead_desktop_is_started_again_and_an_idle_one_rests() {
    let Some(yard) = full_yard(&[]).await else { return };
    let id = yard.schedule(&json!({"kind": "session", "env": {"SANDYARD_DESKTOP_IDLE_S": "2"}})).await;
    yard.wait_for(&id, |status| status["sandbox"] == "live").await;
    open_terminal(&yard, &id).await;
    yard.shell(&id, "pkill -9 Xvnc").await;
    let windows = gui(&yard, &id, json!([{"type": "windows"}])).await;
    assert_eq!(windows[0]["windows"], json!([]), "a fresh desktop");
    // A desktop with a program on it is not idle.
    open_terminal(&yard, &id).await;
    tokio::time::sleep(Duration::from_secs(9)).await;
    assert_eq!(yard.shell(&id, "pgrep -c Xvnc").await["stdout"], "1\n");
    yard.shell(&id, "pkill xterm").await;
    until(&yard, &id, "! pgrep Xvnc && ! pgrep openbox && ! pgrep dbus-daemon").await;
    open_terminal(&yard, &id).await;
    yard.post_json(&format!("/jobs/{id}/cancel"), &json!({})).await;
    yard.wait_end(&id).await;
    let events = yard.events(&id).await;
    assert!(
        events.iter().any(|(_, _, data)| data.to_string().contains("the desktop had died")),
        "{events:?}"
    );
    let (width, _, pixels) = screenshot(&yard, &id).await;
    let white = pixels.chunks_exact(3).filter(|pixel| **pixel == [255; 3]).count();
    assert!(width == 1280 && white > 50_000, "the last picture shows the terminal: {white} white pixels");
}

#[tokio::test]
async fn the_desktop_outlives_keeper() {
    let Some(yard) = full_yard(&[]).await else { return };
    let id = yard.session().await;
    // A program that starts the desktop is carried by keeper; those that come later are not.
    gui(&yard, &id, json!([{"type": "windows"}])).await;
    open_terminal(&yard, &id).await;
    let keeper = keeper_pid(&yard);
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(keeper).unwrap(),
        rustix::process::Signal::KILL,
    )
    .unwrap();
    let deadline = Instant::now() + PATIENCE;
    while keeper_pids(&yard).first().is_none_or(|pid| *pid == keeper) {
        assert!(Instant::now() < deadline, "no new keeper");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let deadline = Instant::now() + PATIENCE;
    while !yard
        .post(&format!("/jobs/{id}/gui"), &json!({"actions": [{"type": "windows"}]}))
        .await
        .status()
        .is_success()
    {
        assert!(Instant::now() < deadline, "the desktop can't be reached any more");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    window(&yard, &id, "xterm").await;
    assert_eq!(yard.shell(&id, "pgrep -c Xvnc").await["stdout"], "1\n");
}

pub(crate) fn keeper_pids(yard: &Yard) -> Vec<i32> {
    let role = |pid: &i32| {
        let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        arguments.split(|byte| *byte == 0).nth(1) == Some(b"keeper")
    };
    yard.sandbox_pids().into_iter().filter(role).collect()
}

pub(crate) fn keeper_pid(yard: &Yard) -> i32 {
    keeper_pids(yard)[0]
}
