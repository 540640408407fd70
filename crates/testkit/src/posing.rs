//! Fake drivers that pose as others, with another name, wall, availability and delay.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::{Mutex, MutexGuard};
use sandyard_conformance::fake::{FakeDriver, FakeWorld};
use sandyard_sandbox::driver::{
    Availability, BoxedDuplex, Driver, FoundSandbox, ImageDigest, Isolation, IsolationLevel, LinkError,
    ListError, Liveness, PrepareImageError, ReportProgress, SandboxId, SandboxSpec, StartError, StopError,
    Usage, UsageError,
};
use tempfile::TempDir;

/// A fake driver under another name, with machines of its own.
pub struct PosingDriver {
    name: &'static str,
    /// World of its machines.
    pub world: Arc<FakeWorld>,
    inner: FakeDriver,
    pose: Mutex<Pose>,
    _folder: TempDir,
}

/// The current pose, which a test may change at any time.
#[derive(Debug, Clone)]
pub struct Pose {
    /// Isolation that the driver claims.
    pub level: IsolationLevel,
    /// Availability that the driver reports.
    pub answer: Availability,
    /// Delay before it reports its availability.
    pub takes: Duration,
    /// Number of calls of `availability`.
    pub asked: usize,
    /// True if `availability` and `prepare_image` panic.
    pub panics: bool,
    /// True if starts find the driver unusable.
    pub breaks: bool,
    /// Duration of `prepare_image`, which reports `disk 50 %`; `None` prepares nothing.
    pub image_takes: Option<Duration>,
    /// True if `prepare_image` fails.
    pub image_fails: bool,
    /// Number of images made.
    pub images_made: usize,
}

impl PosingDriver {
    /// Creates a driver that works.
    pub fn new(name: &'static str, level: IsolationLevel) -> io::Result<Arc<Self>> {
        let folder = tempfile::tempdir()?;
        let world = FakeWorld::new(folder.path());
        let pose = Pose {
            level,
            answer: Availability::usable("poses"),
            takes: Duration::ZERO,
            asked: 0,
            panics: false,
            breaks: false,
            image_takes: None,
            image_fails: false,
            images_made: 0,
        };
        let inner = FakeDriver::new(Arc::clone(&world));
        Ok(Arc::new(Self { name, world, inner, pose: Mutex::new(pose), _folder: folder }))
    }

    /// Changes the pose for later calls.
    pub fn pose(&self, change: impl FnOnce(&mut Pose)) {
        change(&mut self.state());
    }

    /// Returns the number of calls of `availability`.
    pub fn asked(&self) -> usize {
        self.state().asked
    }

    /// Returns the number of images made.
    pub fn images_made(&self) -> usize {
        self.state().images_made
    }

    fn state(&self) -> MutexGuard<'_, Pose> {
        self.pose.lock()
    }
}

#[async_trait]
impl Driver for PosingDriver {
    fn name(&self) -> &'static str {
        self.name
    }

    fn isolation(&self) -> Isolation {
        let level = self.state().level;
        Isolation::without_network(level, format!("posing as {}", level.as_str()))
    }

    async fn availability(&self) -> Availability {
        let takes = self.state().takes;
        tokio::time::sleep(takes).await;
        let mut pose = self.state();
        pose.asked += 1;
        assert!(!pose.panics, "scripted fault");
        pose.answer.clone()
    }

    async fn prepare_image(
        &self,
        _: &ImageDigest,
        report: ReportProgress<'_>,
    ) -> Result<(), PrepareImageError> {
        let Pose { image_takes: takes, image_fails: fails, panics, .. } = self.state().clone();
        assert!(!panics, "scripted fault");
        if let Some(takes) = takes {
            report("disk 50 %".to_owned());
            tokio::time::sleep(takes).await;
            self.state().images_made += 1;
        }
        match fails {
            true => {
                Err(PrepareImageError { step: "make a disk".into(), source: io::Error::other("scripted") })
            }
            false => Ok(()),
        }
    }

    async fn start(&self, spec: &SandboxSpec) -> Result<(), StartError> {
        if self.state().breaks {
            return Err(StartError::Unusable { driver: self.name, detail: "it broke".to_owned() });
        }
        self.inner.start(spec).await
    }

    async fn next_link(&self, id: &SandboxId) -> Result<BoxedDuplex, LinkError> {
        self.inner.next_link(id).await
    }

    async fn wait_dead(&self, id: &SandboxId) {
        self.inner.wait_dead(id).await;
    }

    async fn stop(&self, id: &SandboxId) -> Result<(), StopError> {
        self.inner.stop(id).await
    }

    async fn list(&self) -> Result<Vec<FoundSandbox>, ListError> {
        self.inner.list().await
    }

    async fn find(&self, id: &SandboxId) -> Result<Option<Liveness>, ListError> {
        self.inner.find(id).await
    }

    async fn usage(&self, id: &SandboxId) -> Result<Usage, UsageError> {
        self.inner.usage(id).await
    }
}
