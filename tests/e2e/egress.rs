//! The way out: denied by default, by name, through the proxy in the sandbox to the gateway on the host.

use std::io::{Read, Write};
use std::net::TcpListener;

use serde_json::{Value, json};

use crate::yard::Yard;

/// What a sandbox says to the proxy by hand: `NO_PROXY` would keep curl from using it for this name.
pub(crate) const CURL: &str = "curl --silent --show-error --max-time 20 --noproxy '' --proxy \"$http_proxy\"";

/// A program in the sandbox that others there use as their proxy, and that uses ours.
const RELAY: &str = "
import socket, threading
def carry(one, other):
    while data := one.recv(65536): other.sendall(data)
    other.shutdown(socket.SHUT_WR)
server = socket.create_server(('127.0.0.1', 3999))
while True:
    one = server.accept()[0]
    other = socket.create_connection(('127.0.0.1', 3128))
    threading.Thread(target=carry, args=(one, other), daemon=True).start()
    threading.Thread(target=carry, args=(other, one), daemon=True).start()
";

/// A server of this machine that says hello to everybody.
pub(crate) fn neighbour() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let _ =
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nhello\n");
        }
    });
    port
}

async fn decisions(yard: &Yard, id: &str) -> Vec<Value> {
    yard.events(id).await.into_iter().filter(|event| event.1 == "egress").map(|event| event.2).collect()
}

#[tokio::test]
async fn n3_nothing_is_reached_unless_it_was_asked_for() {
    nothing_unless_asked_for(&Yard::start().await).await;
}

#[tokio::test]
async fn n1_n6_n12_n14_this_machine_and_its_networks_are_out_of_reach() {
    this_machine_is_out_of_reach(&Yard::start().await).await;
}

/// N3, on any driver.
pub(crate) async fn nothing_unless_asked_for(yard: &Yard) {
    let status = yard
        .run_shell("curl --silent --show-error --fail http://example.com/ https://example.org/; exit 3")
        .await;
    assert_eq!(status["exit_code"], 3, "{status}");
    let hint = status["error"]["hint"].as_str().unwrap_or_default();
    assert!(hint.contains("example.com:80") && hint.contains("--egress"), "{status}");
    let told = decisions(yard, status["job_id"].as_str().unwrap()).await;
    assert!(told.iter().all(|event| event["decision"] == "refused"), "{told:?}");
    assert_eq!(told[0]["target"], "example.com:80");
    assert_eq!(told[1]["target"], "example.org:443");
}

/// N1, N6, N12, N14 and N15, on any driver: by the proxy, past it, by SOCKS, and through a relay of the job's own.
pub(crate) async fn this_machine_is_out_of_reach(yard: &Yard) {
    let port = neighbour();
    let api = yard.url.trim_start_matches("http://").to_owned();
    let code = format!(
        "for target in 127.0.0.1:{port} localhost:{port} {api} 169.254.169.254:80 [::1]:{port} 2130706433:{port}; do \
           {CURL} --proxytunnel http://$target/ && echo REACHED $target; \
           curl --silent --max-time 5 --noproxy '*' http://$target/ && echo REACHED $target; \
         done; \
         {CURL} --socks5-hostname 127.0.0.1:3128 http://localhost:{port}/ && echo REACHED socks; \
         python3 relay.py 2>/dev/null & \
         for i in $(seq 100); do (: > /dev/tcp/127.0.0.1/3999) 2>/dev/null && break; sleep 0.2; done; \
         curl --silent --max-time 20 --noproxy '' --proxy http://127.0.0.1:3999 --proxytunnel \
              --write-out '%{{stderr}}relayed %{{http_connect}}' http://localhost:{port}/ && echo REACHED relay; \
         kill %1; cat /proc/net/route | wc -l"
    );
    let status = yard
        .run(&json!({"kind": "shell", "code": code, "files": {"relay.py": RELAY},
            "egress": ["localhost:1", "localhost:80", format!("localhost:{port}")]}))
        .await;
    let stdout = status["stdout"].as_str().unwrap();
    assert!(!stdout.contains("REACHED") && !stdout.contains("hello"), "{status}");
    assert_eq!(stdout, "1\n", "there is no route: {status}");
    assert!(status["stderr"].as_str().unwrap().contains("relayed 403"), "the relay was refused: {status}");
    // N25: attempts by address are recorded with it.
    let id = status["job_id"].as_str().unwrap();
    let told = decisions(yard, id).await;
    let audit = yard.get(&format!("/jobs/{id}/audit")).await.text().await.unwrap();
    for target in ["169.254.169.254:80", &format!("127.0.0.1:{port}"), &format!("[::1]:{port}")] {
        let refused = |event: &Value| event["target"] == target && event["decision"] == "refused";
        assert!(told.iter().any(refused) && audit.contains(target), "{target}: {told:?}");
    }
}

