//! The HTTP contract: requests, answers, events and errors.
//!
//! Owns requests (read by serde; a refusal names the member and the nearest known one), views, events and error codes.
//! Does no I/O and knows no server: `server::http` turns bytes into these types, `server::app` fills the views, and
//! `cli` reads them. The OpenAPI document is generated from here.

mod errors;
mod events;
mod failure;
mod ids;
mod requests;
mod timestamp;
mod views;

pub use errors::{ApiError, ErrorBody, ErrorCode, ErrorDetail};
pub use events::{EventBody, JobEvent, ModelEvent, OutputText, PlanItemView, ShellEvent, ToolEvent};
pub use failure::{FailureCode, JobFailure};
pub use ids::{InvalidJobId, JobId};
pub use requests::bounds;
pub use requests::code::{CodeLanguage, CodeRequest, KernelRequest, is_kernel_name};
pub use requests::file_body::{Base64Bytes, FileBody};
pub use requests::files::{EditBody, FileChange, FileChangeBody, workspace_path, workspace_path_of_uri};
pub use requests::gui::{GuiAction, GuiClick, GuiRequest};
pub use requests::query::Query;
pub use requests::schedule::{
    Budget, GitBody, GitSource, JobKind, LimitsRequest, OnBreach, OnSilence, ScheduleBody,
};
pub use requests::session::{ReplyRequest, ShellRequest, TicketPurpose, TicketRequest};
pub use timestamp::Timestamp;
pub use views::{
    AuditView, AvailabilityView, CodeError, CodeEvent, CodeStatus, CodeView, DriverOffer, DriverState,
    DriverView, EntryKindView, ExplanationView, FileEntryView, FileStatView, GuiResultView, GuiView,
    HealthView, ImageBytesView, ImageView, IsolationView, JobListView, JobState, JobStatus, JobView,
    KernelListView, KernelState, KernelView, ListingView, LogStream, SandboxState, ScheduleView,
    SearchHitView, SearchView, ShellView, TicketView, UsageView, VersionView, WindowView,
};
