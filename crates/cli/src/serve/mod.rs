//! Serves a yard from this process: on an address and on a socket in the data folder, or only on the socket.
//!
//! `foundation` comes first, before any thread: it locks the data folder, so two servers never clean up the same one, starts the
//! warden of a server of root and gives up root. Then images, drivers and the yard are opened, and connections are accepted
//! last. Stopping uses the reverse order and leaves jobs running.

mod config;
mod confinement;
pub(crate) mod embedded;
mod errors;
mod foundation;
mod lock;
mod ownership;
mod privileges;
mod reach;
mod server_user;
mod warden_process;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sandyard_api::SettingView;
use sandyard_sandbox::driver::Driver;
use sandyard_sandbox::drivers::stop_trials;
use sandyard_sandbox::warden::WardenClient;
use sandyard_server::app::{Images, JobFilter, Yard, YardStart};
use sandyard_server::auth::{AccessRules, Caller, KeyStore};
use sandyard_server::http::{HttpConfig, ServeLimits, serve_tcp, serve_unix};
use tokio::net::{TcpListener, UnixListener};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::config::Surroundings;
use crate::drivers::{self, DriverPlan};
use crate::images::{Preparation, RemoteImages, YardImages};
use crate::machine;
use crate::trial::{self, TrialHost};
use crate::ui::Ui;

pub(crate) use self::errors::ServeError;
pub(crate) use self::foundation::Foundation;
use self::foundation::WardenParts;
use self::lock::YardHold;
use self::warden_process::{WardenEnding, WardenWorkspaces};

/// Delay between two checks of the jobs.
const IDLE_CHECK: Duration = Duration::from_millis(50);
/// Longest wait for sandboxes to be removed. The next server removes the rest.
const CLEAN_UP_TIMEOUT: Duration = Duration::from_secs(20);
/// Jobs that are checked for unfinished ones; a server for one `run` has few.
const MAX_JOBS: usize = 500;

/// A yard being served.
pub(crate) struct YardServer {
    yard: Yard,
    shutdown: CancellationToken,
    listeners: Vec<JoinHandle<()>>,
    host: YardHost,
    socket: PathBuf,
    settings: Vec<SettingView>,
    _hold: YardHold,
}

/// The process that makes sandboxes and images.
enum YardHost {
    /// This one.
    Own(Preparation, Vec<Arc<dyn Driver>>),
    /// A privileged one.
    Warden(Arc<WardenClient>, WardenEnding),
}

/// The parts of a yard that its host provides.
struct HostParts {
    host: YardHost,
    drivers: Vec<Arc<dyn Driver>>,
    images: Arc<dyn Images>,
}

impl YardServer {
    /// Opens the yard and serves it on the socket in its folder.
    pub(crate) async fn open(
        surroundings: &Surroundings,
        ui: Ui,
        foundation: Foundation,
    ) -> Result<Self, ServeError> {
        let Foundation { settings, mut config, hold, warden, .. } = foundation;
        let socket = settings.socket();
        let listener = bind_socket(&socket)?;
        let HostParts { host, drivers, images } = match warden {
            Some(parts) => join_warden(parts).await?,
            None => {
                let images = YardImages::of(&settings);
                let plan = DriverPlan {
                    data: &settings.data,
                    cache: &settings.cache,
                    pool: settings.pool,
                    disk_mib: config.default_limits.machine.disk_mib,
                    images: Arc::new(images.clone()),
                    settings: &settings.drivers,
                };
                let host = TrialHost {
                    cache: plan.cache,
                    images: Arc::clone(&plan.images),
                    settings: plan.settings,
                };
                trial::remove_abandoned(&std::env::temp_dir(), &host).await;
                let drivers = drivers::open(&plan, settings.driver.as_deref())?;
                let preparation = images.prepare(settings.images, surroundings, ui);
                HostParts {
                    host: YardHost::Own(preparation, drivers.clone()),
                    drivers,
                    images: Arc::new(images),
                }
            }
        };
        if let YardHost::Warden(client, _) = &host {
            config.workspace_owner = Some(Arc::new(WardenWorkspaces(Arc::clone(client))));
        }
        let yard = Yard::start(config, drivers, images).await?;
        let shutdown = CancellationToken::new();
        let rows = settings.rows.iter().cloned();
        let settings = rows.map(|[key, value, source]| SettingView { key, value, source }).collect();
        let mut server = Self { yard, shutdown, listeners: Vec::new(), host, socket, settings, _hold: hold };
        // Whoever can open the socket can also read the key, so the server asks for none.
        let config = server.http(AccessRules::new("localhost", KeyStore::default()));
        server.listeners.push(tokio::spawn(serve_unix(listener, config)));
        Ok(server)
    }

