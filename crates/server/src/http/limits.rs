//! Bounds of the listeners.

use std::time::Duration;

/// Bounds on connections, memory and times.
#[derive(Debug, Clone)]
pub struct ServeLimits {
    /// Connections at once. A newcomer takes the place of one that waits for its client.
    pub connections: usize,
    /// Connections of one address at once.
    pub connections_per_peer: usize,
    /// Memory of all request bodies that are read whole.
    pub body_bytes: usize,
    /// Memory of all answers whose clients take nothing.
    pub unwritten_bytes: usize,
    /// For the whole head of a request, and for the next request on an idle connection.
    pub head: Duration,
    /// For the next bytes of a request's body.
    pub body_idle: Duration,
    /// For the client to take the next bytes of an answer.
    pub write_idle: Duration,
    /// For requests under way when the server stops.
    pub grace: Duration,
}

impl Default for ServeLimits {
    /// Four thousand connections leave room below the usual limit of open files once it is raised. One address may have three
    /// quarters of them: all clients of a proxy in front have one. Eight of the largest bodies fit, and a thousand stalled answers.
    fn default() -> Self {
        Self {
            connections: 4096,
            connections_per_peer: 3072,
            body_bytes: 128 * 1024 * 1024,
            unwritten_bytes: 64 * 1024 * 1024,
            head: Duration::from_secs(30),
            body_idle: Duration::from_secs(30),
            write_idle: Duration::from_secs(60),
            grace: Duration::from_secs(5),
        }
    }
}

impl ServeLimits {
    /// The defaults for a process that may open so many files. Sandboxes, logs and downloads need as many as connections.
    pub fn for_open_files(open_files: u64) -> Self {
        let defaults = Self::default();
        let connections =
            usize::try_from(open_files / 2).unwrap_or(usize::MAX).clamp(16, defaults.connections);
        Self { connections, connections_per_peer: connections / 4 * 3, ..defaults }
    }
}
