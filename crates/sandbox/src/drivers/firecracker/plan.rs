//! Converts a sandbox's specification to the machine's files and to requests to Firecracker, in order.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use sandyard_protocol::{LinkTarget, MACHINE_BOOT_ARGUMENT};
use semver::Version;

use super::api::requests::{
    ApiRequest, BootSource, CacheType, Drive, Entropy, RateLimiter, Serial, TokenBucket, VmConfig, Vsock,
};
use super::jail::{Placed, VSOCK};
use crate::driver::{Limits, SandboxSpec};
use crate::host::vm::machine_plan::{self, BOOT_DISK as BOOT_DEVICE, Monitor, Ways};
use crate::image::vm::VmImage;

/// Names of the machine's files in its jail.
pub(super) const KERNEL: &str = "kernel";
pub(super) const INITRD: &str = "initrd";
pub(super) const ROOT_DISK: &str = "root.disk";
pub(super) const WORKSPACE_DISK: &str = "workspace.disk";
pub(super) const BOOT_DISK: &str = "boot.disk";
/// Port of the host that keeper dials.
pub(super) const LINK_PORT: u32 = 1024;
/// Port of the guest on which the machine's first process takes requests.
pub(super) const CONTROL_PORT: u32 = 1025;
/// First version that can limit a guest's writes to its console.
const CONSOLE_LIMIT_SINCE: Version = Version::new(1, 16, 0);
/// Most processors that Firecracker gives to a machine.
const MAX_VCPUS: u32 = 32;
/// Resources of Firecracker itself. Memory: program and queues, and as much again. Threads: one for each processor, its own and that of its API.
const FIRECRACKER: Monitor = Monitor { memory_mib: 64, cpus: 0.5, threads: 64 };
/// Address of the guest, the first that is not reserved. Each machine has a device of its own, so all may
/// have the same.
const GUEST_CID: u32 = 3;
/// Bytes that a disk may move in a second: about a share of one NVMe disk, so that one guest can't starve the
/// others.
const DISK_BYTES_PER_S: u64 = 512 * 1024 * 1024;
/// Operations of a disk in a second, with the same reason.
const DISK_OPERATIONS_PER_S: u64 = 50_000;
/// Random bytes in a second: far more than a kernel asks for, and no work for the host.
const ENTROPY_BYTES_PER_S: u64 = 64 * 1024;
/// Limit of requests for random numbers, in one second.
const ENTROPY_OPERATIONS_PER_S: u64 = 1_000;
/// Console output of a guest in one second. The console is small and of use only when a guest can't start.
const CONSOLE_BYTES_PER_S: u64 = 16 * 1024;

/// Returns the host's limits for Firecracker.
pub(super) fn host_limits(limits: &Limits) -> Limits {
    machine_plan::host_limits(limits, &FIRECRACKER)
}

/// Returns the document of a machine as the bytes of a disk.
pub(super) fn boot_disk(spec: &SandboxSpec, boot_time: Duration) -> io::Result<Vec<u8>> {
    let ways = Ways {
        link: LinkTarget::Vsock { port: LINK_PORT },
        link_port: None,
        control_port: None,
        control_vsock: Some(CONTROL_PORT),
    };
    machine_plan::boot_disk(&machine_plan::config(spec, ways, boot_time))
}

/// Returns the files of a machine's jail.
pub(super) fn files(image: VmImage, workspace: PathBuf) -> [Placed; 4] {
    let placed = |source, name, read_only| Placed { source, name, read_only };
    [
        placed(image.kernel, KERNEL, true),
        placed(image.initrd, INITRD, true),
        placed(image.root_disk, ROOT_DISK, true),
        placed(workspace, WORKSPACE_DISK, false),
    ]
}

