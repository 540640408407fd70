//! Starting a machine: marker → control groups → disk → jail → Firecracker → its API requests → its process in the marker.
//!
//! A step that fails ends the start and is named in the error. The start then removes everything it made except the marker. By
//! the marker `stop` finds the remains of a process that was killed in the middle. The process is written last: a machine that
//! was never booted does not count as running.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::api::FirecrackerApi;
use super::api::requests::{ActionType, ApiRequest};
use super::jail::{self, Jail};
use super::plan;
use super::state::FirecrackerState;
use crate::driver::{SandboxSpec, StartError, tree_of};
use crate::host::cgroup::GroupLimits;
use crate::host::console;
use crate::host::sandboxes::liveness::ProcessIdentity;
use crate::host::sandboxes::records::SandboxRecord;
use crate::host::sandboxes::{ExistingSandbox, or_undo};
use crate::host::vm::machine_plan;
use crate::image::vm::{VmImage, VmImageError};

/// Longest wait for the API. Firecracker listens within a few milliseconds; the rest is room for a busy
/// machine.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(20);
/// Delay between two attempts to connect.
const LISTEN_POLL_DELAY: Duration = Duration::from_millis(3);

impl FirecrackerState {
    /// Starts a sandbox, or returns at once if it runs already.
    pub(super) async fn start(&self, spec: &SandboxSpec) -> Result<(), StartError> {
        match self.sandboxes.before(&spec.id)? {
            ExistingSandbox::Running => return Ok(()),
            ExistingSandbox::Dead => self.remove(&spec.id).await?,
            ExistingSandbox::Nothing => {}
        }
        let name = fresh_name().map_err(StartError::at("draw a name"))?;
        let user = self.sandboxes.ids.take(&BTreeSet::new()).map_err(StartError::at("take a user id"))?;
        let mut record = SandboxRecord { name: Some(name), user: Some(user), ..SandboxRecord::of(spec) };
        let outcome = self.build(spec, &mut record, user).await;
        or_undo(&spec.id, outcome, self.clear(&record)).await
    }

    async fn build(
        &self,
        spec: &SandboxSpec,
        record: &mut SandboxRecord,
        user: u32,
    ) -> Result<(), StartError> {
        // The marker comes first, with the name of jail and groups: by it a later server finds everything
        // below.
        self.sandboxes.records.write(record).map_err(StartError::at("write the marker"))?;
        let tree = tree_of(&*self.config.images, &spec.image).map_err(StartError::at("find the image"))?;
        let image = self.image_of(&tree).await;
        let image = image.map_err(|error| StartError::at("prepare the image")(io::Error::other(error)))?;
        let groups = self.sandboxes.groups(record);
        groups.create().map_err(StartError::at("make the control groups"))?;
        let limits = GroupLimits {
            job: plan::host_limits(&spec.limits),
            disk_in_memory_mib: 0,
            workspace: &spec.workspace,
        };
        // Before Firecracker runs, so that it never runs without limits.
        groups.limit(limits).map_err(StartError::at("limit the control groups"))?;
        let disk = self.disk_of(spec).await.map_err(StartError::at("prepare the workspace's disk"))?;
        jail::give(&disk, user).map_err(StartError::at("give the disk to Firecracker's user"))?;
        let jail = self.jail(record);
        jail.create().map_err(StartError::at("make the jail"))?;
        let boot =
            plan::boot_disk(spec, self.config.boot_time).map_err(StartError::at("make the boot disk"))?;
        jail.write(plan::BOOT_DISK, &boot, user).map_err(StartError::at("make the boot disk"))?;
        // Before the boot: a guest that dials a missing socket gets a reset.
        self.links.listen(&spec.id, &jail, user).map_err(StartError::at("listen for the guest"))?;
        let files = plan::files(image, disk);
        let console = console::make().map_err(StartError::at("make the console"))?;
        self.consoles.insert(&spec.id, console.try_clone().map_err(StartError::at("make the console"))?);
        let process = self
            .launch(record, &jail, &files, &console)
            .await
            .map_err(StartError::at("start Firecracker"))?;
        self.configure(spec, record, &jail, &process).await?;
        // Last: a machine that was never booted must not count as running.
        record.process = Some(process);
        self.sandboxes.records.write(record).map_err(StartError::at("write the marker"))
    }

    /// Returns the boot files of a machine on that image. Making missing ones blocks for seconds.
    pub(super) async fn image_of(&self, image_root: &Path) -> Result<VmImage, VmImageError> {
        let (images, root) = (self.images.clone(), image_root.to_owned());
        let made = tokio::task::spawn_blocking(move || images.unpacked(&root)).await;
        made.unwrap_or_else(|error| Err(VmImageError::Initrd(io::Error::other(error))))
    }

    /// Returns the sandbox's disk. Formatting a new one blocks, hence the thread.
    async fn disk_of(&self, spec: &SandboxSpec) -> io::Result<PathBuf> {
        let (disks, size_mib) = (self.disks.clone(), spec.limits.disk_mib);
        let path = spec.workspace.join(machine_plan::DISK_FILE);
        let ensure = move || disks.ensure_at(&path, size_mib).map(|()| path);
        tokio::task::spawn_blocking(ensure).await.map_err(io::Error::other)?
    }

    /// Waits until Firecracker listens and sends all requests. The last one boots the machine.
    async fn configure(
        &self,
        spec: &SandboxSpec,
        record: &SandboxRecord,
        jail: &Jail,
        process: &ProcessIdentity,
    ) -> Result<(), StartError> {
        let api = FirecrackerApi::new(jail.api(record.machine_user()));
        listening(&api, process).await.map_err(StartError::at("wait for Firecracker's API"))?;
        for request in plan::requests(&spec.limits, &self.programs.version) {
            tell(&api, &request).await?;
        }
        // Held over the boot, so that the timer thread that appears belongs to this machine.
        let boot = self.timers.boot().await.map_err(StartError::at("look for the kernel's timers"))?;
        tell(&api, &ActionType::InstanceStart.into()).await?;
        boot.booted(&self.sandboxes.groups(record)).map_err(StartError::at("limit the kernel's timer"))
    }
}

async fn tell(api: &FirecrackerApi, request: &ApiRequest) -> Result<(), StartError> {
    let told = api.put(request).await;
    told.map_err(|error| {
        StartError::at(format_args!("tell Firecracker about {}", request.path()))(io::Error::other(error))
    })
}

/// Returns when the API listens. Fails if the process ends or the time is up.
async fn listening(api: &FirecrackerApi, process: &ProcessIdentity) -> io::Result<()> {
    let deadline = Instant::now() + LISTEN_TIMEOUT;
    loop {
        // Checked before the call: a process that ends after it is noticed in the next round.
        let alive = process.is_alive();
        match api.listens().await {
            Ok(true) => return Ok(()),
            Ok(false) if !alive => return Err(io::Error::other("Firecracker ended before it listened")),
            Ok(false) if Instant::now() >= deadline => return Err(io::ErrorKind::TimedOut.into()),
            Ok(false) => sleep(LISTEN_POLL_DELAY).await,
            Err(error) => return Err(error),
        }
    }
}

/// Returns a random name, so that no other process can have planted files there.
fn fresh_name() -> io::Result<String> {
    Ok(format!("f{:016x}", getrandom::u64().map_err(io::Error::other)?))
}
