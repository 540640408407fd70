//! The parts of a server that are made before its first thread: the lock, the listener, the configuration and, for root, the
//! warden. Then root is given up.
//!
//! Everything that only root may open is opened here: a low port, certificates, recordings, tables. From the drop of privileges on,
//! the process has the yard's data folder, the network, and the warden's socket.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

use sandyard_sandbox::warden::{ServerUser, WorkspacePlaces};
use sandyard_server::config::{BlobsLocation, ModelSpec, PostgresUrl, ServerConfig};

use super::config::{blobs_config, model_config, server_config, store_config};
use super::confinement;
use super::errors::ServeError;
use super::lock::{self, YardHold};
use super::ownership;
use super::privileges;
use super::reach;
use super::server_user;
use super::warden_process::WardenProcess;
use crate::config::{Settings, Surroundings};
use crate::drivers;
use crate::host_checks;
use crate::machine;
use crate::warden::WardenPlan;

/// Longest recording that is read, which is the longest that models replay.
const MAX_RECORDING_BYTES: u64 = 64 * 1024 * 1024;

/// Variables that name what clients of models and of object stores read: certificates and keys.
const READ_PATHS: [&str; 5] = [
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GOOGLE_SERVICE_ACCOUNT",
    "GOOGLE_SERVICE_ACCOUNT_PATH",
];

/// Variables with files that a machine's host replaces while the server runs. Their folders are read, because a rule for a file
/// would stay with the old one.
const READ_TOKENS: [&str; 2] = ["AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"];

/// A server that has what it needs and nothing more. The next step needs a runtime.
pub(crate) struct Foundation {
    pub(super) settings: Settings,
    pub(super) config: ServerConfig,
    pub(super) hold: YardHold,
    /// The listener on an address, if there is to be one.
    pub(crate) listener: Option<TcpListener>,
    /// The warden of a server that was root.
    pub(super) warden: Option<WardenParts>,
}

/// The warden, and where its workspaces are.
pub(super) struct WardenParts {
    pub(super) process: WardenProcess,
    pub(super) places: WorkspacePlaces,
}

impl Foundation {
    /// Lays the foundation. The process must have one thread if it is root's: it is not root's afterwards.
    pub(crate) fn lay(
        surroundings: &Surroundings,
        settings: &Settings,
        listen: Option<SocketAddr>,
    ) -> Result<Self, ServeError> {
        if let Some(name) =
            settings.driver.as_deref().filter(|name| !drivers::names().any(|known| known == *name))
        {
            return Err(ServeError::UnknownDriver(name.to_owned()));
        }
        let listener = listen.map(bind).transpose()?;
        let mut settings = settings.clone();
        settings.data = make_folder(&settings.data)?;
        // First of all: without the lock two servers could remove each other's sockets, groups and jobs.
        let mut hold = lock::lock(&settings.data)?;
        tell_core_dumps();
        let mut config = server_config(&settings, machine::memory_mib());
        config.store = store_config(&settings, surroundings);
        config.blobs = blobs_config(&settings, surroundings);
        config.models = model_config(&settings, surroundings)?;
        let warden = if surroundings.root {
            Some(split(surroundings, &settings, &mut config, &mut hold)?)
        } else {
            None
        };
        Ok(Self { settings, config, hold, listener, warden })
    }
}

/// Starts the warden and gives up root.
fn split(
    surroundings: &Surroundings,
    settings: &Settings,
    config: &mut ServerConfig,
    hold: &mut YardHold,
) -> Result<WardenParts, ServeError> {
    let user = server_user::choose(settings.user.as_deref())?;
    let failed = |action| move |source| ServeError::Data { action, path: settings.data.clone(), source };
    ownership::settle(&settings.data, user, hold.last_user != Some(user.uid))
        .map_err(failed("give the data folder its owners"))?;
    hold.settle(user.uid).map_err(failed("lock"))?;
    let models = settings.models.iter().chain(&settings.model);
    keep_recordings(models, config);
    if let Some(path) = &mut config.models.record {
        *path = give_record(path, user)?;
    }
    let process =
        WardenProcess::start(&warden_plan(settings, config, user), hold).map_err(ServeError::Warden)?;
    let record = config.models.record.as_deref();
    let blobs = match &settings.blobs {
        BlobsLocation::Folder(folder) => Some(folder.as_path()),
        _ => None,
    };
    let writable: Vec<&Path> = [Some(settings.data.as_path()), record, blobs].into_iter().flatten().collect();
    reach::open_ways(&writable, user).map_err(failed("open the way to"))?;
    rustix::process::chdir("/").map_err(|error| ServeError::Drop(error.into()))?;
    privileges::become_user(user).map_err(ServeError::Drop)?;
    confinement::confine(&writable, &readable(surroundings, settings)).map_err(ServeError::Drop)?;
    Ok(WardenParts { process, places: WorkspacePlaces::of_yard(&settings.data, user) })
}

