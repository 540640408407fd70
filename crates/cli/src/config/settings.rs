//! The configuration as typed values.

use std::net::SocketAddr;
use std::path::PathBuf;

use reqwest::header::HeaderName;
use sandyard_sandbox::driver::IsolationLevel;
use sandyard_sandbox::image::ArchiveSnapshot;
use sandyard_server::auth::origins::Domain;
use sandyard_server::config::{BlobsLocation, Floor, ModelSpec, PostgresUrl, PrivateException};
use serde::{Deserialize, Serialize};

use super::drivers::DriverSettings;
use super::layers::{ConfigError, Layers};
use super::readers::{at_least_one, bad, one_of, optional, parse, text};

/// Images that a server builds by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ImageChoice {
    /// None: the images were built beforehand.
    Nothing,
    /// Only the base image.
    Base,
    /// The base image first, then the full image.
    Full,
}

/// All settings of an operator.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Settings {
    /// Every key with its value and its source, for people.
    pub(crate) rows: Vec<[String; 3]>,
    /// Address to listen on.
    pub(crate) listen: SocketAddr,
    /// Directory of the database, the jobs and their results.
    pub(crate) data: PathBuf,
    /// Database of the yard; `None` is SQLite in the data directory.
    pub(crate) store: Option<PostgresUrl>,
    /// Place of results, output and other bytes of jobs.
    pub(crate) blobs: BlobsLocation,
    /// Directory of images and kernels.
    pub(crate) cache: PathBuf,
    /// Domain below which, beside `localhost`, each port of a sandbox has an origin of its own.
    pub(crate) domain: Option<Domain>,
    /// Headers that pass between browsers and programs in sandboxes although a proxy in front may have added them.
    pub(crate) pass_headers: Vec<HeaderName>,
    /// The only driver to use; `None` uses every driver that works.
    pub(crate) driver: Option<String>,
    /// The weakest isolation of any job.
    pub(crate) isolation: Floor,
    pub(crate) images: ImageChoice,
    /// Additional Debian packages in images.
    pub(crate) packages: Vec<String>,
    /// State of Debian's archive that images are built from; `None` is that of the day of the build.
    pub(crate) snapshot: Option<ArchiveSnapshot>,
    /// Number of prepared control groups and blank disks.
    pub(crate) pool: usize,
    /// Model of tasks that name none.
    pub(crate) model: Option<ModelSpec>,
    /// Other models that tasks may name.
    pub(crate) models: Vec<ModelSpec>,
    /// File with prices and abilities of models; it takes precedence over the shipped table.
    pub(crate) model_table: Option<PathBuf>,
    /// File that answers of models are recorded in.
    pub(crate) record: Option<PathBuf>,
    /// Largest number of sandboxes; with 0, jobs are accepted but not started.
    pub(crate) concurrency: usize,
    /// Memory for all jobs together; `None` uses the memory of the machine.
    pub(crate) memory_mib: Option<u64>,
    /// Disk space for all sandboxes together; `None` uses what is free.
    pub(crate) disk_mib: Option<u64>,
    /// Disk space that is never promised to sandboxes.
    pub(crate) disk_reserve_mib: u64,
    /// Largest number of queued jobs.
    pub(crate) queue: usize,
    /// Seconds for which a sandbox with `keep` stays after the end of its job.
    pub(crate) keep_s: u64,
    /// Seconds for which a server keeps its jobs without a heartbeat.
    pub(crate) lease_s: u64,
    /// Stored size of each output stream of a job, in MiB.
    pub(crate) output_cap_mib: u64,
    /// Output of a job that is stored in a second after a burst, in MiB.
    pub(crate) output_mib_s: u64,
    /// Seconds that the model of a task may take to describe its result; 0 for no description.
    pub(crate) explain_words_s: u64,
    /// Recording of the desktop of a job that asks for none, in MiB; 0 records nothing, whatever a job asks for.
    pub(crate) recording_mib: u64,
    /// Days for which ended jobs are stored.
    pub(crate) retention_days: u64,
    /// Stored size of all ended jobs together, in GiB.
    pub(crate) retention_gib: u64,
    /// Private addresses that jobs may reach if their `egress` names them.
    pub(crate) egress_private: Vec<PrivateException>,
    /// File with the certificates that the host trusts.
    pub(crate) trust_file: PathBuf,
    /// User that a server of root becomes; `None` chooses one.
    pub(crate) user: Option<String>,
    /// Log filter: a level or directives.
    pub(crate) log: String,
    /// True if the log is JSON.
    pub(crate) log_json: bool,
    pub(crate) drivers: DriverSettings,
}

