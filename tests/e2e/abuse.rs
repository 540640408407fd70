//! Jobs that want too much or leave traps end in the right state, with a reason in words, and harm nobody else: one by one on
//! `native`, and as one list on every other driver.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::drivers::DriverYard;
use crate::yard::Yard;
use crate::{downloads, egress};

/// How much a job tries to get: machines without hardware support are ten times slower.
#[derive(Clone, Copy)]
struct Scale {
    output_bytes: u64,
    output_cap_mib: u64,
}

const LARGE: Scale = Scale { output_bytes: 2_000_000_000, output_cap_mib: 64 };
const MIDDLE: Scale = Scale { output_bytes: 200_000_000, output_cap_mib: 8 };
const SMALL: Scale = Scale { output_bytes: 30_000_000, output_cap_mib: 8 };

/// A peaceful session beside the hostile jobs.
struct Neighbour<'a> {
    yard: &'a Yard,
    id: String,
}

impl<'a> Neighbour<'a> {
    async fn of(yard: &'a Yard) -> Self {
        let id = yard.session().await;
        yard.shell(&id, "seq 1000 | sha256sum > sum").await;
        Self { yard, id }
    }

    /// Runs a hostile job to its end; the neighbour answers during and after it.
    async fn beside(&self, hostile: &Value) -> Value {
        let job = self.yard.schedule(hostile).await;
        self.yard
            .wait_for(&job, |status| {
                status["sandbox"] == "live" || crate::yard::is_terminal(&status["state"])
            })
            .await;
        self.is_well().await;
        let status = self.yard.wait_end(&job).await;
        self.is_well().await;
        status
    }

    async fn is_well(&self) {
        let answer = self.yard.shell(&self.id, "seq 1000 | sha256sum | cmp - sum && echo well").await;
        assert_eq!(answer["stdout"], "well\n", "the neighbour suffered: {answer}");
    }
}

fn reason(status: &Value) -> String {
    format!("{} {}", status["reason"], status["error"])
}

#[tokio::test]
async fn r1_a_fork_bomb_meets_the_process_limit() {
    let yard = Yard::start().await;
    fork_bomb(&Neighbour::of(&yard).await).await;
}

#[tokio::test]
async fn r2_a_memory_hog_is_stopped_alone() {
    let yard = Yard::start().await;
    memory_hog(&Neighbour::of(&yard).await).await;
}

#[tokio::test]
async fn r5_a_disk_filler_meets_its_own_wall() {
    let yard = Yard::start().await;
    disk_filler(&Neighbour::of(&yard).await).await;
}

#[tokio::test]
async fn r6_an_inode_filler_meets_its_own_wall() {
    let yard = Yard::start().await;
    inode_filler(&Neighbour::of(&yard).await).await;
}

#[tokio::test]
async fn r9_two_gigabytes_of_output_keep_head_and_tail_in_flat_memory() {
    let yard = Yard::start_with(&["--output-cap-mib", "64", "--output-mib-s", "512"]).await;
    flood(&yard, LARGE).await;
}

#[tokio::test]
async fn r14_a_tree_of_traps_is_exported_and_removed() {
    let yard = Yard::start().await;
    traps(&yard).await;
}

#[tokio::test]
async fn r15_a_job_that_ignores_sigterm_ends_all_the_same() {
    let yard = Yard::start().await;
    ignores_sigterm(&yard).await;
    yard.expect_no_leftovers().await;
}

#[tokio::test]
async fn oci() {
    all_on("oci", MIDDLE).await;
}

#[tokio::test]
async fn docker() {
    all_on("docker", MIDDLE).await;
}

#[tokio::test]
async fn qemu() {
    all_on("qemu", SMALL).await;
}

