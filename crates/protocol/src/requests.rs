//! Requests of the host: the first message on each stream that it opens.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    DesktopMode, DirectoryEntry, Edit, Execute, ExecutionId, ExecutionInfo, Exit, FileRange, FileStat,
    GuiAction, KernelId, KernelInfo, Language, OutputOffsets, ProcessId, ProcessInfo, SearchHit,
    StartProcess, WorkspaceChanges,
};

/// A request of the host. Each variant documents the reply and the frames that the stream carries after it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Request {
    /// Starts the job. Idempotent: a job that has started is never started again. Answered by `Reply::Job`.
    BeginJob(BeginJob),
    /// Ends the job's process: SIGTERM to its group, SIGKILL to everything after `grace_ms`. The exit is reported in the event
    /// stream. Answered by `Reply::Job`; no effect if the job has ended.
    EndJob {
        /// The reason that the exit will report.
        reason: crate::EndReason,
        /// Time between SIGTERM and SIGKILL.
        grace_ms: u64,
    },
    /// Stops the job's clocks, its deadline and its limit on time without output, while the job waits for a person. Answered by
    /// `Reply::Job`; no effect if the clocks are stopped or the job has ended.
    PauseJob,
    /// Restarts the job's clocks. Answered by `Reply::Job`; no effect if the clocks run.
    ResumeJob {
        /// Time left, counted from now.
        timeout_ms: u64,
    },
    /// Starts a process. Answered by `Reply::Process`; the stream then continues as for `AttachProcess` from offset 0.
    StartProcess(StartProcess),
    /// Follows a process. Answered by `Reply::Process`. Keeper then sends output in data frames and `ProcessEvent` messages; the host
    /// sends standard input in data frames and `ProcessInput` messages.
    AttachProcess {
        /// Name of the process, running or ended.
        process: ProcessId,
        /// Offset of the first byte to send, for each output.
        from: OutputOffsets,
    },
    /// Sends a signal to a process's group. Answered by `Reply::Done`.
    SignalProcess {
        /// Name of the process; no effect if it has ended.
        process: ProcessId,
        /// The number of the signal.
        signal: i32,
    },
    /// Lists processes. Answered by `Reply::Processes`.
    ListProcesses,
    /// Reads the metadata of a path. Answered by `Reply::Stat`. A symbolic link at the end is not followed.
    Stat {
        /// Path relative to the workspace.
        path: String,
    },
    /// Lists a directory. Answered by `Reply::Entries`: at most `limits::LIST_ENTRIES` entries after the name `after`, sorted by name.
    List {
        /// Path of the directory, relative to the workspace.
        path: String,
        /// The name after which the page starts.
        after: Option<String>,
    },
    /// Reads a file. Answered by `Reply::Content`, then by data frames of exactly `length` bytes.
    Read {
        /// Path of the file, relative to the workspace.
        path: String,
        /// The part to read; the whole file if not given.
        range: Option<FileRange>,
    },
    /// Writes a file. The host sends exactly `size` bytes in data frames and closes its side. Keeper writes a temporary file, renames it
    /// into place and then answers `Reply::Stat`. A broken stream leaves the old file as it was.
    Write {
        /// The file; missing parent directories are created.
        path: String,
        /// Exact number of bytes.
        size: u64,
        /// Permission bits, 0o644 if not given.
        mode: Option<u32>,
    },
    /// Moves a file or directory. Answered by `Reply::Stat` of the new path.
    Move {
        /// The path to move, relative to the workspace.
        path: String,
        /// The new path; missing parents are created, an existing file is an error.
        to: String,
    },
    /// Applies all edits or none. Answered by `Reply::Stat`.
    Edit {
        /// The file: UTF-8, at most 8 MiB.
        path: String,
        /// The edits, applied one after another: each sees the text that the one before left.
        edits: Vec<Edit>,
    },
    /// Removes a file or directory. Answered by `Reply::Done`.
    Remove {
        /// The file or directory.
        path: String,
        /// True to remove a directory with its contents; otherwise it must be empty.
        recursive: bool,
    },
    /// Creates a directory and its parents. Answered by `Reply::Stat`; no effect if it exists.
    MakeDirectory {
        /// Path of the directory, relative to the workspace.
        path: String,
    },
    /// Searches names and contents for a text. Answered by `Reply::Hits`.
    Search {
        /// The directory to search.
        path: String,
        /// The text to find, no pattern.
        text: String,
        /// Maximum number of hits.
        limit: u32,
    },
    /// Exports a directory. Answered by `Reply::Done`, then by an `EntryHeader` message and data frames for each entry, and by
    /// `EntryHeader::End`.
    Export {
        /// Path of the directory, relative to the workspace.
        path: String,
    },
    /// Compares the workspace with its state at the last such request. Answered by `Reply::Changes`.
    WorkspaceChanges,
    /// Connects to a port on the machine's loopback. If keeper has a service for that port, it is started first. Answered by `Reply::Done` or
    /// `Reply::Service`, then raw bytes in both directions, without frames.
    ConnectPort {
        /// The TCP port on the machine's loopback.
        port: u16,
    },
    /// Connects to the desktop, which is started if necessary. Answered by `Reply::Done`, then raw bytes of the remote framebuffer
    /// protocol in both directions, without frames. Control is rejected with `Controlled` while another viewer has it.
    ConnectDesktop {
        /// The rights of the viewer.
        mode: DesktopMode,
    },
    /// Acts on the desktop, which is started if necessary. Answered by `Reply::Done`, then by a `GuiResult` message for each action;
    /// the bytes of a picture follow its result in data frames. The stream ends after the last result or the first failure. Rejected
    /// with `Controlled` while a person has control; if a person takes control later, the actions wait.
    Gui {
        /// The actions, at most `limits::GUI_ACTIONS`, carried out one after another.
        actions: Vec<GuiAction>,
        /// How long to wait for a person who has control.
        wait_ms: u64,
    },
    /// Reads the last picture of the desktop. Answered by `Reply::Picture`, then by data frames of exactly `length` bytes.
    LastScreenshot,
    /// Records the desktop without starting it or keeping it up. Answered by `Reply::Done`. The host then asks for one picture after
    /// another with `NextPicture`; keeper answers each with `RecordedPicture`, and with the PNG in data frames, once the screen differs
    /// from the picture before. Only over links of generation 2.
    RecordDesktop,
    /// Starts another kernel. Answered by `Reply::Kernel` once the kernel is ready.
    StartKernel {
        /// The language of the kernel.
        language: Language,
    },
    /// Lists kernels. Answered by `Reply::Kernels`.
    ListKernels,
    /// Stops a kernel and its execution. Answered by `Reply::Done`.
    StopKernel {
        /// Name of the kernel to stop.
        kernel: KernelId,
    },
    /// Interrupts the execution of a kernel. Answered by `Reply::Done`; no effect if the kernel is idle.
    InterruptKernel {
        /// Name of the kernel to interrupt.
        kernel: KernelId,
    },
    /// Gives a kernel a new process and aborts its executions. Answered by `Reply::Kernel`.
    RestartKernel {
        /// Name of the kernel to restart.
        kernel: KernelId,
    },
    /// Runs code in a kernel. Answered by `Reply::Execution`, then by `KernelEvent` messages.
    Execute(Execute),
    /// Follows an execution from its start. Answered like `Execute`.
    AttachExecution {
        /// Name of the execution, running or ended.
        execution: ExecutionId,
    },
    /// Checks that keeper is alive. Answered by `Reply::Done`.
    Ping,
}

