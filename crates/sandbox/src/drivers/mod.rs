//! The drivers, one folder each, and the table that names them.

pub mod catalogue;
pub mod docker;
pub mod firecracker;
pub mod native;
pub mod oci;
pub mod qemu;

pub use catalogue::{CATALOGUE, DriverEntry, DriverStage};
