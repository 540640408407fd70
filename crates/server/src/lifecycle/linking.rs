//! Links a sandbox that runs: accepts its connection, checks its secret, and returns a machine that answers.

use std::sync::Arc;
use std::time::Duration;

use sandyard_pipe::HostOffer;
use sandyard_protocol::{ErrorChain, Secret};
use sandyard_sandbox::driver::{Driver, LinkError, Liveness, SandboxId};
use sandyard_sandbox::machine::Machine;

use crate::job::JobRow;
use crate::yard;
use crate::yard::YardContext;

/// Delay before a sandbox that could not be found or judged is looked for again.
const FIND_RETRY_DELAY: Duration = Duration::from_millis(500);

/// A machine whose link is shared with tools.
pub(super) type SharedMachine = Arc<Machine>;

/// Why a sandbox has no link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoLink {
    /// The machine is dead.
    Dead,
    /// The machine runs, but did not dial or prove itself in time.
    Late,
}

/// Waits for the sandbox to dial and to prove that it knows its secret.
pub(super) async fn link(
    context: &YardContext,
    driver: &dyn Driver,
    row: &JobRow,
    sandbox: &SandboxId,
    within: Duration,
) -> Result<Arc<Machine>, NoLink> {
    let secret = secret(context, sandbox).await?;
    let offer = || HostOffer {
        sandbox: sandbox.as_str().to_owned(),
        secret: *secret.expose(),
        epoch: row.epoch,
        unix_ms: context.clock.unix_ms(),
    };
    // A connection that does not prove the secret is dropped, and the next one is awaited: a stranger who dials
    // first must not keep the guest out.
    let attempt = async {
        loop {
            match driver.next_link(sandbox).await {
                Ok(stream) => match sandyard_pipe::welcome(stream, offer()).await {
                    Ok(link) => {
                        return Ok(Arc::new(Machine::over(link).with_boot_time(driver.boot_time())));
                    }
                    Err(error) => tracing::warn!(%sandbox, error = %ErrorChain(&error), "a link was refused"),
                },
                Err(LinkError::NotRunning(_)) => return Err(NoLink::Dead),
                Err(error) => {
                    tracing::warn!(%sandbox, error = %ErrorChain(&error), "no link");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    };
    // A machine that dies ends the wait at once, not at the timeout. Cancelling `next_link` loses no connection; a handshake that
    // is cut off costs the guest one more dial.
    let linked = tokio::select! {
        linked = tokio::time::timeout(within, attempt) => linked.unwrap_or(Err(NoLink::Late)),
        () = driver.wait_dead(sandbox) => Err(NoLink::Dead),
    };
    if linked.is_ok() {
        yard::count(&context.metrics.links);
    }
    linked
}

/// Waits for a machine that was just started: as [`link`], with time to boot.
pub(super) async fn link_first(
    context: &YardContext,
    driver: &dyn Driver,
    row: &JobRow,
    sandbox: &SandboxId,
) -> Result<Arc<Machine>, NoLink> {
    link(context, driver, row, sandbox, context.config.link_timeout + driver.boot_time()).await
}

/// Returns the secret of a sandbox. A sandbox without a row was stopped, so nothing will dial for it.
async fn secret(context: &YardContext, sandbox: &SandboxId) -> Result<Secret, NoLink> {
    match context.store.sandbox(sandbox).await {
        Ok(row) => row.map(|row| row.secret).ok_or(NoLink::Dead),
        Err(error) => {
            tracing::warn!(%sandbox, error = %ErrorChain(&error), "its secret could not be read");
            Err(NoLink::Late)
        }
    }
}

/// The state of a sandbox that has a marker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FoundAlive {
    /// The machine of the sandbox runs.
    Yes,
    /// The machine is dead, or was never completed.
    No,
}

/// Looks for a sandbox by its marker; `None` if it has none. Asks again while the answer is unknown: calling a live sandbox
/// dead would cost its job.
pub(super) async fn find(driver: &dyn Driver, sandbox: &SandboxId) -> Option<FoundAlive> {
    loop {
        match driver.find(sandbox).await {
            Ok(None) => return None,
            Ok(Some(Liveness::Alive)) => return Some(FoundAlive::Yes),
            Ok(Some(Liveness::Dead)) => return Some(FoundAlive::No),
            Ok(Some(Liveness::Unknown)) => {
                tracing::warn!(%sandbox, "nobody can tell whether it lives, asking again")
            }
            Err(error) => {
                tracing::warn!(%sandbox, error = %ErrorChain(&error), "it could not be looked for, trying again");
            }
        }
        tokio::time::sleep(FIND_RETRY_DELAY).await;
    }
}

/// True if a sandbox has a marker and lives.
pub(super) async fn is_alive(driver: &dyn Driver, sandbox: &SandboxId) -> bool {
    find(driver, sandbox).await == Some(FoundAlive::Yes)
}
