//! Resolves names for one job, by the host's own resolver: `/etc/hosts`, search list and all that nsswitch names.
//!
//! The host's resolver holds a thread for as long as name servers take, and can't be cancelled. A job chooses names, so it
//! chooses how long that is. Each job therefore has a few threads of its own; its other lookups wait for them. The server's
//! pool of blocking threads, which every job needs, is never used.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, oneshot};

use super::policy::EgressTarget;

/// Longest time to resolve a name, with the wait for a thread; the host's resolver may try several servers.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(10);
/// Lookups of a job at once. A quick one takes milliseconds, so a browser's dozen names are no slower than one at a time.
const MAX_LOOKUPS_PER_JOB: usize = 4;
/// Addresses of a name that are tried.
const MAX_ADDRESSES: usize = 8;

type Lookup = fn(&str, u16) -> io::Result<Vec<SocketAddr>>;

/// The resolver of one job.
#[derive(Debug)]
pub(super) struct NameResolver {
    threads: Arc<Semaphore>,
    lookup: Lookup,
}

impl NameResolver {
    /// Makes a resolver that asks the host.
    pub(super) fn new() -> Self {
        Self::with(ask_host)
    }

    fn with(lookup: Lookup) -> Self {
        Self { threads: Arc::new(Semaphore::new(MAX_LOOKUPS_PER_JOB)), lookup }
    }

    /// Returns the addresses of a target; none if it has none, or they are not known in time.
    pub(super) async fn resolve(&self, target: &EgressTarget) -> Vec<SocketAddr> {
        let found = tokio::time::timeout(RESOLVE_TIMEOUT, self.ask(target.clone())).await;
        found.ok().flatten().unwrap_or_default()
    }

    async fn ask(&self, EgressTarget { host, port }: EgressTarget) -> Option<Vec<SocketAddr>> {
        let permit = Arc::clone(&self.threads).acquire_owned().await.ok()?;
        let (sender, receiver) = oneshot::channel();
        let lookup = self.lookup;
        let thread = std::thread::Builder::new().name("egress-dns".to_owned());
        let spawned = thread.spawn(move || {
            let found = lookup(&host, port);
            // Only now: a lookup that nobody waits for any more still holds its thread.
            drop(permit);
            // The receiver is gone if the lookup took too long.
            let _ = sender.send(found);
        });
        spawned.ok()?;
        receiver.await.ok()?.ok()
    }
}

fn ask_host(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    Ok((host, port).to_socket_addrs()?.take(MAX_ADDRESSES).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use parking_lot::{Condvar, Mutex};

    use super::*;

    static RUNNING: AtomicUsize = AtomicUsize::new(0);
    static MOST: AtomicUsize = AtomicUsize::new(0);
    static IS_ANSWERING: Mutex<bool> = Mutex::new(false);
    static ANSWERS: Condvar = Condvar::new();

    /// A name server that does not answer until it is told to.
    fn slow(_: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        MOST.fetch_max(RUNNING.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        let mut is_answering = IS_ANSWERING.lock();
        while !*is_answering {
            ANSWERS.wait(&mut is_answering);
        }
        RUNNING.fetch_sub(1, Ordering::SeqCst);
        Ok(vec![SocketAddr::from(([192, 0, 2, 1], port))])
    }

    fn target(host: &str) -> EgressTarget {
        EgressTarget::new(host, 80).unwrap()
    }

    /// The runtime has one thread for blocking work, which a single lookup there would take.
    #[test]
    fn n23_slow_names_of_a_job_wait_for_each_other_and_nobody_else_does() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .max_blocking_threads(1)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let hostile = Arc::new(NameResolver::with(slow));
            let lookups: Vec<_> = (0..100)
                .map(|number| {
                    let resolver = Arc::clone(&hostile);
                    let host = format!("slow-{number}.example");
                    tokio::spawn(async move { resolver.resolve(&target(&host)).await })
                })
                .collect();
            while RUNNING.load(Ordering::SeqCst) < MAX_LOOKUPS_PER_JOB {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            // Others are served meanwhile: blocking work of the server, and the names of other jobs.
            tokio::task::spawn_blocking(|| ()).await.unwrap();
            let found = NameResolver::new().resolve(&target("localhost")).await;
            assert!(found.iter().any(|address| address.ip().is_loopback()), "{found:?}");
            assert_eq!(RUNNING.load(Ordering::SeqCst), MAX_LOOKUPS_PER_JOB);
            *IS_ANSWERING.lock() = true;
            ANSWERS.notify_all();
            for lookup in lookups {
                assert_eq!(lookup.await.unwrap().len(), 1);
            }
            assert_eq!(MOST.load(Ordering::SeqCst), MAX_LOOKUPS_PER_JOB);
        });
    }

    #[tokio::test]
    async fn a_name_without_addresses_has_none() {
        assert!(NameResolver::new().resolve(&target("no-such-host.invalid")).await.is_empty());
    }
}
