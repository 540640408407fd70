//! The end of a job with a large workspace: what was acknowledged is in the result.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use crate::yard::{PATIENCE, Yard, is_terminal};

/// Writes a file for each request, and answers once it is there.
const WRITER: &str = "
import http.server, os
class Writer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        with open('/workspace' + self.path, 'w') as file:
            file.write('x')
        self.send_response(200)
        self.send_header('Content-Length', '0')
        self.end_headers()
    def log_message(self, *_):
        pass
http.server.ThreadingHTTPServer(('127.0.0.1', 9000), Writer).serve_forever()
";

/// The doors through which a client changes the workspace.
const DOORS: [&str; 4] = ["files", "shell", "code", "port"];

/// Changes the workspace through a door; true if that was acknowledged.
async fn write(yard: &Yard, id: &str, door: &str, name: &str) -> bool {
    let at = |path: String| format!("{}/jobs/{id}/{path}", yard.url);
    let command = format!("echo x > {name}");
    let request = match door {
        "files" => yard.client.put(at(format!("files/{name}"))).body("x"),
        "shell" => yard.client.post(at("shell".into())).json(&json!({"command": command})),
        "code" => yard.client.post(at("code".into())).json(&json!({"language": "bash", "code": command})),
        _ => yard.client.get(at(format!("proxy/9000/{name}"))),
    };
    // A command or kernel that the job's end killed is answered with 200 too, and says so in its body.
    let done = match door {
        "shell" => "\"exit_code\":0",
        "code" => "\"status\":\"ok\"",
        _ => "",
    };
    match request.send().await {
        Ok(answer) => answer.status().is_success() && answer.text().await.unwrap_or_default().contains(done),
        Err(_) => false,
    }
}

/// Names in a zip, as Python reads them.
async fn names(yard: &Yard, id: &str) -> BTreeSet<String> {
    let path = yard.data().join(format!("{id}.zip"));
    std::fs::write(&path, yard.download(id).await).unwrap();
    let script = "import sys,zipfile\nprint('\\n'.join(zipfile.ZipFile(sys.argv[1]).namelist()))";
    let output = std::process::Command::new("python3").args(["-c", script]).arg(&path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

async fn acknowledged_writes_are_in_the_result(keep: bool) {
    let yard = Arc::new(Yard::start().await);
    // The end comes by the job's own script, while clients write.
    let code = "head -c 400000000 /dev/urandom > large; touch ready; while [ ! -e stop ]; do sleep 0.1; done";
    let id = yard.schedule(&json!({"kind": "shell", "code": code, "keep": keep})).await;
    yard.wait_for(&id, |status| status["sandbox"] == "live" && status["state"] == "running").await;
    let start = json!({"command": "cat > /tmp/writer.py; setsid python3 /tmp/writer.py > /dev/null 2>&1 & disown",
        "stdin": WRITER});
    yard.post_json(&format!("/jobs/{id}/shell"), &start).await;
    let deadline = std::time::Instant::now() + PATIENCE;
    while !write(&yard, &id, "port", "first").await
        || !write(&yard, &id, "shell", "[ -e ready ] && echo > second").await
    {
        assert!(std::time::Instant::now() < deadline, "{}", yard.log());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let writers = DOORS.map(|door| {
        let (yard, id) = (Arc::clone(&yard), id.clone());
        tokio::spawn(async move {
            let (mut acknowledged, mut refused) = (Vec::new(), 0);
            for number in 0.. {
                let name = format!("{door}-{number}");
                if write(&yard, &id, door, &name).await {
                    acknowledged.push(name);
                } else {
                    refused += 1;
                    if is_terminal(&yard.status(&id).await["state"]) {
                        return (acknowledged, refused);
                    }
                }
                if refused == 0 && number == 20 && door == "files" {
                    assert!(write(&yard, &id, "files", "stop").await);
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
                // A kept sandbox takes writes again after the end.
                if refused > 0 && is_terminal(&yard.status(&id).await["state"]) {
                    return (acknowledged, refused);
                }
            }
            unreachable!("the numbers do not end")
        })
    });
    let status = yard.wait_end(&id).await;
    assert_eq!(status["state"], "succeeded", "{status}");
    let saved = names(&yard, &id).await;
    for (door, writer) in DOORS.iter().zip(writers) {
        let (acknowledged, refused) = writer.await.unwrap();
        // A kept sandbox may take the last write of a writer after its end.
        let missing: Vec<_> = acknowledged.iter().filter(|name| !saved.contains(*name)).collect();
        let late = usize::from(keep);
        assert!(missing.len() <= late, "{door}: acknowledged and lost: {missing:?}");
        assert!(acknowledged.len() > 5 && refused > 0, "{door}: {} and {refused}", acknowledged.len());
    }
    if keep {
        let answer = yard.shell(&id, "ls large").await;
        assert_eq!(answer["stdout"], "large\n", "a kept sandbox opens again");
    }
    yard.delete(&id).await;
    yard.expect_no_leftovers().await;
}

#[tokio::test]
async fn acknowledged_writes_are_in_the_result_of_a_large_workspace() {
    acknowledged_writes_are_in_the_result(false).await;
}

#[tokio::test]
async fn acknowledged_writes_are_in_the_result_of_a_kept_sandbox() {
    acknowledged_writes_are_in_the_result(true).await;
}

/// File workers are killed with the job's other processes. An export that used one of them failed and was repeated.
#[tokio::test]
async fn an_export_right_after_file_operations_works_at_the_first_attempt() {
    let yard = Yard::start().await;
    for _ in 0..10 {
        let mut ids = Vec::new();
        for _ in 0..6 {
            ids.push(yard.session().await);
        }
        for id in &ids {
            assert!(write(&yard, id, "files", "file").await);
            assert!(yard.post(&format!("/jobs/{id}/cancel"), &json!({})).await.status().is_success());
        }
        for id in &ids {
            assert_eq!(yard.wait_end(id).await["state"], "cancelled");
        }
    }
    assert!(!yard.log().contains("the export failed"), "{}", yard.log());
}
