//! What a sandbox's specification becomes: the machine's size and disks, and what Firecracker is told, in order.

use super::api::requests::{
    ActionType, BootSource, CacheType, Drive, Entropy, LogLevel, Logger, MachineConfig, RateLimiter, Request,
    TokenBucket, Vsock,
};
use super::jail::VSOCK;
use crate::driver::Limits;

/// Names of the machine's files in its jail.
pub(super) const KERNEL: &str = "kernel";
pub(super) const INITRD: &str = "initrd";
pub(super) const ROOT_DISK: &str = "root.disk";
pub(super) const WORKSPACE_DISK: &str = "workspace.disk";
pub(super) const BOOT_DISK: &str = "boot.disk";
/// The most processors that Firecracker gives to a machine.
const MOST_VCPUS: u8 = 32;
/// The first that is not reserved. Each machine has a device of its own, so all may have the same.
const GUEST_CID: u32 = 3;
/// What a disk may move in a second: about what one NVMe disk gives to a few, so that one guest can't keep the others from theirs.
const DISK_BYTES_PER_S: u64 = 512 * 1024 * 1024;
/// Operations in a second, likewise.
const DISK_OPERATIONS_PER_S: u64 = 50_000;

/// Everything Firecracker is told, the boot last. Disks appear to the guest in the order in which they are told.
pub(super) fn requests(limits: &Limits, memory_mib: u64, command_line: &str) -> Vec<Request> {
    vec![
        Request::Logger(Logger { level: LogLevel::Warning, show_level: true }),
        Request::MachineConfig(MachineConfig {
            vcpu_count: vcpus(limits.cpus),
            mem_size_mib: memory_mib,
            smt: false,
        }),
        Request::BootSource(BootSource {
            kernel_image_path: KERNEL.into(),
            initrd_path: INITRD.into(),
            boot_args: command_line.into(),
        }),
        drive("root", ROOT_DISK, Access::ReadOnly),
        drive("workspace", WORKSPACE_DISK, Access::ReadWrite),
        drive("boot", BOOT_DISK, Access::ReadOnly),
        Request::Vsock(Vsock { guest_cid: GUEST_CID, uds_path: VSOCK.into() }),
        Request::Entropy(Entropy {}),
        ActionType::InstanceStart.into(),
    ]
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    ReadOnly,
    ReadWrite,
}

fn drive(id: &str, path: &str, access: Access) -> Request {
    let bucket = |size| TokenBucket { size, refill_time: 1_000 };
    Request::Drive(Drive {
        drive_id: id.into(),
        path_on_host: path.into(),
        // Ours has an initrd that mounts what it needs.
        is_root_device: false,
        is_read_only: access == Access::ReadOnly,
        cache_type: if access == Access::ReadOnly { CacheType::Unsafe } else { CacheType::Writeback },
        rate_limiter: Some(RateLimiter {
            bandwidth: bucket(DISK_BYTES_PER_S),
            ops: bucket(DISK_OPERATIONS_PER_S),
        }),
    })
}

/// Whole processors, because a machine has no parts of one; the control group takes the rest off again.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to a range that fits")]
fn vcpus(cpus: f64) -> u8 {
    cpus.ceil().clamp(1.0, f64::from(MOST_VCPUS)) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_processor_become_a_whole_one() {
        let of = |cpus| vcpus(cpus);
        assert_eq!((of(0.5), of(1.0), of(1.1), of(2.0), of(400.0)), (1, 1, 2, 2, 32));
    }

    /// The guest knows its disks by their order; only one of them can be written; the boot comes last.
    #[test]
    fn the_order_is_the_guests_and_only_the_workspace_is_writable() {
        let requests = requests(&Limits::default(), 2304, "quiet");
        let drives: Vec<_> = requests
            .iter()
            .filter_map(|request| match request {
                Request::Drive(drive) => Some((drive.drive_id.as_str(), drive.is_read_only)),
                _ => None,
            })
            .collect();
        assert_eq!(drives, [("root", true), ("workspace", false), ("boot", true)]);
        assert_eq!(requests.last(), Some(&ActionType::InstanceStart.into()));
    }
}
