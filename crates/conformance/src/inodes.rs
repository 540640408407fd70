//! Two sandboxes on one image share no inode with each other or with the host. Watches and locks belong to
//! inodes: with a common one, a sandbox would learn which programs its neighbour starts, and both could talk.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use sandyard_sandbox::driver::LocalImages as _;
use tokio::time::timeout;

use super::rules::{CheckRule, RuleTable};
use super::{CheckOutcome, DriverSubject, SandboxSession, SuiteError};

/// Uses of the watched files, in the other sandbox.
const USE: &str = "sha512sum /etc/debian_version && echo x >/dev/full; cat /run/guest/* >/dev/null; true";
/// Longest wait for the report of a watcher.
const REPORT_TIMEOUT: Duration = Duration::from_secs(60);

const RULES: &[(&str, CheckRule)] =
    &[("N13.watch.", CheckRule::Is("quiet")), ("N13.lock.", CheckRule::Is("free"))];
/// Rules of a subject whose device nodes are the host's.
const HOST_DEVICES: &[(&str, CheckRule)] =
    &[("N13.watch./dev/", CheckRule::Holds(|_| true)), ("N13.lock./dev/", CheckRule::Holds(|_| true))];

/// N13: one sandbox watches and locks what the other uses.
pub(super) async fn share_none(
    subject: &DriverSubject,
    one: &SandboxSession,
    two: &SandboxSession,
) -> Result<Vec<CheckOutcome>, SuiteError> {
    let watching = one.stay(&["/workspace/probe", "watch"]).await?;
    two.shell(USE).await?;
    one.upload("enough", b"").await?;
    let seen = timeout(REPORT_TIMEOUT, SandboxSession::finish(watching));
    let seen = seen.await.map_err(|_| SuiteError::TooLong("watching"))??.stdout;
    let holding = one.stay(&["/workspace/probe", "hold"]).await?;
    let locks = two.run(&["/workspace/probe", "locks"]).await?.stdout;
    let first = if subject.host_devices { HOST_DEVICES } else { &[] };
    let mut outcomes = RuleTable { first, rules: RULES }.judge(&format!("{seen}{locks}"));
    outcomes.extend(hosts_locks(subject));
    drop(holding);
    Ok(outcomes)
}

/// The same files on the host, while a sandbox holds locks.
fn hosts_locks(subject: &DriverSubject) -> Vec<CheckOutcome> {
    let image = subject.images.probe_image().and_then(|image| subject.images.tree(&image));
    let in_image = image
        .into_iter()
        .flat_map(|tree| ["usr/bin/sha512sum", "etc/debian_version"].map(|name| tree.join(name)).into_iter());
    let device = (!subject.host_devices).then(|| Path::new("/dev/full").to_owned());
    let lock = |path: &Path| Ok(flock(File::open(path)?, FlockOperation::NonBlockingLockExclusive)?);
    let judge = |path: std::path::PathBuf| {
        let locked: std::io::Result<()> = lock(&path);
        CheckOutcome::new(format!("N13.host_lock {}", path.display()), locked.is_ok(), format!("{locked:?}"))
    };
    in_image.chain(device).map(judge).collect()
}
