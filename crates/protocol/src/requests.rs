//! Requests of the host, the first message on each stream that it opens.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    DesktopMode, DirectoryEntry, Edit, Execute, ExecutionId, ExecutionInfo, Exit, FileRange, FileStat,
    GuiAction, KernelId, KernelInfo, Language, OutputOffsets, ProcessId, ProcessInfo, SearchHit,
    StartProcess, WorkspaceChanges,
};

/// What the host asks. The comment of each variant says what the stream carries after it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Request {
    /// Hands over the job. Idempotent: a job that has begun is never begun again. Answered by `Reply::Job`.
    BeginJob(BeginJob),
    /// Ends the job's process (SIGTERM to its group, SIGKILL to everything after `grace_ms`); its exit event follows in the event stream. Answered by `Reply::Job`; harmless if already ended.
    EndJob {
        /// Why, as its exit will say.
        reason: crate::EndReason,
        /// Time between SIGTERM and SIGKILL.
        grace_ms: u64,
    },
    /// Stops the job's clocks while it waits for a person: neither its deadline nor its limit without output runs. Answered by `Reply::Job`; harmless if they stand, or the job is over.
    PauseJob,
    /// Lets them run again. Answered by `Reply::Job`; harmless if they run.
    ResumeJob {
        /// Time left, counted from now.
        timeout_ms: u64,
    },
    /// Starts a process. Answered by `Reply::Process`; then as `AttachProcess` from offset 0.
    StartProcess(StartProcess),
    /// Follows a process. Answered by `Reply::Process`; then keeper sends output data frames and `ProcessEvent`s, the host sends data frames for standard input and `ProcessInput`s.
    AttachProcess {
        /// Which.
        process: ProcessId,
        /// Where to begin.
        from: OutputOffsets,
    },
    /// Sends a signal to a process's group. Answered by `Reply::Done`.
    SignalProcess {
        /// Which.
        process: ProcessId,
        /// Signal number.
        signal: i32,
    },
    /// Answered by `Reply::Processes`.
    ListProcesses,
    /// Answered by `Reply::Stat`; a final symbolic link is described, not followed.
    Stat {
        /// Path relative to the workspace.
        path: String,
    },
    /// Answered by `Reply::Entries`, sorted by name, at most `limits::LIST_ENTRIES` after the name `after`.
    List {
        /// Directory.
        path: String,
        /// Begin after this name.
        after: Option<String>,
    },
    /// Answered by `Reply::Content`, then data frames of exactly `length` bytes.
    Read {
        /// File.
        path: String,
        /// Which part; all of it if not given.
        range: Option<FileRange>,
    },
    /// The host sends data frames until it closes its side (exactly `size` bytes); keeper writes a temporary file, renames it into place and answers `Reply::Stat` at the end. A broken stream leaves the old file as it was.
    Write {
        /// File; missing parent directories are made.
        path: String,
        /// Exact length.
        size: u64,
        /// Permission bits, 0o644 if not given.
        mode: Option<u32>,
    },
    /// Answered by `Reply::Stat` of the new path.
    Move {
        /// From.
        path: String,
        /// To; missing parents are made, an existing file is an error.
        to: String,
    },
    /// Applies all edits or none. Answered by `Reply::Stat`.
    Edit {
        /// File, UTF-8, at most 8 MiB.
        path: String,
        /// In order.
        edits: Vec<Edit>,
    },
    /// Answered by `Reply::Done`.
    Remove {
        /// File or directory.
        path: String,
        /// Whether a directory that is not empty goes with all that is in it.
        recursive: bool,
    },
    /// Makes a directory and its parents. Answered by `Reply::Stat`; harmless if it exists.
    MakeDirectory {
        /// Path.
        path: String,
    },
    /// Looks for text in names and contents. Answered by `Reply::Hits`.
    Search {
        /// Directory to look in.
        path: String,
        /// Plain text.
        text: String,
        /// At most so many hits.
        limit: u32,
    },
    /// Answered by `Reply::Done`, then for each entry an `EntryHeader` message and its data frames, ended by `EntryHeader::End`.
    Export {
        /// Directory.
        path: String,
    },
    /// Looks at what has changed in the workspace since the last such request. Answered by `Reply::Changes`.
    WorkspaceChanges,
    /// Connects to a port on the machine's loopback; a service that belongs there is started first. Answered by `Reply::Done` or `Reply::Service`; then raw bytes, no frames, both ways.
    ConnectPort {
        /// TCP port.
        port: u16,
    },
    /// Connects to the desktop, which is started if need be. Answered by `Reply::Done`; then raw bytes of the remote framebuffer
    /// protocol, no frames, both ways. Control is refused with `Controlled` while another has it.
    ConnectDesktop {
        /// Whether it takes control.
        mode: DesktopMode,
    },
    /// Acts on the desktop, which is started if need be. Answered by `Reply::Done`; then for each action a `GuiResult` message,
    /// a picture's bytes in data frames after its own. Ends after the last result or the first failed one. Refused with
    /// `Controlled` while a person has control; one who takes it meanwhile is waited for.
    Gui {
        /// In order.
        actions: Vec<GuiAction>,
        /// How long a person who has control is waited for.
        wait_ms: u64,
    },
    /// The last picture of a desktop that ran. Answered by `Reply::Picture`, then data frames of exactly `length` bytes.
    LastScreenshot,
    /// Starts one more kernel. Answered by `Reply::Kernel` once it waits for code.
    StartKernel {
        /// What it is to understand.
        language: Language,
    },
    /// Answered by `Reply::Kernels`.
    ListKernels,
    /// Ends a kernel and what it runs. Answered by `Reply::Done`.
    StopKernel {
        /// Which.
        kernel: KernelId,
    },
    /// Interrupts what a kernel runs. Answered by `Reply::Done`; harmless if it runs nothing.
    InterruptKernel {
        /// Which.
        kernel: KernelId,
    },
    /// Gives a kernel a fresh process; what it runs or has waiting is aborted. Answered by `Reply::Kernel`.
    RestartKernel {
        /// Which.
        kernel: KernelId,
    },
    /// Runs code in a kernel. Answered by `Reply::Execution`; then keeper sends `KernelEvent`s.
    Execute(Execute),
    /// Follows an execution from its beginning. Answered as `Execute`.
    AttachExecution {
        /// Which.
        execution: ExecutionId,
    },
    /// Answered by `Reply::Done`; proves that keeper is alive.
    Ping,
}

