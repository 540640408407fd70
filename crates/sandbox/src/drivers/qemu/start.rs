//! Starting a machine: marker → disks, sockets and control groups → QEMU → its pid in the marker.
//!
//! A step that fails ends the start and is named in the error. The start then removes everything it made except the marker. By
//! the marker `stop` finds the remains of a process that was killed in the middle.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use super::command::{QemuDescriptors, QemuMachine};
use super::host::Accelerator;
use super::state::QemuState;
use super::step::{QemuFailure, QemuStep, QemuSteps};
use super::{guest_plan, sockets, sys};
use crate::driver::{SandboxSpec, StartError, tree_of};
use crate::drivers::catalogue;
use crate::host::cgroup::{GroupLimits, Groups};
use crate::host::console;
use crate::host::polling;
use crate::host::sandboxes::liveness::ProcessIdentity;
use crate::host::sandboxes::records::SandboxRecord;
use crate::host::sandboxes::{ExistingSandbox, or_undo};
use crate::host::vm::machine_plan;
use crate::host::vm::timer_threads;
use crate::image::vm::{VmImage, VmImageError};

/// Longest wait for the kernel's timer. QEMU makes its machine within a fraction of this.
const TIMER_TIMEOUT: Duration = Duration::from_secs(2);

/// Open files that QEMU inherits.
struct QemuFiles {
    kernel: OwnedFd,
    initrd: OwnedFd,
    root: OwnedFd,
    work: OwnedFd,
    boot: OwnedFd,
    link: OwnedFd,
    control: OwnedFd,
    console: OwnedFd,
}

impl QemuState {
    /// Starts a machine, or returns at once if it runs already.
    pub(super) async fn start(
        self: &Arc<Self>,
        spec: &SandboxSpec,
        accelerator: Accelerator,
    ) -> Result<(), StartError> {
        match self.sandboxes.before(&spec.id)? {
            ExistingSandbox::Running => return Ok(()),
            ExistingSandbox::Dead => self.remove(&spec.id).await?,
            ExistingSandbox::Nothing => {}
        }
        let image = self.image_of(spec).await?;
        let user = self.sandboxes.ids.take(&BTreeSet::new()).map_err(StartError::at("take a user id"))?;
        let outcome = self.start_on(spec, image, user, accelerator).await;
        Ok(or_undo(&spec.id, outcome, self.clear(&SandboxRecord::of(spec))).await?)
    }

    async fn image_of(&self, spec: &SandboxSpec) -> Result<VmImage, StartError> {
        let root = tree_of(&*self.config.images, &spec.image).map_err(StartError::at("find the image"))?;
        let images = self.images.clone();
        let found = tokio::task::spawn_blocking(move || images.of(&root)).await;
        match found.map_err(io::Error::other).map_err(StartError::at("prepare the image"))? {
            Ok(image) => Ok(image),
            Err(error @ VmImageError::NoKernel) => {
                Err(StartError::Unusable { driver: catalogue::QEMU.name, detail: error.to_string() })
            }
            Err(error) => Err(StartError::at("prepare the image")(io::Error::other(error))),
        }
    }

    async fn start_on(
        self: &Arc<Self>,
        spec: &SandboxSpec,
        image: VmImage,
        user: u32,
        accelerator: Accelerator,
    ) -> Result<(), QemuFailure> {
        let (mut steps, id) = (QemuSteps::new(self.config.fail_at), &spec.id);
        let mut record = SandboxRecord { id_base: Some(user), ..SandboxRecord::of(spec) };
        // The marker comes first: by it a later server finds everything below.
        steps.run(QemuStep::Marker, id, || self.sandboxes.records.write(&record))?;
        let disk = spec.workspace.join(machine_plan::DISK_FILE);
        steps.wait(QemuStep::Disk, disk.display(), self.make_disk(&disk, spec.limits.disk_mib)).await?;
        let files = steps.run(QemuStep::Open, id, || self.open(spec, image, &disk))?;
        let groups = self.sandboxes.groups(&record);
        steps.run(QemuStep::MakeGroups, groups.name(), || groups.create())?;
        let limits = GroupLimits {
            job: guest_plan::host_limits(&spec.limits),
            disk_in_memory_mib: 0,
            workspace: &spec.workspace,
        };
        // Before QEMU runs, so that it never runs without limits.
        steps.run(QemuStep::LimitGroups, groups.name(), || groups.limit(limits))?;
        let run = || self.run(spec, &files, &groups, user, accelerator);
        let process = steps.run(QemuStep::Run, self.program.path.display(), run)?;
        if accelerator == Accelerator::Kvm {
            tokio::spawn(limit_timer(process.clone(), groups));
        }
        // Written after QEMU runs: until then the sandbox counts as dead, and its groups find the process.
        record.process = Some(process);
        self.consoles.insert(id, files.console);
        steps.run(QemuStep::Note, id, || self.sandboxes.records.write(&record))
    }

