//! Kernel interfaces that host and guest share: the system-call table and the few calls that both sides make.
//!
//! Both link this crate so that neither links the other. It holds no policy of a driver or of keeper and starts no threads.

mod loopback;
pub mod seccomp;
mod users;

pub use loopback::raise_loopback;
pub use users::act_as;
