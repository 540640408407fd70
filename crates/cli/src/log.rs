//! The log of a server: to standard error, as text or as JSON.

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;

/// Sets up the log for this process. Directives that make no sense are left out.
pub(crate) fn to_stderr(directives: &str, json: bool) {
    // The MCP library tells at `info` of every single call; directives of one's own win, because they come later.
    let filter = EnvFilter::builder().parse_lossy(format!("rmcp=warn,{directives}"));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    // Told by panicking, if standard error can't be written: a log on a full disk must not end what it tells of.
    let builder = builder.with_ansi(io::stderr().is_terminal()).log_internal_errors(false);
    // Set up once, from main; a second time would be a mistake without consequence.
    let result = if json { builder.json().try_init() } else { builder.try_init() };
    drop(result);
}
