//! Lists of actions for the host: one at a time, each action by a worker, paused while a person has control.

use std::sync::Arc;
use std::time::Duration;

use sandyard_protocol::limits::{GUI_ACTIONS, GUI_WAIT_MS, SCREENSHOT_BYTES, WINDOWS};
use sandyard_protocol::{GuestError, GuestErrorCode, GuiAction, GuiResult, Reply};

use super::hands::worker::{Order, Report};
use super::session;
use super::viewers::controlled;
use super::workers::{Worker, WorkerError};
use super::{Served, internal};
use crate::keeper::Keeper;
use crate::keeper::limits::HOST_STALL;
use crate::keeper::link::HostStream;

/// What an action may take beside the time it asks for: a script for xdotool is given two minutes by its worker.
const PATIENCE: Duration = Duration::from_secs(130);
/// How long the end of an X server takes to be told.
const DEATH_PATIENCE: Duration = Duration::from_secs(2);
/// A picture is made and sent at once.
const PART_PATIENCE: Duration = Duration::from_secs(20);

/// Serves `Gui`.
pub(super) async fn serve(
    keeper: &Arc<Keeper>,
    actions: &[GuiAction],
    wait_ms: u64,
    mut stream: HostStream,
) -> Served {
    if actions.len() > GUI_ACTIONS {
        let message = format!("a list has at most {GUI_ACTIONS} actions");
        return Err((GuestError::new(GuestErrorCode::LimitReached, message), stream));
    }
    let acts = actions.iter().any(|action| !only_looks(action));
    let patience = Duration::from_millis(wait_ms.min(GUI_WAIT_MS));
    if acts && let Err(who) = keeper.desktop.control.free(patience).await {
        return Err((controlled(&who), stream));
    }
    let _turn = if acts { Some(keeper.desktop.turn.lock().await) } else { None };
    let mut worker = match ready_worker(keeper).await {
        Ok(worker) => worker,
        Err(error) => return Err((error, stream)),
    };
    if stream.send_message(&Reply::Done).await.is_err() {
        return Ok(());
    }
    if perform(keeper, &mut worker, actions, &mut stream).await == Some(Usable::Yes) {
        keeper.desktop.workers.put_back(keeper, worker);
    }
    keeper.desktop.used.now();
    let _ = stream.finish().await;
    Ok(())
}

/// A worker with a display that answers. The death of the last one may not have been told yet: then there is another.
async fn ready_worker(keeper: &Arc<Keeper>) -> Result<Worker, GuestError> {
    session::ensure(keeper).await?;
    let mut worker = take_worker(keeper).await?;
    if let Ok(Report { lost: false, .. }) = worker.obey(&Order::Clients, PART_PATIENCE).await
        && let Ok(None) = worker.next_part(PART_PATIENCE).await
    {
        return Ok(worker);
    }
    drop(worker);
    let mut up = keeper.desktop.up.subscribe();
    let _ = tokio::time::timeout(DEATH_PATIENCE, up.wait_for(|up| !up)).await;
    session::ensure(keeper).await?;
    take_worker(keeper).await
}

async fn take_worker(keeper: &Arc<Keeper>) -> Result<Worker, GuestError> {
    keeper.desktop.workers.take(keeper).await.map_err(|error| internal(error.to_string()))
}

/// Whether a worker can take another order.
#[derive(PartialEq, Eq)]
enum Usable {
    Yes,
    No,
}

/// All actions, up to the first that fails. `None` if the host is gone.
async fn perform(
    keeper: &Keeper,
    worker: &mut Worker,
    actions: &[GuiAction],
    stream: &mut HostStream,
) -> Option<Usable> {
    for action in actions {
        if !only_looks(action)
            && let Err(who) = keeper.desktop.control.free(Duration::from_millis(GUI_WAIT_MS)).await
        {
            send(stream, &failed(format!("{who} took control of the desktop"))).await?;
            return Some(Usable::Yes);
        }
        keeper.desktop.used.now();
        let report = match worker.obey(&Order::Act(action.clone()), patience(action)).await {
            Ok(report) => report,
            Err(error) => {
                send(stream, &failed(error.to_string())).await?;
                return Some(Usable::No);
            }
        };
        let Report { mut result, lost, .. } = report;
        if let Some(windows) = &mut result.windows {
            windows.truncate(WINDOWS);
        }
        let over = result.error.is_some();
        let announced = result.png_bytes.unwrap_or(0);
        if announced > SCREENSHOT_BYTES {
            send(stream, &failed("the picture is too large".to_owned())).await?;
            return Some(Usable::No);
        }
        send(stream, &result).await?;
        if !relay_picture(worker, announced, stream).await? || lost {
            return Some(Usable::No);
        }
        if over {
            break;
        }
    }
    Some(Usable::Yes)
}

/// Exactly the bytes that were announced; false if the worker sent others. Then the stream is dropped in the middle, which the
/// host takes for what it is.
async fn relay_picture(worker: &mut Worker, announced: u64, stream: &mut HostStream) -> Option<bool> {
    let mut left = announced;
    loop {
        match worker.next_part(PART_PATIENCE).await {
            Ok(Some(part)) if part.len() as u64 <= left => {
                left -= part.len() as u64;
                tokio::time::timeout(HOST_STALL, stream.send_data(&part)).await.ok()?.ok()?;
            }
            Ok(None) if left == 0 => return Some(true),
            Ok(_) | Err(WorkerError::Malformed) => return Some(false),
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

fn patience(action: &GuiAction) -> Duration {
    let asked = match action {
        GuiAction::Wait { ms } => *ms,
        GuiAction::WaitForStable { timeout_ms, .. } => *timeout_ms,
        GuiAction::Screenshot { .. } | GuiAction::Windows => return PART_PATIENCE,
        _ => 0,
    };
    PATIENCE + Duration::from_millis(asked.min(GUI_WAIT_MS))
}
