//! The messages that host and guest exchange over the pipe.
//!
//! This crate owns the types and their bounds. It does no I/O and knows no driver, job store or HTTP. A stream opened by the
//! host starts with one [`Request`] message, which the guest answers with one [`Reply`] message; the stream then carries the frames
//! that the request documents. Streams opened by the guest start with a [`GuestRequest`]. Everything that arrives from a guest is
//! hostile: each type here is bounded by `limits`.
//!
//! The types are frozen: `docs/protocol.md` says which changes old and new builds survive.

mod agent;
mod boot;
mod changes;
mod desktop;
pub mod drivers;
mod error_chain;
mod errors;
mod events;
mod files;
mod journal;
mod kernels;
pub mod limits;
mod machine;
mod model;
mod output;
mod processes;
mod recall;
mod requests;
pub mod rfb;

pub use agent::{AGENT_AGAIN, AGENT_PROGRAM, AGENT_SOCKET_VARIABLE, AgentRequest};
pub use boot::{
    BOOT_FD, BootConfig, BootFd, EGRESS_PORT, EngineMachine, LinkTarget, MachineSize, SCRIPTS, Secret,
    SpawnerSource,
};
pub use changes::{ChangedPath, WorkspaceChanges};
pub use desktop::{DesktopMode, GuiAction, GuiClick, GuiResult, NextPicture, RecordedPicture, WindowInfo};
pub use error_chain::ErrorChain;
pub use errors::{GuestError, GuestErrorCode};
pub use events::{Ack, GuestEvent, GuestRequest, Resume, SequencedEvent};
pub use files::{DirectoryEntry, Edit, EntryHeader, EntryKind, FileRange, FileStat, SearchHit};
pub use journal::{
    DeskRefusal, DeskReply, DeskRequest, JournalEntry, JournalRow, ModelFacts, OnBreach, PlanItem, PlanState,
    Speaker, TaskBudget, TaskFacts, TaskSpent, WhyAsked,
};
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
    EndReason, Exit, ProcessEvent, ProcessId, ProcessInfo, ProcessInput, RequestKey, StartProcess,
    TerminalSize,
};
pub use recall::{
    ContextPart, ContextReason, JournalPassage, JournalPassages, JournalQuestion, KeptText, TextOrigin,
};
pub use requests::{BeginJob, JobProgress, JobWork, Reply, Request};
