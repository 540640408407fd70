//! Starting a sandbox: marker → groups, disk, link and boot document → container → pid in the marker.
//!
//! Any failing step ends the start and names itself. What was made before is removed again, except the marker, by which `stop`
//! finds what a process killed in the middle left: also a container that was made and never started.

use std::collections::BTreeSet;
use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;

use sandyard_guest::seccomp::OuterProfile;
use sandyard_protocol::EngineMachine;

use super::container::{self, Container};
use super::engine::Make;
use super::record::Record;
use super::stage::{Props, Staged};
use super::{Yard, images};
use crate::driver::{SandboxSpec, StartError};
use crate::parts::cgroup::GroupLimits;
use crate::parts::layout::{self, BOOT_FILE, Birth};
use crate::parts::liveness::ProcessIdentity;

/// Names a step that failed.
fn at(step: impl Into<String>) -> impl FnOnce(io::Error) -> StartError {
    let step = step.into();
    move |source| StartError::Step { step, source }
}

impl Yard {
    /// Starts a sandbox, or finds that it runs already.
    pub(super) async fn start(&self, spec: &SandboxSpec) -> Result<(), StartError> {
        let _alone = self.locks.of(&spec.id).lock_owned().await;
        if let Some(record) = self.records.read(&spec.id).map_err(at("read the marker"))? {
            if record.is_alive() {
                return Ok(());
            }
            self.clear(&spec.id).await.map_err(|error| at("remove the one before")(error.source))?;
        }
        let id_base = self.ids.take(&BTreeSet::new()).map_err(at("take user ids"))?;
        let record =
            Record { id: spec.id.clone(), id_base, workspace: spec.workspace.clone(), process: None };
        self.records.write(&record).map_err(at("write the marker"))?;
        let outcome = self.start_marked(spec, record).await;
        if let Err(error) = &outcome {
            tracing::warn!(sandbox = %spec.id, %error, "sandbox did not start");
            if let Err(error) = self.dismantle(&spec.id).await {
                tracing::warn!(sandbox = %spec.id, %error, "what it left will be removed by stop");
            }
        }
        outcome
    }

    async fn start_marked(&self, spec: &SandboxSpec, mut record: Record) -> Result<(), StartError> {
        let image = images::image_of(&spec.image_root).map_err(|error| at("find the image")(error.into()))?;
        let image = images::ensure(&self.engine, image, |_| {}).await;
        let image = image.map_err(|error| at("load the image into the engine")(error.into()))?;
        let groups = self.groups(&spec.id);
        groups.create().map_err(at("make the control groups"))?;
        let limits = GroupLimits { job: spec.limits, disk_in_memory_mib: 0 };
        groups.limit(limits).map_err(at("limit the control groups"))?;
        let (_, job_groups) = groups.entrances();
        let keeper = self.ids.keeper_on_host(record.id_base);
        self.links.create(&spec.id, keeper).map_err(at("listen for its link"))?;
        let boot =
            self.write_boot(spec, record.id_base, job_groups.len()).map_err(at("write the boot document"))?;
        let staged = self.stage(spec, record.id_base).await.map_err(at("mount the disk"))?;
        let make = self.engine.make().await.map_err(at("ask the engine"))?;
        let seccomp = self.write_profile(spec, make).map_err(at("write the profile"))?;
        let container = Container {
            id: &spec.id,
            yard: &self.yard,
            make,
            image,
            seccomp: &seccomp,
            staged: &staged,
            link: &self.links.directory(&spec.id),
            boot: &boot,
            programs: &self.programs,
            job_groups: &job_groups,
        };
        let process = self.run(&container::name(&self.yard, &spec.id), container).await?;
        self.stage.clear(&spec.id).map_err(at("take the disk off the stage"))?;
        record.process = Some(process);
        self.records.write(&record).map_err(at("write the marker"))
    }

    /// Makes and starts the container, and finds its first process.
    async fn run(&self, name: &str, container: Container<'_>) -> Result<ProcessIdentity, StartError> {
        // The name is the sandbox's alone: whatever has it is what a killed server left.
        self.engine.remove(name).await.map_err(at("remove what is left of a container"))?;
        self.engine.create(name, container.body()).await.map_err(at("create the container"))?;
        self.engine.start(name).await.map_err(at("start the container"))?;
        let pid = self.engine.pid(name).await.map_err(at("find the container's process"))?;
        let identity = pid.map(ProcessIdentity::of).transpose();
        match identity.map_err(at("identify the container's process"))? {
            Some(identity) => Ok(identity),
            None => {
                let said = self.engine.console(name).await.unwrap_or_default();
                Err(at("run init")(io::Error::other(format!("it ended at once: {}", said.trim()))))
            }
        }
    }

    /// Init's directory on the host: the boot document, and empty files on which the entrances of the job's groups are mounted.
    fn write_boot(&self, spec: &SandboxSpec, id_base: u32, groups: usize) -> io::Result<PathBuf> {
        let directory = self.boot_directory(&spec.id);
        DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        let cgroup_procs = (0..groups).map(container::group_file).collect();
        let mut config = layout::boot_config(spec, layout::unix_link(), Birth::Files { cgroup_procs });
        config.engine = Some(EngineMachine { first_id: id_base });
        // Engines show the host's, read-only.
        config.hidden.push("/sys".into());
        let write = |name: &str, content: &[u8]| {
            let mut file =
                OpenOptions::new().write(true).create_new(true).mode(0o600).open(directory.join(name))?;
            file.write_all(content)
        };
        for number in 0..groups {
            write(&number.to_string(), b"")?;
        }
        write(BOOT_FILE, &serde_json::to_vec(&config)?)?;
        Ok(directory)
    }

    /// The filter, in the form in which the engine takes it.
    fn write_profile(&self, spec: &SandboxSpec, make: Make) -> io::Result<String> {
        let profile = serde_json::to_string(&OuterProfile::new(spec.nested_user_namespaces))?;
        match make {
            Make::Docker => Ok(profile),
            Make::Podman => {
                let path = self.records.directory(&spec.id).join("seccomp.json");
                std::fs::write(&path, profile)?;
                Ok(path.display().to_string())
            }
        }
    }

    /// The disk, formatted if it is new, and the file systems in memory, where the engine finds them.
    async fn stage(&self, spec: &SandboxSpec, first_id: u32) -> io::Result<Staged> {
        let (stage, disks, id) = (self.stage.clone(), self.disks.clone(), spec.id.clone());
        let (workspace, size_mib) = (spec.workspace.clone(), spec.limits.disk_mib);
        let (map, memory) = (self.ids.map(first_id), layout::memory_mounts(spec.limits.memory_mib));
        let mounted = move || {
            let disk = disks.ensure(&workspace, size_mib)?;
            stage.mount(&id, &Props { disk: &disk, memory: &memory, first_id, map: &map })
        };
        tokio::task::spawn_blocking(mounted).await.map_err(io::Error::other)?
    }
}
