//! A sandbox with a link, for the suite: start, dial, run, stop.

use std::sync::Arc;
use std::time::Duration;

use sandyard_pipe::{HelloError, HostOffer, welcome};
use sandyard_protocol::{Exit, OutputStream, StartProcess};
use tokio::time::timeout;

use super::probe_program::probe_program;
use sandyard_sandbox::driver::{Driver, LinkError, SandboxSpec, StartError, StopError};
use sandyard_sandbox::machine::{FromProcess, Machine, MachineError, ProcessStream};

/// Longest wait for a dial. A loaded machine needs tens of milliseconds.
const DIAL_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest run of any command of the suite.
const RUN_TIMEOUT: Duration = Duration::from_secs(120);
/// Most bytes of output kept for one command and stream.
const MAX_OUTPUT_BYTES: usize = 4 * 1024 * 1024;

/// A running sandbox with an authenticated link.
pub struct SandboxSession {
    /// Driver that started the sandbox.
    pub driver: Arc<dyn Driver>,
    /// Specification of the sandbox.
    pub spec: SandboxSpec,
    /// The machine at the other end of the link.
    pub machine: Machine,
}

/// Result of a command.
#[derive(Debug, Clone)]
pub struct CommandResult {
    /// Exit status, with the signal if one ended the command.
    pub exit: Exit,
    /// Standard output, at most 4 MiB.
    pub stdout: String,
    /// Standard error, at most 4 MiB.
    pub stderr: String,
}

/// The suite failed before it could check anything.
#[derive(Debug, thiserror::Error)]
pub enum SuiteError {
    /// The name is not a valid sandbox id.
    #[error("{0} is no sandbox id")]
    Name(String),
    /// The workspace directory could not be made.
    #[error("make a workspace")]
    Workspace(#[source] std::io::Error),
    /// The sandbox did not start.
    #[error("start")]
    Start(#[from] StartError),
    /// The sandbox did not stop.
    #[error("stop")]
    Stop(#[from] StopError),
    /// The sandbox did not dial.
    #[error("wait for the link")]
    Link(#[from] LinkError),
    /// The sandbox did not authenticate.
    #[error("hello")]
    Hello(#[from] HelloError),
    /// A call to the guest failed.
    #[error("call")]
    Machine(#[from] MachineError),
    /// A step took too long.
    #[error("{0} took too long")]
    TooLong(&'static str),
    /// A program ended that should have stayed.
    #[error("a program ended before it was ready: {0}")]
    NotReady(String),
    /// The probe program could not be read.
    #[error("read the probe")]
    Probe(#[source] std::io::Error),
}

impl SandboxSession {
    /// Starts a sandbox and waits for its link.
    pub async fn start(driver: Arc<dyn Driver>, spec: SandboxSpec) -> Result<Self, SuiteError> {
        driver.start(&spec).await?;
        let machine = dial(&*driver, &spec, 1).await?;
        Ok(Self { driver, spec, machine })
    }

    /// Runs a command to its end.
    pub async fn run(&self, argv: &[&str]) -> Result<CommandResult, SuiteError> {
        self.run_to_its_end(command(argv)).await
    }

    /// Runs a command that is asked to begin in a directory, to its end.
    pub async fn run_in(&self, directory: &str, argv: &[&str]) -> Result<CommandResult, SuiteError> {
        self.run_to_its_end(StartProcess { cwd: Some(directory.to_owned()), ..command(argv) }).await
    }

    async fn run_to_its_end(&self, start: StartProcess) -> Result<CommandResult, SuiteError> {
        timeout(RUN_TIMEOUT + self.driver.boot_time(), self.follow(start))
            .await
            .map_err(|_| SuiteError::TooLong("a command"))?
    }

    /// Starts a command that prints `ready` and stays. It ends when the returned stream is dropped.
    pub async fn stay(&self, argv: &[&str]) -> Result<ProcessStream, SuiteError> {
        let start = StartProcess { ends_with_stream: true, ..command(argv) };
        let ready = async {
            let mut stream = self.machine.start_process(start).await?;
            let mut said = Vec::new();
            loop {
                match stream.next().await? {
                    FromProcess::Output(chunk) => said.extend_from_slice(&chunk.bytes),
                    FromProcess::Lost(_) => {}
                    FromProcess::Exited(_) => {
                        return Err(SuiteError::NotReady(String::from_utf8_lossy(&said).into_owned()));
                    }
                }
                if said.ends_with(b"ready\n") {
                    return Ok(stream);
                }
            }
        };
        timeout(RUN_TIMEOUT + self.driver.boot_time(), ready)
            .await
            .map_err(|_| SuiteError::TooLong("getting ready"))?
    }

    /// Runs a shell script to its end.
    pub async fn shell(&self, script: &str) -> Result<CommandResult, SuiteError> {
        self.run(&["/bin/bash", "-c", script]).await
    }

    async fn follow(&self, start: StartProcess) -> Result<CommandResult, SuiteError> {
        Self::finish(self.machine.start_process(start).await?).await
    }

    /// Reads the rest of a command's output and waits for its end.
    pub(super) async fn finish(mut stream: ProcessStream) -> Result<CommandResult, SuiteError> {
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        loop {
            match stream.next().await? {
                FromProcess::Output(chunk) => {
                    let kept = if chunk.stream == OutputStream::Stdout { &mut stdout } else { &mut stderr };
                    if kept.len() < MAX_OUTPUT_BYTES {
                        kept.extend_from_slice(&chunk.bytes);
                    }
                }
                FromProcess::Lost(_) => {}
                FromProcess::Exited(exit) => {
                    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
                    return Ok(CommandResult { exit, stdout: text(stdout), stderr: text(stderr) });
                }
            }
        }
    }

    /// Puts the probe in the workspace.
    pub async fn upload_probe(&self) -> Result<(), SuiteError> {
        let program = std::fs::read(probe_program()).map_err(SuiteError::Probe)?;
        self.upload("probe", &program).await
    }

    /// Puts an executable file in the workspace.
    pub async fn upload(&self, path: &str, content: &[u8]) -> Result<(), SuiteError> {
        let size = u64::try_from(content.len()).unwrap_or(u64::MAX);
        let mut writer = self.machine.write(path, size, Some(0o755)).await?;
        writer.send(content).await?;
        writer.finish().await?;
        Ok(())
    }

    /// Stops the sandbox and removes everything but its workspace.
    pub async fn stop(self) -> Result<(), SuiteError> {
        Ok(self.driver.stop(&self.spec.id).await?)
    }
}

fn command(argv: &[&str]) -> StartProcess {
    StartProcess { argv: argv.iter().map(|&word| word.to_owned()).collect(), ..StartProcess::default() }
}

/// Waits for a sandbox to dial and greets it under a lease's epoch. If keeper has given a connection up
/// meanwhile, another one follows, as it does for a server.
pub(super) async fn dial(driver: &dyn Driver, spec: &SandboxSpec, epoch: u64) -> Result<Machine, SuiteError> {
    let offer = HostOffer {
        sandbox: spec.id.to_string(),
        secret: *spec.secret.expose(),
        epoch,
        unix_ms: 1_700_000_000_000,
    };
    let greeted = async {
        loop {
            match welcome(driver.next_link(&spec.id).await?, offer.clone()).await {
                Err(HelloError::Io(_)) => {}
                greeted => return Ok(Machine::over(greeted?)),
            }
        }
    };
    timeout(DIAL_TIMEOUT + driver.boot_time(), greeted).await.map_err(|_| SuiteError::TooLong("dialling"))?
}
