//! The last picture of a desktop: taken before every process of the machine is killed, kept on keeper's disk for the host.

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sandyard_protocol::limits::DATA_BYTES;
use sandyard_protocol::{GuiAction, Reply};

use super::answer::{DesktopAnswer, internal};
use super::automation::worker::WorkerOrder;
use super::session::DesktopSession;
use crate::keeper::job::state::MachineJob;
use crate::keeper::processes::EndObserver;
use crate::keeper::spool::Spool;
use crate::keeper::stream::HostStream;

const FILE: &str = "desktop.png";
/// How long the end of a job waits for the picture.
const PICTURE_DEADLINE: Duration = Duration::from_secs(3);
/// A part of keeper's disk. Pictures of desktops are far below; noise is not worth more.
const MAX_PICTURE_BYTES: u64 = 8 * 1024 * 1024;

/// Takes and serves the last picture.
pub(in crate::keeper) struct LastPicture {
    session: Arc<DesktopSession>,
    spool: Arc<Spool>,
    job: Arc<MachineJob>,
}

#[async_trait]
impl EndObserver for LastPicture {
    /// Takes the picture, if a desktop runs. A failure costs the picture and nothing else.
    async fn before_end(&self) {
        if self.session.is_up().await {
            let _ = tokio::time::timeout(PICTURE_DEADLINE, self.take()).await;
        }
    }
}

impl LastPicture {
    pub(super) fn new(session: Arc<DesktopSession>, spool: Arc<Spool>, job: Arc<MachineJob>) -> Self {
        Self { session, spool, job }
    }

    fn path(&self) -> PathBuf {
        self.spool.path(FILE)
    }

    async fn take(&self) -> Option<()> {
        let mut worker = self.session.workers().take().await.ok()?;
        let order = WorkerOrder::Act(GuiAction::Screenshot { window: None });
        let report = worker.obey(&order, PICTURE_DEADLINE).await.ok()?;
        let png = worker.picture(report.result.png_bytes?, MAX_PICTURE_BYTES, PICTURE_DEADLINE).await?;
        let path = self.path();
        let mut file = std::fs::File::create(&path).ok()?;
        if file.write_all(&png).is_err() {
            let _ = std::fs::remove_file(&path);
        }
        self.session.workers().put_back(worker);
        Some(())
    }

    /// Serves `LastScreenshot`: the screen now if a desktop runs, else the last picture.
    pub(super) async fn serve(&self, mut stream: HostStream) -> DesktopAnswer {
        // After the job's end the picture is there. A new one would need a desktop, and start it.
        if !self.job.is_over() {
            self.before_end().await;
        }
        let png = match std::fs::read(self.path()) {
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
}
