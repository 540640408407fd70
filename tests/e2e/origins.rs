//! Ports of real sandboxes seen by real clients: Chromium on JupyterLab, on a preview and on a hostile page, Jupyter's Python
//! clients on the program route, plain TCP through the command.
//!
//! Each needs what `scripts/setup.sh test` installs outside of the checkout, and the full image; without them it is skipped.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::Command;

use crate::yard::{PATIENCE, Yard};

/// Where the setup script puts modules; it prints the folder when asked.
pub(crate) async fn modules(which: &str) -> Option<PathBuf> {
    let script = root().join("scripts/setup.sh");
    let asked = Command::new(script).args(["modules", which]).stderr(Stdio::null()).output().await.ok()?;
    let folder = PathBuf::from(String::from_utf8(asked.stdout).ok()?.trim());
    folder.is_dir().then_some(folder)
}

pub(crate) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A yard whose sessions have the full image; `None`, with the reason told, if this machine can't run it.
pub(crate) async fn full_yard(needs: &[&str]) -> Option<Yard> {
    full_yard_with(needs, &[]).await
}

/// The same with further flags.
pub(crate) async fn full_yard_with(needs: &[&str], flags: &[&str]) -> Option<Yard> {
    for need in needs {
        if modules(need).await.is_none() {
            eprintln!("skipped: needs the {need} modules (scripts/setup.sh test)");
            return None;
        }
    }
    if needs.contains(&"browser") && !PathBuf::from("/usr/bin/chromium").exists() {
        eprintln!("skipped: needs chromium");
        return None;
    }
    let usual = ["--images", "full", "--log", "info,sandyard_server=debug"];
    let yard = Yard::start_with(&[usual.as_slice(), flags].concat()).await;
    let drivers = yard.get_json("/drivers").await;
    let images = drivers["images"].as_array().cloned().unwrap_or_default();
    let full = images.iter().find(|image| image["flavour"] == "full");
    if full.is_none_or(|image| image["ready"] != true) {
        eprintln!("skipped: needs the full image (sandyard image build --flavour full)");
        return None;
    }
    Some(yard)
}

/// Runs a script of `tests/browser`. Pictures that it takes are kept for people to look at.
pub(crate) async fn browse(yard: &Yard, script: &str, arguments: &[&str]) {
    let mut command = Command::new("node");
    command.arg(root().join("tests/browser").join(script)).arg(&yard.url).args(arguments);
    command.env("SANDYARD_BROWSER_MODULES", modules("browser").await.unwrap());
    if std::env::var_os("SANDYARD_SHOTS").is_none() {
        command.env("SANDYARD_SHOTS", PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("pages"));
    }
    finish(command).await;
}

pub(crate) async fn finish(command: Command) {
    finish_with_output(command).await;
}

/// Runs a program to its end, which must be a good one. Returns what it printed.
pub(crate) async fn finish_with_output(mut command: Command) -> String {
    let running = command.stdin(Stdio::null()).kill_on_drop(true).output();
    let output = tokio::time::timeout(2 * PATIENCE, running).await.expect("no end").unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    out.into_owned()
}

async fn put(yard: &Yard, id: &str, name: &str, bytes: Vec<u8>) {
    let url = format!("{}/jobs/{id}/files/{name}", yard.url);
    let reply = yard.client.put(url).body(bytes).send().await.unwrap();
    assert!(reply.status().is_success(), "{name}: {}", reply.status());
}

async fn put_file(yard: &Yard, id: &str, path: &str) {
    let name = path.rsplit('/').next().unwrap();
    put(yard, id, name, std::fs::read(root().join("tests").join(path)).unwrap()).await;
}

/// A kernel that the agent uses, with state that only it can know.
async fn start_agent_kernel(yard: &Yard, id: &str) {
    let code = json!({"language": "python", "code": "whose = 'the agent'"});
    let reply = yard.post(&format!("/jobs/{id}/code"), &code).await;
    if reply.status().is_success() {
        return;
    }
    put_file(yard, id, "clients/kernel.py").await;
    let started = yard.shell(id, "python3 kernel.py").await;
    assert_eq!(started["exit_code"], 0, "{started}");
}

