//! `sandyard status`: show everything about one job.

use clap::Args;
use sandyard_api::{JobView, LimitsView, Timestamp, WaitingView, WantedResource};

use crate::clock::now;
use crate::context::CommandContext;
use crate::errors::CommandError;
use crate::exit_codes::CommandExit;
use crate::job;

/// Longest wait of one request of `--wait` on the server.
const WAIT_S: u64 = 30;

const EXAMPLES: &str = "\
Examples:
  sandyard status abcd1234
  sandyard status abcd1234 --wait && echo it worked";

/// Show one job
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
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
            view = client.status_at_end(&id, WAIT_S).await?;
        }
        if self.json {
            context.ui.json(&view)?;
        } else {
            context.ui.fields(&describe(&view, now()))?;
        }
        Ok(if self.wait { CommandExit::of_job(&view) } else { CommandExit::Success })
    }
}

/// Returns the names and values of what is known about a job.
fn describe(view: &JobView, now: Timestamp) -> Vec<(&'static str, String)> {
    let short = job::short_id(view.job_id.as_str());
    let mut lines = StatusLines::default();
    lines.add("job", Some(view.job_id.as_str().to_owned()));
    lines.add("name", view.name.clone());
    lines.add("kind", Some(view.kind.as_str().to_owned()));
    lines.add("what", view.input.as_ref().map(|input| input.replace('\n', " ⏎ ")));
    lines.add("state", Some(view.state.as_str().to_owned()));
    lines.add("why", view.reason.clone());
    lines.add("waits for", view.waiting_for.as_ref().map(waiting));
    lines.add("question", view.question.clone());
    let answer = view.question.as_ref().map(|_| format!("sandyard reply {short} TEXT"));
    lines.add("answer", answer);
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
    lines.add("model", view.model.clone());
    let usage = &view.usage;
    let spent = usage.tokens_in + usage.tokens_out > 0;
    let money = if usage.usd > 0.0 { format!(", {:.4} USD", usage.usd) } else { String::new() };
    let tokens = format!("{} in, {} out{money}", usage.tokens_in, usage.tokens_out);
    lines.add("tokens", spent.then_some(tokens));
    lines.add("limits", Some(limits(&view.limits)));
    lines.add("egress", list(&view.egress));
    lines.add("variables", list(&view.env_names));
    lines.add("sandbox", view.sandbox_until.map(|until| sandbox_kept(view, until)));
    lines.add("kept until", view.expires_at.map(Timestamp::to_text));
    lines.add("explained", view.explanation.as_ref().map(|explanation| explanation.summary.clone()));
    let head = view.audit.as_ref().map(|audit| format!("{} records, head {}", audit.records, audit.head));
    lines.add("audit", head);
    lines.add("result", view.download_url.as_ref().map(|_| format!("sandyard download {short}")));
    lines.add("summary", view.summary.as_ref().map(|summary| summary.replace('\n', " ⏎ ")));
    lines.0
}

fn limits(limits: &LimitsView) -> String {
    let idle = limits.idle_timeout_s.map(|idle| format!(", {idle} s without output")).unwrap_or_default();
    format!(
        "{}, {} MiB of memory, {} MiB of disk, {}, {} s{idle}",
        fraction(limits.cpus, "processor"),
        limits.memory_mib,
        limits.disk_mib,
        format_args!("{} processes", limits.pids),
        limits.timeout_s
    )
}

fn fraction(number: f64, noun: &str) -> String {
    if (number - 1.0).abs() < f64::EPSILON { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// Names separated by commas; `None` without any.
fn list(names: &[String]) -> Option<String> {
    (!names.is_empty()).then(|| names.join(", "))
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
    format!(
        "kept until {}; sandyard cancel {} removes it",
        until.to_text(),
        job::short_id(view.job_id.as_str())
    )
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
struct StatusLines(Vec<(&'static str, String)>);

impl StatusLines {
    fn add(&mut self, name: &'static str, value: Option<String>) {
        self.0.extend(value.map(|value| (name, value)));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn view(usage: serde_json::Value) -> JobView {
        let at = "2026-01-31T08:15:00.250Z";
        let text = json!({
            "job_id": "aaaaaaaaaaaaaaaaaaaaaaaaaa", "name": null, "kind": "task", "status": "complete", "state": "succeeded",
            "sandbox": "gone", "reason": null, "waiting_for": null, "question": null,
            "isolation": { "requested": "any", "effective": null, "level": null, "runtime": null, "reason": null },
            "created_at": at, "started_at": at, "finished_at": at, "sandbox_until": null, "expires_at": null,
            "stdout": "", "stderr": "", "exit_code": 0, "error": null, "summary": "Painted it.", "download_url": null,
            "explanation": null, "recording": null, "desktop_url": "", "lab_url": "", "model": "openai/gpt-5",
            "usage": usage, "audit": null,
        });
        serde_json::from_value(text).unwrap()
    }

    #[test]
    fn tokens_and_money_are_told_once_some_were_spent() {
        let usage = |tokens_in: u64, tokens_out: u64, usd: f64| {
            json!({
                "cpu_s": 0.0, "peak_memory_bytes": 0, "tokens_in": tokens_in, "tokens_out": tokens_out, "usd": usd,
                "egress_bytes": 0,
            })
        };
        let told = |usage| {
            let lines = describe(&view(usage), Timestamp::from_unix_ms(0));
            lines.into_iter().find(|(name, _)| *name == "tokens").map(|(_, value)| value)
        };
        assert_eq!(told(usage(0, 0, 0.0)), None);
        assert_eq!(told(usage(1200, 30, 0.0)).unwrap(), "1200 in, 30 out");
        assert_eq!(told(usage(1200, 30, 0.0125)).unwrap(), "1200 in, 30 out, 0.0125 USD");
    }
}