/// The whole list in one yard.
async fn all_on(driver: &str, scale: Scale) {
    let scale = if std::env::var_os("SANDYARD_SOAK").is_some() { LARGE } else { scale };
    let flags = ["--output-cap-mib", &scale.output_cap_mib.to_string()];
    let Some(ground) = DriverYard::start(driver, "base", &flags).await else { return };
    let yard = &ground.yard;
    let told =
        |what: &str, began: Instant| eprintln!("{driver} {what}: {:.1} s", began.elapsed().as_secs_f64());
    let mut began = Instant::now();
    let neighbour = Neighbour::of(yard).await;
    for what in ["n3", "n1", "r1", "r2", "r5", "r6", "r9", "r14", "r15"] {
        match what {
            "n3" => egress::nothing_unless_asked_for(yard).await,
            "n1" => egress::this_machine_is_out_of_reach(yard).await,
            "r1" => fork_bomb(&neighbour).await,
            "r2" => memory_hog(&neighbour).await,
            "r5" => disk_filler(&neighbour).await,
            "r6" => inode_filler(&neighbour).await,
            "r9" => flood(yard, scale).await,
            "r14" => traps(yard).await,
            _ => ignores_sigterm(yard).await,
        }
        told(what, began);
        began = Instant::now();
    }
    neighbour.is_well().await;
    yard.delete(&neighbour.id).await;
    yard.expect_no_leftovers().await;
}

async fn fork_bomb(neighbour: &Neighbour<'_>) {
    let bomb = json!({"kind": "shell", "code": "echo before > kept; :(){ :|:& };:; wait; sleep 1000",
        "limits": {"pids": 64, "timeout_s": 5, "memory_mib": 256}});
    let status = neighbour.beside(&bomb).await;
    assert!(["failed", "timed_out"].iter().any(|state| status["state"] == *state), "{status}");
    assert!(reason(&status).contains("process"), "{status}");
    let zip = neighbour.yard.download(status["job_id"].as_str().unwrap()).await;
    assert_eq!(downloads::read_entry(&zip, "kept"), b"before\n");
}

async fn memory_hog(neighbour: &Neighbour<'_>) {
    let hog = json!({"kind": "shell", "code": "echo before > kept; python3 -c 'x=[bytearray(1<<20) for _ in range(4096)]'",
        "limits": {"memory_mib": 128}});
    let status = neighbour.beside(&hog).await;
    assert_eq!(status["state"], "failed", "{status}");
    assert!(reason(&status).contains("memory"), "{status}");
    let zip = neighbour.yard.download(status["job_id"].as_str().unwrap()).await;
    assert_eq!(downloads::read_entry(&zip, "kept"), b"before\n");
}

async fn disk_filler(neighbour: &Neighbour<'_>) {
    let code =
        "echo before > kept; head -c 2G /dev/zero > big; code=$?; rm big; echo after >> kept; exit $code";
    let filler = json!({"kind": "shell", "code": code, "limits": {"disk_mib": 128}});
    let status = neighbour.beside(&filler).await;
    assert_eq!(status["state"], "failed", "{status}");
    assert!(status["stderr"].as_str().unwrap().contains("No space left"), "{status}");
    let zip = neighbour.yard.download(status["job_id"].as_str().unwrap()).await;
    assert_eq!(downloads::read_entry(&zip, "kept"), b"before\nafter\n");
}

async fn inode_filler(neighbour: &Neighbour<'_>) {
    let code = "python3 -c \"\nfor i in range(2000000): open(str(i),'w').close()\"";
    let filler = json!({"kind": "shell", "code": code, "limits": {"disk_mib": 64}});
    let status = neighbour.beside(&filler).await;
    assert_eq!(status["state"], "failed", "{status}");
    assert!(status["stderr"].as_str().unwrap().contains("No space left"), "{status}");
    assert!(status["download_url"].is_string());
}

async fn ignores_sigterm(yard: &Yard) {
    let code = "trap '' TERM; (trap '' TERM; setsid sleep 1000 &); echo ready; while :; do sleep 1; done";
    let id = yard.shell_job(code).await;
    yard.wait_for(&id, |status| status["stdout"] == "ready\n").await;
    yard.post_json(&format!("/jobs/{id}/cancel"), &json!({})).await;
    assert_eq!(yard.wait_end(&id).await["state"], "cancelled");
}

