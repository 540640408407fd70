//! Starting a sandbox: marker → groups, disk and link → bundle and stage → `create` → `start` → pid in the
//! marker.
//!
//! Remains of a server that was killed in between count as dead by their marker and are removed. A start runs
//! in a task of its own: a caller that goes away leaves no half start behind while `stop` begins. Both hold
//! the sandbox's lock.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use super::bundle::{self, OciBundle};
use super::stage::{self, OciStageProps};
use super::state::OciState;
use super::step::{OciFailure, OciStep, OciSteps};
use super::sys::{self, StagedMount};
use super::{availability, runtime};
use crate::driver::{SandboxId, SandboxSpec, StartError, tree_of};
use crate::drivers::catalogue;
use crate::host::cgroup::{GroupLimits, Groups};
use crate::host::console;
use crate::host::layout::{self, Birth};
use crate::host::sandboxes::ids::{self, Extent};
use crate::host::sandboxes::liveness::ProcessIdentity;
use crate::host::sandboxes::records::SandboxRecord;
use crate::host::sandboxes::{ExistingSandbox, or_undo};
use crate::host::sys::users;

impl OciState {
    /// Starts a sandbox, or returns at once if it runs already.
    pub(super) async fn start(self: &Arc<Self>, spec: &SandboxSpec) -> Result<(), StartError> {
        // The lock is taken before the task exists: if the caller goes away and stops the sandbox, the stop
        // waits for the start.
        let alone = self.locks.hold(&spec.id).await;
        let (state, spec) = (self.clone(), spec.clone());
        let started = tokio::spawn(async move {
            let started = state.start_alone(&spec).await;
            drop(alone);
            started
        });
        started.await.map_err(|error| StartError::at("wait for the start")(io::Error::other(error)))?
    }

    /// Does the start while the lock is held.
    async fn start_alone(&self, spec: &SandboxSpec) -> Result<(), StartError> {
        match self.sandboxes.before(&spec.id)? {
            ExistingSandbox::Running => return Ok(()),
            ExistingSandbox::Dead => self.clear(&spec.id).await?,
            ExistingSandbox::Nothing => {}
        }
        if let Some((detail, _)) = availability::refusal(&self.config, &self.runtime) {
            return Err(StartError::Unusable { driver: catalogue::OCI.name, detail });
        }
        let mut record = self.new_record(spec).map_err(StartError::at("take user ids"))?;
        let outcome = self.make(spec, &mut record).await;
        // The contract keeps the marker; everything else is removed.
        Ok(or_undo(&spec.id, outcome, self.dismantle(&record)).await?)
    }

    fn new_record(&self, spec: &SandboxSpec) -> io::Result<SandboxRecord> {
        let token = getrandom::u64().map_err(io::Error::other)?;
        let id_base = match self.runtime.kind.maps_users() {
            true => Some(self.sandboxes.ids.take(&BTreeSet::new())?),
            false => None,
        };
        Ok(SandboxRecord {
            id_base,
            groups: Some(format!("s{token:016x}")),
            runtime: Some(self.runtime.program.clone()),
            ..SandboxRecord::of(spec)
        })
    }

    async fn make(&self, spec: &SandboxSpec, record: &mut SandboxRecord) -> Result<(), OciFailure> {
        let (mut steps, id) = (OciSteps::new(self.config.fail_at), &spec.id);
        // The marker comes first: by it a later server finds everything below.
        steps.run(OciStep::Marker, id, || self.sandboxes.records.write(record))?;
        let groups = self.sandboxes.groups(record);
        steps.run(OciStep::MakeGroups, groups.name(), || groups.create())?;
        let limits = GroupLimits { job: spec.limits, disk_in_memory_mib: 0, workspace: &spec.workspace };
        // Limits before any process, so that none ever runs without them.
        steps.run(OciStep::LimitGroups, groups.name(), || groups.limit(limits))?;
        let root = record.id_base.unwrap_or(0);
        steps.run(OciStep::OpenGroups, groups.name(), || groups.open_job_to(root))?;
        let keeper = self.sandboxes.keeper_on_host(record);
        steps.run(OciStep::Link, id, || self.links.create(id, keeper))?;
        let directory = self.sandboxes.records.directory(id);
        let id_map = record.id_base.map(|base| self.sandboxes.ids.map(base)).unwrap_or_default();
        // Held until the container has joined it: the namespace lives only as long as a descriptor or a
        // process.
        let users = steps.run(OciStep::Users, root, || own_users(record, &id_map))?;
        let place = users.as_ref().map(path_of);
        let write = || self.write_bundle(spec, &groups, &id_map, place.as_deref(), &directory);
        steps.run(OciStep::Bundle, id, write)?;
        let stage = self.stage(spec, record, &id_map);
        let staged = steps.wait(OciStep::Stage, spec.workspace.display(), stage).await?;
        let pid = steps.wait(OciStep::Create, id, self.create(id, staged, &directory)).await?;
        drop(users);
        // Groups in hierarchies that the runtime does not know, such as an empty unified one, through which
        // all processes are killed at once.
        for entrance in groups.entrances().0 {
            steps.run(OciStep::EnterGroups, entrance.display(), || fs::write(&entrance, pid.to_string()))?;
        }
        let process = steps.run(OciStep::Identify, pid, || ProcessIdentity::of(pid))?;
        let mut start = self.runtime.command(&self.state());
        start.arg("start").arg(id.as_str());
        // The process is identified before: between `create` and `start` it waits and can't have been
        // replaced.
        steps.wait(OciStep::Start, id, runtime::call(start)).await?;
        // Written only now: a container that was made and never started has a process too, and must not count
        // as alive.
        record.process = Some(process);
        steps.run(OciStep::Note, id, || self.sandboxes.records.write(record))?;
        tracing::debug!(sandbox = %id, pid, phases = ?steps.into_phases(), "sandbox runs");
        Ok(())
    }

