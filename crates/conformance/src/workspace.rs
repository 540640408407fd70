//! F1 to F4, F10 and R14: a workspace full of entries that try to mislead a reader from outside: names,
//! links, races, special files, and trees that can't be walked. All reads go over the link, as the API's do.

use std::time::{Duration, Instant};

use sandyard_protocol::EntryKind;

use super::{CheckOutcome, DriverSubject, SandboxSession, SuiteError};
use sandyard_sandbox::driver::Limits;
use sandyard_sandbox::machine::{Machine, MachineError};

/// Limits of the sandbox: room for the files that are made here.
const WORKSPACE_LIMITS: Limits =
    Limits { cpus: 1.0, memory_mib: 256, disk_mib: 64, pids: 128, io_mib_s: 256 };
/// First bytes of every image's `/etc/passwd`, and of no file of the job.
const CANARY: &str = "root:x:0:0";
/// Time for which two names change places under a reader.
const RACE_TIME: Duration = Duration::from_secs(3);
/// Most bytes kept of a file.
const MAX_FILE_BYTES: usize = 1024 * 1024;
/// Paths that lead out, or would if they were decoded once more.
const PATHS: [&str; 12] = [
    "..",
    "../etc/passwd",
    "/etc/passwd",
    "x/../../etc/passwd",
    "./../etc/passwd",
    "%2e%2e/etc/passwd",
    "..%2fetc%2fpasswd",
    "..\\etc\\passwd",
    "passwd\0.txt",
    "\u{2025}/etc/passwd",
    "x/\u{ff0e}\u{ff0e}/etc/passwd",
    "//etc/passwd",
];
/// Links that lead out, and the paths to read through them.
const LINKS: [&str; 6] = [
    "to-file",
    "to-root/etc/passwd",
    "to-self/root/etc/passwd",
    "to-self/cwd/../etc/passwd",
    "chain",
    "up/etc/passwd",
];

/// Reads a misleading workspace from the host.
pub async fn workspace(subject: &DriverSubject) -> Result<Vec<CheckOutcome>, SuiteError> {
    let session = SandboxSession::start((subject.open)(), subject.spec("files-1", WORKSPACE_LIMITS)?).await?;
    session.upload_probe().await?;
    let mut outcomes = vec![];
    for path in PATHS {
        outcomes.push(refused("F1", &session.machine, path).await);
    }
    let links = "ln -s /etc/passwd to-file; ln -s / to-root; ln -s /proc/self to-self; ln -s to-file chain; ln -s ../.. up";
    session.shell(links).await?;
    for path in LINKS {
        outcomes.push(refused("F2", &session.machine, path).await);
        outcomes.push(not_written(&session, path).await?);
    }
    outcomes.push(race(&session).await?);
    outcomes.extend(odd_trees(&session).await?);
    outcomes.push(closed_folder(&session).await?);
    session.stop().await?;
    Ok(outcomes)
}

/// Reads a path that must not lead to a file of the machine itself.
async fn refused(id: &str, machine: &Machine, path: &str) -> CheckOutcome {
    let (passed, found) = match read(machine, path).await {
        Ok(text) => (!text.contains(CANARY), text),
        Err(error) => (matches!(error, MachineError::Guest(_)), error.to_string()),
    };
    CheckOutcome::new(format!("{id}.read {}", path.escape_debug()), passed, found)
}

/// Writing through a link may replace the link, never its target. A directory behind a link accepts no file.
async fn not_written(session: &SandboxSession, path: &str) -> Result<CheckOutcome, SuiteError> {
    let path = format!("{path}-new");
    let written = session.upload(&path, b"written").await;
    let seen = session.shell("cat /etc/passwd-new /proc/self/root/etc/passwd-new 2>/dev/null").await?;
    let told = written.map_or_else(|error| error.to_string(), |()| "written".to_owned());
    Ok(CheckOutcome::new(format!("F2.write {path}"), seen.stdout.is_empty(), told))
}

/// F3: a directory and a link to `/etc` change places while `place/passwd` is read; the link is never followed.
async fn race(session: &SandboxSession) -> Result<CheckOutcome, SuiteError> {
    session.shell("mkdir place && echo mine > place/passwd && ln -s /etc other").await?;
    let swapping = session.stay(&["/workspace/probe", "swap", "place", "other"]).await?;
    let (began, mut tries, mut mine, mut leaked) = (Instant::now(), 0_u32, 0_u32, 0_u32);
    while began.elapsed() < RACE_TIME {
        tries += 1;
        match read(&session.machine, "place/passwd").await {
            Ok(text) if text.contains(CANARY) => leaked += 1,
            Ok(_) => mine += 1,
            Err(_) => {}
        }
    }
    drop(swapping);
    let well = leaked == 0 && mine > 0 && tries > mine;
    Ok(CheckOutcome::new(
        "F3.race",
        well,
        format!("{tries} tries, {mine} read the own file, {leaked} the other"),
    ))
}