/// Both streams at once, far beyond what is kept.
async fn flood(yard: &Yard, scale: Scale) {
    let before = resident_kib(yard.server_pid());
    let code = format!(
        "echo HEAD; (head -c {} /dev/zero | tr '\\0' e >&2) & head -c {} /dev/zero | tr '\\0' x; wait; echo; echo TAIL",
        scale.output_bytes / 10,
        scale.output_bytes
    );
    let id = yard.shell_job(&code).await;
    let mut most = before;
    loop {
        let status = yard.get_json(&format!("/status/{id}?fields=state")).await;
        most = most.max(resident_kib(yard.server_pid()));
        if crate::yard::is_terminal(&status["state"]) {
            assert_eq!(status["state"], "succeeded");
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(most < before + 100 * 1024, "resident memory rose from {before} to {most} KiB");
    let logs = yard.logs(&id, "stdout").await;
    assert!(logs.starts_with("HEAD\n"), "the head is kept");
    assert!(logs.ends_with("\nTAIL\n"), "the tail is kept");
    let most = usize::try_from((scale.output_cap_mib + 6) * 1024 * 1024).unwrap();
    assert!(logs.len() < most, "{} bytes kept", logs.len());
    assert!(yard.events(&id).await.iter().any(|event| event.1 == "truncated"), "the loss is told");
}

/// R14 and F10: names, kinds, holes and depths that tools stumble over; and many long names, which the server must not keep.
const TRAPS: &str = r"
import os, socket
open('kept', 'w').write('before')
os.mkdir('odd'); os.chdir('odd')
for name in [b'-rf', b'new\nline', b'\xff\xfe', b'*', b'a\\b', b'a%5Cb', b'\x1b]52;c;eA==\x07', b'a' * 255, b'\xe2\x80\xae']:
    open(name, 'wb').write(b'x')
os.mkfifo('pipe'); socket.socket(socket.AF_UNIX).bind('socket')
open('closed-file', 'w').close(); os.chmod('closed-file', 0)
os.mkdir('closed'); open('closed/in', 'w').close(); os.chmod('closed', 0)
os.symlink('/etc/passwd', 'passwd'); os.symlink('loop', 'loop')
open('holes', 'wb').truncate(1 << 40)
top = os.getcwd()
for level in range(16):
    os.mkdir('d' * 230); os.chdir('d' * 230)
open('first', 'w').close()
for number in range(6000): os.link('first', 'name-%05d' % number)
os.chdir(top)
for level in range(300):
    os.mkdir('deeper-and-deeper'); os.chdir('deeper-and-deeper')
os.chmod('/workspace', 0)
";

async fn traps(yard: &Yard) {
    let before = resident_kib(yard.server_pid());
    let job = json!({"kind": "shell", "code": "python3 traps.py", "files": {"traps.py": TRAPS}, "limits": {"disk_mib": 256}});
    let status = yard.run(&job).await;
    assert_eq!(status["state"], "succeeded", "{status}");
    let id = status["job_id"].as_str().unwrap();
    let zip = yard.download(id).await;
    assert!(zip.len() < 96 * 1024 * 1024, "{} bytes", zip.len());
    assert_eq!(downloads::read_entry(&zip, "kept"), b"before");
    let archive = zip::ZipArchive::new(std::io::Cursor::new(zip)).unwrap();
    let names: Vec<String> = archive.file_names().flatten().map(|name| name.into_owned()).collect();
    let plain = |name: &String| {
        !name.starts_with('/')
            && !name.contains('\\')
            && name.split('/').all(|part| !matches!(part, "." | ".."))
    };
    assert!(names.iter().all(plain), "{:?}", names.iter().find(|name| !plain(name)));
    assert!(names.iter().filter(|name| name.contains("/name-")).count() == 6_000, "{} names", names.len());
    assert!(!names.iter().any(|name| name == "odd/holes" || name == "odd/pipe" || name == "odd/closed-file"));
    let events = yard.events(id).await;
    let told = |word: &str| events.iter().any(|event| event.2.to_string().contains(word));
    assert!(told("odd/holes: ") && told("odd/pipe: ") && told("odd/closed-file: "), "{events:?}");
    let after = resident_kib(yard.server_pid());
    assert!(after < before + 150 * 1024, "resident memory rose from {before} to {after} KiB");
    yard.delete(id).await;
    let deadline = Instant::now() + Duration::from_secs(30);
    while yard.data().join("jobs").join(id).exists() {
        assert!(Instant::now() < deadline, "its folder is still there");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
