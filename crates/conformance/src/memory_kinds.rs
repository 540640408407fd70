//! R3: memory that no program owns (files in memory, buffers of pipes and sockets) counts against the job's
//! limit like any other memory.

use sandyard_sandbox::driver::Limits;

use super::{CheckOutcome, SandboxSession, SuiteError};

/// Limits of a sandbox that uses all it can, low enough to be hit within a second.
pub(super) const EATER_LIMITS: Limits =
    Limits { cpus: 0.5, memory_mib: 96, disk_mib: 96, pids: 48, io_mib_s: 256 };

/// Directories that may be in memory, which the check fills with files.
const PLACES: [&str; 3] = ["/dev/shm", "/tmp", "/run/user/1000"];
/// Kinds of memory that the probe fills.
const KINDS: [&str; 5] = ["memory-file", "pipes", "unix-sockets", "tcp", "udp"];
/// The smallest file system in memory, and more files than it may have.
const NAMES_PLACE: &str = "/run/user/1000";
const NAME_COUNT: u64 = 17_000;

/// Fills each kind of memory. None may exceed `largest_mib` by much, and the machine must keep answering.
pub(super) async fn memory_kinds(
    session: &SandboxSession,
    largest_mib: u64,
) -> Result<Vec<CheckOutcome>, SuiteError> {
    let mut outcomes = Vec::new();
    for place in PLACES {
        outcomes.push(directory(session, place).await?);
    }
    outcomes.push(names(session).await?);
    for kind in KINDS {
        outcomes.push(buffers(session, kind, largest_mib).await?);
    }
    Ok(outcomes)
}

async fn directory(session: &SandboxSession, place: &str) -> Result<CheckOutcome, SuiteError> {
    let more_mib = EATER_LIMITS.memory_mib + EATER_LIMITS.disk_mib + 8;
    let fill = format!("dd if=/dev/zero of={place}/fill bs=1M count={more_mib} 2>&1");
    let ran = session.shell(&fill).await?;
    let stopped =
        ran.stdout.contains("No space left on device") || ran.exit.signal == Some(9) || ran.exit.code == 137;
    let emptied = session.shell(&format!("rm -f {place}/fill")).await?;
    let well = stopped && emptied.exit.code == 0;
    Ok(CheckOutcome::new(format!("R3.{place}"), well, format!("{:?} {}", ran.exit, ran.stdout)))
}

async fn names(session: &SandboxSession) -> Result<CheckOutcome, SuiteError> {
    let script = format!(
        "mkdir {NAMES_PLACE}/many && cd {NAMES_PLACE}/many && seq 1 {NAME_COUNT} | xargs touch 2>&1 | tail -1; \
         ls | wc -l; rm -rf {NAMES_PLACE}/many"
    );
    let ran = session.shell(&script).await?;
    let made = ran.stdout.lines().last().and_then(|line| line.trim().parse::<u64>().ok());
    Ok(CheckOutcome::new("R3.names", made.is_some_and(|made| made < NAME_COUNT), format!("{ran:?}")))
}

async fn buffers(session: &SandboxSession, kind: &str, largest_mib: u64) -> Result<CheckOutcome, SuiteError> {
    let ran = session.run(&["/workspace/probe", "fill", kind]).await?;
    let got_mib = ran.stdout.trim().parse::<u64>().map(|bytes| bytes / (1024 * 1024));
    let killed = ran.exit.signal == Some(9);
    // Every socket may have a page or two, even when little is left for all of them.
    let bounded = killed || got_mib.as_ref().is_ok_and(|mib| *mib <= largest_mib * 3 / 2);
    let alive = session.machine.ping().await.is_ok();
    Ok(CheckOutcome::new(
        format!("R3.{kind}"),
        bounded && alive,
        format!("{got_mib:?} MiB, {:?}, alive {alive}", ran.exit),
    ))
}
