//! Services that start when somebody first connects to their port: a table of ports and the program of each.
//!
//! A connect to such a port starts the service unless it runs, waits until it listens, and returns the authorization that requests
//! to it must carry. The process runs as the job's user like any other. If the job has a program of its own on the port, keeper
//! leaves it alone. A service that died is started again by the next connect. Running services are on disk, so the next keeper
//! knows them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use sandyard_protocol::{GuestError, GuestErrorCode, ProcessId, StartProcess};
use serde::{Deserialize, Serialize};
use tokio::sync::{Mutex, oneshot};

use super::lab;
use super::loopback::is_listening;
use crate::keeper::core::KeeperCore;
use crate::keeper::processes::{ManagedProcess, Processes};
use crate::keeper::scripts;
use crate::keeper::spool::SpoolError;
use crate::limits::{SERVICE_POLL, SERVICE_START};

const DOCUMENT: &str = "services.json";

/// The service of a port.
struct PortService {
    /// Name in error messages.
    name: &'static str,
    port: u16,
    /// File name and text of the script that starts it. The job can read the file and not change it.
    script: (&'static str, &'static str),
    /// Builds the command that runs the script with the token that the service asks of its clients.
    start: fn(script: &str, token: &str) -> StartProcess,
    /// Builds the `Authorization` header of a request.
    authorization: fn(token: &str) -> String,
}

const SERVICES: [PortService; 1] = [PortService {
    name: "JupyterLab",
    port: lab::PORT,
    script: ("lab.py", include_str!("lab.py")),
    start: lab::start,
    authorization: lab::authorization,
}];

#[derive(Debug)]
pub(in crate::keeper) struct PortServices {
    core: Arc<KeeperCore>,
    processes: Arc<Processes>,
    /// Keeper's directory of scripts.
    scripts: PathBuf,
    running: Mutex<BTreeMap<u16, RunningService>>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct RunningService {
    process: ProcessId,
    token: String,
}

/// The process of a service and its token.
struct StartedService {
    process: Arc<ManagedProcess>,
    token: String,
    /// True if an earlier connect had started it.
    is_old: bool,
}

impl PortServices {
    /// Loads the services that the earlier keeper had started.
    pub(in crate::keeper) fn open(
        core: Arc<KeeperCore>,
        processes: Arc<Processes>,
        scripts: PathBuf,
    ) -> Result<Self, SpoolError> {
        let running = Mutex::new(core.spool.load(DOCUMENT)?.unwrap_or_default());
        Ok(Self { core, processes, scripts, running })
    }

    /// Starts the service of a port unless it runs, and returns the authorization for requests to it. Returns `None` if the port has
    /// no service, or the job has a program of its own on it.
    pub(super) async fn ready(self: &Arc<Self>, port: u16) -> Result<Option<String>, GuestError> {
        let Some(service) = SERVICES.iter().find(|service| service.port == port) else { return Ok(None) };
        // In a task of keeper's own: a client that gives up must not leave a service that nobody knows.
        let (answer, answered) = oneshot::channel();
        let owner = self.clone();
        self.core.tasks.spawn(async move { drop(answer.send(owner.run(service).await)) });
        answered.await.unwrap_or_else(|_| Err(failed("keeper is stopping".to_owned())))
    }

    async fn run(&self, service: &PortService) -> Result<Option<String>, GuestError> {
        loop {
            let Some(started) = self.started(service).await? else { return Ok(None) };
            match listens(service, &started.process).await {
                Ok(()) => return Ok(Some((service.authorization)(&started.token))),
                // A service that was thought to run has just died: the next round starts it.
                Err(_) if started.is_old && started.process.exit().is_some() => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the process of a service, started if need be; `None` if the job has a program of its own on the port.
    async fn started(&self, service: &PortService) -> Result<Option<StartedService>, GuestError> {
        // Locked throughout, so that two clients never start two.
        let mut running = self.running.lock().await;
        if let Some(known) = running.get(&service.port)
            && let Some(process) = self.processes.find_running(&known.process)
        {
            return Ok(Some(StartedService { process, token: known.token.clone(), is_old: true }));
        }
        if is_listening(service.port).await {
            return Ok(None);
        }
        let token = random_token()?;
        let script = scripts::write(&self.scripts, service.script.0, service.script.1)
            .map_err(|error| failed(format!("write the script of {}: {error}", service.name)))?;
        let process = self.processes.start((service.start)(&script.to_string_lossy(), &token)).await?;
        // The process exists and its record is on disk. A keeper that is killed before the next line loses only the token: the next one
        // takes the service for a program of the job.
        running.insert(service.port, RunningService { process: process.id().clone(), token: token.clone() });
        self.core.stop_on(self.core.spool.store(DOCUMENT, &*running));
        Ok(Some(StartedService { process, token, is_old: false }))
    }
}

/// Waits until a service listens. Fails if it ends instead, or takes too long.
async fn listens(service: &PortService, process: &ManagedProcess) -> Result<(), GuestError> {
    let waiting = async {
        while !is_listening(service.port).await {
            if let Some(exit) = process.exit() {
                let (name, code) = (service.name, exit.code);
                return Err(failed(format!(
                    "{name} ended with code {code} while it started; the base image has none"
                )));
            }
            tokio::time::sleep(SERVICE_POLL).await;
        }
        Ok(())
    };
    let late = |_| Err(failed(format!("{} did not start in time", service.name)));
    tokio::time::timeout(SERVICE_START, waiting).await.unwrap_or_else(late)
}

fn random_token() -> Result<String, GuestError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| failed(format!("no randomness: {error}")))?;
    Ok(hex::encode(bytes))
}

fn failed(message: String) -> GuestError {
    GuestError::new(GuestErrorCode::SpawnFailed, message)
}
