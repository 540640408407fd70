//! A whole world for a loop, in process: keeper's socket with a machine that counts what it is asked to do, and the host's desk
//! and model behind it, both with the contract of `sandyard_protocol`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use sandyard_pipe::{Frame, FrameLimits, Framed};
use sandyard_protocol::limits::{DATA_BYTES, MODEL_CALL_BYTES};
use sandyard_protocol::{
    AgentRequest, DeskRefusal, DeskReply, DeskRequest, EndReason, Exit, FileStat, GuestError, GuestErrorCode,
    JournalEntry, JournalPassage, JournalPassages, JournalQuestion, JournalRow, KeptText, ModelCall,
    ModelEvent, ModelFacts, ModelFailure, ModelUsage, OutputChunk, OutputOffsets, OutputStream, ProcessEvent,
    ProcessId, ProcessInfo, Reply, Request, Speaker, StopReason, TaskBudget, TaskFacts, TaskSpent, ToolCall,
};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;

type Stream = Framed<UnixStream>;

const LIMITS: FrameLimits = FrameLimits {
    message_bytes: 2 * MODEL_CALL_BYTES,
    sent_message_bytes: 2 * MODEL_CALL_BYTES,
    data_bytes: DATA_BYTES,
};

/// One answer of the scripted model, made from what it is shown.
pub(crate) type Script = dyn Fn(&ModelCall) -> Result<Answer, ModelFailure> + Send + Sync;

/// What the scripted model says.
#[derive(Debug, Clone, Default)]
pub(crate) struct Answer {
    pub(crate) text: String,
    pub(crate) calls: Vec<(&'static str, String)>,
    pub(crate) stop: Option<StopReason>,
    pub(crate) input_tokens: u64,
}

/// Everything behind keeper's socket.
pub(crate) struct World {
    pub(crate) state: Mutex<State>,
    script: Box<Script>,
    changed: watch::Sender<u64>,
    folder: tempfile::TempDir,
    pub(crate) facts: ModelFacts,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) journal: Vec<JournalRow>,
    /// Commands that the machine ran, in order.
    pub(crate) ran: Vec<String>,
    pub(crate) running: Vec<ProcessInfo>,
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    /// What the model was asked, in order.
    pub(crate) asked: Vec<ModelCall>,
    /// Texts that were kept behind entries.
    pub(crate) kept: Vec<(KeptText, Vec<u8>)>,
    /// What the loop asked the memory.
    pub(crate) questions: Vec<JournalQuestion>,
    /// The answer of the memory; `None` for a host without one.
    pub(crate) passages: Option<Vec<JournalPassage>>,
    pub(crate) incarnation: u32,
    pub(crate) budget: TaskBudget,
    /// Calls of the desk after which its connection is cut, as a lost link would.
    pub(crate) cut_desk_after: Option<usize>,
    /// Pretends that the connection is lost after a command began.
    pub(crate) most_at_once: usize,
    pub(crate) at_once: usize,
}

impl World {
    /// A world with a task.
    pub(crate) fn new(
        task: &str,
        script: impl Fn(&ModelCall) -> Result<Answer, ModelFailure> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Self::with_journal(vec![JournalEntry::Task { text: task.into() }], Box::new(script))
    }

