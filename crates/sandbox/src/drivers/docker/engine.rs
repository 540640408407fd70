//! The engine behind its Unix socket, Docker's or Podman's: the few calls that are made of it, each with a deadline.
//!
//! Nothing is kept of an engine but whose it is and which version of the API it speaks, so one that is restarted is simply
//! asked again. A missing container is no error where the caller wanted it removed.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bollard::errors::Error;
use bollard::models::{ContainerCreateBody, ImageSummary, SystemInfo, SystemVersion};
use bollard::query_parameters::{
    CreateContainerOptionsBuilder, InspectContainerOptions, ListContainersOptionsBuilder,
    ListImagesOptionsBuilder, LogsOptionsBuilder, RemoveContainerOptionsBuilder, RemoveImageOptions,
    StartContainerOptions,
};
use bollard::{API_DEFAULT_VERSION, Docker};
use futures_util::StreamExt as _;
use tokio::sync::OnceCell;
use tokio::time::Instant;

/// A busy engine takes seconds for a container; one that takes this long does not answer at all.
const CALL_TIMEOUT_S: u64 = 120;
/// Loading an image of gigabytes into a slow disk, or removing it.
const LOAD_TIMEOUT_S: u64 = 3600;
/// A look at whether it is there.
const GREETING_TIMEOUT: Duration = Duration::from_secs(10);
/// An engine that refuses to remove a container for longer has a reason.
const REMOVE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long it has to come to know that a container ended.
const RETRY_DELAY: Duration = Duration::from_millis(50);
/// Most bytes that are read of a container's console.
const CONSOLE_BYTES: usize = 64 * 1024;
const NOT_FOUND: u16 = 404;
const CONFLICT: u16 = 409;

/// Whose an engine is. Podman speaks Docker's API, and reads some of it in its own way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EngineMake {
    Docker,
    Podman,
}

impl EngineMake {
    /// Podman's name among its components.
    pub(super) const PODMAN: &str = "Podman Engine";

    fn of(version: &SystemVersion) -> Self {
        let parts = version.components.iter().flatten();
        if parts.clone().any(|part| part.name == Self::PODMAN) { Self::Podman } else { Self::Docker }
    }

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Podman => "podman",
        }
    }
}

#[derive(Debug)]
pub(super) struct Engine {
    socket: PathBuf,
    known: OnceCell<KnownEngine>,
}

/// Facts about an engine that has answered.
#[derive(Debug)]
struct KnownEngine {
    client: Docker,
    make: EngineMake,
}

impl Engine {
    /// The engine behind a socket; nothing is asked of it yet.
    pub(super) fn new(socket: &Path) -> Self {
        Self { socket: socket.to_owned(), known: OnceCell::new() }
    }

    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    /// A client that speaks the newest version of the API that both know.
    async fn client(&self) -> io::Result<&Docker> {
        Ok(&self.known().await?.client)
    }

    pub(super) async fn make(&self) -> io::Result<EngineMake> {
        Ok(self.known().await?.make)
    }

    /// The same if it has answered before.
    pub(super) fn known_make(&self) -> Option<EngineMake> {
        self.known.get().map(|known| known.make)
    }

    async fn known(&self) -> io::Result<&KnownEngine> {
        let greet = || async {
            let socket = self.socket.to_str().ok_or(io::ErrorKind::InvalidInput)?;
            let client = Docker::connect_with_unix(socket, CALL_TIMEOUT_S, API_DEFAULT_VERSION);
            let client = client.map_err(|error| self.told(error))?;
            let client = client.negotiate_version().await.map_err(|error| self.told(error))?;
            let version = client.version().await.map_err(|error| self.told(error))?;
            Ok(KnownEngine { client, make: EngineMake::of(&version) })
        };
        let greeted =
            || async { tokio::time::timeout(GREETING_TIMEOUT, greet()).await.map_err(|_| self.silent())? };
        self.known.get_or_try_init(greeted).await
    }

    fn silent(&self) -> io::Error {
        let text = format!("the engine at {} does not answer", self.socket.display());
        io::Error::new(io::ErrorKind::TimedOut, text)
    }

    /// Converts an engine's error. Separates an engine that can't be reached from one that rejects a call.
    fn told(&self, error: Error) -> io::Error {
        match error {
            Error::DockerResponseServerError { status_code: NOT_FOUND, message } => {
                io::Error::new(io::ErrorKind::NotFound, message)
            }
            Error::DockerResponseServerError { status_code: CONFLICT, message } => {
                io::Error::new(io::ErrorKind::AlreadyExists, message)
            }
            Error::DockerResponseServerError { message, .. } => io::Error::other(message),
            Error::RequestTimeoutError => self.silent(),
            Error::DockerStreamError { error } => io::Error::other(error),
            other => {
                // The outer ones tell which library failed, the innermost tells what happened.
                let mut cause: &dyn std::error::Error = &other;
                while let Some(inner) = cause.source() {
                    cause = inner;
                }
                let text = format!("no engine answers at {}: {cause}", self.socket.display());
                io::Error::new(io::ErrorKind::ConnectionRefused, text)
            }
        }
    }

    pub(super) async fn ping(&self) -> io::Result<()> {
        self.client().await?.ping().await.map(drop).map_err(|error| self.told(error))
    }

    /// Its version and those of its parts.
    pub(super) async fn version(&self) -> io::Result<SystemVersion> {
        self.client().await?.version().await.map_err(|error| self.told(error))
    }

