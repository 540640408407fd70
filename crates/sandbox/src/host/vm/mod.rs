//! Tools that only drivers of virtual machines use.
//!
//! `machine_image` makes the disks that machines boot from, `machine_plan` sizes a machine and writes its boot document,
//! `machine_control` asks a running machine, `timer_threads` finds the kernel threads that a machine causes on the host.

pub(crate) mod machine_control;
pub(crate) mod machine_image;
pub(crate) mod machine_plan;
pub(crate) mod timer_threads;
