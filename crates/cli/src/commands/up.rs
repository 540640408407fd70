//! `sandyard up`: run the server in the foreground.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use sandyard_sandbox::driver::Limits;
use sandyard_server::auth::origins::Domain;
use sandyard_server::auth::passes::PassSecret;
use sandyard_server::auth::{AccessRules, CreatedKey, KeyStore};
use tokio::net::TcpListener;

use crate::config::{Flags, Layers, Settings};
use crate::context::CommandContext;
use crate::errors::CommandError;
use crate::exit_codes::CommandExit;
use crate::log;
use crate::machine;
use crate::runtime;
use crate::serve::{Foundation, ServeError, YardServer};
use crate::ui::TableCell;

const EXAMPLES: &str = "\
Examples:
  sandyard up
  sandyard up --listen 0.0.0.0:8000 --data /srv/yard   prints a new key
  ANTHROPIC_API_KEY=… sandyard up --model anthropic/claude-opus-5";

/// Serve a yard in the foreground
///
/// Prints one line with its address when it is ready. SIGTERM and Ctrl-C stop it cleanly; jobs continue in their sandboxes
/// and the next server takes them over. Settings come from defaults, then the configuration file, then the
/// environment, then these flags.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct UpCommand {
    /// Address to listen on [default: 127.0.0.1:8000] [env: SANDYARD_LISTEN]
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<String>,
    /// Data directory: database, jobs, results [default: /var/lib/sandyard, or the user's own] [env: SANDYARD_DATA]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The database of the yard, postgres://user:password@host/database, which several servers may share; the password may be in
    /// PGPASSWORD [default: SQLite in the data directory] [env: SANDYARD_STORE]
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// The place of results and output: s3://bucket/prefix, gs://bucket/prefix or file:///folder; credentials of buckets are read from
    /// the usual variables, e.g. AWS_ACCESS_KEY_ID [default: the data directory] [env: SANDYARD_BLOBS]
    #[arg(long, value_name = "URL")]
    blobs: Option<String>,
    /// Image cache [default: /var/cache/sandyard, or the user's own] [env: SANDYARD_CACHE]
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    /// Domain below which ports of sandboxes have their own origins for browsers on other machines: it and every name below it must
    /// resolve to this server; with https:// if a proxy in front terminates TLS. Requires a key, which is made and printed if there
    /// is none [env: SANDYARD_DOMAIN]
    #[arg(long, value_name = "DOMAIN")]
    domain: Option<String>,
    /// The only driver to use, or auto for the first one that works [default: auto] [env: SANDYARD_DRIVER]
    #[arg(long, value_name = "NAME")]
    driver: Option<String>,
    /// The weakest isolation for every job: any, container, gvisor or vm [default: any] [env: SANDYARD_ISOLATION]
    #[arg(long, value_name = "FLOOR")]
    isolation: Option<String>,
    /// Images to prepare: none, base or full [default: full] [env: SANDYARD_IMAGES]
    #[arg(long, value_name = "WHICH")]
    images: Option<String>,
    /// Number of prepared control groups and blank disks; 0 prepares none [default: 4] [env: SANDYARD_POOL]
    #[arg(long, value_name = "N")]
    pool: Option<String>,
    /// The model of tasks: provider/model, openai-compatible@URL/model or replay:FILE; its key is read from the provider's usual
    /// variable, e.g. OPENAI_API_KEY [env: SANDYARD_MODEL]
    #[arg(long, value_name = "SPEC")]
    model: Option<String>,
    /// Other models that a task may name, separated by commas [env: SANDYARD_MODELS]
    #[arg(long, value_name = "SPECS")]
    models: Option<String>,
    /// A TOML file with prices and abilities of models, which takes precedence over the shipped table [env: SANDYARD_MODEL_TABLE]
    #[arg(long, value_name = "FILE")]
    model_table: Option<PathBuf>,
    /// Record the answers of models for replay:FILE; one task at a time [env: SANDYARD_RECORD]
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Largest number of running sandboxes [default: 64] [env: SANDYARD_CONCURRENCY]
    #[arg(long, value_name = "N")]
    concurrency: Option<String>,
    /// Memory of all running jobs together [default: the machine's] [env: SANDYARD_MEMORY_MIB]
    #[arg(long, value_name = "MIB")]
    memory_mib: Option<String>,
    /// Disk space of all running jobs together [default: what the disk of the data directory has free] [env: SANDYARD_DISK_MIB]
    #[arg(long, value_name = "MIB")]
    disk_mib: Option<String>,
    /// Disk space that is never promised to jobs; below half of it the job that uses most is ended [default: 512] [env:
    /// SANDYARD_DISK_RESERVE_MIB]
    #[arg(long, value_name = "MIB")]
    disk_reserve_mib: Option<String>,
    /// Largest number of queued jobs; more are rejected [default: 10000] [env: SANDYARD_QUEUE]
    #[arg(long, value_name = "N")]
    queue: Option<String>,
    /// How long a sandbox with `keep` stays after the end of its job [default: 3600] [env: SANDYARD_KEEP_S]
    #[arg(long, value_name = "SECONDS")]
    keep_s: Option<String>,
    /// How long a server keeps its jobs without a heartbeat [default: 15] [env: SANDYARD_LEASE_S]
    #[arg(long, value_name = "SECONDS")]
    lease_s: Option<String>,
    /// Stored size of each output stream of a job [default: 1024] [env: SANDYARD_OUTPUT_CAP_MIB]
    #[arg(long, value_name = "MIB")]
    output_cap_mib: Option<String>,
    /// Output of a job that is stored in a second, after a burst of four seconds' worth [default: 16] [env: SANDYARD_OUTPUT_MIB_S]
    #[arg(long, value_name = "MIB")]
    output_mib_s: Option<String>,
    /// How long the model of a task may describe its result; 0: not at all [default: 90] [env: SANDYARD_EXPLAIN_WORDS_S]
    #[arg(long, value_name = "SECONDS")]
    explain_words_s: Option<String>,
    /// Recording of each job's desktop, changed pictures only; 0 records nothing [default: 64] [env: SANDYARD_RECORDING_MIB]
    #[arg(long, value_name = "MIB")]
    recording_mib: Option<String>,
    /// How long ended jobs are stored [default: 14] [env: SANDYARD_RETENTION_DAYS]
    #[arg(long, value_name = "DAYS")]
    retention_days: Option<String>,
    /// Stored size of all ended jobs together [default: 20] [env: SANDYARD_RETENTION_GIB]
    #[arg(long, value_name = "GIB")]
    retention_gib: Option<String>,
    /// Log filter: a level, or directives [default: info] [env: SANDYARD_LOG]
    #[arg(long, value_name = "LEVEL")]
    log: Option<String>,
    /// Log format: text or json [default: text] [env: SANDYARD_LOG_FORMAT]
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
    /// A TOML file with these settings, written with underscores [env: SANDYARD_CONFIG]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print every setting with its source, and do not serve
    #[arg(long)]
    show_config: bool,
}

