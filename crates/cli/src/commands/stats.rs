//! `sandyard stats`: what a sandbox uses, live.

use clap::Args;
use sandyard_api::{SandboxState, StatsView};

use super::run_files::size;
use crate::context::CommandContext;
use crate::errors::CommandError;
use crate::exit_codes::CommandExit;
use crate::job;

const EXAMPLES: &str = "\
Examples:
  sandyard stats abcd1234               one line, kept up to date, until Ctrl-C
  sandyard stats abcd1234 --once --json";

/// Show what a sandbox uses: processors, memory, network, tokens, and the time that is left
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct StatsCommand {
    /// The job: its id, the beginning of it, or its name
    job: String,
    /// Seconds between two measurements
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=60))]
    interval: u64,
    /// Measure once, over one interval
    #[arg(long)]
    once: bool,
    /// Print lines of JSON
    #[arg(long)]
    json: bool,
}

impl StatsCommand {
    pub(crate) async fn run(self, context: &CommandContext) -> Result<CommandExit, CommandError> {
        let client = context.client().await?;
        let id = job::resolve(&client, &self.job).await?;
        // The first measurement has no processors, which need two.
        let limit = if self.once { "&limit=2" } else { "" };
        let mut reader = client.stats(&id, &format!("?interval={}{limit}", self.interval)).await?;
        let mut last = None;
        while let Some(frame) = reader.next().await? {
            let Ok(stats) = serde_json::from_str::<StatsView>(&frame.data) else { continue };
            if !self.once {
                self.show(context, &stats)?;
            }
            last = Some(stats);
        }
        match last {
            Some(stats) if self.once => self.show(context, &stats)?,
            Some(_) if !self.json => context.ui.note(""),
            _ => {}
        }
        Ok(CommandExit::Success)
    }

    fn show(&self, context: &CommandContext, stats: &StatsView) -> Result<(), CommandError> {
        if self.json {
            let line = serde_json::to_string(stats).map_err(std::io::Error::other)?;
            context.ui.json_lines(&line)?;
        } else if self.once || !context.ui.is_terminal() {
            context.ui.line(&words(stats))?;
        } else {
            context.ui.status_line(&words(stats));
        }
        Ok(())
    }
}

fn words(stats: &StatsView) -> String {
    if stats.sandbox != SandboxState::Live {
        return format!("{}, sandbox {}", stats.state.as_str(), stats.sandbox.as_str());
    }
    let cpus = stats.cpus.map_or_else(|| "-".to_owned(), |cpus| format!("{cpus:.2}"));
    let memory = stats.memory_bytes.unwrap_or(stats.peak_memory_bytes);
    let mut words = format!(
        "cpu {cpus}/{} · mem {}/{} · net {}",
        stats.cpus_limit,
        size(memory),
        size(stats.memory_limit_bytes),
        size(stats.egress_bytes)
    );
    let tokens = stats.tokens_in + stats.tokens_out;
    if tokens > 0 {
        words += &format!(" · {tokens} tokens");
    }
    if stats.usd > 0.0 {
        words += &format!(" · {:.4} USD", stats.usd);
    }
    if let Some(left_s) = stats.left_s {
        let left = job::duration(i64::try_from(left_s.saturating_mul(1000)).unwrap_or(i64::MAX));
        words += &format!(" · {left} left");
    }
    words
}

#[cfg(test)]
mod tests {
    use sandyard_api::{JobState, Timestamp};

    use super::*;

    #[test]
    fn a_measurement_is_one_line() {
        let mut stats = StatsView {
            at: Timestamp::from_unix_ms(0),
            state: JobState::Running,
            sandbox: SandboxState::Live,
            cpu_s: 2.0,
            cpus: Some(0.5),
            cpus_limit: 2.0,
            memory_bytes: Some(64 << 20),
            peak_memory_bytes: 80 << 20,
            memory_limit_bytes: 2 << 30,
            egress_bytes: 0,
            tokens_in: 0,
            tokens_out: 0,
            usd: 0.0,
            left_s: Some(3600),
        };
        assert_eq!(words(&stats), "cpu 0.50/2 · mem 64.0 MiB/2.0 GiB · net 0 bytes · 1 h 0 min left");
        (stats.state, stats.sandbox) = (JobState::Succeeded, SandboxState::Gone);
        assert_eq!(words(&stats), "succeeded, sandbox gone");
    }
}