#[tokio::test]
async fn jupyterlab_opens_and_shares_the_agents_kernel() {
    let Some(yard) = full_yard(&["browser"]).await else { return };
    let id = yard.session().await;
    put(&yard, &id, "hello.txt", b"hello\n".to_vec()).await;
    start_agent_kernel(&yard, &id).await;
    browse(&yard, "lab.mjs", &[&id, "whose"]).await;
    // W17: the token was given to one process, which gave it to no kernel and no terminal; without it nothing opens.
    let holders = yard.shell(&id, "grep -lsa 'LAB_TOKE[N]=' /proc/[0-9]*/environ | wc -l").await;
    assert_eq!(holders["stdout"], "1\n");
    let closed = yard.shell(&id, "curl -s -o /dev/null -w '%{http_code}' localhost:8888/api/kernels").await;
    assert_eq!(closed["stdout"], "403");
    // W16: requests are logged, tickets and tokens are not.
    let log = yard.log();
    assert!(log.contains("/.sandyard/enter") && !log.contains("ticket="), "{log}");
    yard.delete(&id).await;
    yard.expect_no_leftovers().await;
}

#[tokio::test]
async fn with_a_key_a_person_signs_in_and_stays_so_across_a_restart() {
    let Some(mut yard) = full_yard(&["browser"]).await else { return };
    yard.stop().await;
    let file = yard.data().join("api.key");
    std::fs::write(&file, "sy_key\n").unwrap();
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    yard.serve().await;
    assert_eq!(yard.get("/jobs").await.status(), 401);
    browse(&yard, "sign-in.mjs", &["sy_key"]).await;
    let cookie = enter(&yard).await;
    yard.crash_and_serve().await;
    let (host, pass) = cookie;
    let request = |pass: &str| {
        yard.client
            .get(format!("{}/api/status", yard.url))
            .header("Host", &host)
            .header("Cookie", pass)
            .send()
    };
    assert_eq!(request(&pass).await.unwrap().status(), 200);
    assert_eq!(request("sandyard-pass=1.2").await.unwrap().status(), 401);
}

/// Enters the JupyterLab of the newest session, with the key and no browser: the origin's name and the cookie for it.
async fn enter(yard: &Yard) -> (String, String) {
    let follows_nothing =
        reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let get = |path: &str| follows_nothing.get(format!("{}{path}", yard.url)).bearer_auth("sy_key").send();
    let location = |reply: &reqwest::Response| reply.headers()["location"].to_str().unwrap().to_owned();
    let lab = location(&get("/lab").await.unwrap());
    let origin = location(&get(&lab).await.unwrap());
    let (host, path) = origin.trim_start_matches("http://").split_once('/').unwrap();
    let url = format!("{}/{path}", yard.url);
    let entered = follows_nothing.get(url).header("Host", host).send().await.unwrap();
    let cookie = entered.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    (host.to_owned(), cookie)
}

#[tokio::test]
async fn a_dead_jupyterlab_is_started_again_by_the_next_request() {
    let Some(yard) = full_yard(&[]).await else { return };
    let id = yard.session().await;
    let status = format!("/jobs/{id}/proxy/8888/api/status");
    let first = yard.get_json(&status).await["started"].clone();
    yard.shell(&id, "pkill -9 -f 'lab[.]py'; while curl -s localhost:8888; do sleep 0.05; done").await;
    let second = yard.get_json(&status).await["started"].clone();
    assert!(first.is_string() && second.is_string() && first != second, "{first} {second}");
    // What the job itself runs there is left alone.
    yard.shell(&id, "pkill -9 -f 'lab[.]py'; while curl -s localhost:8888; do sleep 0.05; done").await;
    yard.shell(&id, "echo mine > index.html; setsid python3 -m http.server 8888 >/dev/null 2>&1 & sleep 1")
        .await;
    assert_eq!(yard.get(&format!("/jobs/{id}/proxy/8888/")).await.text().await.unwrap(), "mine\n");
}

#[tokio::test]
async fn a_vite_page_is_previewed_with_hot_reload() {
    let Some(yard) = full_yard(&["browser", "vite"]).await else { return };
    let id = yard.session().await;
    let archive = Command::new("tar")
        .args(["-czf", "-", "-C"])
        .arg(modules("vite").await.unwrap())
        .args(["node_modules", "package.json"])
        .output()
        .await
        .unwrap();
    put(&yard, &id, "modules.tgz", archive.stdout).await;
    for name in ["index.html", "main.js", "word.js"] {
        put_file(&yard, &id, &format!("browser/vite/{name}")).await;
    }
    let start =
        "tar -xzf modules.tgz && (setsid node node_modules/vite/bin/vite.js --port 5173 >vite.log 2>&1 &)";
    assert_eq!(yard.shell(&id, start).await["exit_code"], 0);
    browse(&yard, "preview.mjs", &[&id, "5173"]).await;
}

