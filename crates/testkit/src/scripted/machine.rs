//! One scripted machine: answers the requests that every guest must answer, and reports the begin and end of its script.

use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use sandyard_pipe::{Framed, Link, PipeStream, join};
use sandyard_protocol::{
    EndReason, EntryHeader, EntryKind, Exit, GuestError, GuestErrorCode, GuestEvent, GuestRequest,
    JobProgress, Reply, Request, Resume, Secret, SequencedEvent,
};
use tokio::io::DuplexStream;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::script::MachineScript;
use super::talk::{FRAMES, Loop};

/// Size of a link's buffer, as much as a Unix socket holds.
const BUFFER_BYTES: usize = 64 * 1024;
/// File in the workspace of every machine.
const WORKSPACE_FILE: (&str, &[u8]) = ("made.txt", b"made by the script");

pub(super) struct ScriptedMachine {
    secret: Secret,
    script: MachineScript,
    link: watch::Sender<Option<Link>>,
    events: watch::Sender<Vec<GuestEvent>>,
    dead: watch::Sender<bool>,
    state: Mutex<ScriptedState>,
}

#[derive(Default)]
struct ScriptedState {
    requests: Vec<Request>,
    tasks: Vec<JoinHandle<()>>,
    begun: bool,
}

impl ScriptedMachine {
    pub(super) fn new(secret: Secret, script: MachineScript) -> Arc<Self> {
        Arc::new(Self {
            secret,
            script,
            link: watch::Sender::new(None),
            events: watch::Sender::new(Vec::new()),
            dead: watch::Sender::new(false),
            state: Mutex::default(),
        })
    }

    pub(super) fn is_alive(&self) -> bool {
        !*self.dead.borrow()
    }

    pub(super) async fn dead(&self) {
        let _ = self.dead.subscribe().wait_for(|dead| *dead).await;
    }

    pub(super) fn requests(&self) -> Vec<Request> {
        self.state().requests.clone()
    }

    pub(super) fn kill(&self) {
        for task in self.state().tasks.drain(..) {
            task.abort();
        }
        self.link.send_replace(None);
        self.dead.send_replace(true);
    }

    /// Returns the host's end of a new link.
    pub(super) fn dial(self: &Arc<Self>) -> DuplexStream {
        let (host, guest) = tokio::io::duplex(BUFFER_BYTES);
        let machine = Arc::clone(self);
        self.spawn(async move { machine.serve(guest).await });
        host
    }

    fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.state().tasks.push(tokio::spawn(work));
    }

    fn state(&self) -> MutexGuard<'_, ScriptedState> {
        self.state.lock()
    }

    async fn serve(self: &Arc<Self>, stream: DuplexStream) {
        let Ok((link, _)) = join(stream, self.secret.expose(), 0).await else { return };
        // As keeper does: the event stream is the first on every link.
        let Ok(events) = link.open().await else { return };
        let mut events = Framed::new(events, FRAMES);
        if events.send_message(&GuestRequest::Events).await.is_err() {
            return;
        }
        self.link.send_replace(Some(link.clone()));
        let machine = Arc::clone(self);
        self.spawn(async move { machine.tell(events).await });
        while let Some(stream) = link.accept().await {
            let machine = Arc::clone(self);
            self.spawn(async move { machine.answer(stream).await });
        }
    }

    /// Serves the event stream: all events that the host lacks, then new ones.
    async fn tell(&self, mut stream: Framed<PipeStream>) {
        let Ok(resume) = stream.receive_message::<Resume>().await else { return };
        let (mut sequence, mut changes) = (resume.next_sequence.max(1), self.events.subscribe());
        let (mut acknowledged, mut sender) = stream.split();
        loop {
            let events: Vec<GuestEvent> = changes.borrow_and_update().clone();
            while let Some(event) = events.get(usize::try_from(sequence - 1).unwrap_or(usize::MAX)) {
                let event = SequencedEvent { sequence, at_ms: 0, event: event.clone() };
                if sender.send_message(&event).await.is_err() {
                    return;
                }
                sequence += 1;
            }
            // Waits for a new event or for the host's end. Acknowledgements are only read, never used;
            // dropping `changed` loses nothing, because the loop reads the newest list.
            tokio::select! {
                _ = changes.changed() => {}
                frame = acknowledged.receive() => if !matches!(frame, Ok(Some(_))) { return },
            }
        }
    }

    async fn answer(self: &Arc<Self>, stream: PipeStream) {
        let mut stream = Framed::new(stream, FRAMES);
        let Ok(request) = stream.receive_message::<Request>().await else { return };
        let reply = match &request {
            Request::BeginJob(_) => {
                self.begin();
                Reply::Job(JobProgress::Running)
            }
            Request::EndJob { reason, .. } => {
                self.end(143, *reason);
                Reply::Job(JobProgress::Running)
            }
            Request::PauseJob | Request::ResumeJob { .. } => Reply::Job(JobProgress::Running),
            Request::LastScreenshot => Reply::Picture { length: 0 },
            Request::WorkspaceChanges => Reply::Changes(Box::default()),
            Request::Ping | Request::Export { .. } => Reply::Done,
            _ => Reply::Failed(GuestError::new(GuestErrorCode::BadRequest, "not in this script")),
        };
        let exports = matches!(request, Request::Export { .. });
        self.state().requests.push(request);
        if stream.send_message(&reply).await.is_ok() && exports {
            export(&mut stream).await;
        }
        let _ = stream.finish().await;
    }

    fn begin(self: &Arc<Self>) {
        if std::mem::replace(&mut self.state().begun, true) {
            return;
        }
        self.events.send_modify(|events| events.push(GuestEvent::Started));
        let machine = Arc::clone(self);
        self.spawn(async move {
            let code = (machine.script)(Loop::new(machine.link.subscribe())).await;
            machine.end(code, EndReason::Own);
        });
    }

    /// Records the end of the job. Only the first end counts.
    fn end(&self, code: i32, reason: EndReason) {
        self.events.send_if_modified(|events| {
            let is_first = !events.iter().any(|event| matches!(event, GuestEvent::Ended { .. }));
            if is_first {
                events.push(GuestEvent::Ended { exit: Exit { code, signal: None, reason } });
            }
            is_first
        });
    }
}

async fn export(stream: &mut Framed<PipeStream>) {
    let (path, bytes) = WORKSPACE_FILE;
    let entry = EntryHeader::Entry {
        path: path.to_owned(),
        kind: EntryKind::File,
        mode: 0o644,
        size: bytes.len() as u64,
        modified_ms: 0,
        target: None,
    };
    // A host that is gone asks again later.
    let _ = stream.send_message(&entry).await;
    let _ = stream.send_data(bytes).await;
    let _ = stream.send_message(&EntryHeader::End { entries: 1, skipped: Vec::new() }).await;
}
