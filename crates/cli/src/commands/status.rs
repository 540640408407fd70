//! `sandyard status`: show everything about one job.

use clap::Args;
use sandyard_api::{JobView, Timestamp, WaitingView, WantedResource};

use crate::clock::now;
use crate::context::CommandContext;
use crate::errors::CommandError;
use crate::exit_codes::CommandExit;
use crate::job;
use crate::ui::clean;

/// Longest wait of one request of `--wait` on the server.
const WAIT_S: u64 = 30;

/// Show one job
#[derive(Debug, Args)]
pub(crate) struct StatusCommand {
    /// The job: its id, the beginning of it, or its name
    job: String,
    /// Wait until the job has ended; exits as `run` does
    #[arg(long, short)]
    wait: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl StatusCommand {
    pub(crate) async fn run(self, context: &CommandContext) -> Result<CommandExit, CommandError> {
        let client = context.client().await?;
        let id = job::resolve(&client, &self.job).await?;
        let mut view = client.status(&id).await?;
        while self.wait && !view.state.is_terminal() {
            view = client.status_after(&id, WAIT_S).await?;
        }
        if self.json {
            context.ui.json(&view)?;
        } else {
            context.ui.line(&describe(&view, now()))?;
        }
        Ok(if self.wait { CommandExit::of_job(view.state) } else { CommandExit::Success })
    }
}

fn describe(view: &JobView, now: Timestamp) -> String {
    let mut lines = StatusLines::default();
    lines.add("job", Some(view.job_id.as_str().to_owned()));
    lines.add("name", view.name.clone());
    lines.add("kind", Some(view.kind.as_str().to_owned()));
    lines.add("state", Some(view.state.as_str().to_owned()));
    lines.add("why", view.reason.clone());
    lines.add("waits for", view.waiting_for.as_ref().map(waiting));
    lines.add("question", view.question.clone());
    lines.add("exit code", view.exit_code.map(|code| code.to_string()));
    lines.add("error", view.error.as_ref().map(|error| error.message.clone()));
    lines.add("hint", view.error.as_ref().and_then(|error| error.hint.clone()));
    lines.add("isolation", Some(isolation(view)));
    lines.add(
        "created",
        Some(format!("{} ({} ago)", view.created_at.to_text(), job::age(now, view.created_at))),
    );
    lines.add("took", view.started_at.map(|start| job::age(view.finished_at.unwrap_or(now), start)));
    let peak_mib = view.usage.peak_memory_bytes / (1024 * 1024);
    lines.add("used", Some(format!("{:.2} s of processor, {peak_mib} MiB at most", view.usage.cpu_s)));
    lines.add("sandbox", view.sandbox_until.map(|until| sandbox_kept(view, until)));
    lines.add("kept until", view.expires_at.map(Timestamp::to_text));
    lines.add("explained", view.explanation.as_ref().map(|explanation| explanation.summary.clone()));
    let head = view.audit.as_ref().map(|audit| format!("{} records, head {}", audit.records, audit.head));
    lines.add("audit", head);
    lines.add("result", view.download_url.as_ref().map(|_| format!("sandyard download {}", view.job_id)));
    lines.text.trim_end().to_owned()
}

fn waiting(waiting: &WaitingView) -> String {
    let resource = match waiting.resource {
        WantedResource::Sandboxes => "a sandbox",
        WantedResource::Memory => "memory",
        WantedResource::Disk => "disk",
        WantedResource::Driver => "a driver",
        WantedResource::Turn => "its turn",
    };
    format!("{resource}: {}", waiting.message)
}

fn sandbox_kept(view: &JobView, until: Timestamp) -> String {
    format!("kept until {}; sandyard cancel {} removes it", until.to_text(), view.job_id)
}

fn isolation(view: &JobView) -> String {
    let wall = &view.isolation;
    let parts: Vec<&str> = [&wall.level, &wall.runtime].into_iter().flatten().map(String::as_str).collect();
    let got = match &wall.effective {
        Some(driver) if parts.is_empty() => driver.clone(),
        Some(driver) => format!("{driver} ({})", parts.join(": ")),
        None => "not chosen yet".to_owned(),
    };
    let why = wall.reason.as_ref().map(|reason| format!("; {reason}")).unwrap_or_default();
    format!("{got}, asked for {}{why}", wall.requested)
}

#[derive(Default)]
struct StatusLines {
    text: String,
}

impl StatusLines {
    fn add(&mut self, name: &str, value: Option<String>) {
        if let Some(value) = value {
            self.text += &format!("{:<11} {}\n", format!("{name}:"), clean(&value));
        }
    }
}
