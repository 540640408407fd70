//! Recall: passages of everything that a job has seen, each with a citation that was checked against the store.
//!
//! The truth are the rows of the journal and the texts behind them (`texts`). The index is held by a reader, a confined process
//! (`session`), which gets the job's sources (`sources`) and answers with places; `citation` reads what stands there. An index is a
//! cache: its folder may be deleted at any time. Few readers are kept; one that nobody asks is ended.

mod call_memory;
mod citation;
mod session;
mod sources;
mod texts;
mod versions;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sandyard_memory::messages::MemoryQuestion;
use sandyard_memory::{RecallScope, SourceOrigin};
use sandyard_protocol::ErrorChain;
use tokio::time::Instant;

pub(crate) use call_memory::CallMemory;
pub use citation::{RecalledPassage, RecalledPassages, RecalledPlace};
pub(crate) use session::RecallError;
pub(crate) use sources::PACKING_PATH;
pub(crate) use texts::{KeepTextError, KeptTexts, PlainText, TextOwner, TextRoom};
pub use versions::FileVersions;

use self::citation::cite;
use self::session::MemorySession;
use self::sources::{JobSources, StoredSourceCache};
use crate::disk;
use crate::job::{JobId, JobRow};
use crate::store::{Store, StoreError};

/// Readers that are kept at once. Each takes some ten to eighty megabytes.
const MAX_READERS: usize = 4;
/// A reader that was not asked for this long is ended. Its index is in its folder.
const IDLE_TIME: Duration = Duration::from_secs(300);

/// A reader of one job; `None` while there is none. The lock is held for one question.
type SharedSession = Arc<tokio::sync::Mutex<Option<MemorySession>>>;

struct HeldSession {
    job: JobId,
    session: SharedSession,
    used: Instant,
}

/// A question to the memory of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecallQuery {
    /// The question, in words or as an identifier or error message.
    pub text: String,
    /// Passages wanted.
    pub count: usize,
    /// Which sources may answer.
    pub scope: RecallScope,
}

/// Answers questions about jobs.
pub(crate) struct RecallService {
    /// The program that holds indexes; without it nothing is recalled.
    program: Option<&'static [u8]>,
    folder: PathBuf,
    sources: JobSources,
    sessions: Mutex<Vec<HeldSession>>,
}

impl RecallService {
    /// A service whose indexes are below `folder`.
    pub(crate) fn new(
        program: Option<&'static [u8]>,
        folder: PathBuf,
        store: Arc<dyn Store>,
        texts: KeptTexts,
    ) -> Arc<Self> {
        let sources = JobSources { store, texts };
        Arc::new(Self { program, folder, sources, sessions: Mutex::default() })
    }

    /// The texts behind journals.
    pub(crate) fn texts(&self) -> &KeptTexts {
        &self.sources.texts
    }

    /// Finds passages. `None` if this server has no reader.
    pub(crate) async fn recall(
        self: &Arc<Self>,
        row: &JobRow,
        query: &RecallQuery,
    ) -> Result<Option<RecalledPassages>, RecallError> {
        let Some(program) = self.program else { return Ok(None) };
        let shared = self.session(&row.id);
        let mut held = shared.lock().await;
        let mut found = self.ask(program, &mut held, row, query).await;
        if let Err(error) = &found
            && !matches!(error, RecallError::Store(_))
        {
            // A text that ends the reader ends it again only if it is the parser's fault; a damaged index is made again.
            tracing::warn!(job = %row.id, error = %ErrorChain(error), "the index is made again");
            *held = None;
            self.remove_index(&row.id).await;
            found = self.ask(program, &mut held, row, query).await;
        }
        if found.is_err() {
            *held = None;
        }
        drop(held);
        self.end_idle_later();
        found.map(Some)
    }

    /// Returns versions of a file, newest first.
    pub(crate) async fn versions(
        &self,
        row: &JobRow,
        versions: &FileVersions,
    ) -> Result<RecalledPassages, StoreError> {
        self.sources.versions(row, versions).await
    }

    async fn ask(
        &self,
        program: &'static [u8],
        held: &mut Option<MemorySession>,
        row: &JobRow,
        query: &RecallQuery,
    ) -> Result<RecalledPassages, RecallError> {
        let session = match held {
            Some(session) => session,
            None => {
                let folder = self.folder.join(row.id.as_str());
                let made = folder.clone();
                disk::blocking(move || disk::make_folder(&made)).await.map_err(RecallError::Folder)?;
                held.insert(MemorySession::start(program, &folder).await?)
            }
        };
        session.catch_up(&self.sources, row).await?;
        let RecallQuery { text, count, scope } = query.clone();
        let found = session.find(MemoryQuestion { text, count, scope }).await?;
        let rebuilt = std::mem::take(&mut session.rebuilt);
        session.save().await?;
        let answer = cite(&mut StoredSourceCache::new(&self.sources, row), found, query.count).await?;
        Ok(RecalledPassages { rebuilt, ..answer })
    }

    /// The session of a job. Makes room for it by letting go of those that were not asked for longest.
    fn session(&self, job: &JobId) -> SharedSession {
        let mut sessions = self.sessions.lock();
        let now = Instant::now();
        if let Some(held) = sessions.iter_mut().find(|held| held.job == *job) {
            held.used = now;
            return Arc::clone(&held.session);
        }
        sessions.sort_by_key(|held| std::cmp::Reverse(held.used));
        let mut kept = 0;
        sessions.retain(|held| {
            kept += 1;
            // One that is being asked stays: a second reader can't open its index.
            kept < MAX_READERS || Arc::strong_count(&held.session) > 1
        });
        let session = SharedSession::default();
        sessions.push(HeldSession { job: job.clone(), session: Arc::clone(&session), used: now });
        session
    }

    fn end_idle_later(self: &Arc<Self>) {
        let service = Arc::downgrade(self);
        tokio::spawn(async move {
            tokio::time::sleep(IDLE_TIME).await;
            if let Some(service) = service.upgrade() {
                let is_asked = |held: &HeldSession| Arc::strong_count(&held.session) > 1;
                let is_used = |held: &HeldSession| held.used.elapsed() < IDLE_TIME;
                service.sessions.lock().retain(|held| is_used(held) || is_asked(held));
            }
        });
    }

    /// Forgets a job that is being deleted: its index goes.
    pub(crate) async fn forget(&self, job: &JobId) {
        let held = {
            let mut sessions = self.sessions.lock();
            let place = sessions.iter().position(|held| held.job == *job);
            place.map(|place| sessions.swap_remove(place))
        };
        if let Some(held) = held {
            // Waits for a question under way, whose reader may write to the folder.
            *held.session.lock().await = None;
        }
        self.remove_index(job).await;
    }

    async fn remove_index(&self, job: &JobId) {
        let folder = self.folder.join(job.as_str());
        if let Err(error) = disk::blocking(move || disk::remove_tree(&folder)).await {
            tracing::warn!(%job, %error, "an index could not be removed");
        }
    }
}

/// The word for an origin in queries and answers.
pub fn origin_word(origin: SourceOrigin) -> &'static str {
    match origin {
        SourceOrigin::Person => "person",
        SourceOrigin::Model => "model",
        SourceOrigin::Call => "call",
        SourceOrigin::Result => "result",
        SourceOrigin::File => "file",
        SourceOrigin::Cell => "cell",
        SourceOrigin::Note => "note",
    }
}
