//! Boot document and size of a virtual machine, whichever program runs it.

use std::time::Duration;

use sandyard_protocol::{
    BootConfig, JobLimits, JobUsage, LinkPort, LinkTarget, MACHINE_GROUPS, MachineConfig,
};

use crate::driver::{Limits, SandboxSpec, Usage};
use crate::host::layout::{self, Birth};

/// Disks as the guest's kernel names them, in the order in which a driver attaches them.
pub(crate) const ROOT_DISK: &str = "vda";
pub(crate) const WORK_DISK: &str = "vdb";
pub(crate) const BOOT_DISK: &str = "vdc";
/// Name of a machine's disk in its workspace. Differs from the name of disks that this host's kernel mounts: the host must
/// never mount a file system that a machine wrote.
pub(crate) const DISK_FILE: &str = "machine.ext4";
/// Memory of the guest's kernel, our processes and their spool, beside the job's memory, in a machine of next to none.
const GUEST_MIB: u64 = 224;
/// Memory that the guest's kernel takes for each GiB of its machine: 64 bytes for each page of 4 KiB, which is 16 MiB, then hash
/// tables and its own map of the memory.
const GUEST_MIB_PER_GIB: u64 = 20;
/// Memory that the host takes for each GiB of a machine: page tables of the monitor and of KVM, 2 MiB each, and what KVM notes
/// of each page. 5.4 MB were seen.
const TABLES_MIB_PER_GIB: u64 = 8;
/// Processes the spawner needs beside the job's own, so that a full job can still be ended in an orderly way.
const SPARE_PIDS: u64 = 2;
const MIB: u64 = 1024 * 1024;
/// Size of a disk's sector in bytes.
const SECTOR_BYTES: usize = 512;

/// Resources of the program that runs a machine.
pub(crate) struct Monitor {
    /// Memory of the monitor itself: program and queues.
    pub(crate) memory_mib: u64,
    /// Processors for the machine's devices.
    pub(crate) cpus: f64,
    /// Largest number of threads of the monitor.
    pub(crate) threads: u64,
}

/// Addresses by which a machine and its host reach each other.
pub(crate) struct Ways {
    pub(crate) link: LinkTarget,
    /// Serial line of the link, if it uses one.
    pub(crate) link_port: Option<LinkPort>,
    /// Serial line for requests of the driver, if they use one.
    pub(crate) control_port: Option<String>,
    /// Guest's port for requests of the driver, if they use vsock.
    pub(crate) control_vsock: Option<u32>,
}

/// Returns the memory of a machine whose job can have all of its limit.
pub(crate) fn memory_mib(limits: &Limits) -> u64 {
    let least = limits.memory_mib.saturating_add(GUEST_MIB);
    least.saturating_add(share_mib(least, GUEST_MIB_PER_GIB))
}

/// Returns a share of each begun GiB.
fn share_mib(memory_mib: u64, mib_per_gib: u64) -> u64 {
    memory_mib.div_ceil(1024).saturating_mul(mib_per_gib)
}

/// Returns the number of virtual processors: whole ones, of which the job may use a part.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to a range that fits")]
pub(crate) fn vcpus(limits: &Limits, most: u32) -> u32 {
    (limits.cpus.ceil().clamp(1.0, 64.0) as u32).min(most.max(1))
}

pub(crate) fn processors() -> u32 {
    std::thread::available_parallelism().map_or(1, |count| u32::try_from(count.get()).unwrap_or(u32::MAX))
}

/// Returns the host's limits for a machine and its monitor.
pub(crate) fn host_limits(limits: &Limits, monitor: &Monitor) -> Limits {
    Limits {
        cpus: limits.cpus + monitor.cpus,
        memory_mib: memory_mib(limits)
            .saturating_add(monitor.memory_mib)
            .saturating_add(share_mib(memory_mib(limits), TABLES_MIB_PER_GIB)),
        pids: monitor.threads,
        ..*limits
    }
}

/// Returns the boot document of a machine that may take so long to boot.
pub(crate) fn config(spec: &SandboxSpec, ways: Ways, boot_time: Duration) -> MachineConfig {
    let birth = Birth::Files { cgroup_procs: vec![format!("{MACHINE_GROUPS}/job/cgroup.procs").into()] };
    MachineConfig {
        boot: BootConfig { boot_time_s: boot_time.as_secs(), ..layout::boot_config(spec, ways.link, birth) },
        host_name: spec.id.to_string(),
        root: ROOT_DISK.to_owned(),
        disk: WORK_DISK.to_owned(),
        disk_places: layout::disk_mounts(),
        memory_places: layout::memory_mounts(spec.limits.memory_mib),
        terminal_group: layout::TERMINAL_GROUP,
        job: job_limits(&spec.limits),
        link_port: ways.link_port,
        control_port: ways.control_port,
        control_vsock: ways.control_vsock,
    }
}

