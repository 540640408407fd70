//! The engine behind its Unix socket, Docker's or Podman's: the calls that the driver makes, each with a
//! deadline.
//!
//! The driver remembers only the engine's make and the version of its API, so a restarted engine is simply
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

/// Deadline of a call. A busy engine takes seconds for a container; one that takes this long does not answer
/// at all.
const CALL_TIMEOUT_S: u64 = 120;
/// Deadline for loading or removing an image of gigabytes on a slow disk.
const LOAD_TIMEOUT_S: u64 = 3600;
/// Deadline of the first contact.
const GREETING_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest time for an engine to remove a container. A longer refusal has another reason.
const REMOVE_TIMEOUT: Duration = Duration::from_secs(10);
/// Delay until the next attempt, in which the engine learns that a container ended.
const RETRY_DELAY: Duration = Duration::from_millis(50);
/// Most bytes read from a container's console.
const CONSOLE_BYTES: usize = 64 * 1024;
const NOT_FOUND: u16 = 404;
const CONFLICT: u16 = 409;

/// Maker of an engine. Podman speaks Docker's API, but interprets parts of it differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EngineMake {
    Docker,
    Podman,
}

impl EngineMake {
    /// Podman's name in the list of its components.
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
    /// Names the engine behind a socket; does not connect yet.
    pub(super) fn new(socket: &Path) -> Self {
        Self { socket: socket.to_owned(), known: OnceCell::new() }
    }

    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Returns a client that speaks the newest version of the API that both know.
    async fn client(&self) -> io::Result<&Docker> {
        Ok(&self.known().await?.client)
    }

    pub(super) async fn make(&self) -> io::Result<EngineMake> {
        Ok(self.known().await?.make)
    }

    /// Returns the make of an engine that has answered before.
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
        // A failed greeting is not stored, so an engine that comes up later is found by the next call.
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
                // The outer errors name the failing library, the innermost the cause.
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

    /// Returns the version of the engine and of its parts.
    pub(super) async fn version(&self) -> io::Result<SystemVersion> {
        self.client().await?.version().await.map_err(|error| self.told(error))
    }

    /// Returns the engine's settings.
    pub(super) async fn info(&self) -> io::Result<SystemInfo> {
        self.client().await?.info().await.map_err(|error| self.told(error))
    }

    /// Returns the id of an image with this label, if there is one.
    pub(super) async fn image_with(&self, label: &str, value: &str) -> io::Result<Option<String>> {
        let filters = HashMap::from([("label", vec![format!("{label}={value}")])]);
        let options = ListImagesOptionsBuilder::new().filters(&filters).build();
        let images = self.client().await?.list_images(Some(options)).await;
        Ok(images.map_err(|error| self.told(error))?.into_iter().next().map(|image| image.id))
    }

    /// Returns all images that have a label of this name.
    pub(super) async fn images_labelled(&self, label: &str) -> io::Result<Vec<ImageSummary>> {
        let filters = HashMap::from([("label", vec![label.to_owned()])]);
        let options = ListImagesOptionsBuilder::new().filters(&filters).build();
        self.client().await?.list_images(Some(options)).await.map_err(|error| self.told(error))
    }

    /// Removes an image. Fails with `AlreadyExists` if a container uses it.
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

    /// Makes a container. Fails with `AlreadyExists` if the name is taken.
    pub(super) async fn create(&self, name: &str, body: ContainerCreateBody) -> io::Result<()> {
        let options = CreateContainerOptionsBuilder::new().name(name).build();
        let created = self.client().await?.create_container(Some(options), body).await;
        created.map(drop).map_err(|error| self.told(error))
    }

    pub(super) async fn start(&self, name: &str) -> io::Result<()> {
        let started = self.client().await?.start_container(name, None::<StartContainerOptions>).await;
        started.map_err(|error| self.told(error))
    }

    /// Returns the pid of the first process on the host, or `None` unless the container runs.
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
            // The guest writes this text and could write without end.
            if text.len() > CONSOLE_BYTES {
                break;
            }
        }
        Ok(text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect())
    }

    /// Kills and removes a container. Succeeds if there is none. Podman refuses to kill a container that ends
    /// at that moment, so the call is repeated.
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
            // `AlreadyExists` is a conflict: another call is removing the container.
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists) => {
                Ok(())
            }
            removed => removed,
        }
    }

    /// Returns the names of all containers with this label, running or not.
    pub(super) async fn containers_with(&self, label: &str, value: &str) -> io::Result<Vec<String>> {
        let filters = HashMap::from([("label", vec![format!("{label}={value}")])]);
        let options = ListContainersOptionsBuilder::new().all(true).filters(&filters).build();
        let found = self.client().await?.list_containers(Some(options)).await;
        let names = found.map_err(|error| self.told(error))?.into_iter();
        // The engine writes names as paths.
        Ok(names.filter_map(|one| Some(one.names?.first()?.trim_start_matches('/').to_owned())).collect())
    }
}
