//! Ports of sandboxes over HTTP: on an origin of their own for browsers (`origin`), below the API for programs (`program`).
//!
//! Both end in `forward`: one connection over the machine's pipe for each request, so nothing is ever shared between jobs.
//! `headers` says what a sandbox and a client may see of each other, `target` which paths are passed on, `tunnel` carries
//! what follows an upgrade, `notice` speaks where there is nothing to pass on. What comes from the sandbox is hostile.

mod forward;
mod headers;
mod lab_files;
mod lanes;
pub(super) mod notice;
pub(super) mod origin;
pub(super) mod program;
mod target;
mod tunnel;

pub(super) use lanes::Lanes;
pub(super) use origin::ENTER;
