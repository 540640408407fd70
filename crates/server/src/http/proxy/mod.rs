//! Ports of sandboxes over HTTP: on an origin of their own for browsers (`origin`), below the API for programs (`program`).
//!
//! Both end in `forward`: one connection over the machine's pipe for each request, so nothing is ever shared between jobs.
//! `headers` decides which headers pass between a sandbox and a client, `target` which paths, `tunnel` carries the bytes after
//! an upgrade, `notice` is the page where a sandbox has none. Everything from the sandbox is hostile.

mod cookies;
mod forward;
mod header_lists;
mod headers;
mod lab_files;
pub(super) mod lanes;
pub(super) mod notice;
pub(super) mod origin;
pub(super) mod program;
mod target;
mod tunnel;

pub(super) use origin::ENTER;

/// Where keeper starts JupyterLab on first use.
pub(super) const LAB_PORT: u16 = 8888;
