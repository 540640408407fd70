//! Starting a sandbox: marker → groups, disk and link → bundle and stage → `create` → `start` → pid in the marker.
//!
//! Whatever a server that is killed in between leaves is dead by its marker, and removed. A start goes on in a task of its own, so that a caller who goes away
//! leaves no half of one behind while `stop` begins; both hold the sandbox's lock.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use super::Yard;
use super::bundle::{self, Bundle};
use super::record::Record;
use super::stage::{self, Props};
use super::{availability, runtime, sys};
use crate::driver::{SandboxSpec, StartError};
use crate::parts::cgroup::{GroupLimits, Groups};
use crate::parts::console;
use crate::parts::ids::{self, Extent};
use crate::parts::layout::{self, Birth};
use crate::parts::liveness::ProcessIdentity;
use crate::parts::sys::users;

/// A step that failed, with its object.
fn failed(step: &'static str) -> impl Fn(io::Error) -> StartError {
    move |source| StartError::Step { step: step.to_owned(), source }
}

impl Yard {
    /// Starts a sandbox, or finds that it runs already.
    pub(super) async fn start(self: &Arc<Self>, spec: &SandboxSpec) -> Result<(), StartError> {
        // Taken before the task exists: a caller who goes away and stops the sandbox must not be overtaken by it.
        let alone = self.locks.of(&spec.id).lock_owned().await;
        let (yard, spec) = (self.clone(), spec.clone());
        let started = tokio::spawn(async move {
            let started = yard.start_alone(&spec).await;
            drop(alone);
            started
        });
        started.await.map_err(|error| failed("wait for the start")(io::Error::other(error)))?
    }

    /// The start itself, while the sandbox's lock is held.
    async fn start_alone(&self, spec: &SandboxSpec) -> Result<(), StartError> {
        if let Some(record) = self.records.read(&spec.id).map_err(failed("read the marker"))? {
            if record.is_alive() {
                return Ok(());
            }
            self.clear(&spec.id).await.map_err(|error| failed("remove what was left")(error.source))?;
        }
        if let Some((detail, _)) = availability::refusal(&self.config, &self.runtime) {
            return Err(StartError::Unusable { driver: "oci", detail });
        }
        let mut record = self.new_record(spec)?;
        self.records.write(&record).map_err(failed("write the marker"))?;
        let outcome = self.start_marked(spec, &mut record).await;
        if let Err(error) = &outcome {
            tracing::warn!(sandbox = %spec.id, %error, "sandbox did not start");
            // The marker stays, as the contract says; all else goes.
            if let Err(error) = self.dismantle(&record).await {
                tracing::warn!(sandbox = %spec.id, %error, "what it left will be removed by stop");
            }
        }
        outcome
    }

    fn new_record(&self, spec: &SandboxSpec) -> Result<Record, StartError> {
        let token =
            getrandom::u64().map_err(|error| failed("name the control groups")(io::Error::other(error)))?;
        let id_base = match self.runtime.kind.maps_users() {
            true => Some(self.ids.take(&std::collections::BTreeSet::new()).map_err(failed("take user ids"))?),
            false => None,
        };
        Ok(Record {
            id: spec.id.clone(),
            id_base,
            groups: format!("s{token:016x}"),
            workspace: spec.workspace.clone(),
            runtime: self.runtime.program.clone(),
            process: None,
        })
    }

    async fn start_marked(&self, spec: &SandboxSpec, record: &mut Record) -> Result<(), StartError> {
        let groups = Groups::new(&self.layout, &self.yard, &record.groups);
        groups.create().map_err(failed("make the control groups"))?;
        let limits = GroupLimits { job: spec.limits, disk_in_memory_mib: 0 };
        groups.limit(limits).map_err(failed("limit the control groups"))?;
        groups.open_job_to(record.id_base.unwrap_or(0)).map_err(failed("open the job's control groups"))?;
        let keeper = self.keeper_on_host(record.id_base);
        self.links.create(&spec.id, keeper).map_err(failed("make the link"))?;
        let directory = self.records.directory(&spec.id);
        let id_map = record.id_base.map(|base| self.ids.map(base)).unwrap_or_default();
        // Held until the container is in it.
        let users = self.own_users(record, &id_map).map_err(failed("make a user namespace"))?;
        let users_path = users.as_ref().map(path_of);
        self.write_bundle(spec, &groups, &id_map, users_path.as_deref(), &directory)
            .map_err(failed("write the bundle"))?;
        let pid = self.create(spec, record, &id_map, &directory).await?;
        drop(users);
        // Whatever hierarchies the runtime knows nothing of, an empty unified one for example, which kills at once.
        for entrance in groups.entrances().0 {
            fs::write(entrance, pid.to_string()).map_err(failed("enter the control groups"))?;
        }
        let process = ProcessIdentity::of(pid).map_err(failed("identify the first process"))?;
        let mut start = self.runtime.command(&self.state());
        start.arg("start").arg(spec.id.as_str());
        runtime::call(start).await.map_err(failed("start the container"))?;
        // Not before: a container that was made and never started has a process too, and must not be taken for alive.
        record.process = Some(process);
        self.records.write(record).map_err(failed("write the marker"))
    }

