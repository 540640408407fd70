//! `sandyard audit`: print the audit records of a job or of the yard, and verify them against their signature.

use std::fs::File;
use std::path::Path;

use clap::{Args, Subcommand};
use sandyard_server::audit::{AuditHead, PublicKey, YARD_CHAIN, verify_lines, verify_zip};
use serde_json::{Value, json};

use crate::context::CommandContext;
use crate::errors::CommandError;
use crate::exit_codes::CommandExit;
use crate::job;
use crate::ui::{clean, counted};

const EXAMPLES: &str = "\
Examples:
  sandyard audit show abcd1234
  sandyard audit verify result.zip    offline: names what was altered
  sandyard audit verify               the audit of the yard itself";

/// Show or verify the audit of a job, or of the yard itself
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct AuditCommand {
    #[command(subcommand)]
    action: AuditAction,
}

#[derive(Debug, Subcommand)]
enum AuditAction {
    Verify(Verify),
    Show(Show),
}

const VERIFY_EXAMPLES: &str = "\
Examples:
  sandyard audit verify               the audit of the yard itself
  sandyard audit verify abcd1234
  sandyard audit verify result.zip    offline: names what was altered";

/// Verify that no record was altered, removed, reordered or cut off; a ZIP needs no server
#[derive(Debug, Args)]
#[command(after_help = VERIFY_EXAMPLES)]
struct Verify {
    /// A job, or its downloaded ZIP file [default: the audit of the yard]
    #[arg(value_name = "JOB|ZIP")]
    what: Option<String>,
    /// The public key that must have signed it, as `GET /version` reports it [default: the key that the audit names]
    #[arg(long, value_name = "KEY", value_parser = |text: &str| text.parse::<PublicKey>())]
    key: Option<PublicKey>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const SHOW_EXAMPLES: &str = "\
Examples:
  sandyard audit show abcd1234
  sandyard audit show --json > yard.jsonl";

/// Print the audit records of a job; without one, who cancelled and deleted jobs, and how servers were started
#[derive(Debug, Args)]
#[command(after_help = SHOW_EXAMPLES)]
struct Show {
    /// The job: its id, the beginning of it, or its name [default: the audit of the yard]
    job: Option<String>,
    /// Print the records as stored, one JSON object per line
    #[arg(long)]
    json: bool,
}

/// The result of a verification.
struct CheckedAudit {
    head: AuditHead,
    records: u64,
    files: Option<u64>,
    faults: Vec<String>,
}

impl AuditCommand {
    pub(crate) async fn run(self, context: &CommandContext) -> Result<CommandExit, CommandError> {
        match self.action {
            AuditAction::Verify(verify) => verify.run(context).await,
            AuditAction::Show(show) => show.run(context).await,
        }
    }
}

impl Verify {
    async fn run(self, context: &CommandContext) -> Result<CommandExit, CommandError> {
        let found = match self.what.as_deref() {
            // A job's id or name has no extension, so this names a file.
            Some(what) if Path::new(what).is_file() || what.ends_with(".zip") => {
                check_zip(Path::new(what), self.key)?
            }
            job => check_text(&records(context, job).await?, self.key)?,
        };
        if self.json {
            context.ui.json(&json!({
                "valid": found.faults.is_empty(), "head": found.head, "records_read": found.records,
                "files_compared": found.files, "faults": found.faults,
            }))?;
        } else {
            tell(context, &found, self.key.is_some())?;
        }
        Ok(if found.faults.is_empty() { CommandExit::Success } else { CommandExit::Failed })
    }
}

/// The records of a job, or of the yard.
async fn records(context: &CommandContext, job: Option<&str>) -> Result<String, CommandError> {
    let client = context.client().await?;
    Ok(match job {
        Some(job) => client.audit(&job::resolve(&client, job).await?).await?,
        None => client.yard_audit().await?,
    })
}

/// The subject of an audit, for people.
fn subject(chain: &str) -> String {
    if chain == YARD_CHAIN { "the yard".to_owned() } else { format!("job {}", clean(chain)) }
}

fn check_text(text: &str, key: Option<PublicKey>) -> Result<CheckedAudit, CommandError> {
    let verdict = verify_lines(text, key).map_err(|error| CommandError::Audit(Box::new(error)))?;
    let faults = verdict.faults.iter().map(ToString::to_string).collect();
    Ok(CheckedAudit { head: verdict.head, records: verdict.records, files: None, faults })
}

fn check_zip(path: &Path, key: Option<PublicKey>) -> Result<CheckedAudit, CommandError> {
    let file = File::open(path).map_err(CommandError::file("open", path))?;
    let verdict = verify_zip(file, key).map_err(|error| CommandError::Audit(Box::new(error)))?;
    let faults = verdict.audit.faults.iter().map(ToString::to_string);
    let faults = faults.chain(verdict.faults.iter().map(ToString::to_string)).collect();
    Ok(CheckedAudit {
        head: verdict.audit.head,
        records: verdict.audit.records,
        files: Some(verdict.files),
        faults,
    })
}

fn tell(context: &CommandContext, found: &CheckedAudit, pinned: bool) -> Result<(), CommandError> {
    let AuditHead { job, head, key, .. } = &found.head;
    let records = counted(usize::try_from(found.records).unwrap_or(usize::MAX), "record");
    if !found.faults.is_empty() {
        let faults: String = found.faults.iter().map(|fault| format!("\n  {}", clean(fault))).collect();
        context.ui.line(&format!("the audit of {} is NOT as it was signed:{faults}", subject(job)))?;
        return Ok(());
    }
    let files = found.files.map(|files| {
        let files = counted(usize::try_from(files).unwrap_or(usize::MAX), "file");
        format!(", {files} as exported")
    });
    let files = files.unwrap_or_default();
    context.ui.line(&format!("{}: {records} in order{files}\nhead {head}\nkey  {key}", subject(job)))?;
    if !pinned {
        context.ui.note("the key is the one that the audit names; give --key to expect another");
    }
    Ok(())
}

impl Show {
    async fn run(self, context: &CommandContext) -> Result<CommandExit, CommandError> {
        let text = records(context, self.job.as_deref()).await?;
        if self.json {
            context.ui.json_lines(text.trim_end())?;
            return Ok(CommandExit::Success);
        }
        for line in text.lines() {
            let record: Value = serde_json::from_str(line).unwrap_or_default();
            context.ui.line(&readable(&record))?;
        }
        Ok(CommandExit::Success)
    }
}

/// Returns one record as one line.
fn readable(record: &Value) -> String {
    if let Some(head) = record.get("head") {
        return format!("head {}, signed by {}", text(&head["head"]), text(&head["key"]));
    }
    let facts = record["facts"].as_object().into_iter().flatten();
    let facts: Vec<String> = facts.map(|(name, value)| format!("{name}={}", text(value))).collect();
    let (number, at) = (text(&record["number"]), text(&record["at"]));
    let (actor, kind) = (text(&record["actor"]), text(&record["kind"]));
    format!("{number:>5}  {at}  {actor:<8}  {kind:<10}  {}", facts.join(" "))
}

fn text(value: &Value) -> String {
    clean(value.as_str().map_or_else(|| value.to_string(), str::to_owned).as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_one_line_without_control_characters() {
        let record = json!({
            "number": 7, "at": "2026-01-31T08:15:00.250Z", "actor": "job", "kind": "egress",
            "facts": { "target": "a\u{1b}[2Jb:443", "sent": 5 },
        });
        let line = readable(&record);
        assert!(line.starts_with("    7  2026-01-31T08:15:00.250Z  job       egress"), "{line}");
        assert!(line.contains("sent=5") && !line.contains('\u{1b}'), "{line}");
    }
}
