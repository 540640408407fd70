//! A stream on an execution: everything it brought from its beginning, and what it brings until its end.

use std::sync::Arc;

use sandyard_pipe::{FrameReceiver, FrameSender};
use sandyard_protocol::Reply;

use super::kernel::Execution;
use super::record::{Reader, Record};
use crate::keeper::link::{HostStream, ServedStream};

/// Interrupts an execution when the stream that asked for it is lost.
struct Guard<'a>(Option<&'a Execution>);

impl Drop for Guard<'_> {
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
    let _guard = Guard(interrupt_on_loss.then_some(&**execution));
    if stream.send_message(&Reply::Execution(execution.info.clone())).await.is_err() {
        return;
    }
    let (receiver, sender) = stream.split();
    // Whatever goes wrong on the stream ends the stream alone.
    tokio::select! {
        () = send(record, sender) => {}
        () = lost(receiver) => {}
    }
}

async fn send(record: &Record, mut sender: FrameSender<ServedStream>) {
    let Ok(mut reader) = Reader::new(record) else { return };
    while let Ok(Some(frame)) = reader.next().await {
        if sender.send_frame(&frame).await.is_err() {
            return;
        }
    }
    let _ = sender.finish().await;
}

/// The host says nothing more on such a stream: whatever comes is its end.
async fn lost(mut receiver: FrameReceiver<ServedStream>) {
    let _ = receiver.receive().await;
}
