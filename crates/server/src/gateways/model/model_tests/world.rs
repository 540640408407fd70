//! A gateway between a sandbox on one side and a fake provider on the other, and a log that keeps every word.

use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::json;
use tokio::io::DuplexStream;
use tracing::field::{Field, Visit};
use tracing::span;

use sandyard_pipe::{Frame, FrameLimits, Framed};
use sandyard_protocol::{
    ContextPart, JournalEntry, ModelMessage, ModelPart, ToolCall, ToolResult, ToolSpec, limits,
};

use super::super::provider::gather;
use super::super::*;
use super::fake::{FakeAnswer, FakeProvider, FakeWire, KEY};

/// A sandbox's end of a stream.
pub(super) type SandboxClient = Framed<DuplexStream>;

pub(super) const BOTH: [FakeWire; 2] = [FakeWire::OpenAi, FakeWire::Anthropic];

pub(super) struct ModelWorld {
    pub(super) fake: Arc<FakeProvider>,
    pub(super) gateway: Arc<ModelGateway>,
    pub(super) told: mpsc::Receiver<ModelReport>,
    pub(super) ledger: Arc<MemoryLedger>,
}

/// A journal in memory that holds answers only.
#[derive(Debug, Default)]
pub(super) struct MemoryLedger {
    pub(super) answers: Mutex<Vec<(u64, KeptAnswer)>>,
    /// What was spent with the last one.
    pub(super) spent: Mutex<Spent>,
    /// Calls that were about to leave.
    pub(super) asked: Mutex<Vec<OutgoingCall>>,
}

#[async_trait::async_trait]
impl Ledger for MemoryLedger {
    async fn kept(&self, number: u64) -> Result<Option<(u64, KeptAnswer)>, LedgerError> {
        Ok(self.answers.lock().unwrap().iter().find(|(kept, _)| *kept == number).cloned())
    }

    async fn record_outgoing(&self, call: OutgoingCall) -> Result<(), LedgerError> {
        self.asked.lock().unwrap().push(call);
        Ok(())
    }

    async fn keep_packing(&self, _: &[ContextPart]) -> Result<(), LedgerError> {
        Ok(())
    }

    async fn keep(&self, answer: JournalEntry, spent: Spent, _: Option<Money>) -> Result<u64, LedgerError> {
        let JournalEntry::Answer { text, calls, stop, usage, .. } = answer else { return Err(LedgerError) };
        let mut answers = self.answers.lock().unwrap();
        let number = answers.last().map_or(1, |(last, _)| last + 1);
        answers.push((number, KeptAnswer { text, calls, stop, usage }));
        *self.spent.lock().unwrap() = spent;
        Ok(number)
    }
}

pub(super) fn timeouts() -> ProviderTimeouts {
    ProviderTimeouts {
        queue: Duration::from_secs(5),
        connect: Duration::from_secs(2),
        first_byte: Duration::from_millis(500),
        idle: Duration::from_millis(500),
        whole: Duration::from_secs(60),
        attempts: 3,
        trouble: Duration::from_secs(60),
        backoff: Duration::from_millis(5),
        longest_wait: Duration::from_secs(2),
    }
}

pub(super) fn spec(kind: FakeWire) -> &'static str {
    match kind {
        FakeWire::OpenAi => "openai/gpt-4o",
        FakeWire::Anthropic => "anthropic/claude-sonnet-4-5",
    }
}

/// The models of a yard whose provider is at `base_url`.
pub(super) fn models(kind: FakeWire, base_url: &str) -> Models {
    models_with(kind, base_url, timeouts())
}

pub(super) fn models_with(kind: FakeWire, base_url: &str, timeouts: ProviderTimeouts) -> Models {
    let provider = spec(kind).split('/').next().unwrap();
    let config = ModelConfig {
        default: Some(spec(kind).parse().unwrap()),
        keys: [(provider.to_owned(), ApiKey::new(KEY).unwrap())].into(),
        base_urls: [(provider.to_owned(), base_url.to_owned())].into(),
        calls_at_once: 1,
        timeouts,
        ..ModelConfig::default()
    };
    Models::new(&config).unwrap()
}

impl ModelWorld {
    pub(super) async fn new(kind: FakeWire, plays: Vec<FakeAnswer>) -> Self {
        Self::with(kind, plays, BudgetLimits::default(), None).await
    }

    pub(super) async fn with_timeouts(
        kind: FakeWire,
        plays: Vec<FakeAnswer>,
        timeouts: ProviderTimeouts,
    ) -> Self {
        let world = Self::new(kind, plays).await;
        let model = models_with(kind, &world.fake.base_url, timeouts).find(None).unwrap();
        let (sender, told) = mpsc::channel(1024);
        Self { gateway: lone_gateway(model, sender), told, ..world }
    }