/// Returns the files and folders of the operator that the server reads after it was confined. That its user may read them is the
/// operator's to see to.
fn readable<'a>(surroundings: &'a Surroundings, settings: &'a Settings) -> Vec<&'a Path> {
    let named = |name: &&str| surroundings.get(name).map(Path::new);
    let mut paths: Vec<&Path> = READ_PATHS.iter().filter_map(named).collect();
    paths.extend(READ_TOKENS.iter().filter_map(named).filter_map(Path::parent));
    paths.extend(settings.store.as_ref().and_then(PostgresUrl::root_certificates));
    paths
}

fn warden_plan(settings: &Settings, config: &ServerConfig, server: ServerUser) -> WardenPlan {
    WardenPlan {
        data: settings.data.clone(),
        cache: settings.cache.clone(),
        pool: settings.pool,
        disk_mib: config.default_limits.machine.disk_mib,
        driver: settings.driver.clone(),
        drivers: settings.drivers.clone(),
        images: settings.images,
        packages: settings.packages.clone(),
        snapshot: settings.snapshot.clone(),
        greatest_limits: config.greatest_limits.machine,
        server,
        log: settings.log.clone(),
        log_json: settings.log_json,
    }
}

/// Reads the recordings that models replay, which may be for root's eyes only. One that can't be read is reported when the models
/// are prepared.
fn keep_recordings<'a>(models: impl Iterator<Item = &'a ModelSpec>, config: &mut ServerConfig) {
    for path in models.filter_map(ModelSpec::replay_file) {
        let fits = fs::metadata(path).is_ok_and(|found| found.len() <= MAX_RECORDING_BYTES);
        let text = fits.then(|| fs::read_to_string(path).ok()).flatten();
        if let (Some(name), Some(text)) = (path.to_str(), text) {
            config.models.recordings.entry(name.to_owned()).or_insert(text);
        }
    }
}

/// Makes the file for a recording, or takes an existing one, and gives it to the server. Returns its whole path.
fn give_record(path: &Path, user: ServerUser) -> Result<PathBuf, ServeError> {
    let given = || {
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .custom_flags(libc_nofollow())
            .open(path)?;
        fchown(&file, Some(user.uid), Some(user.gid))?;
        fs::canonicalize(path)
    };
    given().map_err(|source| ServeError::Data { action: "record to", path: path.to_owned(), source })
}

/// A link in the place of the file could lead anywhere.
fn libc_nofollow() -> i32 {
    rustix::fs::OFlags::NOFOLLOW.bits().cast_signed()
}

fn tell_core_dumps() {
    let core_dumps = host_checks::core_dumps();
    if let Some(fix) = &core_dumps.fix {
        tracing::warn!(fix, "{}", core_dumps.detail);
    }
}

/// Listens on an address, as tokio does.
fn bind(address: SocketAddr) -> Result<TcpListener, ServeError> {
    // The standard library sets SO_REUSEADDR, so a restarted server gets its port back.
    let listener = TcpListener::bind(address).and_then(|listener| {
        listener.set_nonblocking(true)?;
        Ok(listener)
    });
    listener.map_err(|source| ServeError::Listen { address: address.to_string(), source })
}

/// Creates the data folder, readable only by this user, and returns its whole path.
fn make_folder(path: &Path) -> Result<PathBuf, ServeError> {
    let made =
        DirBuilder::new().recursive(true).mode(0o700).create(path).and_then(|()| fs::canonicalize(path));
    made.map_err(|source: io::Error| ServeError::Data {
        action: "make the data folder",
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use crate::config::{Flags, Layers};

    use super::*;

    #[test]
    fn files_that_clients_read_later_are_allowed() {
        let variables = [
            ("SANDYARD_STORE", "postgres://yard@db.example/yard?sslrootcert=/srv/keys/root.pem"),
            ("GOOGLE_APPLICATION_CREDENTIALS", "/srv/keys/google.json"),
            ("AWS_WEB_IDENTITY_TOKEN_FILE", "/var/run/secrets/identity/token"),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let around = Surroundings { variables: variables.into(), root: true };
        let settings = Settings::new(&Layers::load(&around, &Flags::default()).unwrap()).unwrap();
        let expected = ["/srv/keys/google.json", "/var/run/secrets/identity", "/srv/keys/root.pem"];
        assert_eq!(readable(&around, &settings), expected.map(Path::new));
    }
}
