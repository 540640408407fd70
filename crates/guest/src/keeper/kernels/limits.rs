//! Bounds of the kernel service, each with the reason for its value.

use std::time::Duration;

/// Connecting and shaking hands on loopback takes a millisecond; a busy machine needs a little more.
pub(super) const HANDSHAKE_DEADLINE: Duration = Duration::from_secs(5);
/// A kernel reads its sockets from a thread of its own, or between cells; one that reads nothing for so long is stuck.
pub(super) const FRAME_SEND_DEADLINE: Duration = Duration::from_secs(30);
/// The longest command of the handshake and after: a socket type and an identity.
pub(super) const COMMAND_BYTES: u64 = 1024;
/// Frames of one message: topic, delimiter, signature, four documents, and some buffers that are ignored.
pub(super) const MESSAGE_FRAMES: usize = 32;
/// One message: a rich output with all its forms.
pub(super) const MESSAGE_BYTES: usize = 8 * 1024 * 1024 + 64 * 1024;
/// Of a frame that is too long, so much is kept: the beginning of a text is worth more than nothing.
pub(super) const OVERSIZE_HEAD_BYTES: usize = 1024 * 1024;
/// Smaller frames need no share of the common memory.
pub(super) const LARGE_FRAME_BYTES: usize = 64 * 1024;
/// What large frames of all connections together may hold at once: keeper's memory, whatever the kernels do.
pub(super) const MESSAGES_BYTES: usize = 24 * 1024 * 1024;
/// A longer frame is read past up to this length; one beyond it is nonsense and ends the connection.
pub(super) const SKIPPED_BYTES: u64 = 1024 * 1024 * 1024;

/// From the start of a kernel's process to its first answer: imports on a busy machine with a cold cache.
pub(super) const START_DEADLINE: Duration = Duration::from_secs(120);
/// How often a kernel that is starting is tried.
pub(super) const START_POLL: Duration = Duration::from_millis(5);
/// A subscription that was not yet in force when the first answer came is tried again after this.
pub(super) const SUBSCRIBE_RETRY: Duration = Duration::from_millis(100);
/// Starts of one kernel before it is given up: a port may be taken by somebody else meanwhile.
pub(super) const START_TRIES: usize = 2;
/// What is shown of a kernel that could not be started: the last lines it printed.
pub(super) const START_FAILURE_BYTES: usize = 2048;

/// After a time limit interrupted an execution, so long is waited before the kernel is restarted.
pub(super) const INTERRUPT_PATIENCE: Duration = Duration::from_secs(3);
/// After the reply the idle status comes at once; a kernel that forgets it is not waited for.
pub(super) const IDLE_PATIENCE: Duration = Duration::from_secs(2);
/// After the reply late output is taken for so long at most, however much there is.
pub(super) const DRAIN_PATIENCE: Duration = Duration::from_secs(60);
/// After a kernel's own end its last output is taken within this.
pub(super) const LAST_WORDS: Duration = Duration::from_millis(200);
/// Between SIGTERM and SIGKILL when a kernel is stopped; it has nothing to save.
pub(super) const STOP_GRACE: Duration = Duration::from_millis(300);

/// Larger outputs are read for their texts alone: a tree of values takes up to thirty times the room of its JSON.
pub(super) const TREE_BYTES: usize = 256 * 1024;
/// Lines of a traceback.
pub(super) const TRACEBACK_LINES: usize = 256;
/// All text of an exception.
pub(super) const ERROR_BYTES: usize = 64 * 1024;
/// Text in one event: in JSON, where each byte may take six, it stays below the protocol's message.
pub(super) const TEXT_BYTES: usize = 64 * 1024;
/// Of text beyond what is kept of an execution, the last part is told at its end.
pub(super) const TAIL_BYTES: usize = 64 * 1024;
/// Executions whose output can still be asked for.
pub(super) const ENDED_EXECUTIONS: usize = 32;
/// Their output together: a part of keeper's small disk.
pub(super) const ENDED_EXECUTION_BYTES: u64 = 24 * 1024 * 1024;

/// Outputs of one cell of a notebook.
pub(super) const CELL_BYTES: usize = 1024 * 1024;
/// One notebook: what JupyterLab still opens without effort. Beyond it the next number is begun.
pub(super) const NOTEBOOK_BYTES: u64 = 8 * 1024 * 1024;
/// One notebook with what came before it could be written: code of the longest request, escaped, still fits.
pub(super) const MOST_NOTEBOOK_BYTES: u64 = 32 * 1024 * 1024;
/// Numbered copies of a notebook; beyond them the workspace is somebody's joke.
pub(super) const NOTEBOOK_COPIES: u32 = 100;
/// Cells that come shortly after each other are written together: a notebook is rewritten as a whole.
pub(super) const NOTEBOOK_GATHER: Duration = Duration::from_millis(100);
