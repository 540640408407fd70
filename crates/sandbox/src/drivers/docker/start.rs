//! Starting a sandbox: marker → groups, disk, link and boot document → container → pid in the marker.
//!
//! A step that fails ends the start and is named in the error. The start then removes everything it made except the marker. By
//! the marker `stop` finds the remains of a process that was killed in the middle: also a container that was made and never
//! started.

use std::collections::BTreeSet;
use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;

use sandyard_protocol::EngineMachine;
use sandyard_sys::seccomp::OuterProfile;

use super::container::{self, Container};
use super::engine::EngineMake;
use super::images::{self, LoadError};
use super::stage::{DockerStageProps, StagedDisk};
use super::state::DockerState;
use super::step::{DockerFailure, DockerStep, DockerSteps};
use crate::driver::{ImageDigest, SandboxSpec, StartError};
use crate::drivers::catalogue;
use crate::host::cgroup::GroupLimits;
use crate::host::layout::{self, BOOT_FILE, Birth};
use crate::host::sandboxes::liveness::ProcessIdentity;
use crate::host::sandboxes::records::SandboxRecord;
use crate::host::sandboxes::{ExistingSandbox, or_undo};
use crate::image::Image;

impl DockerState {
    /// Starts a sandbox, or returns at once if it runs already.
    pub(super) async fn start(&self, spec: &SandboxSpec) -> Result<(), StartError> {
        // Without the lock a second start would remove the container of the first, which has the same name.
        let _alone = self.locks.hold(&spec.id).await;
        match self.sandboxes.before(&spec.id)? {
            ExistingSandbox::Running => return Ok(()),
            ExistingSandbox::Dead => self.clear(&spec.id).await?,
            ExistingSandbox::Nothing => {}
        }
        // Checked before anything is made: an engine that is away could not remove it again.
        if let Err(error) = self.engine.ping().await {
            return Err(StartError::Unusable { driver: catalogue::DOCKER.name, detail: error.to_string() });
        }
        let id_base = self.sandboxes.ids.take(&BTreeSet::new()).map_err(StartError::at("take user ids"))?;
        let outcome = self.make(spec, id_base).await;
        Ok(or_undo(&spec.id, outcome, self.dismantle(&spec.id)).await?)
    }

    async fn make(&self, spec: &SandboxSpec, id_base: u32) -> Result<(), DockerFailure> {
        let (mut steps, id) = (DockerSteps::new(self.config.fail_at), &spec.id);
        let mut record = SandboxRecord { id_base: Some(id_base), ..SandboxRecord::of(spec) };
        // The marker comes first: by it a later server finds everything below.
        steps.run(DockerStep::Marker, id, || self.sandboxes.records.write(&record))?;
        let image = steps.wait(DockerStep::Image, &spec.image, self.loaded(&spec.image)).await?;
        let groups = self.sandboxes.groups(&record);
        steps.run(DockerStep::MakeGroups, groups.name(), || groups.create())?;
        let limits = GroupLimits { job: spec.limits, disk_in_memory_mib: 0, workspace: &spec.workspace };
        // Limits before the container, so that no process of the job ever runs without them.
        steps.run(DockerStep::LimitGroups, groups.name(), || groups.limit(limits))?;
        let (_, job_groups) = groups.entrances();
        let keeper = self.sandboxes.keeper_on_host(&record);
        steps.run(DockerStep::Link, id, || self.links.create(id, keeper))?;
        let boot = steps.run(DockerStep::Boot, id, || self.write_boot(spec, id_base, job_groups.len()))?;
        let staged = self.stage(spec, id_base);
        let staged = steps.wait(DockerStep::Disk, spec.workspace.display(), staged).await?;
        let engine = self.engine.make().await;
        let (engine, seccomp) = steps.run(DockerStep::Profile, id, || {
            let engine = engine?;
            Ok::<_, io::Error>((engine, self.write_profile(spec, engine)?))
        })?;
        let container = Container {
            id,
            yard: &self.sandboxes.yard,
            make: engine,
            image,
            seccomp: &seccomp,
            staged: &staged,
            link: &self.links.directory(id),
            boot: &boot,
            job_groups: &job_groups,
        };
        let name = container::name(&self.sandboxes.yard, id);
        steps.wait(DockerStep::Create, &name, self.create(&name, container)).await?;
        steps.wait(DockerStep::Start, &name, self.engine.start(&name)).await?;
        record.process = Some(steps.wait(DockerStep::Identify, &name, self.first_process(&name)).await?);
        // The container has its own mounts now. Left here, the disk would stay mounted after the container's
        // end.
        steps.run(DockerStep::Unstage, id, || self.stage.clear(id))?;
        // Last: until the marker has a process, the sandbox counts as dead, and `stop` removes the rest.
        steps.run(DockerStep::Note, id, || self.sandboxes.records.write(&record))?;
        tracing::debug!(sandbox = %id, phases = ?steps.into_phases(), "sandbox runs");
        Ok(())
    }

