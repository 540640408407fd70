//! Two sandboxes at once: neither finds the other or the host's own services, and neither takes resources
//! from the other. The next sandbox finds nothing that an earlier one left behind.

use std::net::TcpListener;
use std::time::Duration;

use tokio::time::timeout;

use super::flushing::flushing;
use super::inodes;
use super::rules::{CheckRule, RuleTable};
use super::{CheckOutcome, DriverSubject, SandboxSession, SuiteError};
use sandyard_sandbox::driver::Limits;

/// Limits of each neighbour: enough for a small program, and half a processor.
const NEIGHBOUR_LIMITS: Limits = Limits { cpus: 0.5, memory_mib: 128, disk_mib: 64, pids: 64, io_mib_s: 256 };
/// Text that one sandbox writes and the next one looks for.
const CANARY: &str = "left-by-the-canary";
/// Directories that a job can write.
const WRITABLE: &str = "/workspace /home/agent /tmp /var/tmp /dev/shm /run/user/1000";
/// Time for which both compute, in milliseconds.
const BURN_MS: &str = "2000";

/// ENOENT, ECONNREFUSED, EADDRNOTAVAIL and ENETUNREACH: not there. EACCES: not allowed.
const NOT_THERE: CheckRule = CheckRule::OneOf(&["errno 2", "errno 111", "errno 13", "errno 99", "errno 101"]);

const RULES: &[(&str, CheckRule)] = &[
    ("N13.", NOT_THERE),
    ("N12.", CheckRule::OneOf(&["errno 111", "errno 101", "errno 99", "errno 113"])),
    ("R16.", CheckRule::Is("made")),
];

/// Checks that sandboxes can't find each other.
pub async fn neighbours(subject: &DriverSubject) -> Result<Vec<CheckOutcome>, SuiteError> {
    let mut outcomes = Vec::new();
    let driver = (subject.open)();
    let gone = SandboxSession::start(driver.clone(), subject.spec("near-0", NEIGHBOUR_LIMITS)?).await?;
    outcomes.push(leave_canary(&gone).await?);
    gone.stop().await?;
    let start = |name| {
        Ok::<_, SuiteError>(SandboxSession::start(driver.clone(), subject.spec(name, NEIGHBOUR_LIMITS)?))
    };
    let (one, two) = tokio::try_join!(start("near-1")?, start("near-2")?)?;
    outcomes.push(find_canary(&one).await?);
    one.upload_probe().await?;
    two.upload_probe().await?;
    outcomes.extend(inodes::share_none(subject, &one, &two).await?);
    outcomes.extend(look_around(&one, &two).await?);
    outcomes.push(share_of_a_busy_neighbour(&one, &two).await?);
    outcomes.extend(flushing(subject, &one).await?);
    one.stop().await?;
    two.stop().await?;
    Ok(outcomes)
}

/// Fills every writable place with a recognisable text, and leaves it in the blocks of a removed file.
async fn leave_canary(session: &SandboxSession) -> Result<CheckOutcome, SuiteError> {
    let script = format!(
        "yes {CANARY} | head -c 20M > /workspace/removed && sync && rm /workspace/removed && \
         for place in {WRITABLE}; do yes {CANARY} | head -c 1M > $place/canary || exit 1; done; sync"
    );
    let ran = session.shell(&script).await?;
    Ok(CheckOutcome::new("S8.left", ran.exit.code == 0, format!("{ran:?}")))
}

/// Searches every writable place for the text, also space that is allocated and not written.
async fn find_canary(session: &SandboxSession) -> Result<CheckOutcome, SuiteError> {
    let script = format!(
        "fallocate -l 30M /workspace/room && truncate -s 30M /workspace/hole && \
         grep -rlae {CANARY} {WRITABLE}; rm -f /workspace/room /workspace/hole; echo looked"
    );
    let ran = session.shell(&script).await?;
    Ok(CheckOutcome::new("S8.residue", ran.stdout == "looked\n" && ran.stderr.is_empty(), format!("{ran:?}")))
}

/// N12, N13 and R16: one sandbox serves and exhausts, the other searches, while the host listens too.
async fn look_around(one: &SandboxSession, two: &SandboxSession) -> Result<Vec<CheckOutcome>, SuiteError> {
    let serving = one.stay(&["/workspace/probe", "serve"]).await?;
    let exhausting = one.stay(&["/workspace/probe", "exhaust"]).await?;
    let host = TcpListener::bind(("0.0.0.0", 0)).map_err(SuiteError::Workspace)?;
    host.set_nonblocking(true).map_err(SuiteError::Workspace)?;
    let port = host.local_addr().map_err(SuiteError::Workspace)?.port();
    let addresses: Vec<_> = host_addresses().iter().map(|address| format!("{address}:{port}")).collect();
    let mut words = vec!["/workspace/probe", "reach"];
    words.extend(addresses.iter().map(String::as_str));
    let ran = two.run(&words).await?;
    let mut outcomes = RuleTable { first: &[], rules: RULES }.judge(&ran.stdout);
    outcomes.push(CheckOutcome::new("N12.nobody_came", host.accept().is_err(), "the host was reached"));
    drop((serving, exhausting));
    Ok(outcomes)
}

/// Returns loopback and the host's address for other hosts.
fn host_addresses() -> Vec<String> {
    let mut addresses = vec!["127.0.0.1".to_owned()];
    // Connecting a datagram socket sends nothing; it shows the address that the host would use.
    let own = std::net::UdpSocket::bind(("0.0.0.0", 0))
        .and_then(|socket| socket.connect(("192.0.2.1", 9)).and_then(|()| socket.local_addr()));
    addresses.extend(own.map(|own| own.ip().to_string()));
    addresses
}

/// R12: many busy processes in one sandbox take nothing from a single one in the other.
async fn share_of_a_busy_neighbour(
    one: &SandboxSession,
    two: &SandboxSession,
) -> Result<CheckOutcome, SuiteError> {
    let used = async |session: &SandboxSession| {
        session.driver.usage(&session.spec.id).await.map(|usage| usage.cpu_s).unwrap_or_default()
    };
    let before = (used(one).await, used(two).await);
    let crowd = format!("for i in $(seq 12); do /workspace/probe burn {BURN_MS} & done; wait");
    let both = async { tokio::join!(one.shell(&crowd), two.run(&["/workspace/probe", "burn", BURN_MS])) };
    let (crowd, single) =
        timeout(Duration::from_secs(120), both).await.map_err(|_| SuiteError::TooLong("computing"))?;
    let well = crowd?.exit.code == 0 && single?.exit.code == 0;
    let spent = (used(one).await - before.0, used(two).await - before.1);
    // Without walls the single process would get a twelfth of theirs. A busy host gives no exact halves.
    let fair = spent.1 >= 0.2 * spent.0;
    Ok(CheckOutcome::new("R12.neighbour", well && fair, format!("{spent:?} s")))
}
