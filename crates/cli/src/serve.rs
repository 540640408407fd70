//! Serving a yard from this process: on an address and on a socket in the data folder, or on the socket alone.
//!
//! The data folder is locked first, so two servers never tidy the same folder. Then images, drivers and the yard are
//! opened, and connections are taken last. Stopping goes the other way and leaves jobs running.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use sandyard_sandbox::driver::Driver;
use sandyard_server::app::{JobFilter, JobStatus, StartYardError, Yard};
use sandyard_server::auth::{Access, KeyFileError, KeyStore};
use sandyard_server::config::BadKey;
use sandyard_server::http::{HttpConfig, ServeLimits, serve};
use tokio::net::{TcpListener, UnixListener};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::client::{Client, ClientError, Endpoint, Presence};
use crate::config::Settings;
use crate::context::Context;
use crate::drivers::{self, DriverPlan, OpenDriverError};
use crate::images::{Preparation, YardImages};
use crate::machine;
use crate::server_config::{model_config, server_config};
use crate::ui::Ui;

/// How long another `run` may take until its socket answers.
const OTHER_STARTS: Duration = Duration::from_secs(30);
/// A server that was killed a moment ago may have left a child that has not become another program yet and holds the lock.
const LAST_BREATH: Duration = Duration::from_secs(3);
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// How long a sandbox may take to go away; what is left then, the next server removes.
const CLEARING: Duration = Duration::from_secs(20);
/// Jobs looked at to see whether any is unfinished; a server for one `run` has few.
const NEWEST: usize = 500;

