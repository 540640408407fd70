//! The HTTP contract: requests, answers, events and errors.
//!
//! Owns requests (read by serde; a refusal names the member and the nearest known one), views, events and
//! error codes. Types that the guest knows too (languages, desktop actions, budgets) come from `protocol`.
//! Does no I/O and knows no server: `server::http` turns bytes into these types, `server::app` fills the
//! views, and `cli` reads them. The OpenAPI document is generated from here.

mod errors;
mod events;
mod failure;
mod ids;
mod requests;
mod sse;
mod timestamp;
mod views;

pub use errors::{ApiError, ErrorBody, ErrorCode, ErrorDetail};
pub use events::{
    EgressDecision, EventBody, FrameEvent, JobEvent, ModelCallEvent, OutputText, PlanItemView, ShellEvent,
    ToolEvent,
};
pub use failure::{FailureCode, JobFailure};
pub use ids::{InvalidJobId, JobId, JobIdPrefix};
pub use requests::bounds;
pub use requests::code::{CodeRequest, KernelRequest, is_kernel_name, parse_language};
pub use requests::file_body::{Base64Bytes, FileBody};
pub use requests::files::{EditBody, FileChange, FileChangeBody, workspace_path, workspace_path_of_uri};
pub use requests::git::{GitBody, GitSource};
pub use requests::gui::GuiRequest;
pub use requests::nearest::nearest;
pub use requests::processes::{ProcessSignal, SignalRequest};
pub use requests::query::Query;
pub use requests::schedule::{JobKind, OnSilence, RequestedLimits, ScheduleBody};
pub use requests::session::{ExtendRequest, ReplyRequest, ShellRequest, TicketPurpose, TicketRequest};
pub use sandyard_protocol::{
    EntryKind, GuiAction, GuiClick, KernelState, Language, OnBreach, OutputStream, TaskBudget,
};
pub use sse::{SseFrame, SseParser, SseTooLong};
pub use timestamp::Timestamp;
pub use views::{
    AuditView, AvailabilityView, CodeError, CodeEvent, CodeStatus, CodeView, ContextPartView, ContextView,
    DriverOffer, DriverState, DriverView, ExplainedPartView, ExplainedResultView, ExplanationView,
    FileEntryView, FileStatView, FrameView, FramesView, GuiResultView, GuiView, HealthView, ImageBytesView,
    ImageView, IsolationView, JobListView, JobState, JobStatus, JobView, KernelListView, KernelView,
    LimitsView, ListingView, LogTextView, PassageSourceView, PassageView, ProcessListView, ProcessView,
    ReadContent, ReadFileView, RecallView, RecordingView, SandboxState, ScheduleView, ScreenshotView,
    SearchHitView, SearchView, SettingView, SettingsView, ShellView, StatsView, TicketView, ToolAct,
    ToolDoneView, UsageSample, UsageSampleView, UsageSeriesView, UsageView, VersionView, WaitingView,
    WantedResource, WindowView,
};
