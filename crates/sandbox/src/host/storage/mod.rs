//! Disks of sandboxes: `disk` makes and stocks disk images, `image_disk` mounts one, `file_systems` makes file systems in memory.

pub(crate) mod disk;
pub(crate) mod file_systems;
pub(crate) mod image_disk;