    /// A user namespace whose limits are the sandbox's own, if it has ids of its own.
    fn own_users(&self, record: &Record, id_map: &[Extent]) -> io::Result<Option<OwnedFd>> {
        record.id_base.map(|base| users::user_namespace(&ids::map_text(id_map), base)).transpose()
    }

    fn write_bundle(
        &self,
        spec: &SandboxSpec,
        groups: &Groups,
        id_map: &[Extent],
        user_namespace: Option<&Path>,
        directory: &Path,
    ) -> io::Result<()> {
        let bundle = Bundle {
            user_namespace,
            host_name: spec.id.as_str(),
            memory_mib: spec.limits.memory_mib,
            id_map,
            groups: &groups.own_path(),
            link: &self.links.directory(&spec.id),
            programs: &self.programs,
            job_groups: &groups.entrances().1,
            seccomp: super::seccomp(spec.nested_user_namespaces)?,
        };
        let document = bundle.spec().map_err(io::Error::other)?;
        fs::write(directory.join("config.json"), serde_json::to_vec(&document).map_err(io::Error::other)?)
    }

    /// Has the runtime make the container, on its stage; tells its first process.
    async fn create(
        &self,
        spec: &SandboxSpec,
        record: &Record,
        id_map: &[Extent],
        directory: &Path,
    ) -> Result<i32, StartError> {
        let groups = Groups::new(&self.layout, &self.yard, &record.groups).entrances().1.len();
        let cgroup_procs = (0..groups).map(bundle::group_file).collect();
        let config = layout::boot_config(spec, layout::unix_link(), Birth::Files { cgroup_procs });
        let boot =
            serde_json::to_vec(&config).map_err(|error| failed("write the boot document")(error.into()))?;
        let (disks, workspace, size_mib) = (self.disks.clone(), spec.workspace.clone(), spec.limits.disk_mib);
        let image_root = spec.image_root.clone();
        let users = record.id_base.map(|base| (base, ids::map_text(id_map)));
        let set = move || {
            let disk = disks.ensure(&workspace, size_mib)?;
            let users = users.as_ref().map(|(base, map)| (*base, map.as_str()));
            stage::set(&Props {
                image_root: &image_root,
                disk: &disk,
                boot: &boot,
                boot_files: groups,
                users,
            })
        };
        let staged =
            tokio::task::spawn_blocking(set).await.map_err(io::Error::other).and_then(|staged| staged);
        let staged = staged.map_err(failed("prepare image and disk"))?;
        let console = console::make().map_err(failed("make a console"))?;
        let mut create = self.runtime.command(&self.state());
        let pid_file = directory.join("pid");
        create
            .arg("create")
            .arg("--bundle")
            .arg(directory)
            .arg("--pid-file")
            .arg(&pid_file)
            .arg(spec.id.as_str());
        let stream = || console.try_clone().map(Stdio::from).map_err(failed("make a console"));
        create.stdout(stream()?).stderr(stream()?);
        sys::stage(&mut create, staged);
        runtime::run(create, &console).await.map_err(failed("create the container"))?;
        self.started.insert(&spec.id, console);
        read_pid(&pid_file).map_err(failed("read the container's pid"))
    }
}

/// Where the runtime finds a descriptor of this process.
fn path_of(descriptor: &OwnedFd) -> PathBuf {
    format!("/proc/{}/fd/{}", std::process::id(), descriptor.as_raw_fd()).into()
}

fn read_pid(path: &Path) -> io::Result<i32> {
    fs::read_to_string(path)?.trim().parse().map_err(io::Error::other)
}