/// A yard could not be served.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServeError {
    /// The data folder can't be used.
    #[error("{action} `{}`", path.display())]
    Data {
        /// What was being done.
        action: &'static str,
        /// To what.
        path: PathBuf,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
    /// The shipped recording can't be put together.
    #[error("put the shipped recording together")]
    Demo(#[source] serde_json::Error),
    /// Another process serves this yard.
    #[error("the yard `{}` is served by another process{owner}", path.display())]
    InUse {
        /// Which yard.
        path: PathBuf,
        /// Which process, if it says.
        owner: String,
    },
    /// The address can't be had.
    #[error("listen on {address}")]
    Listen {
        /// Which.
        address: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A provider's key can't be used; it is never shown.
    #[error("the key in {variable}")]
    ModelKey {
        /// Where it was found.
        variable: &'static str,
        /// What is wrong with it.
        #[source]
        source: BadKey,
    },
    /// The key can't be used.
    #[error("prepare the server's key")]
    Key(#[from] KeyFileError),
    /// The yard can't be opened.
    #[error("open the yard")]
    Yard(#[from] StartYardError),
    /// The yard can't go on; the next server finds everything as it is on disk.
    #[error("the yard can't go on: {0}")]
    Broken(String),
    /// A driver that this machine can run fails to open.
    #[error(transparent)]
    Driver(#[from] OpenDriverError),
    /// A driver nobody knows.
    #[error("there is no driver `{0}`")]
    UnknownDriver(String),
}

impl ServeError {
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::InUse { .. } => Some("use that server, or give this one another --data".to_owned()),
            Self::Listen { .. } => {
                Some("another program may be there; choose another address with --listen".to_owned())
            }
            Self::UnknownDriver(_) => {
                let known: Vec<_> = drivers::names().collect();
                Some(format!("known drivers: auto, {}", known.join(", ")))
            }
            Self::Broken(_) => {
                Some("look at the disk of the data folder, then start again; no job is lost".to_owned())
            }
            Self::Key(KeyFileError::Exposed { path, .. }) => Some(format!("chmod 600 {}", path.display())),
            _ => None,
        }
    }
}

/// A yard being served.
pub(crate) struct Server {
    yard: Yard,
    drivers: Vec<Arc<dyn Driver>>,
    shutdown: CancellationToken,
    listeners: Vec<JoinHandle<()>>,
    preparation: Preparation,
    socket: PathBuf,
    _lock: File,
}

/// The client of a server that another process is just starting.
pub(crate) async fn wait_for(context: &Context, endpoint: Endpoint) -> Result<Client, ClientError> {
    let client = context.client_at(endpoint)?;
    let ready = async {
        while client.presence().await != Presence::Open {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    };
    // If it never answers, the next call says so.
    drop(tokio::time::timeout(OTHER_STARTS, ready).await);
    Ok(client)
}

impl Server {
    /// Opens the yard and serves it on the socket in its folder.
    pub(crate) async fn open(context: &Context, settings: &Settings) -> Result<Self, ServeError> {
        if let Some(name) =
            settings.driver.as_deref().filter(|name| !drivers::names().any(|known| known == *name))
        {
            return Err(ServeError::UnknownDriver(name.to_owned()));
        }
        make_folder(&settings.data)?;
        let lock = lock(&settings.data).await?;
        let socket = settings.socket();
        let listener = bind_socket(&socket)?;
        let images = YardImages::new(settings);
        let mut config = server_config(settings, machine::memory_mib());
        config.models = model_config(settings, &context.surroundings)?;
        let probe = images.clone();
        let plan = DriverPlan {
            data: &settings.data,
            cache: &settings.cache,
            pool: settings.pool,
            disk_mib: config.default_limits.machine.disk_mib,
            probe_image: Arc::new(move || probe.base_root()),
            settings: &settings.drivers,
        };
        let drivers = drivers::open(&plan, settings.driver.as_deref())?;
        let preparation = images.prepare(settings, &context.surroundings, context.ui);
        let yard = Yard::start(config, drivers.clone(), Arc::new(images)).await?;
        let shutdown = CancellationToken::new();
        let mut server =
            Self { yard, drivers, shutdown, listeners: Vec::new(), preparation, socket, _lock: lock };
        // Who can open the socket can read the key too, so none is asked for.
        let config = server.http(Access::new("localhost", KeyStore::default()));
        server.listeners.push(tokio::spawn(serve(listener, config)));
        Ok(server)
    }

    /// Serves on an address too.
    pub(crate) fn listen_on(&mut self, listener: TcpListener, access: Access) {
        let config = self.http(access);
        self.listeners.push(tokio::spawn(serve(listener, config)));
    }

    fn http(&self, access: Access) -> HttpConfig {
        HttpConfig {
            yard: self.yard.clone(),
            access,
            limits: ServeLimits::default(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            shutdown: self.shutdown.clone(),
        }
    }

    /// Returns when no job needs this server any more: others may have used it, and a sandbox is cleared away a
    /// moment after its job has ended.
    pub(crate) async fn until_idle(&self, ui: &Ui) {
        let mut told = false;
        let mut stop = machine::stop_signals();
        let mut idle_since = None;
        loop {
            let page = self.yard.list(&JobFilter::default(), NEWEST, None).await;
            let jobs = page.map(|page| page.jobs).unwrap_or_default();
            let unfinished = jobs.iter().any(|job| !job.state.is_terminal());
            if !unfinished {
                let patient = idle_since.get_or_insert_with(Instant::now).elapsed() < CLEARING;
                if !patient || !self.is_clearing(&jobs).await {
                    return;
                }
            }
            if unfinished && !std::mem::replace(&mut told, true) {
                ui.note("serving until the other jobs have ended; Ctrl-C leaves them to the next server");
            }
            tokio::select! {
                () = tokio::time::sleep(LOOK_AGAIN) => {}
                () = stop.next() => return,
            }
        }
    }

    /// Whether there is a sandbox that no job keeps: its row says `gone` before it is.
    async fn is_clearing(&self, jobs: &[JobStatus]) -> bool {
        for driver in &self.drivers {
            let found = driver.list().await.unwrap_or_default();
            let kept = |id: &str| jobs.iter().any(|job| job.keep && id.starts_with(job.id.as_str()));
            if found.iter().any(|sandbox| !kept(sandbox.id.as_str())) {
                return true;
            }
        }
        false
    }

    /// Returns the reason when the yard can't go on.
    pub(crate) async fn broken(&self) -> ServeError {
        ServeError::Broken(self.yard.broken().await)
    }

    /// Lets go of everything; jobs go on.
    pub(crate) async fn stop(self) {
        self.shutdown.cancel();
        for listener in self.listeners {
            // A listener that panicked has nothing left to let go of.
            drop(listener.await);
        }
        self.yard.stop().await;
        drop(tokio::task::spawn_blocking(|| self.preparation.end()).await);
        drop(std::fs::remove_file(&self.socket));
    }
}

/// The yard belongs to this user alone.
fn make_folder(path: &Path) -> Result<(), ServeError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|source| ServeError::Data { action: "make the data folder", path: path.to_owned(), source })
}

/// Held as long as the file is open; the kernel gives it back however we end.
async fn lock(data: &Path) -> Result<File, ServeError> {
    let path = data.join("server.lock");
    let failed = |source| ServeError::Data { action: "lock", path: path.clone(), source };
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)
        .map_err(failed)?;
    let deadline = Instant::now() + LAST_BREATH;
    let taken = loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) if Instant::now() < deadline => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            taken => break taken,
        }
    };
    match taken {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let mut pid = String::new();
            // Only for the message; its absence says nothing.
            drop(file.read_to_string(&mut pid));
            let owner = if pid.trim().is_empty() { String::new() } else { format!(" (pid {})", pid.trim()) };
            return Err(ServeError::InUse { path: data.to_owned(), owner });
        }
        Err(error) => return Err(failed(error.into())),
    }
    file.set_len(0)
        .and_then(|()| file.rewind())
        .and_then(|()| writeln!(file, "{}", std::process::id()))
        .map_err(failed)?;
    Ok(file)
}

/// The lock is held, so a socket that is there belongs to nobody.
fn bind_socket(path: &Path) -> Result<UnixListener, ServeError> {
    let failed = |source| ServeError::Listen { address: path.display().to_string(), source };
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(path, mode).map_err(failed)?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_yard_has_one_server_at_a_time() {
        let data = tempfile::tempdir().unwrap();
        let first = lock(data.path()).await.unwrap();
        let error = lock(data.path()).await.unwrap_err();
        let own = std::process::id();
        assert!(error.to_string().ends_with(&format!("is served by another process (pid {own})")), "{error}");
        drop(first);
        lock(data.path()).await.unwrap();
    }

    #[tokio::test]
    async fn a_socket_left_by_a_crash_is_replaced() {
        let data = tempfile::tempdir().unwrap();
        let path = data.path().join("s");
        drop(bind_socket(&path).unwrap());
        assert!(path.exists());
        bind_socket(&path).unwrap();
    }
}