/// The answer to a request, or why there is none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// Done, nothing to tell.
    Done,
    /// The job as keeper knows it.
    Job(JobProgress),
    /// A process.
    Process(ProcessInfo),
    /// All processes, newest first.
    Processes(Vec<ProcessInfo>),
    /// Facts about a path.
    Stat(FileStat),
    /// A page of a directory and whether there is more.
    Entries {
        /// Sorted by name.
        entries: Vec<DirectoryEntry>,
        /// Whether another page follows.
        more: bool,
    },
    /// A file's facts and how many bytes follow.
    Content {
        /// Facts about the file.
        stat: FileStat,
        /// Bytes that follow.
        length: u64,
    },
    /// What a search found and whether there was more.
    Hits {
        /// In path order.
        hits: Vec<SearchHit>,
        /// Whether the limit cut it.
        more: bool,
    },
    /// What has changed in the workspace.
    Changes(Box<WorkspaceChanges>),
    /// A picture, as PNG.
    Picture {
        /// Bytes that follow; none if there never was a desktop.
        length: u64,
    },
    /// Connected to a service that keeper started.
    Service {
        /// What every HTTP request to it must carry as `Authorization`.
        authorization: String,
    },
    /// A kernel.
    Kernel(KernelInfo),
    /// All kernels, oldest first.
    Kernels(Vec<KernelInfo>),
    /// An execution.
    Execution(ExecutionInfo),
    /// It could not be done.
    Failed(crate::GuestError),
}

/// A job, as the guest needs to know it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BeginJob {
    /// What to do.
    pub work: JobWork,
    /// Added to the environment of everything that runs.
    pub env: BTreeMap<String, String>,
    /// Time left, counted from now on the machine's own clock.
    pub timeout_ms: u64,
    /// Ends the job after this long without output.
    pub idle_timeout_ms: Option<u64>,
    /// Whether what the job started in the background goes on after its end.
    pub keep: bool,
    /// Certificates that programs trust instead of the image's own, in PEM: those of the host, which may stand between the
    /// job and the internet.
    pub trust: Option<String>,
}

/// The kinds of work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobWork {
    /// Runs a shell script once.
    Shell {
        /// The script, for bash.
        code: String,
    },
    /// Acts on the desktop once: a JSON list of actions or a script for xdotool.
    Gui {
        /// The list or the script.
        code: String,
    },
    /// Runs code once in a kernel of its own.
    Kernel {
        /// What the code is.
        language: Language,
        /// The code.
        code: String,
    },
    /// Works on a task: the loop runs, and asks the desk what the task is.
    Task,
    /// Nothing of its own: the machine is there for tools until its time is up.
    Session,
}

/// How far the job is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobProgress {
    /// Not begun.
    Idle,
    /// Going on.
    Running,
    /// Over; the same is in the event stream.
    Ended(Exit),
}
