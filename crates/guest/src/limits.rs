//! Every bound of the guest in one place, each with the reason for its value.
//!
//! Limits that host and guest must agree on are in `sandyard_protocol::limits`; these are the guest's own.

use std::time::Duration;

use sandyard_protocol::limits::{ARGUMENT_BYTES, PROCESSES};

/// The boot document: a few paths and numbers. Drivers promise not to exceed 64 KiB.
pub const BOOT_BYTES: usize = 64 * 1024;
/// Descriptors in one packet between the guest's own processes: a command's document and its three streams.
pub const PACKET_FDS: usize = 4;
/// Bytes of a message inside a packet; longer messages go through a memory file. Well below the kernel's default socket
/// buffer of 208 KiB, so that a few packets always fit.
pub const PACKET_BYTES: usize = 32 * 1024;
/// The longest message between the guest's own processes: a command's strings, six bytes for each at worst in JSON, and room for
/// the fields around them.
pub const LOCAL_MESSAGE_BYTES: usize = 6 * ARGUMENT_BYTES + 64 * 1024;
/// The longest name of a process. Keeper makes the names, so this only bounds the damage of a defect.
pub const PROCESS_ID_BYTES: usize = 128;
/// Processes the spawner follows: those of the API's callers, and room for keeper's own workers.
pub const TRACKED_PROCESSES: usize = PROCESSES + 32;
/// Descriptor sets that init holds for them: input and output apart.
pub const HELD_PARTS: usize = 2 * TRACKED_PROCESSES;
/// Answers the spawner keeps for a keeper that doesn't read. At this number it reads no further request.
pub const UNSENT_REPLIES: usize = 64;
/// Children reaped before requests are served again, so that a flood of exits can't starve keeper.
pub const REAPS_IN_A_ROW: usize = 256;
/// Time limit for a forked child to become its program. Exec takes milliseconds; a hostile process of the same user may
/// stop the child in between, and this ends the wait.
pub const EXEC_WAIT: Duration = Duration::from_secs(5);
/// Time between two looks at the memory in use, while the job has processes: a look at ten processes takes 0.1 ms.
pub const GAUGE_INTERVAL: Duration = Duration::from_secs(2);
/// Processes whose memory is added up: a job may have that many, and a server's operator may allow it more.
pub const GAUGED_PROCESSES: usize = 4096;
/// Capacity of the job's output pipes: the output that a command can print without blocking while keeper is being restarted. Four
/// times the kernel's default; the kernel gives less, without harm, to users who hold many.
pub const PIPE_BYTES: usize = 256 * 1024;
/// Added to the badness of the job's processes, half of all memory: out of memory must find them before the spawner,
/// and before the host's own programs. Lowering the guest's own score instead would take CAP_SYS_RESOURCE.
pub const OOM_SCORE_ADJUSTMENT: &str = "500";
/// Open files of init and keeper: four descriptors for each process, a stream for each of the link's, and as much again.
pub const OWN_OPEN_FILES: u64 = 4096;
/// Restarts of a dead keeper within `KEEPER_WINDOW`. One that dies more often will not get better.
pub const KEEPER_RESTARTS: usize = 10;
/// The time over which restarts are counted.
pub const KEEPER_WINDOW: Duration = Duration::from_secs(60);
/// The wait before the second restart in a window; it doubles with each further one. The first is immediate.
pub const KEEPER_BACKOFF: Duration = Duration::from_millis(50);

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
/// Time for which such lines are gathered: short enough that nobody notices; a flood of lines costs 500 frames a second instead of one each.
pub const GATHER_TIME: Duration = Duration::from_millis(2);
/// Events that wait for the host. They are few; a note beyond this is dropped, the start and end of a job never are.
pub const PENDING_EVENTS: usize = 1024;

