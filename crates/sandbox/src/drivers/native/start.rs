//! Starting a sandbox: marker → slot, disk and link → launch → pid in the marker.
//!
//! A step that fails ends the start and is named in the error. The start then removes everything it made except the marker. By
//! the marker `stop` finds the remains of a process that was killed in the middle.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::boot_file;
use super::launcher::messages::{DiskPlan, LaunchFds, LaunchPlan};
use super::launcher::step::{NativeFailure, NativeStep, NativeSteps};
use super::privileges::Privileges;
use super::slots::{self, LaunchSlot};
use super::state::NativeState;
use super::workspaces::WorkspaceRequest;
use crate::driver::{SandboxSpec, StartError, tree_of};
use crate::host::cgroup::GroupLimits;
use crate::host::console;
use crate::host::layout::{self, Birth};
use crate::host::sandboxes::ids::Extent;
use crate::host::sandboxes::liveness::ProcessIdentity;
use crate::host::sandboxes::records::SandboxRecord;
use crate::host::sandboxes::{ExistingSandbox, or_undo};
use crate::host::storage::disk::SetAside;

impl NativeState {
    /// Starts a sandbox, or returns at once if it runs already.
    pub(super) async fn start(self: &Arc<Self>, spec: &SandboxSpec) -> Result<(), StartError> {
        match self.sandboxes.before(&spec.id)? {
            ExistingSandbox::Running => return Ok(()),
            // The remains of the dead sandbox may hold its disk and its link directory, which the new one
            // needs.
            ExistingSandbox::Dead => self.remove(&spec.id).await?,
            ExistingSandbox::Nothing => {}
        }
        let mut outcome = self.start_in_slot(spec).await;
        if outcome.as_ref().is_err_and(slots::lost_its_helper) {
            // The launcher or its helper was killed. Try once more with another helper.
            self.remove(&spec.id).await?;
            outcome = self.start_in_slot(spec).await;
        }
        // Also after a failure: the attempt may have used a slot or a disk.
        self.wanting.notify_one();
        Ok(outcome?)
    }

    /// Makes one attempt. After a failure it removes everything but the marker.
    async fn start_in_slot(&self, spec: &SandboxSpec) -> Result<(), NativeFailure> {
        let slot = match self.slots.take_parked() {
            Some(slot) => slot,
            None => self.slots.make(None).await?,
        };
        let groups = slot.groups.clone();
        let outcome = self.start_in(slot, spec).await;
        or_undo(&spec.id, outcome, self.clear(&spec.id, &groups)).await
    }

    async fn start_in(&self, mut slot: LaunchSlot, spec: &SandboxSpec) -> Result<(), NativeFailure> {
        let mut steps = NativeSteps::new(self.config.fail_at);
        let (id_base, exists_in_memory) =
            steps.run(NativeStep::Marker, "user ids", || self.take_ids(spec))?;
        let groups = slot.groups.name().to_owned();
        let mut record =
            SandboxRecord { id_base: Some(id_base), groups: Some(groups), ..SandboxRecord::of(spec) };
        // The marker comes before disk, limits and link. A killed server then knows by it which of them to
        // remove.
        steps.run(NativeStep::Marker, &spec.id, || self.sandboxes.records.write(&record))?;
        let id_map = self.sandboxes.ids.map(id_base);
        let disk = self.disk_of(spec, slot.disk.take(), id_base, exists_in_memory);
        let disk = steps.wait(NativeStep::Disk, spec.workspace.display(), disk).await?;
        let disk_in_memory_mib = self.workspaces.in_memory_mib(&spec.limits);
        let limits = GroupLimits { job: spec.limits, disk_in_memory_mib, workspace: &spec.workspace };
        // Limits come before the launch, so that no process of the job ever runs without them.
        steps.run(NativeStep::ControlGroups, "limits", || slot.groups.limit(limits))?;
        let keeper = self.sandboxes.keeper_on_host(&record);
        // The socket must exist before the guest starts, or the guest's first dial fails.
        steps.run(NativeStep::Link, &spec.id, || self.links.create(&spec.id, keeper))?;
        let (pid, console) = self.launch(&slot, spec, disk, id_map, &mut steps).await?;
        // The identity includes the start time, so a later server never takes another process with this pid
        // for the sandbox.
        let identity = steps.run(NativeStep::Execute, pid, || ProcessIdentity::of(pid))?;
        record.process = Some(identity);
        // A crash before this write leaves a marker without a process: the sandbox counts as dead and is
        // removed.
        steps.run(NativeStep::Marker, &spec.id, || self.sandboxes.records.write(&record))?;
        self.started.insert(&spec.id, console, steps.into_phases());
        Ok(())
    }

