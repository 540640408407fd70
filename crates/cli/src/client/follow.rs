//! Following a job's events to its end, across lost connections and restarted servers.
//!
//! Events are numbered without gaps, so after a lost connection we ask for those after the last one we passed on:
//! nothing is shown twice and nothing is left out.

use std::time::Duration;

use sandyard_api::{EventBody, JobEvent, JobState};
use tokio::time::Instant;

use super::{Client, ClientError, SseFrame, SseReader};

/// How long a server may be away before we give up; a restart takes seconds.
const PATIENCE: Duration = Duration::from_secs(60);
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// What following yields.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Followed {
    /// Something happened.
    Event(Box<JobEvent>),
    /// The connection is lost; we go on trying.
    Lost,
    /// The connection is there again.
    Back,
    /// The job has ended; nothing more comes.
    Ended(JobState),
}

/// A job being followed.
pub(crate) struct Follow {
    client: Client,
    job: String,
    after: u64,
    reader: Option<SseReader>,
    last_state: Option<JobState>,
    away_since: Option<Instant>,
    told: bool,
    pause: Duration,
}

impl Follow {
    /// Follows from the first event on.
    pub(crate) fn new(client: Client, job: &str) -> Self {
        Self {
            client,
            job: job.to_owned(),
            after: 0,
            reader: None,
            last_state: None,
            away_since: None,
            told: false,
            pause: FIRST_PAUSE,
        }
    }

    /// The next thing. May be cancelled at any time without losing an event.
    pub(crate) async fn next(&mut self) -> Result<Followed, ClientError> {
        loop {
            if let Some(state) = self.last_state.filter(|state| state.is_terminal()) {
                return Ok(Followed::Ended(state));
            }
            let Some(reader) = &mut self.reader else {
                if let Some(news) = self.connect().await? {
                    return Ok(news);
                }
                continue;
            };
            match reader.next().await {
                Ok(Some(frame)) => {
                    if let Some(event) = self.accept(&frame) {
                        return Ok(Followed::Event(Box::new(event)));
                    }
                }
                Ok(None) | Err(ClientError::Lost(_)) => self.reader = None,
                Err(error) => return Err(error),
            }
        }
    }

    /// Tries once; `Some` is worth telling.
    async fn connect(&mut self) -> Result<Option<Followed>, ClientError> {
        match self.client.events(&self.job, self.after).await {
            Ok(reader) => {
                self.reader = Some(reader);
                self.away_since = None;
                Ok(std::mem::take(&mut self.told).then_some(Followed::Back))
            }
            Err(error) if error.is_transient() && self.may_wait() => {
                tokio::time::sleep(self.pause).await;
                self.pause = (self.pause * 2).min(LONGEST_PAUSE);
                Ok((!std::mem::replace(&mut self.told, true)).then_some(Followed::Lost))
            }
            Err(error) => Err(error),
        }
    }

    fn may_wait(&mut self) -> bool {
        let now = Instant::now();
        now.duration_since(*self.away_since.get_or_insert(now)) < PATIENCE
    }

    /// An event we know and have not seen; kinds of a newer server are passed over.
    fn accept(&mut self, frame: &SseFrame) -> Option<JobEvent> {
        let id = frame.id?;
        if id <= self.after {
            return None;
        }
        self.after = id;
        self.pause = FIRST_PAUSE;
        let mut event: JobEvent = serde_json::from_str(&frame.data).ok()?;
        event.id = id;
        if let EventBody::State { state, .. } = &event.body {
            self.last_state = Some(*state);
        }
        Some(event)
    }
}