/// Ended processes whose exit and last output can still be asked for.
pub const ENDED_PROCESSES: usize = 32;
/// Output of ended processes that is kept, all together: a part of keeper's small disk.
pub const ENDED_OUTPUT_BYTES: u64 = 16 * 1024 * 1024;
/// Idempotency keys that keeper remembers. Each takes some 200 bytes of a document that is written with every new key.
pub const KEYS: usize = 512;
/// How long a key is remembered: clients repeat a request within minutes.
pub const KEY_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);
/// Longest hash in a key: SHA-256 in hexadecimal has 64 bytes.
pub const KEY_TEXT_BYTES: usize = 64;
/// How long one slow follower may hold a process back before it loses output instead.
pub const FOLLOWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Between SIGTERM and SIGKILL when a limit ends a process; long enough to write a file or two.
pub const TERMINATION_GRACE: Duration = Duration::from_secs(2);
/// The longest grace a request may ask for, so that an end is an end.
pub const LONGEST_GRACE_MS: u64 = 600_000;
/// The line discipline of a terminal delivers its last bytes within this after its last process is gone.
pub const TERMINAL_QUIET: Duration = Duration::from_millis(50);
/// Interval between two attempts to write to a full disk when no acknowledgement frees space.
pub const FULL_DISK_RETRY: Duration = Duration::from_millis(200);
/// The longest single sleep towards a deadline: the timer's clock stops while a machine is suspended, the deadline's
/// does not.
pub const LONGEST_SLEEP: Duration = Duration::from_secs(30);
/// Interval between two kills of everything while a process of the job is still there.
pub const KILL_AGAIN: Duration = Duration::from_secs(1);

/// File operations at once, slow downloads among them; more wait their turn.
pub const FILE_WORKERS: usize = 16;
/// Workers of one kind kept for the next operation: a workspace opened in an editor needs two, and a desktop one that acts and one that looks.
pub const IDLE_WORKERS: usize = 2;
/// How long an idle worker waits for the next operation before it is ended.
pub const WORKER_REST: Duration = Duration::from_secs(30);
/// A file worker that neither reads nor writes for this long is stuck, or was stopped by the job.
pub const FILE_WORKER_STALL: Duration = Duration::from_secs(60);
/// A host that takes nothing of an answer for this long has lost interest; its turn is given to another operation.
pub const HOST_STALL: Duration = Duration::from_secs(120);
/// The largest file that can be edited in place. Part of the protocol.
pub const EDIT_BYTES: u64 = 8 * 1024 * 1024;
/// Directories open at once while a tree is removed; deeper ones are first moved up.
pub const REMOVE_DEPTH: usize = 64;
/// Names of one directory held for sorting, unless memory for them runs short.
pub const SORTED_NAMES: usize = 100_000;
/// Names of all open directories of a walk together, in bytes.
pub const SORTED_NAME_BYTES: usize = 32 * 1024 * 1024;
/// Names of one directory that are always held, even when those of its parents used the memory up.
pub const FEWEST_SORTED_NAMES: usize = 256;
/// Skipped paths that an export lists.
pub const SKIPPED_PATHS: usize = 100;
/// Hits of one search; a page of a console shows fewer.
pub const SEARCH_HITS: usize = 1000;
/// Files one search opens.
pub const SEARCH_FILES: usize = 100_000;
/// The largest file a search reads; larger ones are data.
pub const SEARCH_FILE_BYTES: u64 = 16 * 1024 * 1024;
/// Bytes one search reads.
pub const SEARCH_BYTES: u64 = 1024 * 1024 * 1024;
/// Time limit of one search.
pub const SEARCH_TIME: Duration = Duration::from_secs(10);
/// Entries that a look for changes visits: more than projects have without the files of package managers.
pub const CHANGES_ENTRIES: usize = 20_000;
/// Time limit of that; hashing may take as long again.
pub const CHANGES_TIME: Duration = Duration::from_millis(250);
/// The largest file that it hashes: source and documents, not data.
pub const CHANGES_FILE_BYTES: u64 = 1024 * 1024;
/// Bytes that it hashes in all; time bounds it too.
pub const CHANGES_HASHED_BYTES: u64 = 16 * 1024 * 1024;
/// Paths of each kind that it reports, and bytes of each: in JSON, where each byte may take six, they stay below a message.
pub const CHANGES_PATHS: usize = 100;
/// Bytes of each such path.
pub const CHANGES_PATH_BYTES: usize = 400;
/// Text of a line that a hit shows. Part of the protocol.
pub const SEARCH_LINE_BYTES: usize = 400;

