//! The program inside every sandbox. Trusts nothing that the job's code can touch.
//!
//! Three roles of one binary (`main.rs`): `init` makes the others and drops everything, `spawner` forks what the job runs,
//! `keeper` serves the host over the pipe. This library exists so that tests can run keeper in their own process.

pub mod boot;
mod confine;
pub mod init;
pub mod keeper;
pub mod keeper_role;
pub mod limits;
#[cfg(any(test, feature = "local-processes"))]
pub mod local_processes;
pub mod machine;
mod packets;
pub mod process_host;
pub mod spawner;
pub mod spawner_client;
mod sys;