fn job_limits(limits: &Limits) -> JobLimits {
    JobLimits {
        memory_bytes: limits.memory_mib.saturating_mul(MIB),
        pids: limits.pids.saturating_add(SPARE_PIDS),
        cpu_quota_us: limits.cpu_quota_us(),
    }
}

/// Returns the document as the bytes of a disk.
pub(crate) fn boot_disk(config: &MachineConfig) -> std::io::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec(config)?;
    bytes.resize(bytes.len().next_multiple_of(SECTOR_BYTES), 0);
    Ok(bytes)
}

/// Converts the usage that the machine's own kernel counted, which separates the job from the rest.
#[expect(clippy::cast_precision_loss, reason = "processor time stays far below 2^53 microseconds")]
pub(crate) fn usage(job: &JobUsage) -> Usage {
    Usage {
        cpu_s: job.cpu_us as f64 / 1e6,
        memory_bytes: None,
        peak_memory_bytes: job.peak_memory_bytes,
        memory_kills: job.memory_kills,
        pids_refused: job.pids_refused,
    }
}

#[cfg(test)]
mod tests {
    use sandyard_protocol::Secret;

    use super::*;
    use crate::driver::{ImageDigest, SandboxId};

    fn config_of(limits: Limits) -> MachineConfig {
        let spec = SandboxSpec {
            id: SandboxId::parse("one").unwrap(),
            image: ImageDigest::parse(&"0".repeat(64)).unwrap(),
            workspace: "/w".into(),
            limits,
            lifetime_s: 60,
            secret: Secret::new([1; 32]),
        };
        let link = LinkTarget::Vsock { port: 7 };
        let ways = Ways { link, link_port: None, control_port: None, control_vsock: Some(8) };
        config(&spec, ways, Duration::from_secs(240))
    }

    #[test]
    fn the_job_gets_its_share_and_the_machine_more() {
        let limits = Limits { cpus: 1.5, memory_mib: 100, disk_mib: 64, pids: 10, io_mib_s: 256 };
        let job = config_of(limits).job;
        assert_eq!((job.memory_bytes, job.pids, job.cpu_quota_us), (100 * MIB, 12, 150_000));
        let host = host_limits(&limits, &Monitor { memory_mib: 5, cpus: 0.5, threads: 9 });
        let tables = TABLES_MIB_PER_GIB;
        assert_eq!((host.memory_mib, host.cpus, host.pids), (memory_mib(&limits) + 5 + tables, 2.0, 9));
        assert!(memory_mib(&limits) > 100);
        assert_eq!((vcpus(&limits, 8), vcpus(&limits, 1)), (2, 1));
        assert_eq!(vcpus(&Limits { cpus: 0.1, ..limits }, 8), 1);
    }

    /// A kernel takes a 64th of its machine for the descriptions of pages alone.
    #[test]
    fn large_limits_are_delivered_too() {
        for memory_mib in [16, 2048, 8 * 1024, 64 * 1024, 1024 * 1024] {
            let limits = Limits { memory_mib, ..Limits::default() };
            let machine = super::memory_mib(&limits);
            assert!(machine - machine / 64 - memory_mib >= 200, "{memory_mib}: {machine}");
            let host = host_limits(&limits, &Monitor { memory_mib: 64, cpus: 0.5, threads: 9 }).memory_mib;
            assert!(host - machine >= 64 + machine * 54 / 10_240, "{memory_mib}: {host}");
            // Below 3 % beside what any machine takes: the rest of the host is for others.
            assert!(host - memory_mib <= 330 + memory_mib * 30 / 1000, "{memory_mib}: {host}");
        }
        assert_eq!(super::memory_mib(&Limits { memory_mib: u64::MAX, ..Limits::default() }), u64::MAX);
    }

    #[test]
    fn the_document_fills_whole_sectors_and_is_found_again() {
        let config = config_of(Limits::default());
        let bytes = boot_disk(&config).unwrap();
        assert!(bytes.len().is_multiple_of(SECTOR_BYTES));
        let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
        let read: MachineConfig = serde_json::from_slice(&bytes[..end]).unwrap();
        assert_eq!((read.boot.secret, read.boot.boot_time_s), (config.boot.secret, 240));
    }
}
