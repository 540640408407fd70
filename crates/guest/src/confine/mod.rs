//! Giving up privilege, for good: user, capabilities, resource limits, Landlock, seccomp.
//!
//! Each function does one step and fails if the kernel did not do all of it. Order matters and is the caller's: mounts
//! first, then [`become_user`], then Landlock, then seccomp.

pub(crate) mod landlock;
pub(crate) mod seccomp;

use rustix::fs::Mode;
use rustix::process::{DumpableBehavior, Gid, Resource, Rlimit, Uid};
use rustix::thread::{CapabilitySet, CapabilitySets};

use crate::boot::{BootFailure, BootStep as _};
use crate::sys;

/// Capabilities are numbered from 0; the kernel's interface has room for 64.
const CAPABILITY_NUMBERS: u32 = 64;

/// Becomes this user and group with no other groups, no capabilities, no way to get any, and closed to tracing.
pub(crate) fn become_user(id: u32) -> Result<(), BootFailure> {
    const STAGE: &str = "drop privileges";
    rustix::thread::clear_ambient_capability_set().step(STAGE, "ambient capabilities")?;
    for number in 0..CAPABILITY_NUMBERS {
        if !sys::drop_bounding_capability(number).step(STAGE, format_args!("bounding capability {number}"))? {
            break;
        }
    }
    // After the bounding set: dropping from it needs CAP_SETPCAP, which goes with user 0.
    set_user(id)?;
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    // The change of user clears the capabilities of a process of root. Cleared again here, in case it kept them.
    rustix::thread::set_capabilities(None, none).step(STAGE, "capabilities")?;
    seal()?;
    verify(id)
}

fn set_user(id: u32) -> Result<(), BootFailure> {
    const STAGE: &str = "drop privileges";
    let (uid, gid) = (Uid::from_raw(id), Gid::from_raw(id));
    // Groups before the user: without user 0 the process may not change its groups any more.
    rustix::thread::set_thread_groups(&[]).step(STAGE, "supplementary groups")?;
    rustix::thread::set_thread_res_gid(gid, gid, gid).step(STAGE, format_args!("group {id}"))?;
    rustix::thread::set_thread_res_uid(uid, uid, uid).step(STAGE, format_args!("user {id}"))
}

/// Becomes this user and group with one capability left: to switch the machine off.
pub(crate) fn become_user_who_can_switch_off(id: u32) -> Result<(), BootFailure> {
    const STAGE: &str = "drop privileges";
    let only = CapabilitySet::SYS_BOOT;
    rustix::thread::clear_ambient_capability_set().step(STAGE, "ambient capabilities")?;
    for number in (0..CAPABILITY_NUMBERS).filter(|number| 1 << number & only.bits() == 0) {
        if !sys::drop_bounding_capability(number).step(STAGE, format_args!("bounding capability {number}"))? {
            break;
        }
    }
    // Without it the change of user would clear the one capability that must stay.
    rustix::thread::set_keep_capabilities(true).step(STAGE, "keep capabilities")?;
    set_user(id)?;
    let sets = CapabilitySets { effective: only, permitted: only, inheritable: CapabilitySet::empty() };
    rustix::thread::set_capabilities(None, sets).step(STAGE, "capabilities")?;
    seal()
}

/// Forbids new privileges and tracing by others. The second must be repeated after each exec.
pub(crate) fn seal() -> Result<(), BootFailure> {
    rustix::thread::set_no_new_privs(true).step("drop privileges", "no-new-privileges")?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .step("drop privileges", "non-dumpable")
}

/// Checks that this process runs as this user without any privilege. Keeper calls it too: it inherits its rights from init.
pub(crate) fn verify(id: u32) -> Result<(), BootFailure> {
    const STAGE: &str = "drop privileges";
    let sets = rustix::thread::capabilities(None).step(STAGE, "read capabilities")?;
    let held = sets.effective | sets.permitted | sets.inheritable;
    if !held.is_empty() {
        return Err(BootFailure::plain(STAGE, format!("capabilities are left: {:#x}", held.bits())));
    }
    let user = rustix::process::getuid().as_raw();
    // Id 0 would be root of the machine, with every file that root owns.
    if id == 0 || user != id || rustix::process::geteuid().as_raw() != id {
        return Err(BootFailure::plain(STAGE, format!("the user is {user}, not {id}")));
    }
    if !rustix::thread::no_new_privs().step(STAGE, "read no-new-privileges")? {
        return Err(BootFailure::plain(STAGE, "new privileges are possible"));
    }
    Ok(())
}

/// Bounds open files and forbids core dumps. A lower hard limit that is already there stays. The filter then keeps the limit of
/// core dumps as it is: at 0 a crash would run the host's handler.
pub(crate) fn limit_resources(open_files: u64) -> Result<(), BootFailure> {
    let hard = rustix::process::getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    let files = open_files.min(hard);
    set_limit(Resource::Nofile, files).step("limits", format_args!("{files} open files"))?;
    // One byte, not none: where the host pipes core dumps to a program, only 1 keeps the kernel from running it.
    set_limit(Resource::Core, 1).step("limits", "no core dumps")?;
    empty_core_dumps().step("limits", "no memory in core dumps")?;
    rustix::process::umask(Mode::WGRP | Mode::WOTH);
    Ok(())
}

/// Leaves all memory out of core dumps, for this process and its descendants. A host that passes core dumps to a socket
/// (`core_pattern` with `@`) gets them whatever the limit: then they hold registers and no more.
fn empty_core_dumps() -> std::io::Result<()> {
    match std::fs::write("/proc/self/coredump_filter", "0") {
        // A kernel without core dumps has no such file.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        written => written,
    }
}

fn set_limit(resource: Resource, value: u64) -> rustix::io::Result<()> {
    rustix::process::setrlimit(resource, Rlimit { current: Some(value), maximum: Some(value) })
}
