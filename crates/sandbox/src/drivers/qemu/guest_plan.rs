//! Resources that QEMU takes beside its machine, and the lines over which machine and host reach each other.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::time::Duration;

use rustix::fs::{MemfdFlags, Mode, OFlags, memfd_create};
use sandyard_protocol::{LinkPort, LinkTarget};

use super::command;
use super::host::Accelerator;
use crate::driver::{Limits, SandboxSpec};
use crate::host::layout;
use crate::host::vm::machine_plan::{self, Monitor, Ways};

/// Resources of QEMU itself. Memory: program, queues and translated code. Threads: processors, workers of its
/// disks (at most 64), and its own.
const QEMU: Monitor = Monitor { memory_mib: 96 + command::TRANSLATION_MIB, cpus: 0.5, threads: 128 };
/// Name of keeper's serial line in the link's directory.
const LINK_FILE: &str = "port";

/// Returns the number of virtual processors. Emulated ones wait for each other actively, and crawl where the
/// host has no processor for each beside its other work.
pub(super) fn vcpus(limits: &Limits, accelerator: Accelerator, processors: u32) -> u32 {
    let most = match accelerator {
        Accelerator::Kvm => processors,
        Accelerator::Tcg => processors / 2,
    };
    machine_plan::vcpus(limits, most)
}

/// Returns the host's limits for QEMU.
pub(super) fn host_limits(limits: &Limits) -> Limits {
    machine_plan::host_limits(limits, &QEMU)
}

/// Returns a machine's boot document as a disk: in memory, because it holds the secret, and read-only for QEMU.
pub(super) fn boot_disk(spec: &SandboxSpec, boot_time: Duration) -> io::Result<OwnedFd> {
    let bytes = machine_plan::boot_disk(&machine_plan::config(spec, ways(), boot_time))?;
    let file = File::from(memfd_create("sandyard-boot", MemfdFlags::CLOEXEC)?);
    file.write_all_at(&bytes, 0)?;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    // Opened again, because the memfd's own descriptor could still write.
    Ok(rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)
}

fn ways() -> Ways {
    Ways {
        link: LinkTarget::VirtioSerial { path: format!("{}/{LINK_FILE}", layout::LINK_TARGET).into() },
        link_port: Some(LinkPort {
            name: command::LINK_PORT.to_owned(),
            directory: layout::LINK_TARGET.to_owned(),
            file: LINK_FILE.to_owned(),
        }),
        control_port: Some(command::CONTROL_PORT.to_owned()),
        control_vsock: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_emulated_machine_leaves_the_host_half_of_its_processors() {
        let limits = Limits { cpus: 3.0, ..Limits::default() };
        assert_eq!((vcpus(&limits, Accelerator::Kvm, 4), vcpus(&limits, Accelerator::Tcg, 4)), (3, 2));
        assert_eq!(vcpus(&limits, Accelerator::Tcg, 1), 1);
    }
}
