//! A process of a sandbox as clients see it.

use sandyard_api::ProcessView;
use sandyard_protocol::{EndReason, Exit, ProcessInfo};

/// A process for clients.
pub(super) fn view(info: ProcessInfo) -> ProcessView {
    ProcessView {
        process: info.id.0,
        pid: info.pid,
        command: info.argv,
        terminal: info.terminal,
        running: info.exit.is_none(),
        exit_code: info.exit.map(|exit| exit.code),
        timed_out: info.exit.is_some_and(|exit| timed_out(&exit)),
        stdout_bytes: info.output.stdout,
        stderr_bytes: info.output.stderr,
    }
}

/// True if a time limit ended a process.
pub(super) fn timed_out(exit: &Exit) -> bool {
    matches!(exit.reason, EndReason::Timeout | EndReason::IdleTimeout)
}
