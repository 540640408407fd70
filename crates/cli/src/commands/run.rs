//! `sandyard run`: schedule a job, watch it, and save its result. Without a server, this process serves the yard itself.

use std::io;
use std::path::PathBuf;

use bytes::Bytes;
use clap::Args;
use sandyard_api::{JobKind, ScheduleBody};

use super::run_end::RunEnd;
use super::run_input::RunInput;
use super::run_session::{self, SessionHost};
use crate::client::{ApiClient, ServerAddress};
use crate::config::{Flags, ImageChoice, Settings};
use crate::context::{CommandContext, DEFAULT_URL};
use crate::errors::CommandError;
use crate::exit_codes::CommandExit;
use crate::job::{OnQuestion, OutputDisplay, TerminalText, Watch, WatchNotes, Watched};
use crate::log;
use crate::machine;
use crate::serve::embedded::{self, EmbeddedServer};
use crate::serve::{Foundation, ServeError, YardServer};
use crate::ui::counted;

/// Log filter of a server that runs for one job: the events of the job are shown anyway.
const QUIET: &str = "error";

const EXAMPLES: &str = "\
Examples:
  sandyard run 'Build me a todo app' -o todo     a task; its result in ./todo
  sandyard run ./analyse.py --file data.csv      a script, with a file
  sandyard run -k shell 'make test' --dir .      a command on a copy of this folder
  cat a.sh b.sh | sandyard run -k shell -        code from standard input
  sandyard run ./fit.py -- --rounds 3            arguments of the script
  sandyard run -k session --shell --rm           a terminal in a new machine";

/// Run a job and watch it: exits as the job did
///
/// Words are a task, the path of a file is a script, - and piped input are code. Without a server at SANDYARD_URL this command
/// serves the yard itself, on a socket in the data folder, until the last job has ended; a second `run` uses that server.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RunCommand {
    #[command(flatten)]
    pub(super) input: RunInput,
    /// Save the result: a FILE.zip, or a folder to unpack into
    #[arg(long, short, value_name = "DIR|FILE.zip")]
    pub(super) output: Option<PathBuf>,
    /// Print the final status as JSON instead of the output
    #[arg(long)]
    pub(super) json: bool,
    /// Print output as it is, escape sequences included, also on a terminal
    #[arg(long)]
    pub(super) raw: bool,
    /// Only schedule the job and print its id; needs a server
    #[arg(long, short, conflicts_with_all = ["output", "json", "rm", "shell"])]
    pub(super) detach: bool,
    /// Open a terminal in the session; needs --kind session
    #[arg(long)]
    pub(super) shell: bool,
    /// Remove the job with all its data once it has ended and its result is saved
    #[arg(long)]
    pub(super) rm: bool,
    /// When a task asks something and nobody is at a terminal: wait for `sandyard reply`, or fail
    #[arg(long, value_enum, default_value_t = OnQuestion::Wait, value_name = "WHAT")]
    pub(super) on_question: OnQuestion,
    /// The yard to serve if there is no server [env: SANDYARD_DATA]
    #[arg(long, value_name = "DIR")]
    pub(super) data: Option<PathBuf>,
    /// The driver to use if there is no server [env: SANDYARD_DRIVER]
    #[arg(long, value_name = "NAME")]
    pub(super) driver: Option<String>,
    /// Record the answers of the model if there is no server, for --model replay:FILE [env: SANDYARD_RECORD]
    #[arg(long, value_name = "FILE")]
    pub(super) record: Option<PathBuf>,
}

impl RunCommand {
    pub(crate) async fn run(self, context: &CommandContext) -> Result<CommandExit, CommandError> {
        let body = self.body(context)?;
        let settings = self.settings(context)?;
        match context.running_server(&settings).await? {
            Some(client) => self.with_server(context, &client, &body).await,
            None if context.uses_own_yard() && !self.detach => {
                self.serving_itself(context, settings, &body).await
            }
            // The call itself reports who is missing.
            None => {
                let client = context.client_at(context.endpoint(&settings)?)?;
                self.with_server(context, &client, &body).await
            }
        }
    }