    /// Returns ids for a sandbox, and true if its workspace is in memory already. Its files then have owners,
    /// so the same ids are used again.
    fn take_ids(&self, spec: &SandboxSpec) -> io::Result<(u32, bool)> {
        let ids = &self.sandboxes.ids;
        let Privileges::Rootless(namespace) = &self.privileges else {
            return Ok((ids.take(&BTreeSet::new())?, false));
        };
        let existing = namespace.workspaces()?;
        match existing.get(&std::fs::canonicalize(&spec.workspace)?) {
            Some(&base) => Ok((ids.take_again(base)?, true)),
            None => Ok((ids.take(&existing.into_values().collect())?, false)),
        }
    }

    /// Prepares the sandbox's disk. Formatting a new one takes long and blocks, hence the thread.
    async fn disk_of(
        &self,
        spec: &SandboxSpec,
        parked: Option<SetAside>,
        id_base: u32,
        exists_in_memory: bool,
    ) -> io::Result<DiskPlan> {
        let (workspaces, folder, size_mib) =
            (self.workspaces.clone(), spec.workspace.clone(), spec.limits.disk_mib);
        let id_map = self.sandboxes.ids.map(id_base);
        let prepare = move || {
            let request =
                WorkspaceRequest { folder: &folder, size_mib, id_base, id_map: &id_map, exists_in_memory };
            workspaces.prepare(parked, &request)
        };
        tokio::task::spawn_blocking(prepare).await.map_err(io::Error::other)?
    }

    /// Makes the slot's helper build the machine, and adds the helper's phases to the start's.
    async fn launch(
        &self,
        slot: &LaunchSlot,
        spec: &SandboxSpec,
        disk: DiskPlan,
        id_map: Vec<Extent>,
        steps: &mut NativeSteps,
    ) -> Result<(i32, OwnedFd), NativeFailure> {
        let (fds, image_root) = steps.run(NativeStep::Launcher, "files in memory and the image", || {
            Ok::<_, io::Error>((self.launch_fds(spec)?, tree_of(&*self.config.images, &spec.image)?))
        })?;
        let plan = LaunchPlan {
            host_name: spec.id.to_string(),
            image_root,
            programs: self.programs.clone(),
            disk,
            link_directory: self.links.directory(&spec.id),
            id_map,
            owners: self.privileges.owners(),
            memory_mounts: layout::memory_mounts(spec.limits.memory_mib),
            disk_mounts: layout::disk_mounts(),
            link_target: layout::LINK_TARGET.into(),
            programs_target: layout::PROGRAMS_TARGET.into(),
            fail_at: self.config.fail_at,
        };
        let (pid, phases) = slot.launch(plan, &fds).await?;
        tracing::debug!(sandbox = %spec.id, pid, ?phases, "sandbox runs");
        steps.add(phases);
        Ok((pid, fds.console))
    }

    fn launch_fds(&self, spec: &SandboxSpec) -> io::Result<LaunchFds> {
        let config = layout::boot_config(spec, layout::unix_link(), Birth::Descriptors);
        Ok(LaunchFds {
            console: console::make()?,
            boot: boot_file::make(&config)?,
            spawner_boot: boot_file::make(&layout::without_secret(&config))?,
        })
    }
}
