//! The same twelve jobs on every driver: what people use a sandbox for, by the real binary, with one flag changed.
//!
//! All twelve run in one yard, one after the other, and all are told of even if some fail. A driver that this machine can't run
//! is skipped with the reason that `/drivers` gives.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use crate::drivers::DriverYard;
use crate::yard::Yard;

#[tokio::test]
async fn firecracker() {
    smoke("firecracker").await;
}

#[tokio::test]
async fn native() {
    smoke("native").await;
}

#[tokio::test]
async fn oci() {
    smoke("oci").await;
}

#[tokio::test]
async fn docker() {
    smoke("docker").await;
}

/// The same driver, with Podman behind its socket.
#[tokio::test]
async fn podman() {
    smoke("podman").await;
}

#[tokio::test]
async fn qemu() {
    smoke("qemu").await;
}

/// What went wrong with one of the twelve.
type Outcome = Result<(), String>;

async fn smoke(driver: &str) {
    let flags = ["--images", "full", "--log", "info,sandyard_server=debug"];
    let Some(mut ground) = DriverYard::start(driver, "full", &flags).await else { return };
    let (yard, driver) = (&mut ground.yard, ground.driver.as_str());
    let mut failures = Vec::new();
    let list = ["shell", "python", "typescript", "gui", "files", "terminal"]
        .into_iter()
        .chain(["export", "cancel", "kill", "timeout", "memory", "adopt"]);
    for name in list {
        let began = Instant::now();
        let outcome = match name {
            "shell" => shell(yard, driver).await,
            "python" => python(yard).await,
            "typescript" => typescript(yard).await,
            "gui" => gui(yard).await,
            "files" => files(yard).await,
            "terminal" => terminal(yard).await,
            "export" => export(yard).await,
            "cancel" => cancel(yard).await,
            "kill" => kill(yard).await,
            "timeout" => timeout(yard).await,
            "memory" => memory(yard).await,
            _ => adopt(yard).await,
        };
        eprintln!("{driver} {name}: {:.1} s {outcome:?}", began.elapsed().as_secs_f64());
        failures.extend(outcome.err().map(|what| format!("{name}: {what}")));
    }
    assert!(failures.is_empty(), "on {driver}:\n{}", failures.join("\n"));
    yard.expect_no_leftovers().await;
    no_process_names(yard).await;
}

async fn shell(yard: &Yard, driver: &str) -> Outcome {
    let body = json!({"kind": "shell", "code": "cat in.txt; echo $WHO; id -un; pwd; echo oops >&2; exit 4",
        "files": {"in.txt": "given\n"}, "env": {"WHO": "me"}});
    let status = yard.run(&body).await;
    same(&status["stdout"], "given\nme\nagent\n/workspace\n")?;
    same(&status["stderr"], "oops\n")?;
    same(&status["exit_code"], 4)?;
    same(&status["isolation"]["effective"], driver)?;
    holds(status["isolation"]["level"] != "none" && status["isolation"]["runtime"] != "", &status)
}

async fn python(yard: &Yard) -> Outcome {
    let code = "import sys, os\nopen('made.txt', 'w').write('by python')\nprint(sys.version_info.major, os.getuid())\n6 * 7";
    let status = yard.run(&json!({"kind": "python", "code": code})).await;
    same(&status["state"], "succeeded")?;
    holds(status["stdout"].as_str().is_some_and(|text| text.starts_with("3 1000\n")), &status)
}

async fn typescript(yard: &Yard) -> Outcome {
    let code = "const squares: number[] = [1, 2, 3].map((n) => n * n); console.log(squares.join(' '))";
    let status = yard.run(&json!({"kind": "typescript", "code": code})).await;
    same(&status["state"], "succeeded")?;
    same(&status["stdout"], "1 4 9\n")
}