    /// Reads what to run, and its files, before a server is asked or started for it.
    fn body(&self, context: &CommandContext) -> Result<ScheduleBody, CommandError> {
        let source = self.input.source()?;
        if self.shell && source.kind != JobKind::Session {
            return Err(CommandError::usage_with_hint(
                "only a session has a terminal to open",
                "use --kind session, or leave out --shell",
            ));
        }
        let files = self.input.files()?;
        if let Some(summary) = files.summary() {
            context.ui.faint(&format!("· sending {summary}"));
        }
        if files.left_out > 0 {
            let count = counted(files.left_out, "entry");
            context.ui.warn(&format!("{count} left out: links and special files are not sent"));
        }
        self.input.body(source, files, &context.surroundings)
    }

    fn settings(&self, context: &CommandContext) -> Result<Settings, CommandError> {
        let mut flags = Flags::default();
        flags.set("data", self.data.as_ref().map(|path| path.display()));
        flags.set("driver", self.driver.as_ref());
        flags.set("model", self.input.model());
        flags.set("record", self.record.as_ref().map(|path| path.display()));
        let layers = context.layers(&flags)?;
        let mut settings = Settings::new(&layers)?;
        if !layers.is_set("images") {
            // One job should not build images that only other jobs need.
            settings.images =
                if self.input.looks_like_task() { ImageChoice::Full } else { ImageChoice::Base };
        }
        Ok(settings)
    }

    async fn with_server(
        self,
        context: &CommandContext,
        client: &ApiClient,
        body: &ScheduleBody,
    ) -> Result<CommandExit, CommandError> {
        let id = schedule(context, client, body).await?;
        if self.detach {
            context.ui.line(&id)?;
            return Ok(CommandExit::Success);
        }
        if body.kind == Some(JobKind::Session) {
            return run_session::open(context, client, &id, &self.at_end(), self.shell, SessionHost::Server)
                .await;
        }
        let notes = WatchNotes::at_server(&id);
        self.watch(context, client, &id, body, &notes).await
    }

    /// Serves the yard and runs the job on it: root in another process, which is not root, anybody else in this one.
    async fn serving_itself(
        self,
        context: &CommandContext,
        settings: Settings,
        body: &ScheduleBody,
    ) -> Result<CommandExit, CommandError> {
        log::to_stderr(QUIET, false);
        let data = settings.data.display().to_string();
        let socket = ServerAddress::Socket(settings.socket());
        let mut stop = machine::stop_signals();
        // A signal must not wait for the lock or for a slow driver. Dropping the attempt is as safe as a
        // kill: no job was scheduled yet.
        let opened = tokio::select! {
            opened = RunServer::open(context, &settings) => opened,
            () = stop.next() => return Ok(CommandExit::Interrupted),
        };
        let mut server = match opened {
            Ok(server) => server,
            Err(ServeError::InUse { .. }) => {
                // Another `run` was quicker: it serves, or will in a moment.
                let client = context.wait_for_server(socket).await?;
                return self.with_server(context, &client, body).await;
            }
            Err(error) => return Err(error.into()),
        };
        context.ui.faint(&format!("· no server at {DEFAULT_URL}; serving {data} here"));
        let client = context.client_at(socket)?;
        let result = self.scheduled_here(context, &client, &data, body, &mut server).await;
        server.stop().await;
        result
    }

    /// Serves for a `run` of root, whose arguments these are. The process must have one thread.
    pub(crate) fn serve(&self, context: &CommandContext) -> Result<CommandExit, CommandError> {
        let mut settings = self.settings(context)?;
        settings.log = QUIET.to_owned();
        log::to_stderr(QUIET, false);
        embedded::serve(&context.surroundings, context.ui, &settings)?;
        Ok(CommandExit::Success)
    }