/// F10 and R14: an export of odd files ends, follows no link and holds only files, directories and links. The
/// whole tree can be removed.
async fn odd_trees(session: &SandboxSession) -> Result<Vec<CheckOutcome>, SuiteError> {
    let made = session.run(&["/usr/bin/python3", "-c", ODD_TREE]).await?;
    let mut export = session.machine.export("").await?;
    let (mut entries, mut leaked) = (Vec::new(), Vec::new());
    while let Some(entry) = export.next_entry().await? {
        let mut content = Vec::new();
        while let Some(piece) = export.next_bytes().await? {
            if content.len() < MAX_FILE_BYTES {
                content.extend_from_slice(&piece);
            }
        }
        if String::from_utf8_lossy(&content).contains(CANARY) {
            leaked.push(entry.path.clone());
        }
        entries.push(entry);
    }
    let plain =
        |path: &str| !path.starts_with('/') && path.split('/').all(|part| !matches!(part, "" | "." | ".."));
    let sound = entries.iter().all(|entry| plain(&entry.path) && entry.kind != EntryKind::Other);
    let has = |name: &str| entries.iter().any(|entry| entry.path == name);
    let skipped = export.skipped().to_vec();
    let left_out = |name: &str| !has(name) && skipped.iter().any(|line| line.contains(name));
    let told = ["odd/pipe", "odd/socket", "odd/closed-file"].iter().all(|name| left_out(name));
    let whole = has("odd/-rf") && has("odd/last") && entries.iter().any(|entry| entry.path.contains('\n'));
    let removed = session.machine.remove("odd", true).await;
    let gone = session.shell("rm -rf -- odd; ls -A | grep -c odd").await?;
    Ok(vec![
        CheckOutcome::new("R14.made", made.exit.code == 0, format!("{made:?}")),
        CheckOutcome::new(
            "F10.export",
            sound && whole && leaked.is_empty(),
            format!("{} entries, {leaked:?}", entries.len()),
        ),
        CheckOutcome::new("F10.told", told, format!("{skipped:?}")),
        CheckOutcome::new("R14.removed", gone.stdout == "0\n", format!("{removed:?} {gone:?}")),
    ])
}

/// R14: a job that closes its own folder does not keep its work from being exported.
async fn closed_folder(session: &SandboxSession) -> Result<CheckOutcome, SuiteError> {
    session.shell("echo kept > kept; chmod 000 /workspace").await?;
    let found = read(&session.machine, "kept").await;
    Ok(CheckOutcome::new(
        "R14.closed_folder",
        found.as_deref().is_ok_and(|text| text == "kept\n"),
        format!("{found:?}"),
    ))
}

async fn read(machine: &Machine, path: &str) -> Result<String, MachineError> {
    let mut content = machine.read(path, None).await?;
    let mut bytes = Vec::new();
    while let Some(piece) = content.next().await? {
        if bytes.len() < MAX_FILE_BYTES {
            bytes.extend_from_slice(&piece);
        }
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Script that makes names, kinds and shapes on which tools fail.
const ODD_TREE: &str = r"
import os, socket
os.mkdir('odd'); os.chdir('odd')
for name in [b'-rf', b'new\nline', b'\xff\xfe', b'*', b' ', b'\x1b[2J', b'%2e%2e', b'a' * 255, b'\xe2\x80\xae', b'last']:
    open(name, 'wb').write(b'x')
os.mkfifo('pipe')
socket.socket(socket.AF_UNIX).bind('socket')
open('closed-file', 'w').close(); os.chmod('closed-file', 0)
os.mkdir('closed'); open('closed/in', 'w').close(); os.chmod('closed', 0)
os.symlink('/etc', 'etc'); os.symlink('loop', 'loop'); os.symlink('x' * 4000, 'far')
os.link('last', 'twice')
with open('sparse', 'wb') as sparse: sparse.truncate(8 << 20)
top = os.getcwd()
for level in range(400):
    os.mkdir('deep-directory'); os.chdir('deep-directory')
open('bottom', 'w').close()
os.chdir(top)
";
