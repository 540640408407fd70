//! File systems of sandboxes: `disk` makes and stocks disk images, `image_disk` mounts one, `file_systems` makes file systems in
//! memory, `private_view` gives a shared tree inodes of the sandbox's own, `devices` makes a /dev.

pub(crate) mod devices;
pub(crate) mod disk;
pub(crate) mod file_systems;
pub(crate) mod image_disk;
pub(crate) mod private_view;