/// The reply to a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// The request was carried out.
    Done,
    /// The state of the job.
    Job(JobProgress),
    /// A process that was started or is followed.
    Process(ProcessInfo),
    /// All processes, newest first.
    Processes(Vec<ProcessInfo>),
    /// Metadata of a path.
    Stat(FileStat),
    /// A page of a directory.
    Entries {
        /// The entries, sorted by name.
        entries: Vec<DirectoryEntry>,
        /// True if there is another page.
        more: bool,
    },
    /// A file whose content follows.
    Content {
        /// Metadata of the file.
        stat: FileStat,
        /// Number of bytes that follow.
        length: u64,
    },
    /// Results of a search.
    Hits {
        /// The hits, in the order of their paths.
        hits: Vec<SearchHit>,
        /// True if the limit cut the list.
        more: bool,
    },
    /// Changes in the workspace.
    Changes(Box<WorkspaceChanges>),
    /// A PNG picture that follows.
    Picture {
        /// Number of bytes that follow; 0 if there never was a desktop.
        length: u64,
    },
    /// Connected to a service that keeper started.
    Service {
        /// The value of the header `Authorization` that every HTTP request to the service must carry.
        authorization: String,
    },
    /// A kernel that was started or restarted.
    Kernel(KernelInfo),
    /// All kernels, oldest first.
    Kernels(Vec<KernelInfo>),
    /// An execution whose events follow.
    Execution(ExecutionInfo),
    /// The request failed; nothing follows.
    Failed(crate::GuestError),
}

/// A job for the guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BeginJob {
    /// The work of the job.
    pub work: JobWork,
    /// Variables added to the environment of every process.
    pub env: BTreeMap<String, String>,
    /// Time left, counted from the receipt of this message by the machine's own clock.
    pub timeout_ms: u64,
    /// Ends the job after this time without output.
    pub idle_timeout_ms: Option<u64>,
    /// True if background processes of the job continue after its end.
    pub keep: bool,
    /// Certificates in PEM that programs trust instead of those in the image: the host's own, because a proxy may stand between the
    /// job and the internet.
    pub trust: Option<String>,
}

/// The kinds of work that a job can be.
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
        /// The language of the code.
        language: Language,
        /// The code, at most `limits::CODE_BYTES`.
        code: String,
    },
    /// Works on a task: the agent runs and reads the task from the journal service.
    Task,
    /// Runs nothing: the machine serves requests until its time is up.
    Session,
}

/// The state of a job in its machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobProgress {
    /// The machine has no job yet.
    Idle,
    /// The job has begun and not ended.
    Running,
    /// Ended, as the event stream also reports.
    Ended(Exit),
}
