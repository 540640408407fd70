//! Keeper's own bounds, each with the reason for its value. Bounds of the wire are in `sandyard_protocol::limits`,
//! those of init and spawner in `crate::limits`.

use std::time::Duration;

/// One spool file of output: small enough that acknowledged output frees disk soon, large enough that a flood of output
/// costs few file operations.
pub const SEGMENT_BYTES: u64 = 1024 * 1024;
/// Output of the job that waits for the host, per stream: a quarter of the spool of 128 MiB that drivers give. Beyond it
/// keeper stops reading and the job waits on its pipe.
pub const SPOOL_BYTES: u64 = 32 * 1024 * 1024;
/// Disk that output leaves free for keeper's documents, without which it can't go on.
pub const DOCUMENT_RESERVE: u64 = 4 * 1024 * 1024;
/// Disk that the output of callers' processes leaves free for the job's own, so that it never starves.
pub const JOB_RESERVE: u64 = 16 * 1024 * 1024;
/// Output sent to the host and not yet acknowledged: several of the host's commits of 1 MiB chunks.
pub const OUTPUT_IN_FLIGHT: u64 = 8 * 1024 * 1024;
/// Capacity of the pipes of the job's output, the most that the kernel gives without privilege.
pub const JOB_PIPE_BYTES: usize = 1024 * 1024;
/// Bytes moved before other tasks get their turn: under a millisecond of copying.
pub const BYTES_PER_TURN: usize = 512 * 1024;
/// Less than this at once is a line or two, of which more may follow.
pub const FEW_BYTES: usize = 4096;
/// How long such lines are gathered: nobody sees it, and a flood of lines costs 500 frames a second instead of one each.
pub const GATHER_TIME: Duration = Duration::from_millis(2);
/// Events that wait for the host. They are few; a note beyond this is dropped, the start and end of a job never are.
pub const PENDING_EVENTS: usize = 1024;

/// Ended processes whose exit and last output can still be asked for.
pub const ENDED_PROCESSES: usize = 32;
/// Output of ended processes that is kept, all together: a part of keeper's small disk.
pub const ENDED_OUTPUT_BYTES: u64 = 16 * 1024 * 1024;
/// How long one slow follower may hold a process back before it is told of lost output instead.
pub const FOLLOWER_PATIENCE: Duration = Duration::from_secs(10);
/// Between SIGTERM and SIGKILL when a limit ends a process; long enough to write a file or two.
pub const TERMINATION_GRACE: Duration = Duration::from_secs(2);
/// The longest grace a request may ask for, so that an end is an end.
pub const LONGEST_GRACE_MS: u64 = 600_000;
/// What a terminal's line discipline may still hold after its last process is gone is handed over within this.
pub const TERMINAL_QUIET: Duration = Duration::from_millis(50);
/// How often a full disk is tried again when nobody says that it has room.
pub const FULL_DISK_RETRY: Duration = Duration::from_millis(200);
/// The longest single sleep towards a deadline: the timer's clock stops while a machine is suspended, the deadline's
/// does not.
pub const LONGEST_SLEEP: Duration = Duration::from_secs(30);
/// How often a kill of everything is repeated while a process of the job is still there.
pub const KILL_AGAIN: Duration = Duration::from_secs(1);

/// File operations at once, slow downloads among them; more wait their turn.
pub const FILE_WORKERS: usize = 16;
/// File workers kept for the next operation; a workspace opened in an editor needs two.
pub const IDLE_FILE_WORKERS: usize = 2;
/// How long a file worker waits for the next operation before its memory is given back.
pub const FILE_WORKER_REST: Duration = Duration::from_secs(30);
/// A file worker that neither reads nor writes for this long is stuck, or was stopped by the job.
pub const FILE_WORKER_STALL: Duration = Duration::from_secs(60);
/// A host that takes nothing of an answer for this long has lost interest; its turn is given to another operation.
pub const HOST_STALL: Duration = Duration::from_secs(120);
/// The largest file that is edited in place, as the protocol says.
pub const EDIT_BYTES: u64 = 8 * 1024 * 1024;
/// Directories open at once while a tree is removed; deeper ones are first moved up.
pub const REMOVE_DEPTH: usize = 64;
/// Names of one directory held for sorting, unless memory for them runs short.
pub const SORTED_NAMES: usize = 100_000;
/// Names of all open directories of a walk together, in bytes.
pub const SORTED_NAME_BYTES: usize = 32 * 1024 * 1024;
/// Names of one directory that are always held, even when those of its parents used the memory up.
pub const FEWEST_SORTED_NAMES: usize = 256;
/// Paths an export tells as left out.
pub const SKIPPED_PATHS: usize = 100;
/// Hits of one search; a page of a console shows fewer.
pub const SEARCH_HITS: usize = 1000;
/// Files one search opens.
pub const SEARCH_FILES: usize = 100_000;
/// The largest file a search reads; larger ones are data.
pub const SEARCH_FILE_BYTES: u64 = 16 * 1024 * 1024;
/// Bytes one search reads.
pub const SEARCH_BYTES: u64 = 1024 * 1024 * 1024;
/// How long one search lasts.
pub const SEARCH_TIME: Duration = Duration::from_secs(10);
/// Text of a line that a hit shows, as the protocol says.
pub const SEARCH_LINE_BYTES: usize = 400;

/// The host names its request within this, or the stream is dropped.
pub const REQUEST_DEADLINE: Duration = Duration::from_secs(30);
/// Connecting on loopback is immediate; a full backlog is the only wait.
pub const CONNECT_DEADLINE: Duration = Duration::from_secs(5);
/// How often a service that starts is looked at.
pub const SERVICE_POLL: Duration = Duration::from_millis(50);
/// A service listens within this: JupyterLab takes two seconds on an idle machine. Below the host's patience of 60 s.
pub const SERVICE_START: Duration = Duration::from_secs(55);
/// How long JupyterLab stays without a client, a kernel or a terminal.
pub const LAB_IDLE: Duration = Duration::from_secs(900);
/// After an answer to a request that still sends, what comes is read this long so that the answer is not lost to a reset.
pub const LINGER: Duration = Duration::from_secs(5);
/// Connections through the machine's proxy at once; the host bounds them too.
pub const EGRESS_CONNECTIONS: usize = 128;
/// How long such a connection waits for a link: a server's restart, with time to spare.
pub const EGRESS_LINK_WAIT: Duration = Duration::from_secs(60);
/// Connections of the loop at once: its calls in parallel, the desk and the model, with room to spare. Each may hold a request
/// in keeper's memory.
pub const AGENT_CONNECTIONS: usize = 24;
/// A loop that ran this long was no failure to start.
pub const STEADY_LOOP: Duration = Duration::from_secs(30);
/// Starts in a row of loops that did not last.
pub const LOOP_STARTS: u32 = 5;
/// Between two attempts to listen on a port that somebody else holds.
pub const LISTEN_AGAIN: Duration = Duration::from_secs(1);
/// The first wait between two dials.
pub const FIRST_DIAL_WAIT: Duration = Duration::from_millis(10);
/// The longest wait between two dials: a server that restarts is found within a second.
pub const LONGEST_DIAL_WAIT: Duration = Duration::from_secs(1);
/// A link that lasted shorter than this was no success; the next dial waits.
pub const SHORT_LINK: Duration = Duration::from_secs(2);
/// How often keeper looks whether the host's socket was replaced by another server's.
pub const SOCKET_WATCH: Duration = Duration::from_secs(1);