/// The host names its request within this, or the stream is dropped.
pub const REQUEST_DEADLINE: Duration = Duration::from_secs(30);
/// Connecting on loopback is immediate; a full backlog is the only wait.
pub const CONNECT_DEADLINE: Duration = Duration::from_secs(5);
/// Interval between two looks at a service that starts.
pub const SERVICE_POLL: Duration = Duration::from_millis(50);
/// A service listens within this: JupyterLab takes two seconds on an idle machine. Below the host's patience of 60 s.
pub const SERVICE_START: Duration = Duration::from_secs(55);
/// How long JupyterLab runs without a client, a kernel or a terminal.
pub const LAB_IDLE: Duration = Duration::from_secs(900);
/// After an answer to a request that still sends, input is discarded for this long, so that a reset does not destroy the answer.
pub const LINGER: Duration = Duration::from_secs(5);
/// Connections through the machine's proxy at once; the host bounds them too.
pub const EGRESS_CONNECTIONS: usize = 128;
/// How long such a connection waits for a link: a server's restart, with time to spare.
pub const EGRESS_LINK_WAIT: Duration = Duration::from_secs(60);
/// Delay between two attempts to listen on a port that another program holds.
pub const LISTEN_AGAIN: Duration = Duration::from_secs(1);
/// The first wait between two dials.
pub const FIRST_DIAL_WAIT: Duration = Duration::from_millis(10);
/// The longest wait between two dials: a server that restarts is found within a second.
pub const LONGEST_DIAL_WAIT: Duration = Duration::from_secs(1);
/// A link that lasted shorter than this was no success; the next dial waits.
pub const SHORT_LINK: Duration = Duration::from_secs(2);
/// Interval between two looks whether another server has replaced the host's socket.
pub const SOCKET_WATCH: Duration = Duration::from_secs(1);

/// Connections of the loop at once: its calls in parallel, the desk and the model, with room to spare. Each may hold a request
/// in keeper's memory.
pub const AGENT_CONNECTIONS: usize = 24;
/// A loop that ran this long was no failure to start.
pub const STEADY_LOOP: Duration = Duration::from_secs(30);
/// Starts in a row of loops that did not last.
pub const LOOP_STARTS: u32 = 5;

/// Limits of the kernel service: code, its output, and the conversation with Jupyter kernels.
pub mod kernels {
    use std::time::Duration;

    /// Connecting and shaking hands on loopback takes a millisecond; a busy machine needs a little more.
    pub const HANDSHAKE_DEADLINE: Duration = Duration::from_secs(5);
    /// A kernel reads its sockets from a thread of its own, or between cells; one that reads nothing for this long is stuck.
    pub const FRAME_SEND_DEADLINE: Duration = Duration::from_secs(30);
    /// The longest command of the handshake and after: a socket type and an identity.
    pub const COMMAND_BYTES: u64 = 1024;
    /// Frames of one message: topic, delimiter, signature, four documents, and some buffers that are ignored.
    pub const MESSAGE_FRAMES: usize = 32;
    /// One message: a rich output with all its forms.
    pub const MESSAGE_BYTES: usize = 8 * 1024 * 1024 + 64 * 1024;
    /// Bytes that are kept of a frame that is too long: the beginning of a text is worth more than nothing.
    pub const OVERSIZE_HEAD_BYTES: usize = 1024 * 1024;
    /// Smaller frames need no share of the common memory.
    pub const LARGE_FRAME_BYTES: usize = 64 * 1024;
    /// Bytes of large frames of all connections together: the bound on keeper's memory, whatever the kernels do.
    pub const MESSAGES_BYTES: usize = 24 * 1024 * 1024;
    /// A longer frame is read past up to this length; one beyond it is nonsense and ends the connection.
    pub const SKIPPED_BYTES: u64 = 1024 * 1024 * 1024;

