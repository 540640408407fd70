//! Starting a machine: marker → control groups → disk → jail → Firecracker → what it is told → its process in the marker.
//!
//! Any failing step ends the start and names itself. What was made before is removed again, except the marker, by which `stop`
//! finds what a process killed in the middle left. The process is written last: a machine that was never told to boot is not one.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::api::Api;
use super::jail::{self, Jail, Placed};
use super::record::Record;
use super::{Yard, plan};
use crate::driver::{SandboxSpec, StartError};
use crate::parts::cgroup::GroupLimits;
use crate::parts::console;
use crate::parts::liveness::ProcessIdentity;

/// Firecracker listens within a few milliseconds; the rest is room for a busy machine.
const LISTENS_WITHIN: Duration = Duration::from_secs(20);
/// Between two looks whether it does.
const LOOK_AGAIN: Duration = Duration::from_millis(3);

impl Yard {
    /// Starts a sandbox, or finds that it runs already.
    pub(super) async fn start(&self, spec: &SandboxSpec) -> Result<(), StartError> {
        if let Some(record) = self.records.read(&spec.id).map_err(step("read the marker"))? {
            if record.is_alive() {
                return Ok(());
            }
            self.remove(&spec.id).await.map_err(|error| step("remove what was left")(io::Error::other(error)))?;
        }
        let mut record = Record {
            id: spec.id.clone(),
            name: fresh_name().map_err(step("draw a name"))?,
            user: self.take_user().map_err(step("take a user id"))?,
            workspace: spec.workspace.clone(),
            process: None,
        };
        let outcome = self.build(spec, &mut record).await;
        if let Err(error) = &outcome {
            let said = self.consoles.read(&spec.id).unwrap_or_default();
            tracing::warn!(sandbox = %spec.id, %error, said, "sandbox did not start");
            if let Err(error) = self.clear(&record).await {
                tracing::warn!(sandbox = %spec.id, %error, "what it left will be removed by stop");
            }
        }
        outcome
    }

    async fn build(&self, spec: &SandboxSpec, record: &mut Record) -> Result<(), StartError> {
        self.records.write(record).map_err(step("write the marker"))?;
        let groups = self.groups(record);
        groups.create().map_err(step("make the control groups"))?;
        groups.limit(self.group_limits(spec)).map_err(step("limit the control groups"))?;
        let disk = self.disk_of(spec).await.map_err(step("prepare the workspace's disk"))?;
        jail::give(&disk, record.user).map_err(step("give the disk to Firecracker's user"))?;
        let jail = self.jails.jail(&record.name, &record.id);
        jail.create().map_err(step("make the jail"))?;
        let boot = self.boot_disk(spec).map_err(step("make the boot disk"))?;
        jail.write(plan::BOOT_DISK, &boot, record.user).map_err(step("make the boot disk"))?;
        self.links.listen(&spec.id, &jail, record.user).map_err(step("listen for the guest"))?;
        let files = self.files(spec, disk)?;
        let console = console::make().map_err(step("make the console"))?;
        self.consoles.insert(&spec.id, console.try_clone().map_err(step("make the console"))?);
        let process = self.launch(record, &jail, &files, &console).await.map_err(step("start Firecracker"))?;
        self.configure(spec, record, &jail, &process).await?;
        record.process = Some(process);
        self.records.write(record).map_err(step("write the marker"))
    }

    /// What the control groups of a machine hold: Firecracker and all of the guest's memory. The job's own limits are the guest's
    /// to keep, inside.
    fn group_limits(&self, spec: &SandboxSpec) -> GroupLimits {
        let job = crate::driver::Limits {
            memory_mib: plan::host_memory_mib(&spec.limits),
            pids: plan::threads(&spec.limits),
            ..spec.limits
        };
        GroupLimits { job, disk_in_memory_mib: 0 }
    }

    /// The sandbox's disk. Formatting one takes long and blocks.
    async fn disk_of(&self, spec: &SandboxSpec) -> io::Result<PathBuf> {
        let (disks, folder, size_mib) = (self.disks.clone(), spec.workspace.clone(), spec.limits.disk_mib);
        let ensure = move || disks.ensure(&folder, size_mib);
        tokio::task::spawn_blocking(ensure).await.map_err(io::Error::other)?
    }

    /// Waits until Firecracker listens and tells it everything; the machine boots with the last word.
    async fn configure(
        &self,
        spec: &SandboxSpec,
        record: &Record,
        jail: &Jail,
        process: &ProcessIdentity,
    ) -> Result<(), StartError> {
        let api = Api::new(jail.api(record.user));
        listening(&api, process).await.map_err(step("wait for Firecracker's API"))?;
        for request in plan::requests(&spec.limits, &self.command_line) {
            let told = api.put(&request).await;
            told.map_err(|error| step(format_args!("tell Firecracker about {}", request.path()))(io::Error::other(error)))?;
        }
        Ok(())
    }
}

/// Returns when the API listens.
async fn listening(api: &Api, process: &ProcessIdentity) -> io::Result<()> {
    let deadline = Instant::now() + LISTENS_WITHIN;
    loop {
        // Judged before asking: one that ends after it was asked is noticed by what follows.
        let alive = process.is_alive();
        match api.listens().await {
            Ok(true) => return Ok(()),
            Ok(false) if !alive => return Err(io::Error::other("Firecracker ended before it listened")),
            Ok(false) if Instant::now() >= deadline => return Err(io::ErrorKind::TimedOut.into()),
            Ok(false) => sleep(LOOK_AGAIN).await,
            Err(error) => return Err(error),
        }
    }
}

/// Nobody can know it before, so nobody can have planted anything there.
fn fresh_name() -> io::Result<String> {
    Ok(format!("f{:016x}", getrandom::u64().map_err(io::Error::other)?))
}

/// Names the step that failed.
pub(super) fn step(what: impl fmt::Display) -> impl FnOnce(io::Error) -> StartError {
    let step = what.to_string();
    move |source| StartError::Step { step, source }
}