    /// Finds the image in this host's store.
    pub(super) fn image(&self, digest: &ImageDigest) -> Result<Image, LoadError> {
        let tree = self.config.images.tree(digest).ok_or_else(|| LoadError::NoImage(digest.to_string()))?;
        images::image_of(&tree)
    }

    /// Returns the engine's id of the image, which is loaded if the engine lacks it.
    async fn loaded(&self, digest: &ImageDigest) -> Result<String, LoadError> {
        images::ensure(&self.engine, self.image(digest)?, |_| {}).await
    }

    async fn create(&self, name: &str, container: Container<'_>) -> io::Result<()> {
        // Only this sandbox has the name: a container with it is the remains of a killed server.
        self.engine.remove(name).await?;
        self.engine.create(name, container.body()).await
    }

    async fn first_process(&self, name: &str) -> io::Result<ProcessIdentity> {
        match self.engine.pid(name).await? {
            Some(pid) => ProcessIdentity::of(pid),
            None => {
                let said = self.engine.console(name).await.unwrap_or_default();
                Err(io::Error::other(format!("init ended at once: {}", said.trim())))
            }
        }
    }

    /// Writes init's directory on the host: the boot document, and empty files on which the entrances of the
    /// job's groups are mounted.
    fn write_boot(&self, spec: &SandboxSpec, id_base: u32, groups: usize) -> io::Result<PathBuf> {
        let directory = self.boot_directory(&spec.id);
        DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        let cgroup_procs = (0..groups).map(container::group_file).collect();
        let mut config = layout::boot_config(spec, layout::unix_link(), Birth::Files { cgroup_procs });
        config.engine = Some(EngineMachine { first_id: id_base });
        // Engines show the host's /sys, read-only.
        config.hidden.push("/sys".into());
        let write = |name: &str, content: &[u8]| {
            let mut file =
                // `create_new` refuses a file that is there already: it could be readable by others.
                OpenOptions::new().write(true).create_new(true).mode(0o600).open(directory.join(name))?;
            file.write_all(content)
        };
        for number in 0..groups {
            write(&number.to_string(), b"")?;
        }
        write(BOOT_FILE, &serde_json::to_vec(&config)?)?;
        Ok(directory)
    }

    /// Returns the filter in the form that the engine takes.
    fn write_profile(&self, spec: &SandboxSpec, make: EngineMake) -> io::Result<String> {
        let profile = serde_json::to_string(&OuterProfile::from_table())?;
        match make {
            EngineMake::Docker => Ok(profile),
            EngineMake::Podman => {
                let path = self.sandboxes.records.directory(&spec.id).join("seccomp.json");
                std::fs::write(&path, profile)?;
                Ok(path.display().to_string())
            }
        }
    }

    /// Formats the disk if it is new, and mounts it and the file systems in memory where the engine finds
    /// them.
    async fn stage(&self, spec: &SandboxSpec, first_id: u32) -> io::Result<StagedDisk> {
        let (stage, disks, id) = (self.stage.clone(), self.disks.clone(), spec.id.clone());
        let programs = self.programs.clone();
        let (workspace, size_mib) = (spec.workspace.clone(), spec.limits.disk_mib);
        let (map, memory) = (self.sandboxes.ids.map(first_id), layout::memory_mounts(spec.limits.memory_mib));
        let mounted = move || {
            let disk = disks.ensure(&workspace, size_mib)?;
            let props =
                DockerStageProps { disk: &disk, programs: &programs, memory: &memory, first_id, map: &map };
            stage.mount(&id, &props)
        };
        tokio::task::spawn_blocking(mounted).await.map_err(io::Error::other)?
    }
}
