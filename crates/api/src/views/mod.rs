//! Responses. Every member of a view is always present; a value that is unknown or does not apply is `null`.

mod code;
mod context;
mod files;
mod gui;
mod job;
mod processes;
mod recall;
mod recording;
mod stats;
mod tools;
mod yard;

pub use code::{CodeError, CodeEvent, CodeStatus, CodeView, KernelListView, KernelView};
pub use context::{ContextPartView, ContextView};
pub use files::{FileEntryView, FileStatView, ListingView, SearchHitView, SearchView};
pub use gui::{GuiResultView, GuiView, ImageBytesView, WindowView};
pub use job::{
    AuditView, ExplanationView, IsolationView, JobListView, JobState, JobStatus, JobView, LimitsView,
    SandboxState, ScheduleView, ShellView, TicketView, UsageView, WaitingView, WantedResource,
};
pub use processes::{ProcessListView, ProcessView};
pub use recall::{PassageSourceView, PassageView, RecallView};
pub use recording::{FrameView, FramesView, RecordingView, UsageSample, UsageSampleView, UsageSeriesView};
pub use stats::StatsView;
pub use tools::{
    ExplainedPartView, ExplainedResultView, LogTextView, ReadContent, ReadFileView, ScreenshotView, ToolAct,
    ToolDoneView,
};
pub use yard::{
    AvailabilityView, DriverOffer, DriverState, DriverView, HealthView, ImageView, SettingView, SettingsView,
    VersionView,
};