    /// From the start of a kernel's process to its first answer: imports on a busy machine with a cold cache.
    pub const START_DEADLINE: Duration = Duration::from_secs(120);
    /// Interval between two connection attempts to a kernel that is starting.
    pub const START_POLL: Duration = Duration::from_millis(5);
    /// A subscription that was not yet in force when the first answer came is tried again after this.
    pub const SUBSCRIBE_RETRY: Duration = Duration::from_millis(100);
    /// Starts of one kernel before it is given up: another program may take a port meanwhile.
    pub const START_TRIES: usize = 2;
    /// Output of a kernel that could not be started that is shown: its last lines.
    pub const START_FAILURE_BYTES: usize = 2048;

    /// After a time limit interrupted an execution, the kernel is restarted unless it obeys within this.
    pub const INTERRUPT_TIMEOUT: Duration = Duration::from_secs(3);
    /// A command of bash that missed an interrupt between fork and exec gets it again after this, then after three times as long.
    pub const INTERRUPT_REPEAT: Duration = Duration::from_millis(100);
    /// Most repeats; the last comes 1.3 s after the interrupt, well within [`INTERRUPT_TIMEOUT`].
    pub const INTERRUPT_REPEATS: u32 = 3;
    /// After the reply the idle status comes at once; a kernel that forgets it is not waited for.
    pub const IDLE_TIMEOUT: Duration = Duration::from_secs(2);
    /// Most time for late output after the reply, however much there is.
    pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(60);
    /// After a kernel's own end its last output is taken within this.
    pub const LAST_WORDS: Duration = Duration::from_millis(200);
    /// Between SIGTERM and SIGKILL when a kernel is stopped; it has nothing to save.
    pub const STOP_GRACE: Duration = Duration::from_millis(300);

    /// Larger outputs are read for their texts alone: a tree of values takes up to thirty times the room of its JSON.
    pub const TREE_BYTES: usize = 256 * 1024;
    /// Lines of a traceback.
    pub const TRACEBACK_LINES: usize = 256;
    /// All text of an exception.
    pub const ERROR_BYTES: usize = 64 * 1024;
    /// Text in one event: in JSON, where each byte may take six, it stays below the protocol's message.
    pub const TEXT_BYTES: usize = 64 * 1024;
    /// The last part of an execution's text beyond its bound is kept and sent at its end.
    pub const TAIL_BYTES: usize = 64 * 1024;
    /// Executions whose output can still be asked for.
    pub const ENDED_EXECUTIONS: usize = 32;
    /// Their output together: a part of keeper's small disk.
    pub const ENDED_EXECUTION_BYTES: u64 = 24 * 1024 * 1024;

    /// Outputs of one cell of a notebook.
    pub const CELL_BYTES: usize = 1024 * 1024;
    /// Bytes of one notebook that JupyterLab still opens without effort. Beyond it the next number begins.
    pub const NOTEBOOK_BYTES: u64 = 8 * 1024 * 1024;
    /// Bytes of one notebook including cells that could not be written yet: code of the longest request, escaped, still fits.
    pub const MOST_NOTEBOOK_BYTES: u64 = 32 * 1024 * 1024;
    /// Numbered copies of a notebook. More foreign files of that name are an attack, not work.
    pub const NOTEBOOK_COPIES: u32 = 100;
    /// Cells that come shortly after each other are written together: a notebook is rewritten as a whole.
    pub const NOTEBOOK_GATHER: Duration = Duration::from_millis(100);
}