async fn gui(yard: &Yard) -> Outcome {
    let id = yard.session().await;
    let actions = json!([{"type": "move", "x": 20, "y": 30}, {"type": "xdotool", "script": "getmouselocation"},
        {"type": "screenshot"}]);
    let answer = yard.post_json(&format!("/jobs/{id}/gui"), &json!({"actions": actions})).await;
    let short = answer.to_string().chars().take(600).collect::<String>();
    holds(answer["completed"] == true, &short)?;
    holds(answer["results"][1].to_string().contains("x:20 y:30"), &short)?;
    let picture = yard.get(&format!("/jobs/{id}/screenshot.png")).await;
    holds(
        picture.status() == 200 && picture.bytes().await.is_ok_and(|png| png.starts_with(b"\x89PNG")),
        &short,
    )?;
    yard.delete(&id).await;
    Ok(())
}

async fn files(yard: &Yard) -> Outcome {
    let id = yard.session().await;
    let at = |path: &str| format!("{}/jobs/{id}/files/{path}", yard.url);
    let put = yard.client.put(at("deep/note.txt")).body("one two three").send().await.unwrap();
    holds(put.status().is_success(), &put)?;
    let part = yard.client.get(at("deep/note.txt")).header("Range", "bytes=4-6").send().await.unwrap();
    same(&json!(part.text().await.unwrap()), "two")?;
    let edit = json!({"edits": [{"old": "two", "new": "2"}]});
    let edited = yard.client.patch(at("deep/note.txt")).json(&edit).send().await.unwrap();
    holds(edited.status().is_success(), &edited)?;
    same(
        &yard.shell(&id, "cat deep/note.txt; stat -c %U deep/note.txt").await["stdout"],
        "one 2 threeagent\n",
    )?;
    let removed = yard.client.delete(at("deep?recursive=1")).send().await.unwrap();
    holds(removed.status().is_success(), &removed)?;
    same(&json!(yard.client.get(at("deep")).send().await.unwrap().status().as_u16()), 404)?;
    yard.delete(&id).await;
    Ok(())
}

async fn terminal(yard: &Yard) -> Outcome {
    let id = yard.session().await;
    let url = format!("{}/jobs/{id}/shell", yard.url.replace("http://", "ws://"));
    let (mut socket, _) = tokio_tungstenite::connect_async(url).await.map_err(|error| error.to_string())?;
    let resize = json!({"resize": {"columns": 123, "rows": 45}}).to_string();
    socket.send(Message::text(resize)).await.map_err(|error| error.to_string())?;
    let typed = b"stty size; tty; exit 5\n".to_vec();
    socket.send(Message::binary(typed)).await.map_err(|error| error.to_string())?;
    let mut screen = String::new();
    while let Some(Ok(message)) = socket.next().await {
        match message {
            Message::Binary(bytes) => screen.push_str(&String::from_utf8_lossy(&bytes)),
            Message::Text(text) => screen.push_str(&text),
            _ => {}
        }
    }
    yard.delete(&id).await;
    holds(screen.contains("45 123") && screen.contains("/dev/pts/"), &screen)
}

async fn export(yard: &Yard) -> Outcome {
    let code = "mkdir -p a/b; echo deep > a/b/c.txt; ln -s a/b/c.txt link; head -c 3000000 /dev/urandom > big; sha256sum big";
    let status = yard.run_shell(code).await;
    same(&status["state"], "succeeded")?;
    let bytes = yard.download(status["job_id"].as_str().unwrap_or_default()).await;
    let mut zip = zip::ZipArchive::new(std::io::Cursor::new(bytes)).map_err(|error| error.to_string())?;
    let names = names(&zip);
    holds(names.iter().any(|name| name == "a/b/c.txt") && names.iter().any(|name| name == "link"), &names)?;
    let size = zip.by_name("big").map_err(|error| error.to_string())?.size();
    same(&json!(size), 3_000_000)
}

