//! Tools for drivers whose machines run on this host. Drivers share them; none owns them.
//!
//! `sandboxes` is all that a driver knows of its sandboxes however it makes them: markers, ids, links, liveness. `cgroup` limits, counts
//! and kills. `storage` makes and mounts disks. `layout` is the view from inside a sandbox. `vm` is for virtual machines only.
//! `requirements` checks the host before anything is tried, `steps` name the steps of a start and let tests fail them, and
//! `start_probe` starts a sandbox to see whether that works. `packets` carries messages between processes. `sys` holds the unsafe code.
//! A driver has a data directory of its own: two drivers of one yard share neither markers nor names.

pub(crate) mod cgroup;
pub(crate) mod console;
pub(crate) mod layout;
pub(crate) mod packets;
pub(crate) mod polling;
pub(crate) mod requirements;
pub(crate) mod sandboxes;
pub(crate) mod start_probe;
pub(crate) mod steps;
pub(crate) mod storage;
pub(crate) mod sys;
pub(crate) mod version;
pub(crate) mod vm;
