//! What a machine is told about itself, and how much it gets.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;

use rustix::fs::{MemfdFlags, Mode, OFlags, memfd_create};
use sandyard_protocol::{JobLimits, LinkPort, LinkTarget, MACHINE_GROUPS, MachineConfig};

use super::command;
use super::host::Accelerator;
use crate::driver::{Limits, SandboxSpec};
use crate::parts::layout::{self, Birth};

/// The guest's kernel, our processes in it and their spool, beside the job's memory.
pub(super) const GUEST_MIB: u64 = 224;
/// QEMU itself: its program, its queues, its translated code.
pub(super) const VMM_MIB: u64 = 96 + command::TRANSLATION_MIB;
/// Processors for the devices of a machine, beside the job's.
pub(super) const VMM_CPUS: f64 = 0.5;
/// Threads of QEMU: processors, workers of its disks (at most 64), its own.
pub(super) const VMM_THREADS: u64 = 128;
/// Processes the spawner needs beside the job's own, so that a full job can still be ended in an orderly way.
const SPARE_PIDS: u64 = 2;
const MIB: u64 = 1024 * 1024;
/// Disks have sectors of this size.
const SECTOR: usize = 512;
/// The file of keeper's serial line in the link's directory.
const LINK_FILE: &str = "port";

/// Memory of the machine.
pub(super) fn memory_mib(limits: &Limits) -> u64 {
    limits.memory_mib.saturating_add(GUEST_MIB)
}

/// Virtual processors: whole ones, of which the job may use a part. Emulated ones wait for each other actively, and crawl where
/// the host has no processor for each beside its other work.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to a range that fits")]
pub(super) fn vcpus(limits: &Limits, accelerator: Accelerator, processors: u32) -> u32 {
    let most = match accelerator {
        Accelerator::Kvm => processors,
        Accelerator::Tcg => processors / 2,
    };
    (limits.cpus.ceil().clamp(1.0, 64.0) as u32).min(most.max(1))
}

/// What QEMU may take of the host.
pub(super) fn host_limits(limits: &Limits) -> Limits {
    Limits {
        cpus: limits.cpus + VMM_CPUS,
        memory_mib: memory_mib(limits).saturating_add(VMM_MIB),
        pids: VMM_THREADS,
        ..*limits
    }
}

/// The document of a machine.
pub(super) fn config(spec: &SandboxSpec) -> MachineConfig {
    let link = LinkTarget::VirtioSerial { path: format!("{}/{LINK_FILE}", layout::LINK_TARGET).into() };
    let birth = Birth::Files { cgroup_procs: vec![format!("{MACHINE_GROUPS}/job/cgroup.procs").into()] };
    MachineConfig {
        boot: layout::boot_config(spec, link, birth),
        host_name: spec.id.to_string(),
        root: command::ROOT_DISK.to_owned(),
        disk: command::WORK_DISK.to_owned(),
        disk_places: layout::disk_mounts(),
        memory_places: layout::memory_mounts(spec.limits.memory_mib),
        terminal_group: layout::TERMINAL_GROUP,
        job: job_limits(&spec.limits),
        link_port: Some(LinkPort {
            name: command::LINK_PORT.to_owned(),
            directory: layout::LINK_TARGET.to_owned(),
            file: LINK_FILE.to_owned(),
        }),
        control_port: Some(command::CONTROL_PORT.to_owned()),
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to a range that fits")]
fn job_limits(limits: &Limits) -> JobLimits {
    let period = 100_000.0;
    JobLimits {
        memory_bytes: limits.memory_mib.saturating_mul(MIB),
        pids: limits.pids.saturating_add(SPARE_PIDS),
        // The kernel takes no less than 1 ms.
        cpu_quota_us: (limits.cpus * period).clamp(1_000.0, 1e12) as u64,
    }
}

/// The document as a disk: in memory, because it holds the secret, and read-only for whoever gets it.
pub(super) fn boot_disk(config: &MachineConfig) -> io::Result<OwnedFd> {
    let mut text = serde_json::to_vec(config)?;
    text.resize(text.len().next_multiple_of(SECTOR), 0);
    let file = File::from(memfd_create("sandyard-boot", MemfdFlags::CLOEXEC)?);
    file.write_all_at(&text, 0)?;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use sandyard_protocol::Secret;

    use super::*;
    use crate::driver::SandboxId;

    fn spec(limits: Limits) -> SandboxSpec {
        SandboxSpec {
            id: SandboxId::parse("one").unwrap(),
            image_root: "/i".into(),
            workspace: "/w".into(),
            limits,
            lifetime_s: 60,
            secret: Secret::new([1; 32]),
            nested_user_namespaces: false,
        }
    }

    #[test]
    fn the_job_gets_its_share_and_the_machine_more() {
        let limits = Limits { cpus: 1.5, memory_mib: 100, disk_mib: 64, pids: 10 };
        let job = config(&spec(limits)).job;
        assert_eq!((job.memory_bytes, job.pids, job.cpu_quota_us), (100 * MIB, 12, 150_000));
        assert!(memory_mib(&limits) > 100 && host_limits(&limits).memory_mib > memory_mib(&limits));
        let vcpus =
            |cpus, accelerator, processors| vcpus(&Limits { cpus, ..limits }, accelerator, processors);
        assert_eq!((vcpus(1.5, Accelerator::Kvm, 2), vcpus(1.5, Accelerator::Tcg, 2)), (2, 1));
        assert_eq!((vcpus(0.1, Accelerator::Kvm, 8), vcpus(99.0, Accelerator::Kvm, 1)), (1, 1));
    }

    #[test]
    fn the_document_fills_whole_sectors_and_is_found_again() {
        let config = config(&spec(Limits::default()));
        let mut bytes = Vec::new();
        File::from(boot_disk(&config).unwrap()).read_to_end(&mut bytes).unwrap();
        assert!(bytes.len().is_multiple_of(SECTOR));
        let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
        let read: MachineConfig = serde_json::from_slice(&bytes[..end]).unwrap();
        assert_eq!(read.boot.secret, config.boot.secret);
    }
}
