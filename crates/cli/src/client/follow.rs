//! Follows the events of a job to its end, across lost connections and restarted servers.
//!
//! Events are numbered without gaps, so after a lost connection the client requests those after the last one it returned:
//! nothing is returned twice and nothing is lost.

use sandyard_api::{EventBody, JobEvent, JobState, SseFrame};

use super::patience::RetryPatience;
use super::{ApiClient, ClientError, SseReader};

/// One observation while following a job.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum FollowUpdate {
    /// An event of the job.
    Event(Box<JobEvent>),
    /// The connection is lost; the follower retries.
    Lost,
    /// The connection works again.
    Back,
    /// The job has ended. The last observation.
    Ended(JobState),
}

/// Follows the events of one job.
pub(crate) struct Follow {
    client: ApiClient,
    job: String,
    after: u64,
    reader: Option<SseReader>,
    last_state: Option<JobState>,
    patience: RetryPatience,
    /// True until the first connection of one who wants only what happens from now on.
    from_now: bool,
}

impl Follow {
    /// Follows a job from its first event on.
    pub(crate) fn new(client: ApiClient, job: &str) -> Self {
        Self {
            client,
            job: job.to_owned(),
            after: 0,
            reader: None,
            last_state: None,
            patience: RetryPatience::default(),
            from_now: false,
        }
    }

    /// Follows a job from now on. It must not have ended.
    pub(crate) fn from_now(client: ApiClient, job: &str) -> Self {
        Self { from_now: true, ..Self::new(client, job) }
    }

    /// Returns the next observation. May be cancelled at any time without losing an event.
    pub(crate) async fn next(&mut self) -> Result<FollowUpdate, ClientError> {
        loop {
            if let Some(state) = self.last_state.filter(|state| state.is_terminal()) {
                return Ok(FollowUpdate::Ended(state));
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
                        return Ok(FollowUpdate::Event(Box::new(event)));
                    }
                }
                // The next turn connects again and asks for the events after the last one, so an event cut in
                // half comes again whole.
                Ok(None) | Err(ClientError::Lost(_)) => self.reader = None,
                Err(error) => return Err(error),
            }
        }
    }

    /// Tries to connect once; `Some` is an observation for the caller.
    async fn connect(&mut self) -> Result<Option<FollowUpdate>, ClientError> {
        let tail = self.from_now.then_some(0);
        match self.client.events(&self.job, self.after, tail).await {
            Ok(reader) => {
                // Later connections ask for what follows the last event; until there is one, from now on again.
                self.from_now &= self.after == 0;
                self.reader = Some(reader);
                Ok(self.patience.connected().then_some(FollowUpdate::Back))
            }
            Err(error) if error.is_transient() && self.patience.lasts() => {
                Ok(self.patience.pause().await.then_some(FollowUpdate::Lost))
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the event of a frame if it is new. Unknown kinds, of a newer server, are skipped.
    fn accept(&mut self, frame: &SseFrame) -> Option<JobEvent> {
        let id = frame.id?;
        if id <= self.after {
            return None;
        }
        // Before the event is parsed: an unknown event of a newer server must not be requested again without
        // end.
        self.after = id;
        self.patience.progressed();
        let mut event: JobEvent = serde_json::from_str(&frame.data).ok()?;
        event.id = id;
        if let EventBody::State { state, .. } = &event.body {
            self.last_state = Some(*state);
        }
        Some(event)
    }
}