impl UpCommand {
    /// Runs before the process has a second thread, because a server of root gives up root first.
    pub(crate) fn run(self, context: &CommandContext) -> Result<CommandExit, CommandError> {
        let layers = context.layers(&self.flags())?;
        let settings = Settings::new(&layers)?;
        if self.show_config {
            let settings = layers.rows().into_iter();
            let rows: Vec<_> =
                settings.chain(job_limits()).map(|row| row.map(TableCell::plain).to_vec()).collect();
            context.ui.table(&["KEY", "VALUE", "FROM"], &rows)?;
            return Ok(CommandExit::Success);
        }
        log::to_stderr(&settings.log, settings.log_json);
        let foundation = Foundation::lay(&context.surroundings, &settings, Some(settings.listen))?;
        runtime::block_on(serve(context, &settings, &layers, foundation))?;
        Ok(CommandExit::Success)
    }

    fn flags(&self) -> Flags {
        let mut flags = Flags::with_config(self.config.clone());
        let text = [
            ("listen", &self.listen),
            ("store", &self.store),
            ("blobs", &self.blobs),
            ("domain", &self.domain),
            ("driver", &self.driver),
            ("isolation", &self.isolation),
            ("images", &self.images),
            ("pool", &self.pool),
            ("model", &self.model),
            ("models", &self.models),
            ("concurrency", &self.concurrency),
            ("memory_mib", &self.memory_mib),
            ("disk_mib", &self.disk_mib),
            ("disk_reserve_mib", &self.disk_reserve_mib),
            ("queue", &self.queue),
            ("keep_s", &self.keep_s),
            ("lease_s", &self.lease_s),
            ("output_cap_mib", &self.output_cap_mib),
            ("output_mib_s", &self.output_mib_s),
            ("explain_words_s", &self.explain_words_s),
            ("recording_mib", &self.recording_mib),
            ("retention_days", &self.retention_days),
            ("retention_gib", &self.retention_gib),
            ("log", &self.log),
            ("log_format", &self.log_format),
        ];
        for (key, value) in text {
            flags.set(key, value.as_ref());
        }
        flags.set("data", self.data.as_ref().map(|path| path.display()));
        flags.set("model_table", self.model_table.as_ref().map(|path| path.display()));
        flags.set("record", self.record.as_ref().map(|path| path.display()));
        flags.set("cache", self.cache.as_ref().map(|path| path.display()));
        flags
    }
}

