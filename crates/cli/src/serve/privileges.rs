//! Gives up root for good: user, groups, capabilities, and every way to get any back. Called before the process has a second thread.

use std::io;

use rustix::process::{Gid, Uid};
use rustix::thread::{CapabilitySet, CapabilitySets};
use sandyard_sandbox::warden::ServerUser;

/// Becomes that user. Fails unless nothing is left of root.
pub(super) fn become_user(user: ServerUser) -> io::Result<()> {
    let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
    rustix::thread::clear_ambient_capability_set()?;
    // Groups before the user: without user 0 the process may not change its groups any more.
    rustix::thread::set_thread_groups(&[])?;
    rustix::thread::set_thread_res_gid(gid, gid, gid)?;
    // Clears the capabilities too, and makes the process closed to tracing by others of its user.
    rustix::thread::set_thread_res_uid(uid, uid, uid)?;
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    rustix::thread::set_capabilities(None, none)?;
    // From here on no program that this process executes can have more rights.
    rustix::thread::set_no_new_privs(true)?;
    verify(user)
}

fn verify(user: ServerUser) -> io::Result<()> {
    let sets = rustix::thread::capabilities(None)?;
    let bare = (sets.effective | sets.permitted | sets.inheritable).is_empty()
        && rustix::process::getuid().as_raw() == user.uid
        && rustix::process::geteuid().as_raw() == user.uid
        && rustix::process::getegid().as_raw() == user.gid
        && rustix::process::getgroups()?.is_empty()
        && rustix::thread::no_new_privs()?;
    if bare { Ok(()) } else { Err(io::Error::other("privileges are left")) }
}
