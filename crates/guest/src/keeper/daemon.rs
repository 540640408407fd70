//! Keeper's main loop: exits from the process host, and one link to the host after another.

use std::sync::Arc;
use std::time::Instant;

use sandyard_pipe::{Backoff, Link};
use sandyard_protocol::Secret;

use super::assembly::{AssembledKeeper, assemble};
use super::config::KeeperConfig;
use super::core::{KeeperCore, KeeperError};
use super::dial::Dial;
use super::exits::Exits;
use super::spool::SpoolError;
use crate::limits::{FIRST_DIAL_WAIT, LONGEST_DIAL_WAIT, SHORT_LINK};
use crate::process_host::ProcessHost;

const EPOCH_DOCUMENT: &str = "epoch.json";

/// Serves until the machine has to be given up. Dropping the future stops keeper as a kill would: a later `run` on the same
/// spool goes on from there.
pub async fn run(config: KeeperConfig, processes: Arc<dyn ProcessHost>, mut dial: impl Dial) -> KeeperError {
    let (keeper, mut failures) = match assemble(&config, processes).await {
        Ok(assembled) => assembled,
        Err(error) => return error,
    };
    keeper.core.tasks.spawn(deliver_exits(keeper.core.clone(), keeper.exits.clone()));
    // A failure of any service ends keeper; until then links are served. Cancelling `serve_links` drops the link and its streams,
    // as a kill would: everything that must survive is in the spool.
    tokio::select! {
        Some(error) = failures.recv() => error,
        error = serve_links(&keeper, &config.secret, &mut dial) => error.into(),
    }
}

/// Hands each exit to the task that waits for it. An exit that nobody waits for is a worker's.
async fn deliver_exits(core: Arc<KeeperCore>, exits: Arc<Exits>) {
    loop {
        match core.host.next_exit().await {
            Ok(exit) => {
                let id = exit.id.clone();
                if !exits.deliver(exit) {
                    // The spawner keeps each exit until it is forgotten, and its table is bounded.
                    let _ = core.host.forget(&id).await;
                }
            }
            Err(error) => {
                core.fail(error.into());
                return;
            }
        }
    }
}

/// Serves one link after another. A link ends when it is lost, or when a newer server is reached.
async fn serve_links(keeper: &AssembledKeeper, secret: &Secret, dial: &mut impl Dial) -> SpoolError {
    let mut backoff = Backoff::new(FIRST_DIAL_WAIT, LONGEST_DIAL_WAIT);
    let mut next = None;
    loop {
        let link = match next.take() {
            Some(link) => link,
            None => match connect(&keeper.core, secret, dial).await {
                Ok(link) => link,
                Err(error) => return error,
            },
        };
        let began = Instant::now();
        // The old link is served until the new one stands, then dropped with its streams. A cancelled `newer_link` loses at most a
        // connection that no request has used. A cancelled `serve` ends its streams; hosts attach again over the new link.
        tokio::select! {
            () = keeper.links.serve(link) => {
                // A host that accepts and drops a link at once must not make keeper spin.
                if began.elapsed() > SHORT_LINK {
                    backoff.reset();
                } else {
                    tokio::time::sleep(backoff.next_wait()).await;
                }
            }
            newer = newer_link(&keeper.core, secret, dial) => match newer {
                Ok(link) => next = Some(link),
                Err(error) => return error,
            },
        }
    }
}

async fn newer_link(core: &KeeperCore, secret: &Secret, dial: &mut impl Dial) -> Result<Link, SpoolError> {
    dial.replaced().await;
    connect(core, secret, dial).await
}

/// Dials until a host proves itself with an epoch that is not stale.
async fn connect(core: &KeeperCore, secret: &Secret, dial: &mut impl Dial) -> Result<Link, SpoolError> {
    let mut backoff = Backoff::new(FIRST_DIAL_WAIT, LONGEST_DIAL_WAIT);
    loop {
        if let Ok(stream) = dial.dial().await {
            let lowest_epoch = core.spool.load(EPOCH_DOCUMENT)?.unwrap_or(0);
            if let Ok((link, welcome)) = sandyard_pipe::join(stream, secret.expose(), lowest_epoch).await {
                // Stored before the link is used: a keeper that is restarted must not accept a host that this host has replaced.
                core.spool.store(EPOCH_DOCUMENT, &welcome.epoch)?;
                return Ok(link);
            }
        }
        tokio::time::sleep(backoff.next_wait()).await;
    }
}
