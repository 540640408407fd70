//! Every bound on a request, each with the reason for its value. The operator's configuration may be tighter.

use std::ops::RangeInclusive;

/// Largest request body. Twice the largest piece of code, so code and some files fit; more belongs in `PUT
/// …/files`.
pub const BODY_BYTES: usize = 16 * 1024 * 1024;
/// Longest piece of code: the guest's own bound.
pub const CODE_BYTES: usize = 8 * 1024 * 1024;
/// Longest task in plain words: a quarter of a million tokens, more than most models read. Longer texts
/// belong in `files`.
pub const TASK_BYTES: usize = 1024 * 1024;
/// Size of all files of a request, decoded.
pub const FILES_BYTES: usize = 12 * 1024 * 1024;
/// Most files of a request.
pub const FILES: usize = 1000;
/// Longest path in the workspace: the kernel's PATH_MAX.
pub const PATH_BYTES: usize = 4096;
/// Longest component of a path: the kernel's NAME_MAX.
pub const NAME_BYTES: usize = 255;
/// Longest name of a job: one line of a listing.
pub const JOB_NAME_CHARS: usize = 200;
/// Most environment variables of a request.
pub const ENV_VARIABLES: usize = 256;
/// Longest environment variable, name and value: the kernel's MAX_ARG_STRLEN.
pub const ENV_BYTES: usize = 128 * 1024;
/// Size of all environment variables: half of the guest's bound on arguments and environment.
pub const ENV_TOTAL_BYTES: usize = 512 * 1024;
/// Most egress rules of a request.
pub const EGRESS_RULES: usize = 256;
/// Longest shell command: the kernel's MAX_ARG_STRLEN, because it is one argument of the shell.
pub const COMMAND_BYTES: usize = 128 * 1024 - 1;
/// Longest idempotency key, enough for any UUID or hash.
pub const IDEMPOTENCY_KEY_BYTES: usize = 255;
/// Longest message to a job.
pub const REPLY_BYTES: usize = 64 * 1024;
/// Most edits in one change of a file.
pub const EDITS: usize = 1000;
/// Most actions in one request on a desktop: the guest's own bound.
pub const GUI_ACTIONS: usize = 256;
/// Longest text typed by one action, or script for xdotool: the guest's own bound.
pub const GUI_TEXT_BYTES: usize = 64 * 1024;
/// The longest wait of one action.
pub const GUI_WAIT_MS: u64 = 300_000;
/// Longest text to search for.
pub const SEARCH_BYTES: usize = 1024;

/// Processors: a hundredth is too little to start a shell in time.
pub const CPUS: RangeInclusive<f64> = 0.05..=256.0;
/// Memory: below 32 MiB the sandbox's own start may not fit.
pub const MEMORY_MIB: RangeInclusive<u64> = 32..=4 * 1024 * 1024;
/// Disk: below 16 MiB a formatted disk has no room for files.
pub const DISK_MIB: RangeInclusive<u64> = 16..=16 * 1024 * 1024;
/// Processes and threads: a shell pipeline needs a few.
pub const PIDS: RangeInclusive<u64> = 8..=4 * 1024 * 1024;
/// Mebibytes of disk in a second.
pub const IO_MIB_S: RangeInclusive<u64> = 1..=1024 * 1024;
/// Mebibytes of a recorded desktop; 0 for none.
pub const RECORDING_MIB: RangeInclusive<u64> = 0..=64 * 1024;
/// Any time limit: up to thirty days.
pub const TIMEOUT_S: RangeInclusive<u64> = 1..=30 * 24 * 3600;
/// Steps of an agent.
pub const STEPS: RangeInclusive<u64> = 1..=1_000_000;
/// Tokens of an agent.
pub const TOKENS: RangeInclusive<u64> = 1..=1_000_000_000_000;
/// Money of an agent.
pub const USD: RangeInclusive<f64> = 0.0..=1_000_000.0;
/// Longest wait for a change of state in one request; proxies rarely allow more.
pub const WAIT_S: RangeInclusive<u64> = 0..=300;
/// Jobs in one page of the list.
pub const LIST_LIMIT: RangeInclusive<u64> = 1..=1000;
/// Hits of one search.
pub const SEARCH_HITS: u32 = 1000;
