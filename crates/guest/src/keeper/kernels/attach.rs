//! A stream on an execution: its output so far and its further output until its end.

use std::sync::Arc;

use sandyard_pipe::{FrameReceiver, FrameSender};
use sandyard_protocol::Reply;

use super::kernel::Execution;
use super::record::{ExecutionRecord, RecordReader};
use crate::keeper::stream::{HostStream, ServedStream};

/// Interrupts an execution when the stream that started it is lost.
struct InterruptGuard<'a>(Option<&'a Execution>);

impl Drop for InterruptGuard<'_> {
    fn drop(&mut self) {
        if let Some(execution) = self.0
            && execution.finished.borrow().is_none()
        {
            execution.unwanted.notify_one();
        }
    }
}

/// Serves one stream until the execution is over and all was sent, or the stream is lost.
pub(super) async fn serve(execution: &Arc<Execution>, mut stream: HostStream, interrupt_on_loss: bool) {
    let Some(record) = execution.record() else { return };
    let _guard = InterruptGuard(interrupt_on_loss.then_some(&**execution));
    if stream.send_message(&Reply::Execution(execution.info.clone())).await.is_err() {
        return;
    }
    let (receiver, sender) = stream.split();
    // A failure ends the stream alone, not the execution. The first branch to end cancels the other: `send` reads from the record,
    // which stays, and `lost` expects no bytes.
    tokio::select! {
        () = send(record, sender) => {}
        () = lost(receiver) => {}
    }
}

async fn send(record: &ExecutionRecord, mut sender: FrameSender<ServedStream>) {
    let Ok(mut reader) = RecordReader::new(record) else { return };
    while let Ok(Some(frame)) = reader.next().await {
        if sender.send_frame(&frame).await.is_err() {
            return;
        }
    }
    let _ = sender.finish().await;
}

/// The host sends nothing more on such a stream: anything that arrives is its end.
async fn lost(mut receiver: FrameReceiver<ServedStream>) {
    let _ = receiver.receive().await;
}