impl Settings {
    /// Parses every value. Reports the first bad one with its source.
    pub(crate) fn new(layers: &Layers) -> Result<Self, ConfigError> {
        let driver = text(layers, "driver");
        Ok(Self {
            rows: layers.rows(),
            listen: parse(layers, "listen", "an address and a port, like 127.0.0.1:8000")?,
            data: PathBuf::from(layers.get("data").0),
            store: store(layers)?,
            blobs: blobs(layers)?,
            cache: PathBuf::from(layers.get("cache").0),
            domain: domain(layers)?,
            pass_headers: pass_headers(layers)?,
            driver: driver.filter(|name| name != "auto"),
            isolation: isolation(layers)?,
            images: one_of(layers, "images", &IMAGES, "none, base or full")?,
            packages: layers
                .get("packages")
                .0
                .split([',', ' '])
                .filter(|name| !name.is_empty())
                .map(str::to_owned)
                .collect(),
            snapshot: snapshot(layers)?,
            pool: parse(layers, "pool", "a number of sandboxes")?,
            model: optional(layers, "model", MODEL)?,
            models: models(layers)?,
            model_table: text(layers, "model_table").map(PathBuf::from),
            record: text(layers, "record").map(PathBuf::from),
            concurrency: parse(layers, "concurrency", "a number of sandboxes")?,
            memory_mib: optional(layers, "memory_mib", "a number of MiB")?,
            disk_mib: optional(layers, "disk_mib", "a number of MiB")?,
            disk_reserve_mib: parse(layers, "disk_reserve_mib", "a number of MiB")?,
            queue: parse(layers, "queue", "a number of jobs")?,
            keep_s: parse(layers, "keep_s", "a number of seconds")?,
            lease_s: at_least_one(layers, "lease_s")?,
            output_cap_mib: at_least_one(layers, "output_cap_mib")?,
            output_mib_s: at_least_one(layers, "output_mib_s")?,
            explain_words_s: parse(layers, "explain_words_s", "a number of seconds")?,
            recording_mib: parse(layers, "recording_mib", "a number of MiB, 0 for no recordings")?,
            retention_days: parse(layers, "retention_days", "a number of days")?,
            retention_gib: parse(layers, "retention_gib", "a number of GiB")?,
            egress_private: private_places(layers)?,
            trust_file: PathBuf::from(layers.get("trust_file").0),
            user: text(layers, "user"),
            log: layers.get("log").0.to_owned(),
            log_json: one_of(layers, "log_format", &[("text", false), ("json", true)], "text or json")?,
            drivers: DriverSettings::new(layers)?,
        })
    }

    /// Returns the path of the Unix socket on which every server of this yard listens.
    pub(crate) fn socket(&self) -> PathBuf {
        self.data.join("sandyard.sock")
    }
}

const MODEL: &str = "a model like openai/gpt-5, anthropic/claude-opus-5, ollama/qwen3, openai-compatible@URL/model or replay:FILE";

/// Parses model names, separated by commas.
fn models(layers: &Layers) -> Result<Vec<ModelSpec>, ConfigError> {
    let specs = layers.get("models").0.split(',').map(str::trim).filter(|spec| !spec.is_empty());
    specs.map(|spec| spec.parse().map_err(|_| bad(layers, "models", MODEL))).collect()
}

/// Parses `HOST:PORT=ADDRESS` rules, separated by commas.
fn private_places(layers: &Layers) -> Result<Vec<PrivateException>, ConfigError> {
    let text = layers.get("egress_private").0;
    let place = |text: &str| {
        let (target, address) = text.trim().split_once('=')?;
        let (host, port) = target.rsplit_once(':')?;
        let host = host.to_ascii_lowercase();
        Some(PrivateException { host, port: port.parse().ok()?, address: address.parse().ok()? })
    };
    let places: Option<Vec<_>> = text.split(',').filter(|text| !text.trim().is_empty()).map(place).collect();
    places.ok_or_else(|| {
        bad(layers, "egress_private", "places like mirror.example:8080=10.0.0.7, separated by commas")
    })
}

fn store(layers: &Layers) -> Result<Option<PostgresUrl>, ConfigError> {
    let expected =
        "an address like postgres://user:password@host/database, or nothing for SQLite in the data directory";
    let read = |text: String| PostgresUrl::parse(&text).map_err(|_| bad(layers, "store", expected));
    text(layers, "store").map(read).transpose()
}

fn blobs(layers: &Layers) -> Result<BlobsLocation, ConfigError> {
    let expected = "a place like s3://bucket/prefix, gs://bucket/prefix or file:///folder, or nothing for the data directory";
    let read = |text: String| BlobsLocation::parse(&text).map_err(|_| bad(layers, "blobs", expected));
    Ok(text(layers, "blobs").map(read).transpose()?.unwrap_or_default())
}

fn snapshot(layers: &Layers) -> Result<Option<ArchiveSnapshot>, ConfigError> {
    let expected = "a date like 20261101, or a moment like 20261101T083000Z";
    let read = |text: String| ArchiveSnapshot::parse(&text).ok_or_else(|| bad(layers, "snapshot", expected));
    text(layers, "snapshot").map(read).transpose()
}

fn isolation(layers: &Layers) -> Result<Floor, ConfigError> {
    let given = layers.get("isolation").0;
    if given == "any" {
        return Ok(Floor::Any);
    }
    let level = IsolationLevel::parse(given).filter(|level| *level > IsolationLevel::None);
    level.map(Floor::Level).ok_or_else(|| {
        bad(layers, "isolation", "any, container, gvisor or vm; to use one driver only, set `driver`")
    })
}

const IMAGES: [(&str, ImageChoice); 3] =
    [("none", ImageChoice::Nothing), ("base", ImageChoice::Base), ("full", ImageChoice::Full)];

fn domain(layers: &Layers) -> Result<Option<Domain>, ConfigError> {
    let expected = "a name, or http:// or https:// and a name, like https://yard.example";
    let read = |text: String| Domain::parse(&text).ok_or_else(|| bad(layers, "domain", expected));
    text(layers, "domain").map(read).transpose()
}

/// Parses names of headers, separated by commas.
fn pass_headers(layers: &Layers) -> Result<Vec<HeaderName>, ConfigError> {
    let names = layers.get("pass_headers").0.split(',').map(str::trim).filter(|name| !name.is_empty());
    let expected = "names of headers, separated by commas, like authorization,x-api-key";
    names.map(|name| name.parse().map_err(|_| bad(layers, "pass_headers", expected))).collect()
}
