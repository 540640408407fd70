//! Stands for a booted machine in the double: reads the document on the boot disk as a guest would, and lets
//! a real keeper dial the socket of a guest's connection. Answers requests to the machine's first process.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixListener as HostListener;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sandyard_guest::keeper::{self, KeeperConfig, UnixDial};
use sandyard_guest::process_host::local::LocalProcesses;
use sandyard_protocol::{
    ControlReply, ControlRequest, JobUsage, LinkTarget, MACHINE_BOOT_ARGUMENT, MachineConfig,
};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};

/// Place and value of ext4's magic number.
const EXT4_MAGIC: (u64, [u8; 2]) = (1080, [0x53, 0xef]);
/// Longest boot document that is read.
const DOCUMENT_BYTES: u64 = 1024 * 1024;

/// Boots. `disks` are in the order in which the guest finds them.
pub(crate) fn boot(command_line: &str, disks: &[String], vsock: (&HostListener, &str)) -> Result<(), String> {
    let named = command_line.split(' ').find_map(|word| word.strip_prefix(MACHINE_BOOT_ARGUMENT));
    let config = document(disk(disks, named.ok_or("the kernel is told no boot disk")?)?)?;
    let workspace = File::open(disk(disks, &config.disk)?).map_err(|error| error.to_string())?;
    let mut magic = [0; 2];
    workspace.read_exact_at(&mut magic, EXT4_MAGIC.0).map_err(|error| error.to_string())?;
    if magic != EXT4_MAGIC.1 || disk(disks, &config.root)? == disk(disks, &config.disk)? {
        return Err("the workspace is no disk of its own with a file system".to_owned());
    }
    let LinkTarget::Vsock { port } = config.boot.link else { return Err("the link is not vsock".to_owned()) };
    let dial = UnixDial::new(format!("{}_{port}", vsock.1).into());
    let lifetime = Duration::from_secs(config.boot.lifetime_s);
    let processes = Arc::new(LocalProcesses::default());
    tokio::spawn(keeper::run(keeper(&config), processes, dial));
    tokio::spawn(async move {
        tokio::time::sleep(lifetime).await;
        std::process::exit(0);
    });
    let listener = vsock.0.try_clone().map_err(|error| error.to_string())?;
    listener.set_nonblocking(true).map_err(|error| error.to_string())?;
    tokio::spawn(answer_questions(UnixListener::from_std(listener).unwrap(), config.control_vsock));
    Ok(())
}

/// The file behind a disk's name.
fn disk<'a>(disks: &'a [String], name: &str) -> Result<&'a str, String> {
    let letter = name.strip_prefix("vd").and_then(|letter| letter.bytes().next());
    let number = letter.and_then(|letter| letter.checked_sub(b'a'));
    let path = number.and_then(|number| disks.get(usize::from(number)));
    path.map(String::as_str).ok_or_else(|| format!("there is no disk {name}"))
}

fn document(path: &str) -> Result<MachineConfig, String> {
    let mut text = Vec::new();
    let file = File::open(path).map_err(|error| format!("{path}: {error}"))?;
    file.take(DOCUMENT_BYTES).read_to_end(&mut text).map_err(|error| error.to_string())?;
    if !text.len().is_multiple_of(512) {
        return Err(format!("{path} is no whole number of sectors"));
    }
    let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
    serde_json::from_slice(&text[..end]).map_err(|error| format!("{path}: {error}"))
}

fn keeper(config: &MachineConfig) -> KeeperConfig {
    let place = |name: &str| {
        let path = Path::new("guest").join(name);
        std::fs::create_dir_all(&path).unwrap();
        std::path::absolute(path).unwrap()
    };
    KeeperConfig {
        secret: config.boot.secret.clone(),
        spool: place("spool"),
        scripts: place("scripts"),
        workspace: place("workspace"),
        env: BTreeMap::new(),
        egress: None,
        desktop: None,
        agent: None,
    }
}

/// Connections of the host: `CONNECT port`, then lines.
async fn answer_questions(listener: UnixListener, port: Option<u32>) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(answer(stream, port));
    }
}

async fn answer(stream: UnixStream, port: Option<u32>) -> Option<()> {
    let (read, mut write) = stream.into_split();
    let mut lines = BufReader::new(read).lines();
    let asked = lines.next_line().await.ok()??;
    if asked != format!("CONNECT {}", port?) {
        return None;
    }
    write.write_all(b"OK 1073741824\n").await.ok()?;
    let request: ControlRequest = serde_json::from_str(&lines.next_line().await.ok()??).ok()?;
    let usage = JobUsage { cpu_us: 1_500_000, peak_memory_bytes: 4096, memory_kills: 1, pids_refused: 2 };
    let reply = serde_json::to_string(&ControlReply { number: request.number, usage }).ok()?;
    write.write_all(format!("{reply}\n").as_bytes()).await.ok()
}
