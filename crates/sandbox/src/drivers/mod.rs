//! The drivers, one folder each.

pub mod docker;
pub mod fake;
pub mod firecracker;
pub mod native;
pub mod oci;
pub mod qemu;
