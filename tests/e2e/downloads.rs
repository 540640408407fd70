//! The zip: right, complete, readable by other people's tools.

use std::io::Read;
use std::process::Command;

use crate::origins::{browse, full_yard};
use crate::yard::Yard;

pub(crate) fn read_entry(zip: &[u8], name: &str) -> Vec<u8> {
    let mut archive = zip::ZipArchive::new(std::io::Cursor::new(zip)).unwrap();
    let mut bytes = Vec::new();
    archive.by_name(name).unwrap().read_to_end(&mut bytes).unwrap();
    bytes
}

const PYTHON_CHECK: &str = r#"
import sys, zipfile, stat
z = zipfile.ZipFile(sys.argv[1])
assert z.testzip() is None
info = {i.filename: i for i in z.infolist()}
mode = lambda n: info[n].external_attr >> 16
assert stat.S_ISLNK(mode("link")), oct(mode("link"))
assert z.read("link") == b"/etc/passwd"
assert mode("run.sh") & 0o777 == 0o755, oct(mode("run.sh"))
assert mode("secret.txt") & 0o777 == 0o600, oct(mode("secret.txt"))
assert "grüße/日本.txt" in info
assert z.read("grüße/日本.txt") == b"hi\n"
assert "empty/" in info
"#;

#[tokio::test]
async fn modes_links_and_names_survive() {
    let yard = Yard::start().await;
    let script = "mkdir -p grüße empty; echo hi > grüße/日本.txt; ln -s /etc/passwd link; \
                  echo '#!/bin/sh' > run.sh; chmod 755 run.sh; echo s > secret.txt; chmod 600 secret.txt; mkfifo pipe";
    let status = yard.run_shell(script).await;
    assert_eq!(status["state"], "succeeded", "{status}");
    let path = yard.data().join("out.zip");
    std::fs::write(&path, yard.download(status["job_id"].as_str().unwrap()).await).unwrap();
    let python = Command::new("python3").args(["-c", PYTHON_CHECK]).arg(&path).output().unwrap();
    assert!(python.status.success(), "{}", String::from_utf8_lossy(&python.stderr));
    let unzip = Command::new("unzip").arg("-tq").arg(&path).output().unwrap();
    assert!(unzip.status.success(), "{}", String::from_utf8_lossy(&unzip.stdout));
}

#[tokio::test]
async fn a_browser_saves_and_unpacks_it() {
    let Some(yard) = full_yard(&["browser"]).await else { return };
    let status =
        yard.run_shell("mkdir grüße; for i in $(seq 99); do echo hello; done > grüße/日本.txt").await;
    let id = status["job_id"].as_str().unwrap();
    browse(&yard, "download.mjs", &[id, "grüße/日本.txt", &"hello\n".repeat(99)]).await;
}

#[tokio::test]
async fn a_download_resumes_by_range() {
    let yard = Yard::start().await;
    let status = yard.run_shell("head -c 300000 /dev/urandom > blob").await;
    let id = status["job_id"].as_str().unwrap();
    let whole = yard.download(id).await;
    let url = format!("{}/jobs/{id}/download", yard.url);
    let rest = yard.client.get(url).header("Range", "bytes=1000-").send().await.unwrap();
    assert_eq!(rest.status(), 206);
    assert_eq!(rest.bytes().await.unwrap(), whole[1000..]);
}

#[tokio::test]
async fn over_65535_entries_are_all_there() {
    let yard = Yard::start().await;
    let script = "python3 - <<'E'\nimport os\nfor d in range(70):\n  os.mkdir(str(d))\n  for f in range(1000):\n    open(f'{d}/{f}','w').close()\nE";
    let status = yard.run_shell(script).await;
    assert_eq!(status["state"], "succeeded", "{status}");
    let path = yard.data().join("many.zip");
    std::fs::write(&path, yard.download(status["job_id"].as_str().unwrap()).await).unwrap();
    // With the list of files and the audit.
    let code = "import sys,zipfile; z=zipfile.ZipFile(sys.argv[1]); assert len(z.namelist()) == 70072, len(z.namelist())";
    let python = Command::new("python3").args(["-c", code]).arg(&path).output().unwrap();
    assert!(python.status.success(), "{}", String::from_utf8_lossy(&python.stderr));
}
