//! The filter around a whole machine, for drivers whose runtime takes one. Made from the table of the filters inside.

pub use crate::confine::seccomp::OuterProfile;
