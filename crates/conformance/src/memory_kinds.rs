//! R3: memory that no program owns (files in memory, buffers of pipes and sockets) counts against the job's limit like any other.

use super::resources::SMALL;
use super::{Outcome, Session, SessionError};

/// Directories that may be in memory, filled with files.
const PLACES: [&str; 3] = ["/dev/shm", "/tmp", "/run/user/1000"];
/// What the probe fills.
const KINDS: [&str; 5] = ["memory-file", "pipes", "unix-sockets", "tcp", "udp"];
/// The smallest file system in memory, and more names than it may have.
const NAMES_PLACE: &str = "/run/user/1000";
const NAMES: u64 = 17_000;

/// Fills each kind; nobody may get much more than `largest_mib` of it, and the machine goes on.
pub(super) async fn memory_kinds(session: &Session, largest_mib: u64) -> Result<Vec<Outcome>, SessionError> {
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

async fn directory(session: &Session, place: &str) -> Result<Outcome, SessionError> {
    let more_mib = SMALL.memory_mib + SMALL.disk_mib + 8;
    let fill = format!("dd if=/dev/zero of={place}/fill bs=1M count={more_mib} 2>&1");
    let ran = session.shell(&fill).await?;
    let stopped =
        ran.stdout.contains("No space left on device") || ran.exit.signal == Some(9) || ran.exit.code == 137;
    let emptied = session.shell(&format!("rm -f {place}/fill")).await?;
    let well = stopped && emptied.exit.code == 0;
    Ok(Outcome::new(format!("R3.{place}"), well, format!("{:?} {}", ran.exit, ran.stdout)))
}

async fn names(session: &Session) -> Result<Outcome, SessionError> {
    let script = format!(
        "mkdir {NAMES_PLACE}/many && cd {NAMES_PLACE}/many && seq 1 {NAMES} | xargs touch 2>&1 | tail -1; \
         ls | wc -l; rm -rf {NAMES_PLACE}/many"
    );
    let ran = session.shell(&script).await?;
    let made = ran.stdout.lines().last().and_then(|line| line.trim().parse::<u64>().ok());
    Ok(Outcome::new("R3.names", made.is_some_and(|made| made < NAMES), format!("{ran:?}")))
}

async fn buffers(session: &Session, kind: &str, largest_mib: u64) -> Result<Outcome, SessionError> {
    let ran = session.run(&["/workspace/probe", "fill", kind]).await?;
    let got_mib = ran.stdout.trim().parse::<u64>().map(|bytes| bytes / (1024 * 1024));
    let killed = ran.exit.signal == Some(9);
    // Every socket may have a page or two, however little is left for all of them.
    let bounded = killed || got_mib.as_ref().is_ok_and(|mib| *mib <= largest_mib * 3 / 2);
    let alive = session.machine.ping().await.is_ok();
    Ok(Outcome::new(
        format!("R3.{kind}"),
        bounded && alive,
        format!("{got_mib:?} MiB, {:?}, alive {alive}", ran.exit),
    ))
}