/// Returns the limits of a job that asks for none, as rows of the table of settings. A request changes them, no setting does.
fn job_limits() -> impl Iterator<Item = [String; 3]> {
    let Limits { cpus, memory_mib, disk_mib, pids, io_mib_s } = Limits::default();
    let limits = [
        ("cpus", cpus.to_string()),
        ("memory_mib", memory_mib.to_string()),
        ("disk_mib", disk_mib.to_string()),
        ("pids", pids.to_string()),
        ("io_mib_s", io_mib_s.to_string()),
    ];
    limits.into_iter().map(|(name, value)| [format!("limits.{name}"), value, "default of a job".to_owned()])
}

async fn serve(
    context: &CommandContext,
    settings: &Settings,
    layers: &Layers,
    mut foundation: Foundation,
) -> Result<(), CommandError> {
    let mut stop = machine::stop_signals();
    let listen_failed = |source| ServeError::Listen { address: settings.listen.to_string(), source };
    let unbound = || listen_failed(std::io::ErrorKind::NotConnected.into());
    let listener = foundation.listener.take().ok_or_else(unbound)?;
    let listener = TcpListener::from_std(listener).map_err(listen_failed)?;
    let address = listener.local_addr().map_err(listen_failed)?;
    let mut server = YardServer::open(&context.surroundings, context.ui, foundation).await?;
    let (access, created) = access(settings, address)?;
    // Before the first request: whatever it does, the audit already has the rules that allowed it.
    server.record_start(access.key_ids(), layers.rows()).await?;
    server.listen_on(listener, access);
    context.ui.line(&format!("sandyard is ready at {}", url(address)))?;
    if let Some(key) = created {
        tell_key(context, &own_url(settings, address), &key);
    }
    // Waits for the first reason to stop. Both only watch, so dropping the other loses nothing.
    let ended = tokio::select! {
        () = stop.next() => Ok(()),
        // Without the warden nothing can be stopped in order.
        error @ ServeError::WardenEnded = server.broken() => return Err(error.into()),
        error = server.broken() => Err(error),
    };
    context.ui.note("stopping; jobs continue");
    // A second signal does not wait for open connections. Dropping `stop` in the middle is safe, as a killed
    // server is: the next one takes the jobs over.
    tokio::select! {
        () = server.stop() => {}
        () = stop.next() => context.ui.warn("stopped at once"),
    }
    ended?;
    Ok(())
}

