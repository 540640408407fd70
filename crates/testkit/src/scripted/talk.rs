//! A script's side of the link: journal streams and model calls, with messages of the protocol or any other bytes.

use sandyard_pipe::{Frame, FrameError, FrameLimits, Framed, Link, PipeStream};
use sandyard_protocol::{
    DeskReply, DeskRequest, GuestRequest, JournalEntry, JournalRow, ModelCall, ModelEvent, ModelMessage,
    ModelPart, TaskFacts, limits,
};
use tokio::sync::watch;

/// Limits of frames, generous because the host must reject messages that are too long.
pub(super) const FRAMES: FrameLimits = FrameLimits {
    message_bytes: limits::DESK_MESSAGE_BYTES,
    sent_message_bytes: 64 * 1024 * 1024,
    data_bytes: limits::DATA_BYTES,
};

/// A script's connection to the host.
pub struct Loop {
    link: watch::Receiver<Option<Link>>,
}

/// An open journal stream.
pub struct OpenDesk {
    /// Facts about the task, as the host describes it.
    pub facts: TaskFacts,
    /// Journal entries so far, oldest first.
    pub journal: Vec<JournalRow>,
    stream: Framed<PipeStream>,
}

impl Loop {
    pub(super) fn new(link: watch::Receiver<Option<Link>>) -> Self {
        Self { link }
    }

    /// Opens a stream for that purpose, once there is a link.
    pub async fn open(&mut self, purpose: &GuestRequest) -> Framed<PipeStream> {
        loop {
            let link = self.link.wait_for(Option::is_some).await.ok().and_then(|link| link.clone());
            if let Some(link) = link
                && let Ok(stream) = link.open().await
            {
                let mut stream = Framed::new(stream, FRAMES);
                if stream.send_message(purpose).await.is_ok() {
                    return stream;
                }
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }

    /// Opens the journal stream and reads the journal so far.
    pub async fn desk(&mut self) -> Result<OpenDesk, FrameError> {
        let mut stream = self.open(&GuestRequest::Desk).await;
        stream.send_message(&DeskRequest::Open { loop_version: "script".into() }).await?;
        let DeskReply::Opened(facts) = stream.receive_message().await? else {
            return Err(FrameError::Malformed("not opened".into()));
        };
        let mut desk = OpenDesk { facts: *facts, journal: Vec::new(), stream };
        for _ in 0..desk.facts.entries {
            let DeskReply::Entry(row) = desk.hear().await? else {
                return Err(FrameError::Malformed("not an entry".into()));
            };
            desk.journal.push(row);
        }
        Ok(desk)
    }

    /// Asks the model for the answer with that number, and returns the whole answer.
    pub async fn ask(&mut self, number: u64) -> Vec<ModelEvent> {
        self.call(&question(number, None)).await
    }

    /// Makes a call and returns all events of the answer.
    pub async fn call(&mut self, call: &ModelCall) -> Vec<ModelEvent> {
        let mut stream = self.open(&GuestRequest::Model).await;
        let mut heard = Vec::new();
        if stream.send_message(call).await.is_ok() {
            while let Ok(Some(Frame::Message(json))) = stream.receive().await {
                heard.extend(serde_json::from_slice::<ModelEvent>(&json));
            }
        }
        heard
    }
}

impl OpenDesk {
    /// Waits for the host's next message.
    pub async fn hear(&mut self) -> Result<DeskReply, FrameError> {
        self.stream.receive_message().await
    }

    /// Sends a request to the journal service.
    pub async fn say(&mut self, request: &DeskRequest) -> Result<(), FrameError> {
        self.stream.send_message(request).await
    }

    /// Adds an entry and returns the answer. Messages in between go to the journal.
    pub async fn append(&mut self, number: u64, entry: JournalEntry) -> Result<DeskReply, FrameError> {
        self.say(&DeskRequest::Append { number, entry, kept: Vec::new() }).await?;
        loop {
            match self.hear().await? {
                DeskReply::Said(row) => self.journal.push(row),
                reply => return Ok(reply),
            }
        }
    }

    /// Waits for a message of a person.
    pub async fn said(&mut self) -> Result<JournalRow, FrameError> {
        loop {
            if let DeskReply::Said(row) = self.hear().await? {
                return Ok(row);
            }
        }
    }
}

/// Creates a call with a single message.
pub fn question(number: u64, model: Option<&str>) -> ModelCall {
    let parts = vec![ModelPart::Text { text: "What now?".into() }];
    ModelCall {
        number,
        model: model.map(str::to_owned),
        system: "You are a script.".into(),
        messages: vec![ModelMessage::User { parts }],
        tools: Vec::new(),
        max_tokens: 1000,
        packing: Vec::new(),
    }
}
