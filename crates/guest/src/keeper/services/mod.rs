//! Services that start when somebody first connects to their port: a table of ports and what belongs there.
//!
//! A connect to such a port starts the service if it does not run, waits until it listens, and tells the host what requests to
//! it must carry. The process is the job's user's like any other; what the job itself runs on that port is left alone. A
//! service that died is started again by the next connect. What runs is on disk, so the next keeper knows it.

mod lab;

use std::collections::BTreeMap;
use std::sync::Arc;

use sandyard_protocol::{GuestError, GuestErrorCode, ProcessId, StartProcess};
use serde::{Deserialize, Serialize};
use tokio::net::TcpStream;
use tokio::sync::{Mutex, oneshot};

use super::processes::{self, Process};
use super::spool::{Spool, SpoolError};
use super::{Keeper, ports, scripts};
use crate::limits::{SERVICE_POLL, SERVICE_START};

const DOCUMENT: &str = "services.json";

/// What belongs on a port.
struct Service {
    /// For people.
    name: &'static str,
    port: u16,
    /// What starts it, by file name: written where the job can read it and not change it.
    script: (&'static str, &'static str),
    /// How to run the script, with the token it is to ask for.
    start: fn(script: &str, token: &str) -> StartProcess,
    /// What a request carries as `Authorization`.
    authorization: fn(token: &str) -> String,
}

const SERVICES: [Service; 1] = [lab::LAB];

/// The services that run.
#[derive(Debug)]
pub(super) struct Services(Mutex<BTreeMap<u16, Running>>);

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Running {
    process: ProcessId,
    token: String,
}

impl Services {
    /// What the keeper before had started.
    pub(super) fn open(spool: &Spool) -> Result<Self, SpoolError> {
        Ok(Self(Mutex::new(spool.load(DOCUMENT)?.unwrap_or_default())))
    }
}

/// Makes sure that the service of a port runs; what its requests must carry. `None` if no service belongs there, or the job has
/// a program of its own on it.
pub(super) async fn ready(keeper: &Arc<Keeper>, port: u16) -> Result<Option<String>, GuestError> {
    let Some(service) = SERVICES.iter().find(|service| service.port == port) else { return Ok(None) };
    // In a task of keeper's own: a client that loses patience must not leave a service that nobody knows.
    let (answer, answered) = oneshot::channel();
    let owner = keeper.clone();
    keeper.tasks.spawn(async move { drop(answer.send(run(&owner, service).await)) });
    answered.await.unwrap_or_else(|_| Err(failed("keeper is stopping".to_owned())))
}

/// A service that was thought to run may just have died: then it is started after all.
async fn run(keeper: &Arc<Keeper>, service: &Service) -> Result<Option<String>, GuestError> {
    loop {
        let Some((process, token, from)) = started(keeper, service).await? else { return Ok(None) };
        match (listens(service, &process).await, from) {
            (Ok(()), _) => return Ok(Some((service.authorization)(&token))),
            (Err(_), From::Before) if process.exit().is_some() => {}
            (Err(error), _) => return Err(error),
        }
    }
}

/// When a service was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum From {
    Before,
    Now,
}

/// The process of a service and its token; `None` if the job has something of its own on the port. One at a time, so that two
/// clients never start two.
async fn started(
    keeper: &Arc<Keeper>,
    service: &Service,
) -> Result<Option<(Arc<Process>, String, From)>, GuestError> {
    let mut running = keeper.services.0.lock().await;
    if let Some(known) = running.get(&service.port)
        && let Some(process) =
            keeper.processes.find(&known.process).filter(|process| process.exit().is_none())
    {
        return Ok(Some((process, known.token.clone(), From::Before)));
    }
    if is_listening(service.port).await {
        return Ok(None);
    }
    let token = random_token()?;
    let script = scripts::write(keeper, service.script.0, service.script.1)
        .map_err(|error| failed(format!("write the script of {}: {error}", service.name)))?;
    let process = processes::start(keeper, (service.start)(&script.to_string_lossy(), &token)).await?;
    running.insert(service.port, Running { process: process.id().clone(), token: token.clone() });
    keeper.stop_on(keeper.spool.store(DOCUMENT, &*running));
    Ok(Some((process, token, From::Now)))
}

/// Waits until a service listens; an error if it ended instead, or takes too long.
async fn listens(service: &Service, process: &Process) -> Result<(), GuestError> {
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

async fn is_listening(port: u16) -> bool {
    ports::connect(port).await.map(|_: TcpStream| ()).is_ok()
}

fn random_token() -> Result<String, GuestError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| failed(format!("no randomness: {error}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn failed(message: String) -> GuestError {
    GuestError::new(GuestErrorCode::SpawnFailed, message)
}