/// Returns the keys that open the server. On loopback a key is only required if one exists. On other addresses and with a
/// domain one is always required: a domain is for clients on other machines, whom a proxy on this machine brings.
fn access(settings: &Settings, address: SocketAddr) -> Result<(AccessRules, Option<CreatedKey>), ServeError> {
    let file = settings.data.join("api.key");
    let (keys, created) = if address.ip().is_loopback() && settings.domain.is_none() {
        (KeyStore::load(&file)?.unwrap_or_default(), None)
    } else {
        KeyStore::load_or_create(&file)?
    };
    let secret = PassSecret::load_or_create(&settings.data.join("origins.key"))?;
    let access = AccessRules::new(&address.ip().to_string(), keys)
        .with_pass_secret(&secret)
        .with_passed_headers(settings.pass_headers.clone());
    Ok((settings.domain.iter().cloned().fold(access, AccessRules::with_domain), created))
}

/// Returns an address for people: reachable, with the host name in place of the wildcard address.
fn url(address: SocketAddr) -> String {
    if address.ip().is_unspecified() {
        format!("http://{}:{}", machine::host_name(), address.port())
    } else {
        format!("http://{address}")
    }
}

/// Returns the address by which people reach the server: that of the domain, if there is one.
fn own_url(settings: &Settings, address: SocketAddr) -> String {
    let Some(Domain { name, tls, port }) = &settings.domain else { return url(address) };
    let scheme = if *tls { "https" } else { "http" };
    let port = if *tls { *port } else { port.or(Some(address.port())) };
    format!("{scheme}://{name}{}", port.map(|port| format!(":{port}")).unwrap_or_default())
}

fn tell_key(context: &CommandContext, url: &str, key: &CreatedKey) {
    let key = key.expose();
    context.ui.note(&format!(
        "\nThis key opens the server. It is shown only now and kept in api.key of the data folder:\n\n  {key}\n\n\
         Sign in:  {url}/#key={key}\n\
         Try it:   curl -s {url}/schedule -H 'authorization: Bearer {key}' \\\n               \
         -H 'content-type: application/json' -d '{{\"kind\": \"shell\", \"code\": \"echo hello\"}}'\n"
    ));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Surroundings;

    fn settings(data: &std::path::Path) -> Settings {
        settings_with(data, None)
    }

    fn settings_with(data: &std::path::Path, domain: Option<&str>) -> Settings {
        let mut flags = Flags::default();
        flags.set("data", Some(data.display()));
        flags.set("domain", domain);
        Settings::new(&Layers::load(&Surroundings::default(), &flags).unwrap()).unwrap()
    }

    #[test]
    fn loopback_is_open_and_other_addresses_get_one_key() {
        let data = tempfile::tempdir().unwrap();
        let settings = settings(data.path());
        let (open, created) = access(&settings, "127.0.0.1:1".parse().unwrap()).unwrap();
        assert!(open.is_open() && created.is_none());
        let (closed, created) = access(&settings, "0.0.0.0:1".parse().unwrap()).unwrap();
        assert!(!closed.is_open() && created.is_some());
        let (_, created) = access(&settings, "0.0.0.0:1".parse().unwrap()).unwrap();
        assert!(created.is_none());
        let (locked, _) = access(&settings, "127.0.0.1:1".parse().unwrap()).unwrap();
        assert!(!locked.is_open());
    }

    #[test]
    fn w26_a_domain_makes_a_key_on_loopback_too() {
        let data = tempfile::tempdir().unwrap();
        let settings = settings_with(data.path(), Some("https://yard.example"));
        let address = "127.0.0.1:8000".parse().unwrap();
        let (access, created) = access(&settings, address).unwrap();
        assert!(!access.is_open() && created.is_some() && data.path().join("api.key").is_file());
        for (domain, url) in [
            ("https://yard.example", "https://yard.example"),
            ("https://yard.example:8443", "https://yard.example:8443"),
            ("yard.example", "http://yard.example:8000"),
        ] {
            assert_eq!(own_url(&settings_with(data.path(), Some(domain)), address), url);
        }
    }
}
