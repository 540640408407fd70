//! Starting a sandbox: marker → slot, disk and link → launch → pid in the marker.
//!
//! Any failing step ends the start and names itself. What was made before is removed again, except the marker, by which `stop`
//! finds what a process killed in the middle left.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::Yard;
use super::cgroup::GroupLimits;
use super::disk::SetAside;
use super::launcher::messages::{LaunchFds, LaunchPlan};
use super::launcher::step::{Failure, Step};
use super::liveness::ProcessIdentity;
use super::record::Record;
use super::slots::Slot;
use super::{layout, memory_files};
use crate::driver::{SandboxSpec, StartError};

impl From<Failure> for StartError {
    fn from(failure: Failure) -> Self {
        Self::Step { step: format!("{} ({})", failure.step, failure.object), source: failure.source }
    }
}

impl Yard {
    /// Starts a sandbox, or finds that it runs already.
    pub(super) async fn start(self: &Arc<Self>, spec: &SandboxSpec) -> Result<(), StartError> {
        let marker = |source| Failure { step: Step::Marker, object: spec.id.to_string(), source };
        if let Some(record) = self.records.read(&spec.id).map_err(marker)? {
            if record.process.as_ref().is_some_and(ProcessIdentity::is_alive) {
                return Ok(());
            }
            self.remove(&spec.id).await.map_err(|error| marker(error.source))?;
        }
        let slot = match self.slots.take_parked() {
            Some(slot) => slot,
            None => self.slots.make(None).await?,
        };
        let groups = slot.groups.clone();
        let outcome = self.start_in(slot, spec).await;
        self.wanting.notify_one();
        if let Err(error) = &outcome {
            tracing::warn!(sandbox = %spec.id, %error, "sandbox did not start");
            if let Err(error) = self.clear(&spec.id, &groups).await {
                tracing::warn!(sandbox = %spec.id, %error, "what it left will be removed by stop");
            }
        }
        Ok(outcome?)
    }

    async fn start_in(&self, mut slot: Slot, spec: &SandboxSpec) -> Result<(), Failure> {
        let fail = |step: Step, object: String| move |source: io::Error| Failure { step, object, source };
        self.fail_point(Step::Marker)?;
        let id_base = self.ids.take().map_err(fail(Step::Marker, "user ids".into()))?;
        let mut record = Record {
            id: spec.id.clone(),
            id_base,
            groups: slot.groups.name().to_owned(),
            workspace: spec.workspace.clone(),
            process: None,
        };
        self.records.write(&record).map_err(fail(Step::Marker, spec.id.to_string()))?;
        self.fail_point(Step::Disk)?;
        let workspace = spec.workspace.display().to_string();
        let disk = self.disk_of(spec, slot.disk.take()).await.map_err(fail(Step::Disk, workspace))?;
        self.fail_point(Step::ControlGroups)?;
        let limits = GroupLimits { job: spec.limits };
        slot.groups.limit(limits).map_err(fail(Step::ControlGroups, "limits".into()))?;
        self.fail_point(Step::Link)?;
        self.links.create(&spec.id, id_base).map_err(fail(Step::Link, spec.id.to_string()))?;
        self.fail_point(Step::Launcher)?;
        let pid = self.launch(&slot, spec, disk, id_base).await?;
        record.process =
            Some(ProcessIdentity::of(pid).map_err(fail(Step::Execute, format!("process {pid}")))?);
        self.records.write(&record).map_err(fail(Step::Marker, spec.id.to_string()))
    }

    /// The sandbox's disk, and whether the slot has it mounted. Formatting takes long and blocks.
    async fn disk_of(&self, spec: &SandboxSpec, parked: Option<SetAside>) -> io::Result<(PathBuf, bool)> {
        let (disks, workspace, size_mib) = (self.disks.clone(), spec.workspace.clone(), spec.limits.disk_mib);
        let ensure = move || disks.ensure_with(parked, &workspace, size_mib);
        tokio::task::spawn_blocking(ensure).await.map_err(io::Error::other)?
    }

    async fn launch(
        &self,
        slot: &Slot,
        spec: &SandboxSpec,
        (disk, disk_is_parked): (PathBuf, bool),
        id_base: u32,
    ) -> Result<i32, Failure> {
        let prepare = |source| Failure { step: Step::Descriptors, object: "files in memory".into(), source };
        let fds = self.launch_fds(spec).map_err(prepare)?;
        let plan = LaunchPlan {
            host_name: spec.id.to_string(),
            image_root: spec.image_root.clone(),
            disk,
            disk_is_parked,
            link_directory: self.links.directory(&spec.id),
            id_base,
            memory_mounts: layout::memory_mounts(spec.limits.memory_mib),
            disk_mounts: layout::disk_mounts(),
            link_target: layout::LINK_TARGET.into(),
            fail_at: self.config.fail_at,
        };
        let (pid, phases) = slot.launch(plan, &fds).await?;
        tracing::debug!(sandbox = %spec.id, pid, ?phases, "sandbox runs");
        self.started.insert(&spec.id, fds.console, phases);
        Ok(pid)
    }

    fn launch_fds(&self, spec: &SandboxSpec) -> io::Result<LaunchFds> {
        Ok(LaunchFds {
            program: self.program.try_clone()?,
            console: memory_files::console()?,
            boot: memory_files::boot(&layout::boot_config(spec))?,
            spawner_boot: memory_files::boot(&layout::spawner_boot_config(spec))?,
        })
    }

    /// Fails here if a test asked for it.
    fn fail_point(&self, step: Step) -> Result<(), Failure> {
        match self.config.fail_at {
            Some(at) if at == step => {
                let source = io::Error::from_raw_os_error(libc::EIO);
                Err(Failure { step, object: "fail-point".into(), source })
            }
            _ => Ok(()),
        }
    }
}
