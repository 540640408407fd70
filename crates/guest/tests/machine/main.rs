//! The guest's privileged roles in a real machine. Needs root and unshare(1); says so where it can't run.

mod init;
mod spawner;
mod support;
mod syscalls;
