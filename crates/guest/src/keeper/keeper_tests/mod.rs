//! Keeper in this process, over an in-memory link, with real processes of this system: what the host sees.

mod agent;
mod job;
mod kernels;
mod output;
mod processes;
mod services;

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use sandyard_pipe::{Frame, FrameLimits, Framed, HostOffer, Link, PipeStream, welcome};
use sandyard_protocol::limits::{DATA_BYTES, REQUEST_BYTES};
use sandyard_protocol::{
    Ack, BeginJob, EndReason, Exit, GuestEvent, GuestRequest, JobProgress, JobWork, OutputChunk,
    OutputOffsets, OutputStream, Reply, Request, Resume, Secret, SequencedEvent,
};
use tokio::io::DuplexStream;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;

use super::agent::AgentPlace;
use super::{Dial, KeeperConfig, KeeperError, run};
use crate::process_host::ProcessHost;
use crate::process_host::local::LocalProcesses;

const SECRET: [u8; 32] = [7; 32];
const DEADLINE: Duration = Duration::from_secs(60);

/// Hands the other half of each in-memory stream to the test, which says when another server took over.
struct TestDial {
    dialled: mpsc::UnboundedSender<DuplexStream>,
    replaced: Arc<Notify>,
}

#[async_trait]
impl Dial for TestDial {
    type Stream = DuplexStream;

    async fn dial(&mut self) -> io::Result<DuplexStream> {
        let (guest, host) = tokio::io::duplex(256 * 1024);
        self.dialled.send(host).map_err(|_| io::Error::from(io::ErrorKind::ConnectionRefused))?;
        Ok(guest)
    }

    async fn replaced(&mut self) {
        self.replaced.notified().await;
    }
}

/// A machine whose keeper can be killed and started again.
struct TestMachine {
    folder: tempfile::TempDir,
    processes: Arc<LocalProcesses>,
    dialled: mpsc::UnboundedReceiver<DuplexStream>,
    keeper: Option<JoinHandle<KeeperError>>,
    epoch: u64,
    replaced: Arc<Notify>,
}

impl TestMachine {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["workspace", "spool", "scripts"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let (_, dialled) = mpsc::unbounded_channel();
        let mut machine = Self {
            folder,
            processes: Arc::default(),
            dialled,
            keeper: None,
            epoch: 1,
            replaced: Arc::default(),
        };
        machine.start_keeper();
        machine
    }

    fn workspace(&self) -> PathBuf {
        self.folder.path().join("workspace")
    }

    fn start_keeper(&mut self) {
        let (sender, dialled) = mpsc::unbounded_channel();
        self.dialled = dialled;
        // What a test puts there is found before anything of this system.
        let path = format!("{}:{}", self.folder.path().display(), std::env::var("PATH").unwrap());
        let config = KeeperConfig {
            egress: None,
            secret: Secret::new(SECRET),
            spool: self.folder.path().join("spool"),
            scripts: self.folder.path().join("scripts"),
            workspace: self.workspace(),
            env: BTreeMap::from([("PATH".to_owned(), path)]),
            desktop: None,
            agent: Some(AgentPlace {
                socket: self.folder.path().join("agent.sock"),
                uid: rustix::process::geteuid().as_raw(),
            }),
        };
        self.keeper = Some(tokio::spawn(run(
            config,
            self.processes.clone(),
            TestDial { dialled: sender, replaced: self.replaced.clone() },
        )));
    }

    /// As kill -9 would: nothing gets a chance to say goodbye.
    async fn kill_keeper(&mut self) {
        let keeper = self.keeper.take().unwrap();
        keeper.abort();
        assert!(keeper.await.unwrap_err().is_cancelled());
    }

    async fn link(&mut self) -> Link {
        within(async {
            loop {
                let stream = self.dialled.recv().await.unwrap();
                let offer =
                    HostOffer { sandbox: "test".into(), secret: SECRET, epoch: self.epoch, unix_ms: 0 };
                if let Ok(link) = welcome(stream, offer).await {
                    return link;
                }
            }
        })
        .await
    }

    /// A link with the event stream taken.
    async fn host(&mut self) -> TestHost {
        let link = self.link().await;
        let events = within(link.accept()).await.unwrap();
        TestHost { link, events: Framed::new(events, limits()) }
    }
}

impl Drop for TestMachine {
    fn drop(&mut self) {
        let processes = self.processes.clone();
        if let Some(keeper) = &self.keeper {
            keeper.abort();
        }
        // The runtime may be going down: ask in the one way that does not need it.
        let _ = futures_util::FutureExt::now_or_never(processes.kill_everything());
    }
}

fn limits() -> FrameLimits {
    FrameLimits { message_bytes: REQUEST_BYTES, sent_message_bytes: REQUEST_BYTES, data_bytes: DATA_BYTES }
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, future).await.expect("deadline")
}

