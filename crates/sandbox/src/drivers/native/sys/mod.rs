//! Kernel interfaces that no safe crate offers, each behind the smallest safe function.
//!
//! The only unsafe code of the driver. Nothing here decides anything: callers name steps and order.

pub(super) mod loops;
pub(super) mod mounts;
pub(super) mod network;
pub(super) mod processes;
pub(super) mod readiness;
