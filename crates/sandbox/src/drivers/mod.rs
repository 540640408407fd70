//! The drivers, one folder each.

pub mod docker;
pub mod fake;
pub mod native;
pub mod oci;