#[tokio::test]
async fn a_job_reaches_what_its_policy_and_the_operator_allow_and_its_bytes_are_counted() {
    let port = neighbour();
    let private = format!("localhost:{port}=127.0.0.1,localhost:{port}=::1");
    let environment = [("SANDYARD_EGRESS_PRIVATE", std::path::Path::new(&private))];
    let mut yard = Yard::start_in(&std::env::temp_dir(), &[], &environment).await;
    let code = format!(
        "{CURL} http://localhost:{port}/; {CURL} --proxytunnel http://localhost:{port}/; \
                        curl --silent --max-time 20 --noproxy '' --socks5-hostname 127.0.0.1:3128 http://localhost:{port}/"
    );
    let status =
        yard.run(&json!({"kind": "shell", "code": code, "egress": [format!("localhost:{port}")]})).await;
    assert_eq!(status["stdout"], "hello\nhello\nhello\n", "{status}");
    let told = decisions(&yard, status["job_id"].as_str().unwrap()).await;
    assert_eq!(told.iter().filter(|event| event["decision"] == "allowed").count(), 3, "{told:?}");
    assert!(status["usage"]["egress_bytes"].as_u64().unwrap() > 100, "{status}");
    // A server that is started again goes on with a session's way out.
    let session = yard.schedule(&json!({"kind": "session", "egress": [format!("localhost:{port}")]})).await;
    yard.wait_for(&session, |status| status["sandbox"] == "live").await;
    yard.crash_and_serve().await;
    yard.wait_for(&session, |status| status["sandbox"] == "live").await;
    let answer = yard.shell(&session, &format!("{CURL} http://localhost:{port}/")).await;
    assert_eq!(answer["stdout"], "hello\n", "{answer}");
    yard.delete(&session).await;
}

#[tokio::test]
async fn apt_and_sudo_say_what_to_do_instead() {
    let yard = Yard::start().await;
    let status = yard.run_shell("sudo apt-get install -y jq; echo $?; apt list --installed 2>/dev/null | grep -c ^git/; which apt").await;
    assert_eq!(status["stdout"], "100\n1\n/run/job/bin/apt\n", "{status}");
    assert!(status["stderr"].as_str().unwrap().contains("sandyard image build --with"), "{status}");
}

#[tokio::test]
async fn a_host_that_does_not_answer_is_not_blamed_on_the_rules() {
    let yard = Yard::start().await;
    let job = json!({"kind": "shell", "code": "curl --silent --fail https://no-such-host.invalid/", "egress": ["no-such-host.invalid"]});
    let status = yard.run(&job).await;
    assert_eq!(status["state"], "failed", "{status}");
    assert!(status["error"]["hint"].is_null(), "{status}");
}

/// Needs the registries; a machine that can't reach them says so.
#[tokio::test]
async fn pip_npm_curl_and_wget_work_through_the_gateway_without_set_up() {
    let reachable = std::process::Command::new("curl")
        .args(["--silent", "--head", "--max-time", "10", "https://pypi.org/simple/six/"])
        .status()
        .is_ok_and(|status| status.success());
    if !reachable {
        println!("skipped: the package registries can't be reached from here");
        return;
    }
    let yard = Yard::start().await;
    let code = "set -e; pip download --quiet --disable-pip-version-check --no-deps --no-binary :none: six==1.16.0; ls *.whl; \
                npm view is-number@7.0.0 version; \
                curl --silent --fail https://pypi.org/simple/six/ | grep --count 'six-1.16.0' > /dev/null; \
                wget --quiet --output-document=- https://pypi.org/simple/six/ | grep --count 'six-1.16.0' > /dev/null; echo done";
    let status = yard.run(&json!({"kind": "shell", "code": code, "egress": ["packages"]})).await;
    assert_eq!(status["stdout"], "six-1.16.0-py2.py3-none-any.whl\n7.0.0\ndone\n", "{status}");
}
