//! Every bound of the host–guest protocol, each with the reason for its value.

/// The longest JSON message on a stream. A directory page of 1,000 entries with 255-byte names stays below it.
pub const MESSAGE_BYTES: usize = 1024 * 1024;
/// The longest request of the host: code and environment in JSON, which writes a byte with up to six.
pub const REQUEST_BYTES: usize = 6 * (CODE_BYTES + ARGUMENT_BYTES) + MESSAGE_BYTES;
/// The longest data frame; two of them fit in yamux's smallest receive window of 256 KiB.
pub const DATA_BYTES: usize = 64 * 1024;
/// Entries in one page of a directory listing.
pub const LIST_ENTRIES: usize = 1000;
/// Longest path inside the workspace, the kernel's PATH_MAX.
pub const PATH_BYTES: usize = 4096;
/// Longest single path component on the guest's file systems.
pub const NAME_BYTES: usize = 255;
/// Longest symbolic link target accepted in an export, the kernel's PATH_MAX.
pub const SYMLINK_BYTES: usize = 4096;
/// Processes that a keeper tracks at once for API callers; the pids limit bounds their forks.
pub const PROCESSES: usize = 256;
/// Arguments of one process in lists and replies: a list of all processes stays below `MESSAGE_BYTES`, even if JSON writes each byte
/// with six.
pub const LISTED_ARGUMENT_BYTES: usize = 400;
/// Terminals of a sandbox at once. The kernel has 3,072 for all of a host's containers together.
pub const TERMINALS: u32 = 64;
/// Environment variables and argument strings of one process, together: well below the kernel's ARG_MAX of 2 MiB.
pub const ARGUMENT_BYTES: usize = 1024 * 1024;
/// The longest piece of code a job may carry; larger inputs belong in `files`.
pub const CODE_BYTES: usize = 8 * 1024 * 1024;
/// The longest text of an error or event made by a guest; anything longer is cut by the host.
pub const TEXT_BYTES: usize = 4096;
/// Output of an interactive process that is kept for a client that attaches again, per stream.
pub const REPLAY_BYTES: usize = 4 * 1024 * 1024;
/// Streams that one link may hold open at once; yamux rejects more.
pub const STREAMS: usize = 512;
/// Actions in one request on the desktop; a form of a dozen fields takes fewer.
pub const GUI_ACTIONS: usize = 256;
/// Text typed by one action, or a script for xdotool.
pub const GUI_TEXT_BYTES: usize = 64 * 1024;
/// The longest wait of one action; clients give up before.
pub const GUI_WAIT_MS: u64 = 300_000;
/// A screenshot as PNG. One of the largest screen (4096 × 4096) full of noise would be larger and is rejected.
pub const SCREENSHOT_BYTES: u64 = 32 * 1024 * 1024;
/// Windows in one list; nobody reads more.
pub const WINDOWS: usize = 200;
/// Clipboard text between a viewer and the desktop: a long document, not a disk.
pub const CUT_TEXT_BYTES: usize = 1024 * 1024;
/// Kernels of one machine, each a process of 50 to 200 MB.
pub const KERNELS: usize = 16;
/// Pieces of code that wait for one kernel.
pub const QUEUED_EXECUTIONS: usize = 32;
/// MIME types of one rich output; programs offer three or four.
pub const OUTPUT_PARTS: usize = 32;
/// Bytes of one rich output in all its MIME types: a page with its scripts fits.
pub const OUTPUT_BYTES: usize = 8 * 1024 * 1024;
/// Bytes of output that are kept of one execution.
pub const EXECUTION_BYTES: u64 = 16 * 1024 * 1024;
/// A model call as JSON: a long conversation and a dozen screenshots. Providers accept 20 to 32 MB.
pub const MODEL_CALL_BYTES: usize = 16 * 1024 * 1024;
/// JSON values in a model call, so that parsing it takes a small multiple of its length.
pub const MODEL_CALL_VALUES: usize = 200_000;
/// Text and tool arguments of one answer: twice what the largest models write at once.
pub const MODEL_ANSWER_BYTES: usize = 4 * 1024 * 1024;
/// One event of an answer: at most the whole answer in JSON, which writes a byte with up to six.
pub const MODEL_EVENT_BYTES: usize = 6 * MODEL_ANSWER_BYTES + TEXT_BYTES;
/// A journal entry as JSON: a long tool result and two screenshots. Larger pictures are scaled down first.
pub const JOURNAL_ENTRY_BYTES: usize = 4 * 1024 * 1024;
/// A message of the journal service: the longest journal row and the members around it.
pub const DESK_MESSAGE_BYTES: usize = MODEL_EVENT_BYTES + MESSAGE_BYTES;
/// Texts that are kept behind one entry: one for each file of a call.
pub const KEPT_TEXTS: usize = 16;
/// Bytes of the texts behind one entry: a build log of a hundred thousand lines.
pub const KEPT_TEXT_BYTES: u64 = 8 * 1024 * 1024;
/// Parts of a packed conversation that a model call lists.
pub const CONTEXT_PARTS: usize = 4096;
/// Entries at which builds of before ended a journal. Now only its bytes end it.
pub const JOURNAL_ENTRIES: u64 = 50_000;
/// Bytes of one job's journal: 2,000 steps with a screenshot in every fourth step.
pub const JOURNAL_BYTES: u64 = 512 * 1024 * 1024;
/// Entries that one `JournalRequest::Read` returns.
pub const JOURNAL_READ_ENTRIES: u64 = 1000;
/// The first message on a connection of the agent: a command, code or an edit. File contents go in data frames.
pub const AGENT_REQUEST_BYTES: usize = 4 * MESSAGE_BYTES;