    /// Records the keys and settings that the server begins with.
    pub(crate) async fn record_start(
        &self,
        keys: Vec<String>,
        rows: Vec<[String; 3]>,
    ) -> Result<(), ServeError> {
        let settings = rows.into_iter().map(|[key, value, _]| (key, value)).collect();
        let start = YardStart { version: env!("CARGO_PKG_VERSION").to_owned(), keys, settings };
        let recorded = self.yard.record_start(start).await;
        recorded.map_err(|error| ServeError::Broken(format!("its start can't be recorded: {error}")))
    }

    /// Also serves on an address.
    pub(crate) fn listen_on(&mut self, listener: TcpListener, access: AccessRules) {
        let config = self.http(access);
        self.listeners.push(tokio::spawn(serve_tcp(listener, config)));
    }

    fn http(&self, access: AccessRules) -> HttpConfig {
        HttpConfig {
            yard: self.yard.clone(),
            access,
            limits: ServeLimits::for_open_files(machine::raise_open_files()),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            settings: self.settings.clone(),
            shutdown: self.shutdown.clone(),
        }
    }

    /// Returns when no job needs this server any more. Other commands may have used it, and a sandbox is removed a
    /// moment after its job ended.
    pub(crate) async fn until_idle(&self, ui: &Ui) {
        let mut told = false;
        let mut stop = machine::stop_signals();
        let mut idle_since = None;
        loop {
            let page = self.yard.list(&Caller::operator(), &JobFilter::default(), MAX_JOBS, None).await;
            let jobs = page.map(|page| page.jobs).unwrap_or_default();
            let unfinished = jobs.iter().any(|job| !job.state.is_terminal());
            if !unfinished {
                let patient = idle_since.get_or_insert_with(Instant::now).elapsed() < CLEAN_UP_TIMEOUT;
                if !patient || !self.is_clearing().await {
                    return;
                }
            }
            if unfinished && !std::mem::replace(&mut told, true) {
                ui.note("serving until the other jobs have ended; Ctrl-C leaves them to the next server");
            }
            // A signal must not wait for the next check. Dropping the timer or the watch loses nothing.
            tokio::select! {
                () = tokio::time::sleep(IDLE_CHECK) => {}
                () = stop.next() => return,
            }
        }
    }

    /// True if the yard still removes sandboxes. A yard that can't tell is not waited for.
    async fn is_clearing(&self) -> bool {
        self.yard.is_clearing(&Caller::operator()).await.unwrap_or(false)
    }

    /// Returns the reason when the yard can't continue.
    pub(crate) async fn broken(&self) -> ServeError {
        // Either ends the server. Both only watch, so dropping the other loses nothing.
        tokio::select! {
            reason = self.yard.broken() => ServeError::Broken(reason),
            () = self.host.gone() => ServeError::WardenEnded,
        }
    }

    /// Stops serving. Jobs continue in their sandboxes.
    pub(crate) async fn stop(self) {
        // The reverse order of `open`: no request may arrive at a yard that has stopped.
        self.shutdown.cancel();
        for listener in self.listeners {
            // A listener that panicked has nothing left to release.
            drop(listener.await);
        }
        self.yard.stop().await;
        self.host.end().await;
        // Last, while the lock is still held: the file can't be the socket of another server yet.
        drop(std::fs::remove_file(&self.socket));
    }
}

impl YardHost {
    /// Returns when the warden is gone; never without one.
    async fn gone(&self) {
        match self {
            Self::Own(..) => std::future::pending().await,
            Self::Warden(client, _) => client.closed().await,
        }
    }

    /// Removes the sandboxes of trials and ends the build of images; a warden does both when it ends.
    async fn end(self) {
        if let Self::Own(_, drivers) = &self {
            // The yard has stopped, and with it the tasks that tried drivers.
            let _: bool = stop_trials(drivers).await;
        }
        let end = move || match self {
            Self::Own(preparation, drivers) => {
                drop(drivers);
                preparation.end();
            }
            Self::Warden(client, ending) => {
                // A warden that is gone has no socket any more.
                drop(client.shut_down());
                ending.wait();
            }
        };
        drop(tokio::task::spawn_blocking(end).await);
    }
}

/// Waits until the warden has opened the drivers.
async fn join_warden(parts: WardenParts) -> Result<HostParts, ServeError> {
    let client = WardenClient::open(parts.process.socket, parts.places).await.map_err(ServeError::Drivers)?;
    let (drivers, images) = (client.drivers(), RemoteImages::new(client.images()));
    let host = YardHost::Warden(Arc::new(client), parts.process.ending);
    Ok(HostParts { host, drivers, images: Arc::new(images) })
}

/// Binds the socket. The caller holds the lock, so an existing socket file is left from a dead server.
fn bind_socket(path: &Path) -> Result<UnixListener, ServeError> {
    let failed = |source| ServeError::Listen { address: path.display().to_string(), source };
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    // Only this user may connect, even where an existing data folder is open to others.
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(path, mode).map_err(failed)?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_socket_left_by_a_crash_is_replaced() {
        let data = tempfile::tempdir().unwrap();
        let path = data.path().join("s");
        drop(bind_socket(&path).unwrap());
        assert!(path.exists());
        bind_socket(&path).unwrap();
    }
}