    pub(super) async fn with(
        kind: FakeWire,
        plays: Vec<FakeAnswer>,
        limits: BudgetLimits,
        recorder: Option<AnswerRecorder>,
    ) -> Self {
        let fake = FakeProvider::start(kind, plays).await;
        let model = models(kind, &fake.base_url).find(None).unwrap();
        // Room for the words of the longest answer: these tests do not record them while they come.
        let (sender, told) = mpsc::channel(1024);
        let budget = ModelBudget::new(limits, Spent::default());
        let ledger = Arc::new(MemoryLedger::default());
        let gateway = ModelGateway::new(ModelGatewayParts {
            models: vec![model],
            budget,
            ledger: ledger.clone(),
            recorder: recorder.map(Arc::new),
            reports: sender,
        });
        Self { fake, gateway, told, ledger }
    }

    /// A stream that a sandbox has opened.
    pub(super) fn open(&self) -> SandboxClient {
        open(&self.gateway)
    }

    /// Asks, and hears all of it.
    pub(super) async fn ask(&self, call: &ModelCall) -> Vec<ModelEvent> {
        let mut client = self.open();
        client.send_message(call).await.unwrap();
        hear(&mut client).await
    }

    /// Asks, and gets no answer.
    pub(super) async fn fail(&self, call: &ModelCall) -> ModelFailure {
        match self.ask(call).await.pop() {
            Some(ModelEvent::Failed(failure)) => failure,
            other => panic!("{other:?}"),
        }
    }

    pub(super) async fn next_told(&mut self) -> ModelCallEnd {
        loop {
            let told = timeout(Duration::from_secs(5), self.told.recv()).await.unwrap().unwrap();
            if let ModelReport::Call(called) = told {
                return called.end;
            }
        }
    }
}

/// A gateway with a journal of its own and no limits.
pub(super) fn lone_gateway(model: Arc<Model>, told: mpsc::Sender<ModelReport>) -> Arc<ModelGateway> {
    ModelGateway::new(ModelGatewayParts {
        models: vec![model],
        budget: ModelBudget::new(BudgetLimits::default(), Spent::default()),
        ledger: Arc::new(MemoryLedger::default()),
        recorder: None,
        reports: told,
    })
}

pub(super) fn open(gateway: &Arc<ModelGateway>) -> SandboxClient {
    let (client, server) = tokio::io::duplex(64 * 1024);
    let gateway = Arc::clone(gateway);
    tokio::spawn(async move { gateway.serve(server).await });
    let limits = FrameLimits {
        message_bytes: limits::MODEL_EVENT_BYTES,
        sent_message_bytes: 2 * limits::MODEL_CALL_BYTES,
        data_bytes: 100,
    };
    Framed::new(client, limits)
}

/// Everything up to the end of the stream but the journal number; the words between two calls as one.
pub(super) async fn hear(client: &mut SandboxClient) -> Vec<ModelEvent> {
    let mut events = Vec::new();
    while let Some(Frame::Message(message)) =
        timeout(Duration::from_secs(60), client.receive()).await.expect("an answer in time").unwrap()
    {
        let event = serde_json::from_slice(&message).unwrap();
        if !matches!(event, ModelEvent::Kept { .. }) {
            gather(&mut events, event);
        }
    }
    events
}

/// A conversation with all that there is: words, a picture, calls that went well and not, and results.
pub(super) fn question() -> ModelCall {
    let text = |text: &str| ModelPart::Text { text: text.into() };
    let call = |id: &str, arguments: &str| ToolCall {
        id: id.into(),
        name: "shell".into(),
        arguments: arguments.into(),
    };
    let result = |call: &str, parts| ToolResult { call: call.into(), parts, failed: false };
    // Each is another turn of the conversation, or it would be answered from the journal.
    static NUMBER: AtomicU64 = AtomicU64::new(1_000_000);
    ModelCall {
        number: NUMBER.fetch_add(1, Ordering::Relaxed),
        model: None,
        system: "Be brief.".into(),
        messages: vec![
            ModelMessage::User { parts: vec![text("hello")] },
            ModelMessage::Assistant {
                text: String::new(),
                calls: vec![call("a", "{\"x\":1}"), call("b", "oops")],
            },
            ModelMessage::Tools {
                results: vec![
                    result("a", vec![text("done"), ModelPart::Png { base64: "cGljdHVyZQ==".into() }]),
                    result("b", vec![]),
                ],
            },
        ],
        tools: vec![ToolSpec {
            name: "shell".into(),
            description: "Runs a command.".into(),
            parameters: json!({ "type": "object" }),
        }],
        max_tokens: 1000,
        packing: Vec::new(),
    }
}

/// Keeps everything that is logged on this thread.
#[derive(Debug, Clone, Default)]
pub(super) struct LogCapture(pub(super) Arc<Mutex<String>>);

impl tracing::Subscriber for LogCapture {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, attributes: &span::Attributes<'_>) -> span::Id {
        attributes.record(&mut self.clone());
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, values: &span::Record<'_>) {
        values.record(&mut self.clone());
    }

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        event.record(&mut self.clone());
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

impl Visit for LogCapture {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        writeln!(self.0.lock().unwrap(), "{field}: {value:?}").unwrap();
    }
}
