//! Code of QEMU's process between fork and exec, and the rate of the processor's clock.

#![expect(
    unsafe_code,
    reason = "code between fork and exec must be signal-safe; clocks are read by an instruction"
)]

use std::ffi::CStr;
use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode, makedev};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change, mount_remount};
use rustix::process::{Gid, Resource, Rlimit, Uid};

/// Time for which the clock is watched. A microsecond of error at either end is then far below a thousandth.
const CLOCK_WATCH: Duration = Duration::from_millis(20);
/// Open files of one machine: its own, its sockets, and the workers of its disks.
const OPEN_FILES: u64 = 256;
/// Devices that QEMU sees, beside the device of KVM.
const DEVICES: [(&CStr, u32, u32); 3] = [(c"/dev/null", 1, 3), (c"/dev/zero", 1, 5), (c"/dev/urandom", 1, 9)];
const KVM: (&CStr, u32, u32) = (c"/dev/kvm", 10, 232);

/// Confinement of QEMU's process.
pub(super) struct Confinement {
    /// `cgroup.procs` files of its groups, open for writing.
    pub(super) groups: Vec<OwnedFd>,
    /// User and group of the process on the host.
    pub(super) user: u32,
    /// True if the process gets the device of KVM.
    pub(super) kvm: bool,
    /// Descriptors that the process inherits beside its standard streams.
    pub(super) inherited: Vec<RawFd>,
}

/// Makes the command's process confine itself before it becomes QEMU.
pub(super) fn confine(command: &mut Command, confinement: Confinement) {
    // SAFETY: the closure makes system calls only, on memory that was made before the fork: no allocation, no locks.
    unsafe {
        command.pre_exec(move || {
            // Groups first: from here on a later server can find and kill this process.
            for group in &confinement.groups {
                rustix::io::write(group, b"0")?;
            }
            rustix::process::setsid()?;
            // Namespaces and devices come before the change of user, which gives up the rights for both.
            leave_host()?;
            own_devices(confinement.kvm.then_some(confinement.user))?;
            become_user(confinement.user)?;
            confinement.inherited.iter().try_for_each(|&number| inherit(number))
        });
    }
}

/// Enters namespaces without the host's networks, mounts, names and shared memory.
fn leave_host() -> io::Result<()> {
    let flags = libc::CLONE_NEWNS | libc::CLONE_NEWNET | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS;
    // SAFETY: takes a number only.
    if unsafe { libc::unshare(flags) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // Without this the new /dev below would replace the host's.
    Ok(mount_change(c"/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?)
}

/// Mounts a `/dev` with QEMU's devices only.
fn own_devices(kvm_for: Option<u32>) -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    mount(c"tmpfs", c"/dev", c"tmpfs", flags, Some(c"size=64k,nr_inodes=16,mode=755"))?;
    let make = |(path, major, minor): (&CStr, u32, u32), mode| {
        rustix::fs::mknodat(
            CWD,
            path,
            FileType::CharacterDevice,
            Mode::from_raw_mode(mode),
            makedev(major, minor),
        )?;
        // mknod applies the server's umask to the mode.
        rustix::fs::chmod(path, Mode::from_raw_mode(mode))
    };
    for device in DEVICES {
        make(device, 0o666)?;
    }
    if let Some(user) = kvm_for {
        make(KVM, 0o600)?;
        rustix::fs::chown(KVM.0, Some(Uid::from_raw(user)), None)?;
    }
    Ok(mount_remount(c"/dev", MountFlags::BIND | MountFlags::RDONLY | flags, c"")?)
}

/// Changes the user. No capability survives that, and exec gives none back.
fn become_user(user: u32) -> io::Result<()> {
    // Limits come first: the new user may not raise them.
    let files = Rlimit { current: Some(OPEN_FILES), maximum: Some(OPEN_FILES) };
    rustix::process::setrlimit(Resource::Nofile, files)?;
    // One byte, not none: where the host pipes core dumps to a program, only 1 keeps the kernel from running
    // it.
    rustix::process::setrlimit(Resource::Core, Rlimit { current: Some(1), maximum: Some(1) })?;
    let (uid, gid) = (Uid::from_raw(user), Gid::from_raw(user));
    // Groups before user: after the change of user the kernel would refuse to change groups.
    rustix::thread::set_thread_groups(&[])?;
    rustix::thread::set_thread_res_gid(gid, gid, gid)?;
    rustix::thread::set_thread_res_uid(uid, uid, uid)?;
    // A set-user-id program of the host could otherwise give privilege back.
    Ok(rustix::thread::set_no_new_privs(true)?)
}

/// Keeps a descriptor open across exec.
fn inherit(number: RawFd) -> io::Result<()> {
    // SAFETY: F_SETFD takes no pointers.
    if unsafe { libc::fcntl(number, libc::F_SETFD, 0) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Returns the ticks of the processor's clock in a millisecond. An emulated processor shows its host's clock.
pub(super) fn clock_khz() -> u64 {
    let read = || (Instant::now(), clock_ticks());
    let (began, first) = read();
    std::thread::park_timeout(CLOCK_WATCH);
    let (ended, last) = read();
    let micros = u64::try_from(ended.duration_since(began).as_micros()).unwrap_or(u64::MAX).max(1);
    last.wrapping_sub(first).saturating_mul(1000) / micros
}

#[cfg(target_arch = "x86_64")]
fn clock_ticks() -> u64 {
    // SAFETY: every x86-64 processor has the instruction, and Linux leaves it to its users.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// Only kernels of x86-64 are told a rate, and the driver makes no machine on another processor.
#[cfg(not(target_arch = "x86_64"))]
fn clock_ticks() -> u64 {
    0
}