    async fn make_disk(&self, path: &Path, size_mib: u64) -> io::Result<()> {
        let (disks, path) = (self.disks.clone(), path.to_owned());
        tokio::task::spawn_blocking(move || disks.ensure_at(&path, size_mib))
            .await
            .map_err(io::Error::other)?
    }

    fn open(&self, spec: &SandboxSpec, image: VmImage, disk: &Path) -> io::Result<QemuFiles> {
        let read = |path| File::open(&path).map(OwnedFd::from);
        let folder = self.sandboxes.records.directory(&spec.id);
        Ok(QemuFiles {
            kernel: read(image.kernel)?,
            initrd: read(image.initrd)?,
            root: read(image.root_disk)?,
            work: OpenOptions::new().read(true).write(true).open(disk)?.into(),
            boot: guest_plan::boot_disk(spec, self.config.boot_time)?,
            link: sockets::listen(&folder, sockets::LINK)?,
            control: sockets::listen(&folder, sockets::CONTROL)?,
            console: console::make()?,
        })
    }

    /// Starts QEMU, which ends with its control groups.
    fn run(
        &self,
        spec: &SandboxSpec,
        files: &QemuFiles,
        groups: &Groups,
        user: u32,
        accelerator: Accelerator,
    ) -> io::Result<ProcessIdentity> {
        let descriptors = files.descriptors();
        let machine = QemuMachine {
            accelerator,
            vcpus: guest_plan::vcpus(&spec.limits, accelerator, machine_plan::processors()),
            memory_mib: machine_plan::memory_mib(&spec.limits),
            tsc_khz: self.clock_khz,
            files: descriptors,
        };
        let (_, entrances) = groups.entrances();
        let entrance = |path| OpenOptions::new().write(true).open(path).map(OwnedFd::from);
        let mut command = Command::new(&self.program.path);
        command
            .args(machine.arguments())
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(files.console.try_clone()?)
            .stderr(files.console.try_clone()?);
        let confinement = sys::Confinement {
            groups: entrances.into_iter().map(entrance).collect::<io::Result<_>>()?,
            user,
            kvm: accelerator == Accelerator::Kvm,
            inherited: descriptors.all().to_vec(),
        };
        sys::confine(&mut command, confinement);
        let child = command.spawn()?;
        // The child is not reaped yet, so the pid is still its own.
        let process = ProcessIdentity::of(child.id().cast_signed())?;
        tokio::spawn(reap(child, process.clone()));
        Ok(process)
    }
}

impl QemuFiles {
    fn descriptors(&self) -> QemuDescriptors {
        QemuDescriptors {
            kernel: self.kernel.as_raw_fd(),
            initrd: self.initrd.as_raw_fd(),
            root: self.root.as_raw_fd(),
            work: self.work.as_raw_fd(),
            boot: self.boot.as_raw_fd(),
            link: self.link.as_raw_fd(),
            control: self.control.as_raw_fd(),
        }
    }
}

/// R22: puts the kernel's timer thread of a machine into its groups. The thread appears some time after QEMU
/// starts, and some machines have none.
async fn limit_timer(process: ProcessIdentity, groups: Groups) {
    let taken = || {
        let threads = timer_threads::of(process.pid)?;
        threads.iter().try_for_each(|&thread| groups.take_in(thread))?;
        Ok(!threads.is_empty() || !process.is_alive())
    };
    if let Err(error) = polling::poll(TIMER_TIMEOUT, taken).await {
        tracing::debug!(%error, pid = process.pid, "no timer of the kernel's was found");
    }
}

/// Reaps a machine that this server started, so that it does not stay a zombie.
async fn reap(mut child: Child, process: ProcessIdentity) {
    process.wait_dead().await;
    if let Err(error) = child.wait() {
        tracing::warn!(%error, pid = process.pid, "can't reap QEMU");
    }
}
