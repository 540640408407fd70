//! The program inside every sandbox. Trusts nothing that the job's code can touch.
//!
//! One binary, eight roles. `main.rs` picks the role by the first argument:
//!
//! | role | module | task |
//! |---|---|---|
//! | `machine` | [`machine`] | first process of a virtual machine: mounts disks, sets limits, then starts init |
//! | `init` | [`init`] | first process of a sandbox: starts spawner and keeper, restarts keeper, holds descriptors for it |
//! | `spawner` | [`spawner`] | forks and reaps every process of the job; `spawner::client` is keeper's side of it |
//! | `keeper` | [`keeper`] (`keeper::role`) | serves the host over the pipe |
//! | `files` | `keeper::files::worker` | file operations for keeper, as the job's user |
//! | `changes` | `keeper::files::worker` | finds changed files for keeper, as the job's user |
//! | `desktop` | `keeper::desktop::automation::worker` | actions on the display for keeper, as the job's user |
//! | `gui` | `keeper::desktop::automation::job` | main process of a job of kind `gui` |
//!
//! `process_host` is the contract between keeper and the spawner; `process_host::local` is a double for tests. This library
//! exists so that tests can run keeper in their own process. `tests/layers.rs` lists which module may import which.

pub mod boot;
mod confine;
pub mod init;
pub mod keeper;
pub mod limits;
pub mod machine;
mod packets;
pub mod process_host;
pub mod spawner;
mod sys;
