//! Kernel interfaces that no safe crate offers, each behind the smallest safe function.
//!
//! Together with `host/sys` the only unsafe code of the driver. Nothing here decides anything: callers name steps and order.

pub(super) mod processes;
