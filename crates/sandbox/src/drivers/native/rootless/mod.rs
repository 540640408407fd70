//! Sandboxes of an ordinary user: the same machine, made with the rights a user has over a user namespace of their own.
//!
//! `conditions` checks the host. `namespace` makes the yard's user and mount namespace, in which the user is root over their
//! subordinate ids (`subordinate`), and keeps it: the launcher enters it and does from there what it does as root elsewhere.
//! Workspaces are file systems in memory, mounted in that namespace on the workspace's folder, so one sandbox can follow
//! another on them; removing the folder removes the file system too.

mod conditions;
mod namespace;
mod subordinate;
mod workspaces;

pub(super) use conditions::require;
pub(super) use namespace::YardNamespace;