async fn cancel(yard: &Yard) -> Outcome {
    let id = yard.shell_job("echo kept > kept.txt; echo ready; sleep 1000").await;
    yard.wait_for(&id, |status| status["stdout"] == "ready\n").await;
    yard.post_json(&format!("/jobs/{id}/cancel"), &json!({})).await;
    same(&yard.wait_end(&id).await["state"], "cancelled")?;
    let zip = zip::ZipArchive::new(std::io::Cursor::new(yard.download(&id).await));
    let names = names(&zip.map_err(|error| error.to_string())?);
    holds(names.iter().any(|name| name == "kept.txt"), &names)
}

/// What ignores every signal and forks is gone with its job, and soon.
async fn kill(yard: &Yard) -> Outcome {
    let stubborn =
        "trap '' TERM INT HUP; for i in 1 2 3; do (trap '' TERM; setsid sleep 1000) & done; echo ready; wait";
    let id = yard.shell_job(stubborn).await;
    yard.wait_for(&id, |status| status["stdout"] == "ready\n").await;
    let began = Instant::now();
    yard.delete(&id).await;
    same(&json!(yard.get(&format!("/status/{id}")).await.status().as_u16()), 404)?;
    let deadline = Instant::now() + Duration::from_secs(30);
    while yard.data().join("jobs").join(&id).exists() {
        holds(Instant::now() < deadline, &"its folder is still there")?;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    holds(began.elapsed() < Duration::from_secs(30), &began.elapsed())
}

async fn timeout(yard: &Yard) -> Outcome {
    let body = json!({"kind": "shell", "code": "echo partial; sleep 1000", "limits": {"timeout_s": 2}});
    let status = yard.run(&body).await;
    same(&status["state"], "timed_out")?;
    same(&status["stdout"], "partial\n")
}

async fn memory(yard: &Yard) -> Outcome {
    let hog = "python3 -c 'x = bytearray(400 << 20)'";
    let body = json!({"kind": "shell", "code": hog, "limits": {"memory_mib": 256}});
    let status = yard.run(&body).await;
    same(&status["state"], "failed")?;
    holds(status["error"]["message"].to_string().contains("memory"), &status["error"])
}

/// The server is killed while the job works, and the next one goes on with the same machine, output without a hole.
async fn adopt(yard: &mut Yard) -> Outcome {
    let id = yard.shell_job("for i in $(seq 1 40); do echo $i; sleep 0.2; done").await;
    yard.wait_for(&id, |status| status["stdout"].as_str().is_some_and(|text| text.contains("5\n"))).await;
    yard.crash_and_serve().await;
    let status = yard.wait_end(&id).await;
    same(&status["state"], "succeeded")?;
    let all: String = (1..=40).map(|number| format!("{number}\n")).collect();
    same(&status["stdout"], all.as_str())
}

/// No machine of the yard runs: those that are processes of the host name its folder.
async fn no_process_names(yard: &Yard) {
    let data = yard.data().to_str().unwrap().as_bytes().to_vec();
    let server = yard.server_pid().to_string();
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let named: Vec<String> = pids
            .filter(|pid| pid.parse::<u32>().is_ok() && *pid != server)
            .filter_map(|pid| std::fs::read(format!("/proc/{pid}/cmdline")).ok())
            .filter(|line| line.windows(data.len()).any(|part| part == data))
            .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
            .collect();
        if named.is_empty() {
            return;
        }
        assert!(Instant::now() < deadline, "still running: {named:#?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn names(zip: &zip::ZipArchive<std::io::Cursor<Vec<u8>>>) -> Vec<String> {
    zip.file_names().flatten().map(|name| name.into_owned()).collect()
}

fn same(found: &Value, wanted: impl Into<Value>) -> Outcome {
    let wanted = wanted.into();
    holds(*found == wanted, &format!("found {found}, wanted {wanted}"))
}

fn holds(well: bool, found: &impl Debug) -> Outcome {
    if well { Ok(()) } else { Err(format!("{found:?}")) }
}