    /// A world whose job has come so far.
    pub(crate) fn with_journal(entries: Vec<JournalEntry>, script: Box<Script>) -> Arc<Self> {
        let world = Arc::new(Self {
            state: Mutex::new(State { incarnation: 1, ..State::default() }),
            script,
            changed: watch::Sender::new(0),
            folder: tempfile::tempdir().unwrap(),
            facts: ModelFacts {
                name: "script".into(),
                replay: false,
                sees: true,
                window_tokens: 100_000,
                max_output_tokens: 4000,
            },
        });
        for entry in entries {
            world.state().add(entry);
        }
        let listener = UnixListener::bind(world.socket()).unwrap();
        let owner = Arc::downgrade(&world);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let Some(world) = owner.upgrade() else { return };
                tokio::spawn(async move {
                    let _ = world.serve(Framed::new(stream, LIMITS)).await;
                });
            }
        });
        world
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("agent.sock")
    }

    /// Runs a loop to its end.
    pub(crate) async fn work(&self) -> sandyard_agent::AgentEnd {
        let work = sandyard_agent::run(self.socket());
        tokio::time::timeout(Duration::from_secs(60), work).await.expect("the loop ends")
    }

    /// Adds words of a person to the journal and wakes the journal service.
    pub(crate) fn say(&self, text: &str) {
        self.state().add(JournalEntry::Said { text: text.into(), by: Speaker::Person, budget: None });
        self.changed.send_modify(|count| *count += 1);
    }

    /// Waits for something in the journal.
    pub(crate) async fn until(&self, what: impl Fn(&[JournalRow]) -> bool) {
        let wait = async {
            while !what(&self.state().journal) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), wait).await.expect("it comes to pass");
    }

    pub(crate) fn entries(&self) -> Vec<JournalEntry> {
        self.state().journal.iter().map(|row| row.entry.clone()).collect()
    }

    async fn serve(self: Arc<Self>, mut stream: Stream) -> Option<()> {
        match stream.receive_message().await.ok()? {
            AgentRequest::Desk => self.desk(stream).await,
            AgentRequest::Model => self.model(stream).await,
            AgentRequest::Tool(request) => self.tool(request, stream).await,
        }
    }

    async fn desk(self: Arc<Self>, mut stream: Stream) -> Option<()> {
        let mut changed = self.changed.subscribe();
        let mut told = 0;
        loop {
            // Requests of the loop, and words of people once the journal is open. Cancelling `receive_message` loses no bytes, and the
            // watch remembers its change.
            let request = tokio::select! {
                request = stream.receive_message::<DeskRequest>() => request.ok()?,
                _ = changed.changed(), if told > 0 => {
                    self.push_said(&mut stream, &mut told).await?;
                    continue;
                }
            };
            if told > 0 {
                self.push_said(&mut stream, &mut told).await?;
            }
            let mut cut = false;
            if let Some(left) = &mut self.state().cut_desk_after {
                cut = *left == 0;
                *left = left.saturating_sub(1);
            }
            match request {
                DeskRequest::Open { .. } => {
                    let rows = self.state().journal.clone();
                    told = rows.len();
                    let facts = self.facts_now(rows.len() as u64);
                    stream.send_message(&DeskReply::Opened(Box::new(facts))).await.ok()?;
                    for row in rows {
                        stream.send_message(&DeskReply::Entry(row)).await.ok()?;
                    }
                }
                DeskRequest::Append { number, entry, kept } => {
                    self.receive_texts(&mut stream, &kept).await?;
                    let reply = self.append(number, entry);
                    if cut {
                        self.state().cut_desk_after = None;
                        return None;
                    }
                    self.push_said(&mut stream, &mut told).await?;
                    told = self.state().journal.len();
                    stream.send_message(&reply).await.ok()?;
                }
                DeskRequest::Read { question: Some(question), .. } => {
                    let recalled = Some(Box::new(self.recall(*question)));
                    stream.send_message(&DeskReply::Reading { entries: 0, recalled }).await.ok()?;
                }
                DeskRequest::Read { first, count, question: None } => {
                    let rows: Vec<JournalRow> = {
                        let state = self.state();
                        let from = usize::try_from(first - 1).unwrap();
                        state
                            .journal
                            .iter()
                            .skip(from)
                            .take(usize::try_from(count).unwrap())
                            .cloned()
                            .collect()
                    };
                    stream
                        .send_message(&DeskReply::Reading { entries: rows.len() as u64, recalled: None })
                        .await
                        .ok()?;
                    for row in rows {
                        stream.send_message(&DeskReply::Entry(row)).await.ok()?;
                    }
                }
            }
        }
    }

    /// Receives the texts of an entry, which a host that keeps texts must read.
    async fn receive_texts(&self, stream: &mut Stream, kept: &[KeptText]) -> Option<()> {
        for text in kept {
            let mut bytes = Vec::new();
            while (bytes.len() as u64) < text.bytes {
                match stream.receive().await.ok()?? {
                    Frame::Data(data) => bytes.extend_from_slice(&data),
                    Frame::Message(_) => return None,
                }
            }
            self.state().kept.push((text.clone(), bytes));
        }
        Some(())
    }

    /// Answers with the passages of the script, as a host with a reader would; without one as a host without.
    fn recall(&self, question: JournalQuestion) -> JournalPassages {
        let mut state = self.state();
        let passages = state.passages.clone();
        state.questions.push(question);
        JournalPassages { failed: passages.is_none(), passages: passages.unwrap_or_default() }
    }

    async fn push_said(&self, stream: &mut Stream, told: &mut usize) -> Option<()> {
        let news: Vec<JournalRow> = self.state().journal.iter().skip(*told).cloned().collect();
        *told += news.len();
        for row in news.into_iter().filter(|row| matches!(row.entry, JournalEntry::Said { .. })) {
            stream.send_message(&DeskReply::Said(row)).await.ok()?;
        }
        Some(())
    }

    fn facts_now(&self, entries: u64) -> TaskFacts {
        let state = self.state();
        TaskFacts {
            task: "task".into(),
            model: self.facts.clone(),
            budget: state.budget,
            spent: TaskSpent::default(),
            incarnation: state.incarnation,
            entries,
            keeps_texts: true,
        }
    }

    /// The contract of `Append`: after any `said`, once, and never in another's place.
    fn append(&self, number: u64, entry: JournalEntry) -> DeskReply {
        let mut state = self.state();
        let from = usize::try_from(number - 1).unwrap();
        let place = (from..state.journal.len())
            .find(|place| !matches!(state.journal[*place].entry, JournalEntry::Said { .. }))
            .unwrap_or(state.journal.len().max(from));
        if place == state.journal.len() {
            let number = state.add(entry);
            return DeskReply::Appended { number };
        }
        if place < state.journal.len() && state.journal[place].entry == entry {
            return DeskReply::Appended { number: state.journal[place].number };
        }
        DeskReply::Refused { code: DeskRefusal::NumberTaken, message: "taken".into() }
    }

    async fn model(self: Arc<Self>, mut stream: Stream) -> Option<()> {
        let call: ModelCall = stream.receive_message().await.ok()?;
        let kept = {
            let state = self.state();
            let from = usize::try_from(call.number - 1).unwrap();
            state
                .journal
                .iter()
                .skip(from)
                .find(|row| matches!(row.entry, JournalEntry::Answer { .. }))
                .cloned()
        };
        let row = match kept {
            Some(row) => row,
            None => {
                self.state().asked.push(call.clone());
                match (self.script)(&call) {
                    Ok(answer) => self.keep_answer(answer),
                    Err(failure) => {
                        stream.send_message(&ModelEvent::Failed(failure)).await.ok()?;
                        return Some(());
                    }
                }
            }
        };
        let JournalEntry::Answer { text, calls, stop, usage, .. } = row.entry else { return None };
        stream.send_message(&ModelEvent::Text { text }).await.ok()?;
        for call in calls {
            stream.send_message(&ModelEvent::Call(call)).await.ok()?;
        }
        stream.send_message(&ModelEvent::Kept { number: row.number }).await.ok()?;
        stream.send_message(&ModelEvent::Done { stop, usage }).await.ok()
    }

    fn keep_answer(&self, answer: Answer) -> JournalRow {
        let mut state = self.state();
        let number = state.journal.len() + 1;
        let call = |(index, (name, arguments)): (usize, &(&str, String))| ToolCall {
            id: format!("call-{number}-{index}"),
            name: (*name).to_owned(),
            arguments: arguments.clone(),
        };
        let calls: Vec<ToolCall> = answer.calls.iter().enumerate().map(call).collect();
        let stop = answer.stop.unwrap_or(if calls.is_empty() { StopReason::End } else { StopReason::Calls });
        let usage = ModelUsage { input: answer.input_tokens, ..ModelUsage::default() };
        state.add(JournalEntry::Answer { model: "script".into(), text: answer.text, calls, stop, usage });
        state.journal.last().cloned().unwrap()
    }

    async fn tool(self: Arc<Self>, request: Request, mut stream: Stream) -> Option<()> {
        match request {
            Request::StartProcess(start) => {
                let command = start.argv.last().cloned().unwrap_or_default();
                let info = self.begin_process(&command, start.argv);
                stream.send_message(&Reply::Process(info.clone())).await.ok()?;
                let outcome = self.run(&command).await;
                self.end_process(&info.id);
                let (output, code) = outcome?;
                let mut offset = 0;
                for part in output.as_bytes().chunks(DATA_BYTES / 2) {
                    let bytes = part.to_vec().into();
                    let chunk = OutputChunk { stream: OutputStream::Stdout, offset, bytes };
                    stream.send_data(&chunk.encode()).await.ok()?;
                    offset += part.len() as u64;
                }
                let exit = Exit { code, signal: None, reason: EndReason::Own };
                stream.send_message(&ProcessEvent::Exited(exit)).await.ok()
            }
            Request::ListProcesses => {
                let list = self.state().running.clone();
                stream.send_message(&Reply::Processes(list)).await.ok()
            }
            Request::Write { path, size, .. } => {
                let mut content = Vec::new();
                while (content.len() as u64) < size {
                    match stream.receive().await.ok()?? {
                        sandyard_pipe::Frame::Data(data) => content.extend_from_slice(&data),
                        sandyard_pipe::Frame::Message(_) => return None,
                    }
                }
                self.state().ran.push(format!("write {path}"));
                self.state().files.insert(path, content);
                stream.send_message(&Reply::Stat(stat(size))).await.ok()
            }
            Request::Stat { path } => {
                let found = self.state().files.get(&path).map(|content| stat(content.len() as u64));
                stream.send_message(&found.map_or_else(not_found, Reply::Stat)).await.ok()
            }
            Request::Read { path, .. } => {
                let Some(content) = self.state().files.get(&path).cloned() else {
                    return stream.send_message(&not_found()).await.ok();
                };
                let length = content.len() as u64;
                stream.send_message(&Reply::Content { stat: stat(length), length }).await.ok()?;
                stream.send_data(&content).await.ok()
            }
            _ => stream.send_message(&not_found()).await.ok(),
        }
    }

    fn begin_process(&self, command: &str, argv: Vec<String>) -> ProcessInfo {
        let mut state = self.state();
        state.ran.push(command.to_owned());
        state.at_once += 1;
        state.most_at_once = state.most_at_once.max(state.at_once);
        let id = ProcessId(format!("p1-{}", state.ran.len()));
        let (terminal, output) = (false, OutputOffsets::default());
        let info = ProcessInfo { id, pid: 7, argv, exit: None, terminal, output, repeated: false };
        state.running.push(info.clone());
        info
    }

    fn end_process(&self, id: &ProcessId) {
        let mut state = self.state();
        state.at_once -= 1;
        state.running.retain(|info| info.id != *id);
    }

    /// A few commands that this machine knows.
    async fn run(&self, command: &str) -> Option<(String, i32)> {
        match command.split_once(' ').unwrap_or((command, "")) {
            ("sleep", ms) => tokio::time::sleep(Duration::from_millis(ms.parse().unwrap())).await,
            ("hang", _) => std::future::pending::<()>().await,
            ("false", _) => return Some(("no".into(), 1)),
            ("yes", count) => return Some(("y\n".repeat(count.parse().unwrap()), 0)),
            _ => {}
        }
        Some((format!("did {command}\n"), 0))
    }
}

impl State {
    pub(crate) fn add(&mut self, entry: JournalEntry) -> u64 {
        let number = self.journal.len() as u64 + 1;
        self.journal.push(JournalRow { number, at_ms: 0, incarnation: self.incarnation, entry });
        number
    }
}

fn stat(size: u64) -> FileStat {
    FileStat { kind: sandyard_protocol::EntryKind::File, size, mode: 0o644, modified_ms: 0, target: None }
}

fn not_found() -> Reply {
    Reply::Failed(GuestError::new(GuestErrorCode::NotFound, "there is no such thing"))
}

/// A shell command as a call.
pub(crate) fn shell(command: &str) -> (&'static str, String) {
    ("shell", serde_json::json!({ "command": command }).to_string())
}

/// A call that finishes the task.
pub(crate) fn finish() -> (&'static str, String) {
    ("finish", r#"{"summary":"done"}"#.to_owned())
}

/// Which answer is asked for, from 0.
pub(crate) fn turn(call: &ModelCall) -> usize {
    call.messages
        .iter()
        .filter(|message| matches!(message, sandyard_protocol::ModelMessage::Assistant { .. }))
        .count()
}
