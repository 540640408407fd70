//! Jobs that use all they can get: each must hit its own limit, be charged for it, and leave the machine answering.

use super::memory_kinds::{EATER_LIMITS, memory_kinds};
use super::{CheckOutcome, DriverSubject, SandboxSession, SuiteError};

/// Least memory that the kernel needs for an open file.
const SMALLEST_FILE_BYTES: u64 = 128;

/// Runs jobs that use more than their limits, and checks that the limits hold.
pub async fn resources(subject: &DriverSubject) -> Result<Vec<CheckOutcome>, SuiteError> {
    let spec = subject.spec("eater-1", EATER_LIMITS)?;
    let disk = spec.workspace.clone();
    let session = SandboxSession::start((subject.open)(), spec).await?;
    session.upload_probe().await?;
    let mut outcomes = vec![
        memory(&session, largest_memory_mib(subject)).await?,
        processes(&session).await?,
        cpu(&session).await?,
    ];
    outcomes.extend(disk_bytes(&session, &disk).await?);
    outcomes.push(inodes(&session).await?);
    outcomes.extend(memory_kinds(&session, largest_memory_mib(subject)).await?);
    outcomes.extend(open_files(&session).await?);
    let hidden = session.run(&["/workspace/probe", "hide"]).await?;
    outcomes.push(CheckOutcome::new("R15.hidden", hidden.exit.code == 0, format!("{hidden:?}")));
    outcomes.push(CheckOutcome::new("ping after all", session.machine.ping().await.is_ok(), "no answer"));
    let (driver, id) = (session.driver.clone(), session.spec.id.clone());
    session.stop().await?;
    let left = driver.list().await.is_ok_and(|found| found.iter().all(|found| found.id != id));
    outcomes.push(CheckOutcome::new("R15.stopped", left, "still listed"));
    Ok(outcomes)
}

/// Returns the most memory that the job may use. A disk in memory is added.
fn largest_memory_mib(subject: &DriverSubject) -> u64 {
    EATER_LIMITS.memory_mib + if subject.disk_in_memory { EATER_LIMITS.disk_mib } else { 0 }
}

async fn memory(session: &SandboxSession, largest_mib: u64) -> Result<CheckOutcome, SuiteError> {
    let ran = session.run(&["/workspace/probe", "eat-memory"]).await?;
    let usage = session.driver.usage(&session.spec.id).await.unwrap_or_default();
    let killed = ran.exit.signal == Some(9) && usage.memory_kills >= 1;
    let within = usage.peak_memory_bytes <= largest_mib * 1024 * 1024;
    Ok(CheckOutcome::new("R2.memory", killed && within, format!("{:?} {usage:?}", ran.exit)))
}

async fn processes(session: &SandboxSession) -> Result<CheckOutcome, SuiteError> {
    let ran = session.run(&["/workspace/probe", "fork-many", "500"]).await?;
    let got = ran.stdout.trim().parse::<u64>().unwrap_or(u64::MAX);
    let usage = session.driver.usage(&session.spec.id).await.unwrap_or_default();
    let alive = session.machine.ping().await.is_ok();
    // Ends the sleeping processes, so that the next check has room.
    let ended = session.shell("kill -9 -1").await;
    let refused = got <= EATER_LIMITS.pids && got + 12 >= EATER_LIMITS.pids && usage.pids_refused >= 1;
    Ok(CheckOutcome::new(
        "R1.pids",
        refused && alive,
        format!("{got} forks, {usage:?}, alive {alive}, {ended:?}"),
    ))
}

async fn cpu(session: &SandboxSession) -> Result<CheckOutcome, SuiteError> {
    let before = session.driver.usage(&session.spec.id).await.unwrap_or_default().cpu_s;
    let ran = session.run(&["/workspace/probe", "burn", "1500"]).await?;
    let used = session.driver.usage(&session.spec.id).await.unwrap_or_default().cpu_s - before;
    let within = used <= 1.5 * EATER_LIMITS.cpus + 0.25;
    Ok(CheckOutcome::new(
        "R12.cpu",
        ran.exit.code == 0 && within && used > 0.05,
        format!("{used} s of 1.5 s"),
    ))
}

async fn disk_bytes(
    session: &SandboxSession,
    workspace: &std::path::Path,
) -> Result<Vec<CheckOutcome>, SuiteError> {
    let ran = session
        .shell("dd if=/dev/zero of=/workspace/fill bs=1M count=500 2>&1; sync; stat -c %s fill")
        .await?;
    let full = ran.stdout.contains("No space left on device");
    let home = session.shell("dd if=/dev/zero of=$HOME/fill bs=1M count=50 2>&1").await?;
    let also_full = home.stdout.contains("No space left on device");
    let on_host = allocated_mib(workspace);
    let emptied = session.shell("rm -f /workspace/fill $HOME/fill && echo again > /workspace/again").await?;
    Ok(vec![
        CheckOutcome::new("R5.disk", full, ran.stdout),
        CheckOutcome::new("R5.home_shares_the_cap", also_full, home.stdout),
        CheckOutcome::new(
            "R5.host",
            on_host <= EATER_LIMITS.disk_mib + 1,
            format!("{on_host} MiB on the host"),
        ),
        CheckOutcome::new("R5.recovers", emptied.exit.code == 0, emptied.stderr),
    ])
}

async fn inodes(session: &SandboxSession) -> Result<CheckOutcome, SuiteError> {
    let script =
        "mkdir many && cd many && seq 1 20000 | xargs touch 2>&1 | tail -1; ls | wc -l; cd .. && rm -rf many";
    let ran = session.shell(script).await?;
    let made = ran.stdout.lines().last().and_then(|line| line.trim().parse::<u64>().ok()).unwrap_or(u64::MAX);
    let refused = ran.stdout.contains("No space left on device") && made < 20_000;
    Ok(CheckOutcome::new("R6.inodes", refused, format!("{made} files: {}", ran.stdout)))
}

/// Checks open files: one process hits its own limit, and many together hit the memory limit, since the
/// kernel charges open files to memory.
async fn open_files(session: &SandboxSession) -> Result<Vec<CheckOutcome>, SuiteError> {
    let ran = session.run(&["/workspace/probe", "open-files"]).await?;
    let opened = ran.stdout.trim().parse::<u64>().unwrap_or(u64::MAX);
    let many = session.shell("for i in $(seq 12); do /workspace/probe open-files & done; wait").await?;
    let together: u64 = many.stdout.lines().filter_map(|line| line.trim().parse::<u64>().ok()).sum();
    let most = EATER_LIMITS.memory_mib * 1024 * 1024 / SMALLEST_FILE_BYTES;
    let alive = session.machine.ping().await.is_ok();
    Ok(vec![
        CheckOutcome::new("R8.descriptors", (100..=65_536).contains(&opened), format!("{opened} files")),
        CheckOutcome::new(
            "R8.together",
            together <= most && alive,
            format!("{together} files, alive {alive}"),
        ),
    ])
}

/// Returns the space that a workspace takes on the host.
fn allocated_mib(workspace: &std::path::Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let entries = std::fs::read_dir(workspace).into_iter().flatten().flatten();
    let blocks: u64 =
        entries.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.blocks()).sum();
    blocks * 512 / (1024 * 1024)
}
