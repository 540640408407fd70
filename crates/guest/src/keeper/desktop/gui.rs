//! Lists of actions for the host: one at a time, each action by a worker, paused while a person has control.

use std::sync::Arc;
use std::time::Duration;

use sandyard_protocol::limits::{GUI_ACTIONS, GUI_WAIT_MS, SCREENSHOT_BYTES, WINDOWS};
use sandyard_protocol::{GuestError, GuestErrorCode, GuiAction, GuiResult, Reply};
use tokio::sync::Mutex;

use super::answer::{DesktopAnswer, internal};
use super::automation::worker::{WorkerOrder, WorkerReport};
use super::control::{ControlLock, controlled};
use super::pool::{DesktopWorker, DesktopWorkerError};
use super::session::DesktopSession;
use crate::keeper::stream::HostStream;
use crate::limits::HOST_STALL;

/// Deadline of an action beyond the time it asks for. The worker gives a script for xdotool two minutes.
const ACTION_DEADLINE: Duration = Duration::from_secs(130);
/// Deadline for noticing the end of an X server.
const SERVER_END_DEADLINE: Duration = Duration::from_secs(2);
/// Deadline of a picture and of each part of it.
const PICTURE_DEADLINE: Duration = Duration::from_secs(20);

/// Serves lists of actions.
pub(super) struct GuiActions {
    session: Arc<DesktopSession>,
    control: ControlLock,
    /// Held by the list that acts: one at a time.
    turn: Mutex<()>,
}

impl GuiActions {
    pub(super) fn new(session: Arc<DesktopSession>, control: ControlLock) -> Self {
        Self { session, control, turn: Mutex::default() }
    }

    /// Serves `Gui`: performs the actions in order and sends a result for each, up to the first that fails.
    pub(super) async fn serve(
        &self,
        actions: &[GuiAction],
        wait_ms: u64,
        mut stream: HostStream,
    ) -> DesktopAnswer {
        if actions.len() > GUI_ACTIONS {
            let message = format!("a list has at most {GUI_ACTIONS} actions");
            return Err((GuestError::new(GuestErrorCode::LimitReached, message), stream));
        }
        let acts = actions.iter().any(|action| !only_looks(action));
        let patience = Duration::from_millis(wait_ms.min(GUI_WAIT_MS));
        if acts && let Err(who) = self.control.free(patience).await {
            return Err((controlled(&who), stream));
        }
        let _turn = if acts { Some(self.turn.lock().await) } else { None };
        let mut worker = match self.ready_worker().await {
            Ok(worker) => worker,
            Err(error) => return Err((error, stream)),
        };
        if stream.send_message(&Reply::Done).await.is_err() {
            return Ok(());
        }
        if self.perform(&mut worker, actions, &mut stream).await == Some(WorkerHealth::Usable) {
            self.session.workers().put_back(worker);
        }
        self.session.last_use().touch();
        let _ = stream.finish().await;
        Ok(())
    }

    /// Returns a worker whose display answers. If the X server has just died and nobody noticed yet, waits for that and starts it again.
    async fn ready_worker(&self) -> Result<DesktopWorker, GuestError> {
        self.session.ensure().await?;
        let mut worker = self.take_worker().await?;
        match worker.obey(&WorkerOrder::Clients, PICTURE_DEADLINE).await {
            Ok(WorkerReport { lost: false, .. }) => {
                if let Ok(None) = worker.next_part(PICTURE_DEADLINE).await {
                    return Ok(worker);
                }
            }
            // A display that is silent now will not speak to the next one.
            Err(error @ DesktopWorkerError::Stalled) => return Err(internal(error.to_string())),
            _ => {}
        }
        drop(worker);
        let mut up = self.session.up();
        let _ = tokio::time::timeout(SERVER_END_DEADLINE, up.wait_for(|up| !up)).await;
        self.session.ensure().await?;
        self.take_worker().await
    }

    async fn take_worker(&self) -> Result<DesktopWorker, GuestError> {
        self.session.workers().take().await.map_err(|error| internal(error.to_string()))
    }

    /// Performs all actions, up to the first that fails. Returns `None` if the host is gone.
    async fn perform(
        &self,
        worker: &mut DesktopWorker,
        actions: &[GuiAction],
        stream: &mut HostStream,
    ) -> Option<WorkerHealth> {
        for action in actions {
            if !only_looks(action)
                && let Err(who) = self.control.free(Duration::from_millis(GUI_WAIT_MS)).await
            {
                send(stream, &failed(format!("{who} took control of the desktop"))).await?;
                return Some(WorkerHealth::Usable);
            }
            self.session.last_use().touch();
            let report = match worker.obey(&WorkerOrder::Act(action.clone()), deadline(action)).await {
                Ok(report) => report,
                Err(error) => {
                    send(stream, &failed(error.to_string())).await?;
                    return Some(WorkerHealth::Broken);
                }
            };
            let WorkerReport { mut result, lost, .. } = report;
            if let Some(windows) = &mut result.windows {
                // The worker runs as the job's user, so the bounds of the protocol are enforced here again.
                windows.truncate(WINDOWS);
            }
            let over = result.error.is_some();
            let announced = result.png_bytes.unwrap_or(0);
            if announced > SCREENSHOT_BYTES {
                send(stream, &failed("the picture is too large".to_owned())).await?;
                return Some(WorkerHealth::Broken);
            }
            send(stream, &result).await?;
            if !relay_picture(worker, announced, stream).await? || lost {
                return Some(WorkerHealth::Broken);
            }
            if over {
                break;
            }
        }
        Some(WorkerHealth::Usable)
    }
}

/// Whether a worker can take another order.
#[derive(PartialEq, Eq)]
enum WorkerHealth {
    Usable,
    Broken,
}

/// Relays exactly the bytes that were announced; false if the worker sent others. Then the stream is dropped in the middle, which shows
/// the host that the answer is incomplete.
async fn relay_picture(worker: &mut DesktopWorker, announced: u64, stream: &mut HostStream) -> Option<bool> {
    let mut left = announced;
    loop {
        match worker.next_part(PICTURE_DEADLINE).await {
            Ok(Some(part)) if part.len() as u64 <= left => {
                left -= part.len() as u64;
                tokio::time::timeout(HOST_STALL, stream.send_data(&part)).await.ok()?.ok()?;
            }
            Ok(None) if left == 0 => return Some(true),
            Ok(_) | Err(DesktopWorkerError::Malformed) => return Some(false),
            Err(_) => return Some(false),
        }
    }
}

async fn send(stream: &mut HostStream, result: &GuiResult) -> Option<()> {
    tokio::time::timeout(HOST_STALL, stream.send_message(result)).await.ok()?.ok()
}

fn failed(message: String) -> GuiResult {
    GuiResult { error: Some(message), ..GuiResult::default() }
}

/// Actions that change nothing on the desktop and go on while a person has control.
fn only_looks(action: &GuiAction) -> bool {
    matches!(
        action,
        GuiAction::Screenshot { .. }
            | GuiAction::Windows
            | GuiAction::Wait { .. }
            | GuiAction::WaitForStable { .. }
    )
}

fn deadline(action: &GuiAction) -> Duration {
    let asked = match action {
        GuiAction::Wait { ms } => *ms,
        GuiAction::WaitForStable { timeout_ms, .. } => *timeout_ms,
        GuiAction::Screenshot { .. } | GuiAction::Windows => return PICTURE_DEADLINE,
        _ => 0,
    };
    ACTION_DEADLINE + Duration::from_millis(asked.min(GUI_WAIT_MS))
}