    async fn scheduled_here(
        self,
        context: &CommandContext,
        client: &ApiClient,
        data: &str,
        body: &ScheduleBody,
        server: &mut RunServer,
    ) -> Result<CommandExit, CommandError> {
        let id = schedule(context, client, body).await?;
        let exit = if body.kind == Some(JobKind::Session) {
            run_session::open(context, client, &id, &self.at_end(), self.shell, SessionHost::ThisCommand)
                .await?
        } else {
            self.watch(context, client, &id, body, &WatchNotes::serving(&id, data)).await?
        };
        if exit != CommandExit::Interrupted {
            server.until_idle(context).await;
        }
        Ok(exit)
    }

    /// Watches a scheduled job, reports its end and saves its result.
    async fn watch(
        &self,
        context: &CommandContext,
        client: &ApiClient,
        id: &str,
        body: &ScheduleBody,
        notes: &WatchNotes,
    ) -> Result<CommandExit, CommandError> {
        let ui = &context.ui;
        ui.faint(&format!("· job {id}"));
        if body.task.is_some() && !body.egress.is_empty() {
            let hosts = body.egress.join(", ");
            ui.faint(&format!("· it may reach {hosts} (--egress names others, --offline none)"));
        }
        let text = TerminalText::from_flag(self.raw);
        let output = if self.json { OutputDisplay::Withheld } else { OutputDisplay::Live(text) };
        match Watch::new(ui, client, id, output, notes, self.on_question).run().await? {
            Watched::Ended(_) => {}
            Watched::Left => {
                ui.note(notes.left());
                return Ok(CommandExit::Interrupted);
            }
            Watched::Asked => return Ok(CommandExit::Question),
        }
        let view = client.status(id).await?;
        self.at_end().finish(context, client, &view).await
    }

    /// What is to happen once the job has ended.
    fn at_end(&self) -> RunEnd<'_> {
        RunEnd { output: self.output.as_deref(), json: self.json, rm: self.rm }
    }
}

/// Schedules a job and returns its id. Files are sent with a bar on a terminal.
async fn schedule(
    context: &CommandContext,
    client: &ApiClient,
    body: &ScheduleBody,
) -> Result<String, CommandError> {
    if body.files.is_empty() {
        return Ok(client.schedule(body).await?.job_id.as_str().to_owned());
    }
    let json = Bytes::from(serde_json::to_vec(body).map_err(io::Error::other)?);
    let progress = context.ui.transfer("send", Some(json.len() as u64));
    let bar = progress.bar();
    let sent = move |bytes: usize| bar.iter().for_each(|bar| bar.inc(bytes as u64));
    let scheduled = client.schedule_large(json, sent).await;
    progress.finish();
    Ok(scheduled?.job_id.as_str().to_owned())
}

/// The server of a `run` that found none.
enum RunServer {
    Here(Box<YardServer>),
    Apart(EmbeddedServer),
}

impl RunServer {
    async fn open(context: &CommandContext, settings: &Settings) -> Result<Self, ServeError> {
        if context.surroundings.root {
            return Ok(Self::Apart(EmbeddedServer::start().await?));
        }
        let (surroundings, own) = (context.surroundings.clone(), settings.clone());
        // The lock may have to be waited for.
        let laid = tokio::task::spawn_blocking(move || Foundation::lay(&surroundings, &own, None)).await;
        let foundation = laid.map_err(|error| ServeError::Broken(error.to_string()))??;
        let server = YardServer::open(&context.surroundings, context.ui, foundation).await?;
        Ok(Self::Here(Box::new(server)))
    }

    /// Returns when no job needs the server any more, or at a signal.
    async fn until_idle(&mut self, context: &CommandContext) {
        match self {
            Self::Here(server) => server.until_idle(&context.ui).await,
            Self::Apart(server) => {
                let mut stop = machine::stop_signals();
                tokio::select! {
                    () = server.until_idle() => {}
                    () = stop.next() => {}
                }
            }
        }
    }

    async fn stop(self) {
        match self {
            Self::Here(server) => server.stop().await,
            Self::Apart(server) => server.stop().await,
        }
    }
}
