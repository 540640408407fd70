//! Acts as another user without losing capabilities.

use std::io;

use rustix::process::Uid;
use rustix::thread::CapabilitySets;

/// Changes the effective user of a thread of root without dropping its capabilities.
///
/// Call it before creating a user namespace. The kernel charges watchers, timers and other objects of a user namespace to
/// the namespace's creator as well: created by root, all sandboxes would share root's limits with each other and with the
/// host. The change also makes the process non-dumpable, so other users can't inspect it, now or later.
pub fn act_as(user: u32) -> io::Result<()> {
    rustix::thread::set_thread_res_uid(Uid::ROOT, Uid::from_raw(user), Uid::ROOT)?;
    // A change from effective user 0 clears the effective capabilities; the permitted ones are kept and raised again.
    let sets = rustix::thread::capabilities(None)?;
    Ok(rustix::thread::set_capabilities(None, CapabilitySets { effective: sets.permitted, ..sets })?)
}