#[tokio::test]
async fn w1_to_w9_a_hostile_page_reaches_no_other_job_nor_the_api() {
    let Some(yard) = full_yard(&["browser"]).await else { return };
    let (attacker, victim) = (yard.session().await, yard.session().await);
    for id in [&attacker, &victim] {
        put_file(&yard, id, "browser/server.py").await;
        let start = "setsid python3 server.py 5000 >/dev/null 2>&1 & until curl -s -o /dev/null localhost:5000; do sleep 0.1; done";
        yard.shell(id, start).await;
    }
    browse(&yard, "hostile.mjs", &[&attacker, &victim, "5000"]).await;
}

#[tokio::test]
async fn jupyters_own_clients_work_through_the_program_route() {
    let Some(yard) = full_yard(&["clients"]).await else { return };
    let id = yard.session().await;
    // These clients wait ten seconds for an answer, which a first start on a busy machine may take.
    yard.get_json(&format!("/jobs/{id}/proxy/8888/api/status")).await;
    let mut command = Command::new(modules("clients").await.unwrap().join("bin/python"));
    command.arg(root().join("tests/clients/lab.py")).arg(format!("{}/jobs/{id}/proxy/8888", yard.url));
    finish(command).await;
}

#[tokio::test]
async fn the_command_prints_a_link_and_forwards_a_port() {
    let yard = Yard::start().await;
    let id = yard.session().await;
    let link = sandyard(&yard, &["open", "port", &id, "5000"]).output().await.unwrap();
    let link = String::from_utf8(link.stdout).unwrap();
    assert!(link.starts_with(&format!("{}/jobs/{id}/ports/5000?ticket=", yard.url)), "{link}");
    let lab = sandyard(&yard, &["open", "lab", &id]).output().await.unwrap();
    assert!(String::from_utf8_lossy(&lab.stdout).contains("/lab?ticket="));
    let echo = "import socketserver as s\nclass H(s.BaseRequestHandler):\n  def handle(self):\n    \
                while d := self.request.recv(65536): self.request.sendall(d)\n\
                s.ThreadingTCPServer(('127.0.0.1', 5000), H).serve_forever()\n";
    put(&yard, &id, "echo.py", echo.as_bytes().to_vec()).await;
    yard.shell(&id, "setsid python3 echo.py >/dev/null 2>&1 & sleep 1").await;
    let mut forward =
        sandyard(&yard, &["open", "port", &id, "5000", "--forward", "0"]).kill_on_drop(true).spawn().unwrap();
    let mut lines = BufReader::new(forward.stdout.take().unwrap()).lines();
    let address = lines.next_line().await.unwrap().unwrap();
    let connection = TcpStream::connect(&address).await.unwrap();
    let (mut reader, mut writer) = connection.into_split();
    let sent: Vec<u8> = (0..3_000_000_u32).map(|number| number as u8).collect();
    let expected = sent.len();
    let writing = tokio::spawn(async move { writer.write_all(&sent).await.map(|()| (writer, sent)) });
    let mut received = vec![0; expected];
    tokio::time::timeout(Duration::from_secs(60), reader.read_exact(&mut received)).await.unwrap().unwrap();
    let (_writer, sent) = writing.await.unwrap().unwrap();
    assert!(received == sent);
}

fn sandyard(yard: &Yard, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sandyard"));
    command.args(["--url", &yard.url]).args(arguments);
    command.env_remove("DISPLAY").env_remove("WAYLAND_DISPLAY").env_remove("SANDYARD_TOKEN");
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    command
}

#[tokio::test]
async fn the_pages_behind_the_links_always_answer() {
    let yard = Yard::start_with(&["--concurrency", "0"]).await;
    let scheduled: Value = yard
        .post_json("/schedule", &json!({"kind": "session", "name": "<img src=x onerror=alert(1)>"}))
        .await;
    let page = yard.get(scheduled["lab_url"].as_str().unwrap()).await;
    assert_eq!(page.status(), 200);
    let text = page.text().await.unwrap();
    assert!(
        text.contains("queued") && text.contains("http-equiv=\"refresh\"") && !text.contains("<img"),
        "{text}"
    );
}