/// Returns the kernel's arguments. The kernel reboots through the keyboard's controller, which ends
/// Firecracker; there is no other device to probe. Arguments after the dashes are for the guest's program.
fn command_line() -> String {
    format!(
        "console=ttyS0 quiet loglevel=3 reboot=k panic=-1 i8042.noaux i8042.nomux i8042.dumbkbd no_timer_check \
         random.trust_cpu=on {MACHINE_BOOT_ARGUMENT}{BOOT_DEVICE} -- machine"
    )
}

/// Returns all requests before the boot. The guest sees disks in the order of their requests.
pub(super) fn requests(limits: &Limits, version: &Version) -> Vec<ApiRequest> {
    let vcpus = machine_plan::vcpus(limits, machine_plan::processors().min(MAX_VCPUS));
    let mut requests = vec![
        ApiRequest::MachineConfig(VmConfig {
            vcpu_count: u8::try_from(vcpus).unwrap_or(1),
            mem_size_mib: machine_plan::memory_mib(limits),
            smt: false,
        }),
        ApiRequest::BootSource(BootSource {
            kernel_image_path: KERNEL.into(),
            initrd_path: INITRD.into(),
            boot_args: command_line(),
        }),
        drive("root", ROOT_DISK, DriveAccess::ReadOnly),
        drive("workspace", WORKSPACE_DISK, DriveAccess::ReadWrite),
        drive("boot", BOOT_DISK, DriveAccess::ReadOnly),
        ApiRequest::Vsock(Vsock { guest_cid: GUEST_CID, uds_path: VSOCK.into() }),
        ApiRequest::Entropy(Entropy { rate_limiter: limiter(ENTROPY_BYTES_PER_S, ENTROPY_OPERATIONS_PER_S) }),
    ];
    if *version >= CONSOLE_LIMIT_SINCE {
        requests.push(ApiRequest::Serial(Serial { rate_limiter: a_second(CONSOLE_BYTES_PER_S) }));
    }
    requests
}

/// Returns a token bucket that refills in one second.
fn a_second(size: u64) -> TokenBucket {
    TokenBucket { size, refill_time: 1_000 }
}

fn limiter(bytes: u64, operations: u64) -> RateLimiter {
    RateLimiter { bandwidth: a_second(bytes), ops: a_second(operations) }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DriveAccess {
    ReadOnly,
    ReadWrite,
}

fn drive(id: &str, path: &str, access: DriveAccess) -> ApiRequest {
    ApiRequest::Drive(Drive {
        drive_id: id.into(),
        path_on_host: path.into(),
        // No root device: the initrd mounts the disks that it needs.
        is_root_device: false,
        is_read_only: access == DriveAccess::ReadOnly,
        cache_type: if access == DriveAccess::ReadOnly { CacheType::Unsafe } else { CacheType::Writeback },
        rate_limiter: Some(limiter(DISK_BYTES_PER_S, DISK_OPERATIONS_PER_S)),
    })
}

#[cfg(test)]
mod tests {
    use super::super::programs::parse_version;
    use super::*;

    /// The guest knows its disks by their order; only one of them can be written.
    #[test]
    fn the_order_is_the_guests_and_only_the_workspace_is_writable() {
        let requests = requests(&Limits::default(), &Version::new(1, 16, 1));
        let drives: Vec<_> = requests
            .iter()
            .filter_map(|request| match request {
                ApiRequest::Drive(drive) => Some((drive.drive_id.as_str(), drive.is_read_only)),
                _ => None,
            })
            .collect();
        assert_eq!(drives, [("root", true), ("workspace", false), ("boot", true)]);
    }

    /// R11: an older version refuses members that it does not know.
    #[test]
    fn the_console_is_limited_by_those_that_can() {
        let told = |version| {
            let requests = requests(&Limits::default(), &parse_version(version).unwrap());
            requests.iter().any(|request| request.path() == "/serial")
        };
        assert_eq!([told("v1.13.2"), told("v1.15.1"), told("v1.16.0")], [false, false, true]);
    }
}
