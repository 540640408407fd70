//! `sandyard store`: the database of a yard.

use clap::{Args, Subcommand};
use sandyard_server::app::{CopyPlace, copy_store};

use crate::context::CommandContext;
use crate::errors::CommandError;
use crate::exit_codes::CommandExit;
use crate::ui::counted;

const EXAMPLES: &str = "\
Examples:
  sandyard store copy /var/lib/sandyard postgres://yard@db.example/yard
  sandyard store copy postgres://yard@db.example/yard /srv/yard";

/// Copy the rows of a yard to another database
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct StoreCommand {
    #[command(subcommand)]
    action: StoreAction,
}

#[derive(Debug, Subcommand)]
enum StoreAction {
    Copy(StoreCopyCommand),
}

const COPY_EXAMPLES: &str = "\
Examples:
  sandyard store copy /var/lib/sandyard postgres://yard@db.example/yard";

/// Copy all rows from one store to another and compare each of them
///
/// A store is a data directory, its file `yard.db`, or the address of a PostgreSQL database, whose password may be in PGPASSWORD. No
/// server may work on either. A copy that was interrupted goes on where it was. Results and output in files are not copied.
#[derive(Debug, Args)]
#[command(after_help = COPY_EXAMPLES)]
struct StoreCopyCommand {
    /// The store to read
    #[arg(value_name = "FROM")]
    from: String,
    /// The store to write: empty, or with an earlier copy of the same yard
    #[arg(value_name = "TO")]
    to: String,
}

/// Not left to clap, which would repeat a password in its error.
fn parse(text: &str, password: Option<&str>) -> Result<CopyPlace, CommandError> {
    let place = CopyPlace::parse(text).map_err(|error| CommandError::usage(error.to_string()))?;
    Ok(place.or_password(password))
}

impl StoreCommand {
    pub(crate) async fn run(self, context: &CommandContext) -> Result<CommandExit, CommandError> {
        match self.action {
            StoreAction::Copy(copy) => copy.run(context).await,
        }
    }
}

impl StoreCopyCommand {
    async fn run(self, context: &CommandContext) -> Result<CommandExit, CommandError> {
        let password = context.surroundings.get("PGPASSWORD");
        let (from, to) = (parse(&self.from, password)?, parse(&self.to, password)?);
        let mut line = context.ui.progress("copying");
        let done = copy_store(&from, &to, |progress| {
            let percent = progress.done * 100 / progress.jobs.max(1);
            let phase = format!("{} of {} jobs", progress.done, progress.jobs);
            line.set(u8::try_from(percent).unwrap_or(100), &phase);
        })
        .await?;
        drop(line);
        let count = |number: u64, noun| counted(usize::try_from(number).unwrap_or(usize::MAX), noun);
        context.ui.line(&format!(
            "{} from {from} in {to}, compared row by row; {} copied now, with {} of theirs",
            count(done.jobs, "job"),
            done.done - done.found,
            count(done.rows, "row")
        ))?;
        Ok(CommandExit::Success)
    }
}
