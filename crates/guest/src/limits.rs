//! Every bound of the guest in one place, each with the reason for its value.
//!
//! What host and guest must agree on is in `sandyard_protocol::limits`; these are the guest's own.

use std::time::Duration;

use sandyard_protocol::limits::{ARGUMENT_BYTES, PROCESSES};

/// The boot document: a few paths and numbers; 64 KiB is what the driver promises not to exceed.
pub const BOOT_BYTES: usize = 64 * 1024;
/// Descriptors in one packet between our own processes: a command's document and its three streams.
pub const PACKET_FDS: usize = 4;
/// What travels inside a packet; longer messages go through a memory file. Well below the kernel's default socket
/// buffer of 208 KiB, so that a few packets always fit.
pub const PACKET_BYTES: usize = 32 * 1024;
/// The longest message between our own processes: a command's strings, six bytes for each at worst in JSON, and room for
/// what surrounds them.
pub const LOCAL_MESSAGE_BYTES: usize = 6 * ARGUMENT_BYTES + 64 * 1024;
/// The longest name of a process; keeper makes them, so this only bounds what a defect could do.
pub const PROCESS_ID_BYTES: usize = 128;
/// Processes the spawner follows: those of the API's callers, and room for keeper's own workers.
pub const TRACKED_PROCESSES: usize = PROCESSES + 32;
/// What init holds for them: input and output apart.
pub const HELD_PARTS: usize = 2 * TRACKED_PROCESSES;
/// Answers the spawner keeps for a keeper that doesn't read; it reads no request while there are so many.
pub const UNSENT_REPLIES: usize = 64;
/// Children reaped before requests are looked at again, so that a flood of exits can't starve keeper.
pub const REAPS_IN_A_ROW: usize = 256;
/// How long a forked child may take to become its program. Exec takes milliseconds; a hostile process of the same user may
/// stop the child in between, and this ends the wait.
pub const EXEC_WAIT: Duration = Duration::from_secs(5);
/// Capacity of the job's output pipes: what a command can print while keeper is being restarted, without blocking. Four
/// times the kernel's default; the kernel gives less, without harm, to users who hold many.
pub const PIPE_BYTES: usize = 256 * 1024;
/// Added to the badness of the job's processes, half of all memory: out of memory must find them before the spawner,
/// and before the host's own programs. It can't be done by lowering ours: that takes CAP_SYS_RESOURCE.
pub const OOM_SCORE_ADJUSTMENT: &str = "500";
/// Open files of init and keeper: four descriptors for each process, a stream for each of the link's, and as much again.
pub const OWN_OPEN_FILES: u64 = 4096;
/// Restarts of a dead keeper within `KEEPER_WINDOW`. One that dies more often will not get better.
pub const KEEPER_RESTARTS: usize = 10;
/// The time over which restarts are counted.
pub const KEEPER_WINDOW: Duration = Duration::from_secs(60);
/// The wait before the second restart in a window; it doubles with each further one. The first is immediate.
pub const KEEPER_BACKOFF: Duration = Duration::from_millis(50);
