//! What host and guest say to each other over the pipe.
//!
//! Owns the types and their bounds; does no I/O and knows no driver, job store or HTTP. A stream opened by the
//! host begins with one [`Request`] message and is answered by one [`Reply`] message, after which the
//! stream carries what that request documents. Streams opened by the guest begin with a [`GuestRequest`].
//! Everything that arrives from a guest is hostile: each type here is bounded by `limits`.

mod agent;
mod boot;
mod changes;
mod desk;
mod desktop;
mod errors;
mod events;
mod files;
mod kernels;
pub mod limits;
mod machine;
mod model;
mod output;
mod processes;
mod requests;
pub mod rfb;

pub use agent::{AGENT_AGAIN, AGENT_PROGRAM, AGENT_SOCKET_VARIABLE, AgentRequest};
pub use boot::{
    BOOT_FD, BootConfig, BootFd, EGRESS_PORT, EngineMachine, LinkTarget, SCRIPTS, Secret, SpawnerSource,
};
pub use changes::{ChangedPath, WorkspaceChanges};
pub use desk::{
    DeskRefusal, DeskReply, DeskRequest, JournalEntry, JournalRow, ModelFacts, OnBreach, PlanItem, PlanState,
    Speaker, TaskBudget, TaskFacts, TaskSpent, WhyAsked,
};
pub use desktop::{DesktopMode, GuiAction, GuiClick, GuiResult, WindowInfo};
pub use errors::{GuestError, GuestErrorCode};
pub use events::{Ack, GuestEvent, GuestRequest, Resume, SequencedEvent};
pub use files::{DirectoryEntry, Edit, EntryHeader, EntryKind, FileRange, FileStat, SearchHit};
pub use kernels::{
    Execute, ExecutionEnd, ExecutionError, ExecutionId, ExecutionInfo, KernelEvent, KernelId, KernelInfo,
    KernelState, Language, Outcome, OutputKind, OutputPart,
};
pub use machine::{
    CONTROL_LINE_BYTES, ControlReply, ControlRequest, ControlWish, DEVICES, DiskMount, JobLimits, JobUsage,
    LinkPort, MACHINE_BOOT_ARGUMENT, MACHINE_GROUPS, MACHINE_GUEST, MACHINE_MODULES, MACHINE_PROGRAMS,
    MachineConfig, MemoryMount,
};
pub use model::{
    ModelCall, ModelEvent, ModelFailure, ModelFailureCode, ModelMessage, ModelPart, ModelUsage, StopReason,
    ToolCall, ToolResult, ToolSpec,
};
pub use output::{OutputChunk, OutputOffsets, OutputStream};
pub use processes::{
    EndReason, Exit, ProcessEvent, ProcessId, ProcessInfo, ProcessInput, StartProcess, TerminalSize,
};
pub use requests::{BeginJob, JobProgress, JobWork, Reply, Request};
