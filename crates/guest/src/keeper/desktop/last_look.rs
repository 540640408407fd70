//! The last picture of a desktop: taken before everything in the machine is killed, kept on keeper's disk for the host.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use sandyard_protocol::limits::DATA_BYTES;
use sandyard_protocol::{GuiAction, Reply};

use super::hands::worker::Order;
use super::session;
use super::{Served, internal};
use crate::keeper::Keeper;
use crate::keeper::link::HostStream;

const FILE: &str = "desktop.png";
/// What the end of a job waits for a picture.
const PATIENCE: Duration = Duration::from_secs(3);
/// A part of keeper's disk; desktops are far below, noise is not worth more.
const MOST_BYTES: u64 = 8 * 1024 * 1024;

/// Takes it, if a desktop runs. A failure costs the picture and nothing else.
pub(in crate::keeper) async fn last_look(keeper: &Arc<Keeper>) {
    if session::is_up(keeper).await {
        let _ = tokio::time::timeout(PATIENCE, take(keeper)).await;
    }
}

async fn take(keeper: &Arc<Keeper>) -> Option<()> {
    let mut worker = keeper.desktop.workers.take(keeper).await.ok()?;
    let order = Order::Act(GuiAction::Screenshot { window: None });
    let length =
        worker.obey(&order, PATIENCE).await.ok()?.result.png_bytes.filter(|length| *length <= MOST_BYTES)?;
    let mut png = Vec::new();
    while let Some(part) = worker.next_part(PATIENCE).await.ok()? {
        if png.len() as u64 + part.len() as u64 > length {
            return None;
        }
        png.extend_from_slice(&part);
    }
    let path = keeper.config.spool.join(FILE);
    let mut file = std::fs::File::create(&path).ok()?;
    if file.write_all(&png).is_err() {
        let _ = std::fs::remove_file(&path);
    }
    keeper.desktop.workers.put_back(keeper, worker);
    Some(())
}

/// Serves `LastScreenshot`: the screen now if a desktop runs, else the last picture there is.
pub(super) async fn serve(keeper: &Arc<Keeper>, mut stream: HostStream) -> Served {
    // After the end the picture is there, and whoever looked again would start a desktop to look at.
    if !keeper.job.is_over() {
        last_look(keeper).await;
    }
    let png = match std::fs::read(keeper.config.spool.join(FILE)) {
        Ok(png) => png,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err((internal(format!("read the last picture: {error}")), stream)),
    };
    if stream.send_message(&Reply::Picture { length: png.len() as u64 }).await.is_err() {
        return Ok(());
    }
    for part in png.chunks(DATA_BYTES) {
        if stream.send_data(part).await.is_err() {
            return Ok(());
        }
    }
    let _ = stream.finish().await;
    Ok(())
}