    fn write_bundle(
        &self,
        spec: &SandboxSpec,
        groups: &Groups,
        id_map: &[Extent],
        user_namespace: Option<&Path>,
        directory: &Path,
    ) -> io::Result<()> {
        let bundle = OciBundle {
            user_namespace,
            host_name: spec.id.as_str(),
            memory_mib: spec.limits.memory_mib,
            id_map,
            groups: &groups.own_path(),
            link: &self.links.directory(&spec.id),
            nodes: self.nodes,
            job_groups: &groups.entrances().1,
            seccomp: bundle::seccomp()?,
        };
        let document = bundle.spec().map_err(io::Error::other)?;
        fs::write(directory.join("config.json"), serde_json::to_vec(&document).map_err(io::Error::other)?)
    }

    /// Makes the stage: image, disk and boot document. Formatting a disk takes long and blocks.
    async fn stage(
        &self,
        spec: &SandboxSpec,
        record: &SandboxRecord,
        id_map: &[Extent],
    ) -> io::Result<Vec<StagedMount>> {
        let groups = self.sandboxes.groups(record).entrances().1.len();
        let cgroup_procs = (0..groups).map(bundle::group_file).collect();
        let config = layout::boot_config(spec, layout::unix_link(), Birth::Files { cgroup_procs });
        let boot = serde_json::to_vec(&config)?;
        let (disks, workspace, size_mib) = (self.disks.clone(), spec.workspace.clone(), spec.limits.disk_mib);
        let image_root = tree_of(&*self.config.images, &spec.image)?;
        let (programs, nodes) = (self.programs.clone(), self.nodes);
        let users = record.id_base.map(|base| (base, ids::map_text(id_map)));
        let set = move || {
            let disk = disks.ensure(&workspace, size_mib)?;
            let users = users.as_ref().map(|(base, map)| (*base, map.as_str()));
            stage::set(&OciStageProps {
                image_root: &image_root,
                programs: &programs,
                nodes,
                disk: &disk,
                boot: &boot,
                boot_files: groups,
                users,
            })
        };
        tokio::task::spawn_blocking(set).await.map_err(io::Error::other)?
    }

    /// Makes the runtime create the container on its stage. Returns the first process.
    async fn create(&self, id: &SandboxId, staged: Vec<StagedMount>, directory: &Path) -> io::Result<i32> {
        let console = console::make()?;
        let mut create = self.runtime.command(&self.state());
        let pid_file = directory.join("pid");
        create
            .arg("create")
            .arg("--bundle")
            .arg(directory)
            .arg("--pid-file")
            .arg(&pid_file)
            .arg(id.as_str())
            .stdout(Stdio::from(console.try_clone()?))
            .stderr(Stdio::from(console.try_clone()?));
        sys::stage(&mut create, staged);
        runtime::run(create, &console).await?;
        self.started.insert(id, console);
        read_pid(&pid_file)
    }
}

/// Returns a user namespace with limits of its own, if the sandbox has ids of its own.
fn own_users(record: &SandboxRecord, id_map: &[Extent]) -> io::Result<Option<OwnedFd>> {
    record.id_base.map(|base| users::user_namespace(&ids::map_text(id_map), base)).transpose()
}

/// Returns the path by which the runtime finds a descriptor of this process.
fn path_of(descriptor: &OwnedFd) -> PathBuf {
    format!("/proc/{}/fd/{}", std::process::id(), descriptor.as_raw_fd()).into()
}

fn read_pid(path: &Path) -> io::Result<i32> {
    fs::read_to_string(path)?.trim().parse().map_err(io::Error::other)
}
