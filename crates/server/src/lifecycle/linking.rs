//! From a sandbox that runs to a machine that answers.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sandyard_pipe::HostOffer;
use sandyard_sandbox::driver::{Driver, LinkError, Liveness, SandboxId};
use sandyard_sandbox::machine::Machine;

use crate::error_chain::chain;
use crate::job::JobRow;
use crate::yard;
use crate::yard::YardContext;

/// Before sandboxes that could not be listed are listed again.
const LIST_AGAIN: Duration = Duration::from_millis(500);

/// Why there is no link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoLink {
    /// The machine is dead.
    Dead,
    /// It runs, but did not dial or prove itself in time.
    Late,
}

/// Waits for the sandbox to dial and prove itself.
pub(super) async fn link(
    context: &YardContext,
    driver: &dyn Driver,
    row: &JobRow,
    sandbox: &SandboxId,
    within: Duration,
) -> Result<Arc<Machine>, NoLink> {
    let attempt = async {
        loop {
            match driver.next_link(sandbox).await {
                Ok(stream) => match sandyard_pipe::welcome(stream, offer(row, sandbox)).await {
                    Ok(link) => return Ok(Arc::new(Machine::over(link))),
                    Err(error) => tracing::warn!(%sandbox, error = %chain(&error), "a link was refused"),
                },
                Err(LinkError::NotRunning(_)) => return Err(NoLink::Dead),
                Err(error) => {
                    tracing::warn!(%sandbox, error = %chain(&error), "no link");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    };
    let linked = tokio::select! {
        linked = tokio::time::timeout(within, attempt) => linked.unwrap_or(Err(NoLink::Late)),
        () = driver.wait_dead(sandbox) => Err(NoLink::Dead),
    };
    if linked.is_ok() {
        yard::count(&context.metrics.links);
    }
    linked
}

/// The same for a machine that was just started and has to boot first.
pub(super) async fn link_first(
    context: &YardContext,
    driver: &dyn Driver,
    row: &JobRow,
    sandbox: &SandboxId,
) -> Result<Arc<Machine>, NoLink> {
    link(context, driver, row, sandbox, context.config.link_timeout + driver.boot_time()).await
}

fn offer(row: &JobRow, sandbox: &SandboxId) -> HostOffer {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    HostOffer {
        sandbox: sandbox.as_str().to_owned(),
        secret: *row.secret.expose(),
        epoch: row.epoch,
        unix_ms: i64::try_from(now.as_millis()).unwrap_or(i64::MAX),
    }
}

/// Whether a sandbox that has a marker lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FoundAlive {
    /// Its machine runs.
    Yes,
    /// Its machine is dead or was never whole.
    No,
}

/// Looks for a sandbox by its marker; `None` if it has none. What can't be known now is asked again: a sandbox that was called
/// dead by mistake would cost its job.
pub(super) async fn find(driver: &dyn Driver, sandbox: &SandboxId) -> Option<FoundAlive> {
    loop {
        match driver.list().await {
            Ok(found) => match found.iter().find(|found| found.id == *sandbox)?.liveness {
                Liveness::Alive => return Some(FoundAlive::Yes),
                Liveness::Dead => return Some(FoundAlive::No),
                Liveness::Unknown => {
                    tracing::warn!(%sandbox, "nobody can tell whether it lives, asking again")
                }
            },
            Err(error) => {
                tracing::warn!(error = %chain(&error), "the sandboxes could not be listed, trying again");
            }
        }
        tokio::time::sleep(LIST_AGAIN).await;
    }
}

/// Whether a sandbox is alive, by its marker.
pub(super) async fn is_alive(driver: &dyn Driver, sandbox: &SandboxId) -> bool {
    find(driver, sandbox).await == Some(FoundAlive::Yes)
}