    /// How it is set up.
    pub(super) async fn info(&self) -> io::Result<SystemInfo> {
        self.client().await?.info().await.map_err(|error| self.told(error))
    }

    /// The id of an image with this label, if there is one.
    pub(super) async fn image_with(&self, label: &str, value: &str) -> io::Result<Option<String>> {
        let filters = HashMap::from([("label", vec![format!("{label}={value}")])]);
        let options = ListImagesOptionsBuilder::new().filters(&filters).build();
        let images = self.client().await?.list_images(Some(options)).await;
        Ok(images.map_err(|error| self.told(error))?.into_iter().next().map(|image| image.id))
    }

    /// All images that have a label of this name.
    pub(super) async fn images_labelled(&self, label: &str) -> io::Result<Vec<ImageSummary>> {
        let filters = HashMap::from([("label", vec![label.to_owned()])]);
        let options = ListImagesOptionsBuilder::new().filters(&filters).build();
        self.client().await?.list_images(Some(options)).await.map_err(|error| self.told(error))
    }

    /// Removes an image; `AlreadyExists` if a container uses it.
    pub(super) async fn remove_image(&self, id: &str) -> io::Result<()> {
        let mut client = self.client().await?.clone();
        client.set_timeout(Duration::from_secs(LOAD_TIMEOUT_S));
        let removed = client.remove_image(id, None::<RemoveImageOptions>, None).await;
        match removed.map_err(|error| self.told(error)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed.map(drop),
        }
    }

    /// Loads an archive that arrives piece by piece.
    pub(super) async fn load(
        &self,
        archive: impl futures_util::Stream<Item = io::Result<bytes::Bytes>> + Send + 'static,
    ) -> io::Result<()> {
        let mut client = self.client().await?.clone();
        client.set_timeout(Duration::from_secs(LOAD_TIMEOUT_S));
        let options = bollard::query_parameters::ImportImageOptionsBuilder::new().quiet(true).build();
        let mut answers = std::pin::pin!(client.import_image_stream(options, archive, None));
        while let Some(answer) = answers.next().await {
            answer.map_err(|error| self.told(error))?;
        }
        Ok(())
    }

    /// Makes a container; `AlreadyExists` if the name is taken.
    pub(super) async fn create(&self, name: &str, body: ContainerCreateBody) -> io::Result<()> {
        let options = CreateContainerOptionsBuilder::new().name(name).build();
        let created = self.client().await?.create_container(Some(options), body).await;
        created.map(drop).map_err(|error| self.told(error))
    }

    pub(super) async fn start(&self, name: &str) -> io::Result<()> {
        let started = self.client().await?.start_container(name, None::<StartContainerOptions>).await;
        started.map_err(|error| self.told(error))
    }

    /// The pid of its first process, as the host counts; none unless it runs.
    pub(super) async fn pid(&self, name: &str) -> io::Result<Option<i32>> {
        let found = self.client().await?.inspect_container(name, None::<InspectContainerOptions>).await;
        let state = found.map_err(|error| self.told(error))?.state.unwrap_or_default();
        let pid = state.pid.and_then(|pid| i32::try_from(pid).ok()).filter(|&pid| pid > 0);
        Ok(pid.filter(|_| state.running == Some(true)))
    }

    /// Returns a container's console output: hostile text, bounded and without control characters.
    pub(super) async fn console(&self, name: &str) -> io::Result<String> {
        let options = LogsOptionsBuilder::new().stdout(true).stderr(true).tail("20").build();
        let mut lines = std::pin::pin!(self.client().await?.logs(name, Some(options)));
        let mut text = String::new();
        while let Some(line) = lines.next().await {
            text.push_str(&line.map_err(|error| self.told(error))?.to_string());
            if text.len() > CONSOLE_BYTES {
                break;
            }
        }
        Ok(text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect())
    }

    /// Kills and removes it; harmless if there is none. Podman refuses to kill what ends at that very moment, so it is asked again.
    pub(super) async fn remove(&self, name: &str) -> io::Result<()> {
        let deadline = Instant::now() + REMOVE_TIMEOUT;
        loop {
            match self.try_remove(name).await {
                Err(error) if error.kind() == io::ErrorKind::Other && Instant::now() < deadline => {
                    tracing::debug!(container = name, %error, "not removed yet");
                    tokio::time::sleep(RETRY_DELAY).await;
                }
                removed => return removed,
            }
        }
    }

    async fn try_remove(&self, name: &str) -> io::Result<()> {
        let options = RemoveContainerOptionsBuilder::new().force(true).v(true).build();
        let removed = self.client().await?.remove_container(name, Some(options)).await;
        match removed.map_err(|error| self.told(error)) {
            // The second: somebody else removes it at this moment.
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists) => {
                Ok(())
            }
            removed => removed,
        }
    }

    /// Names of all containers with this label, running or not.
    pub(super) async fn containers_with(&self, label: &str, value: &str) -> io::Result<Vec<String>> {
        let filters = HashMap::from([("label", vec![format!("{label}={value}")])]);
        let options = ListContainersOptionsBuilder::new().all(true).filters(&filters).build();
        let found = self.client().await?.list_containers(Some(options)).await;
        let names = found.map_err(|error| self.told(error))?.into_iter();
        // The engine writes them as paths.
        Ok(names.filter_map(|one| Some(one.names?.first()?.trim_start_matches('/').to_owned())).collect())
    }
}
