//! Kernel interfaces that no safe crate offers, each behind the smallest safe function. Nothing here decides anything.

pub(crate) mod loops;
pub(crate) mod mounts;
pub(crate) mod readiness;
pub(crate) mod users;
