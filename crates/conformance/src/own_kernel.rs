//! Checks for sandboxes with a kernel of their own: paths to the host through the machine's devices, and a disk whose file
//! system only a machine may read.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::session::dial;
use super::{CheckOutcome, DriverSubject, SandboxSession, SuiteError};
use sandyard_sandbox::driver::{Driver, Limits, LinkError, SandboxSpec};

/// Limits of a machine, enough to boot with.
const MACHINE_LIMITS: Limits = Limits { cpus: 1.0, memory_mib: 128, disk_mib: 64, pids: 64, io_mib_s: 256 };
/// Devices of a machine that would lead to the host: lines, consoles, disks and memory. The job must see
/// none.
const WAYS: &str = "/dev/vsock /dev/vhost-vsock /dev/ttyS0 /dev/hvc0 /dev/console /dev/kmsg /dev/mem /dev/port /dev/nvram \
                    /dev/hwrng /dev/vda /dev/vdb /dev/vdc /dev/vport0p1 /dev/vport1p1";
/// Name of a virtual machine's disk in a workspace's folder. Fixed: later versions must find the disks of
/// this one.
const DISK_FILE: &str = "machine.ext4";
/// Size of the file system's superblock, which stays intact; the damage follows it.
const SUPERBLOCK_BYTES: u64 = 4096;
/// Size of the damage: tables and journal of a small disk.
const DAMAGED_BYTES: usize = 4 * 1024 * 1024;

/// Examines machines from inside and their disks from outside.
pub async fn own_kernel(subject: &DriverSubject) -> Result<Vec<CheckOutcome>, SuiteError> {
    let spec = subject.spec("own-1", MACHINE_LIMITS)?;
    let disk = spec.workspace.join(DISK_FILE);
    let session = SandboxSession::start((subject.open)(), spec).await?;
    let found =
        session.shell(&format!("for way in {WAYS}; do if [ -e $way ]; then echo $way; fi; done")).await?;
    let written = session.shell("echo kept > kept.txt && sync").await?;
    let mut outcomes = vec![
        CheckOutcome::new(
            "S6.ways_to_the_host",
            found.exit.code == 0 && found.stdout.is_empty(),
            found.stdout,
        ),
        CheckOutcome::new("D8.written", written.exit.code == 0, written.stderr),
        unread("D8.running", &disk),
    ];
    session.stop().await?;
    outcomes.push(unread("D8.stopped", &disk));
    outcomes.extend(hostile_disk(subject, &disk).await?);
    Ok(outcomes)
}

/// Lets a machine overwrite its own file system. Only another machine may fail on it, never the host.
async fn hostile_disk(subject: &DriverSubject, disk: &Path) -> Result<Vec<CheckOutcome>, SuiteError> {
    let driver = (subject.open)();
    let spec = subject.spec("own-2", MACHINE_LIMITS)?;
    let damaged = spec.workspace.join(DISK_FILE);
    fs::copy(disk, &damaged).and_then(|_| damage(&damaged)).map_err(SuiteError::Workspace)?;
    driver.start(&spec).await?;
    let mut outcomes = vec![unread("D8.hostile.running", &damaged), refused(&*driver, &spec).await];
    driver.stop(&spec.id).await?;
    outcomes.push(unread("D8.hostile.stopped", &damaged));
    Ok(outcomes)
}

async fn refused(driver: &dyn Driver, spec: &SandboxSpec) -> CheckOutcome {
    let dialled = dial(driver, spec, 1).await.map(drop);
    let dead = matches!(dialled, Err(SuiteError::Link(LinkError::NotRunning(_))));
    CheckOutcome::new("D8.hostile", dead, format!("{dialled:?}"))
}

fn damage(disk: &Path) -> io::Result<()> {
    let mut bytes = vec![0; DAMAGED_BYTES];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    File::options().write(true).open(disk)?.write_all_at(&bytes, SUPERBLOCK_BYTES)
}

/// Checks that this host's kernel does not read the disk's file system.
fn unread(check: &str, disk: &Path) -> CheckOutcome {
    let devices = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let backing =
        devices.filter_map(|device| fs::read_to_string(device.path().join("loop/backing_file")).ok());
    let attached = backing.map(|file| PathBuf::from(file.trim_end())).filter(|file| file == disk);
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let name = disk.display().to_string();
    let mounted = mounts.lines().filter(|line| line.contains(&name)).map(PathBuf::from);
    let found: Vec<_> = attached.chain(mounted).collect();
    CheckOutcome::new(check, disk.exists() && found.is_empty(), format!("{found:?}"))
}
