//! The drivers, one folder each, and the table that names them.

pub mod catalogue;
pub mod docker;
pub mod firecracker;
pub mod native;
pub mod oci;
pub mod qemu;

pub use catalogue::{CATALOGUE, DriverEntry, DriverStage};

use crate::driver::Limits;

/// Returns the most host memory that a sandbox of a driver of root can take, without asking the driver.
pub(crate) fn host_memory_mib(driver: &str, limits: &Limits) -> u64 {
    match driver {
        name if name == catalogue::QEMU.name => qemu::host_memory_mib(limits),
        name if name == catalogue::FIRECRACKER.name => firecracker::host_memory_mib(limits),
        _ => limits.memory_mib,
    }
}
