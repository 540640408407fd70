//! The runtime of a command. A server gives up its privileges before it: threads that exist by then would keep theirs.

use std::io;

/// Runs a command to its end, on as many threads as the machine has processors.
pub(crate) fn block_on<T, E: From<io::Error>>(command: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let result = runtime.block_on(command);
    // Threads that read the keyboard can't be ended, so they are not waited for.
    runtime.shutdown_background();
    result
}