/// The host's end of one link.
struct TestHost {
    link: Link,
    events: Framed<PipeStream>,
}

impl TestHost {
    /// Sends a request; its answer and the stream.
    async fn ask(&self, request: &Request) -> (Reply, Framed<PipeStream>) {
        within(async {
            let mut stream = Framed::new(self.link.open().await.unwrap(), limits());
            stream.send_message(request).await.unwrap();
            (stream.receive_message().await.unwrap(), stream)
        })
        .await
    }

    async fn begin(&self, begin: BeginJob) -> JobProgress {
        match self.ask(&Request::BeginJob(begin)).await.0 {
            Reply::Job(progress) => progress,
            other => panic!("{other:?}"),
        }
    }

    /// Follows events and output into `record` until the job's end, acknowledging everything.
    async fn follow(&mut self, record: &mut HostRecord) -> Exit {
        within(async {
            self.resume(record).await;
            loop {
                if let Some(exit) = record.exit() {
                    return exit;
                }
                self.follow_one(record).await;
            }
        })
        .await
    }

    async fn resume(&mut self, record: &HostRecord) {
        assert_eq!(self.events.receive_message::<GuestRequest>().await.unwrap(), GuestRequest::Events);
        let resume = Resume { next_sequence: record.events.len() as u64 + 1, output: record.offsets() };
        self.events.send_message(&resume).await.unwrap();
    }

    /// Takes one frame of the event stream and acknowledges it; the exit if it was the end.
    async fn follow_one(&mut self, record: &mut HostRecord) -> Option<Exit> {
        let frame = self.events.receive().await.unwrap().expect("the event stream ended");
        record.take(frame);
        let ack = Ack { sequence: record.events.len() as u64, output: record.offsets() };
        self.events.send_message(&ack).await.unwrap();
        record.exit()
    }
}

/// What the host's store would hold. Asserts what the store relies on.
#[derive(Default)]
struct HostRecord {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    events: Vec<SequencedEvent>,
}

impl HostRecord {
    fn offsets(&self) -> OutputOffsets {
        OutputOffsets { stdout: self.stdout.len() as u64, stderr: self.stderr.len() as u64 }
    }

    fn take(&mut self, frame: Frame) {
        match frame {
            Frame::Data(data) => {
                let chunk = OutputChunk::decode(data).unwrap();
                let kept = match chunk.stream {
                    OutputStream::Stdout => &mut self.stdout,
                    OutputStream::Stderr => &mut self.stderr,
                };
                assert_eq!(chunk.offset, kept.len() as u64, "a gap or a repeat");
                kept.extend_from_slice(&chunk.bytes);
            }
            Frame::Message(message) => {
                let event: SequencedEvent = serde_json::from_slice(&message).unwrap();
                assert_eq!(event.sequence, self.events.len() as u64 + 1);
                let ended = self.events.iter().any(|event| matches!(event.event, GuestEvent::Ended { .. }));
                assert!(
                    !ended || matches!(event.event, GuestEvent::KeeperRestarted),
                    "{event:?} after the end"
                );
                self.events.push(event);
            }
        }
    }

    fn exit(&self) -> Option<Exit> {
        self.events.iter().find_map(|event| match event.event {
            GuestEvent::Ended { exit } => Some(exit),
            _ => None,
        })
    }

    fn kinds(&self) -> Vec<&'static str> {
        let kind = |event: &SequencedEvent| match event.event {
            GuestEvent::Started => "started",
            GuestEvent::Ended { .. } => "ended",
            GuestEvent::KeeperRestarted => "restarted",
            GuestEvent::Note { .. } => "note",
        };
        self.events.iter().map(kind).collect()
    }
}

fn shell(code: &str) -> BeginJob {
    BeginJob {
        work: JobWork::Shell { code: code.into() },
        env: BTreeMap::new(),
        timeout_ms: 60_000,
        idle_timeout_ms: None,
        trust: None,
        keep: false,
    }
}

fn own(code: i32) -> Exit {
    Exit { code, signal: None, reason: EndReason::Own }
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// All frames up to the end of a stream.
async fn rest(stream: &mut Framed<PipeStream>) -> Vec<Frame> {
    within(async {
        let mut frames = Vec::new();
        while let Some(frame) = stream.receive().await.unwrap() {
            frames.push(frame);
        }
        frames
    })
    .await
}

fn data(frames: Vec<Frame>) -> Vec<u8> {
    let payload = |frame| match frame {
        Frame::Data(bytes) => bytes,
        Frame::Message(_) => Bytes::new(),
    };
    frames.into_iter().map(payload).collect::<Vec<_>>().concat()
}
