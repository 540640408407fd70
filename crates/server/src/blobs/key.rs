//! Names of blobs: a job and one of a few nouns. No other text becomes part of a name, so none can lead out of its job.
//!
//! A new noun is a variant of [`BlobNoun`], its name in `Display`, and an entry in `parse`.

use std::fmt;

use sandyard_memory::ContentDigest;
use sandyard_protocol::OutputStream;

use crate::job::JobId;

/// The name of one blob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BlobKey {
    pub(crate) job: JobId,
    pub(crate) noun: BlobNoun,
}

/// A blob among those of its job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlobNoun {
    /// The text of the request, for people who look into the folder.
    RequestText,
    /// The zip of the workspace and of the host's files.
    ResultArchive,
    /// The last picture of the desktop, a PNG.
    LastScreenshot,
    /// A picture of the recording of the desktop, a PNG. Numbered from 1.
    Frame(u64),
    /// The explanation of the result with its pictures, as JSON.
    Explanation,
    /// The workspace before the job began, as a pack of git's.
    StartPack,
    /// The id of the tree in that pack. Stored after the pack, so its presence shows that the pack is complete.
    StartTree,
    /// The whole output of a stream, once the job has ended.
    Log(OutputStream),
    /// One chunk of a stream that is too large for the store.
    Chunk(OutputStream, u64),
    /// A text behind the journal that is too large for the store, packed.
    Text(ContentDigest),
}

/// A set of blobs that are listed or removed together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BlobScope {
    /// Everything of a job.
    Job(JobId),
    /// The start tree of a job.
    Start(JobId),
    /// The large chunks of a stream.
    Chunks(JobId, OutputStream),
}

impl BlobKey {
    pub(crate) fn new(job: &JobId, noun: BlobNoun) -> Self {
        Self { job: job.clone(), noun }
    }

    /// Returns the key as a relative name with slashes, `<job>/logs/stdout/7`. It does not depend on the kind of storage.
    pub(crate) fn name(&self) -> String {
        format!("{}/{}", self.job, self.noun)
    }

    /// The key of that name; `None` for names that no key has.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let (job, noun) = name.split_once('/')?;
        Some(Self { job: JobId::parse(job)?, noun: BlobNoun::parse(noun)? })
    }
}

impl BlobNoun {
    fn parse(text: &str) -> Option<Self> {
        let fixed = [
            Self::RequestText,
            Self::ResultArchive,
            Self::LastScreenshot,
            Self::Explanation,
            Self::StartPack,
            Self::StartTree,
            Self::Log(OutputStream::Stdout),
            Self::Log(OutputStream::Stderr),
        ];
        if let Some(noun) = fixed.into_iter().find(|noun| noun.to_string() == text) {
            return Some(noun);
        }
        if let Some(digest) = text.strip_prefix("texts/") {
            return digest.parse().ok().map(Self::Text);
        }
        let noun = match text.strip_prefix("frames/").and_then(|name| name.strip_suffix(".png")) {
            Some(number) => Self::Frame(number.parse().ok()?),
            None => {
                let (stream, number) = text.strip_prefix("logs/")?.split_once('/')?;
                let stream = [OutputStream::Stdout, OutputStream::Stderr]
                    .into_iter()
                    .find(|candidate| stream_name(*candidate) == stream)?;
                Self::Chunk(stream, number.parse().ok()?)
            }
        };
        // `+7` and `007` are numbers, but not the names of chunks or frames.
        (noun.to_string() == text).then_some(noun)
    }
}

impl fmt::Display for BlobNoun {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RequestText => formatter.write_str("input.txt"),
            Self::ResultArchive => formatter.write_str("output.zip"),
            Self::LastScreenshot => formatter.write_str("screenshot.png"),
            Self::Frame(number) => write!(formatter, "frames/{number}.png"),
            Self::Explanation => formatter.write_str("explanation.json"),
            Self::StartPack => formatter.write_str("start/pack"),
            Self::StartTree => formatter.write_str("start/tree"),
            Self::Text(digest) => write!(formatter, "texts/{digest}"),
            Self::Log(stream) => write!(formatter, "logs/{}.log", stream_name(*stream)),
            Self::Chunk(stream, number) => write!(formatter, "logs/{}/{number}", stream_name(*stream)),
        }
    }
}

impl BlobScope {
    pub(crate) fn job(&self) -> &JobId {
        match self {
            Self::Job(job) | Self::Start(job) | Self::Chunks(job, _) => job,
        }
    }

    /// Returns the common prefix of the names of all its blobs. Ends with a slash.
    pub(crate) fn prefix(&self) -> String {
        match self {
            Self::Job(job) => format!("{job}/"),
            Self::Start(job) => format!("{job}/start/"),
            Self::Chunks(job, stream) => format!("{job}/logs/{}/", stream_name(*stream)),
        }
    }
}

fn stream_name(stream: OutputStream) -> &'static str {
    match stream {
        OutputStream::Stdout => "stdout",
        OutputStream::Stderr => "stderr",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nouns() -> Vec<BlobNoun> {
        let mut nouns = vec![
            BlobNoun::RequestText,
            BlobNoun::ResultArchive,
            BlobNoun::LastScreenshot,
            BlobNoun::StartPack,
            BlobNoun::StartTree,
            BlobNoun::Frame(1),
            BlobNoun::Frame(u64::MAX),
            BlobNoun::Text(ContentDigest::of(b"text")),
        ];
        for stream in [OutputStream::Stdout, OutputStream::Stderr] {
            nouns.extend([
                BlobNoun::Log(stream),
                BlobNoun::Chunk(stream, 0),
                BlobNoun::Chunk(stream, u64::MAX),
            ]);
        }
        nouns
    }

    #[test]
    fn every_name_leads_back_to_its_key() {
        let job = JobId::from_random([7; 16]);
        for noun in nouns() {
            let key = BlobKey::new(&job, noun);
            assert_eq!(BlobKey::parse(&key.name()), Some(key));
        }
    }

    #[test]
    fn names_of_no_key_are_not_taken_for_one() {
        let job = JobId::from_random([7; 16]);
        for noun in [
            "",
            "output.zip/",
            "/output.zip",
            "../output.zip",
            "output.partial",
            "workspace/input.txt",
            "logs/stdout/",
            "logs/stdout/+7",
            "logs/stdout/007",
            "logs/stdout/-1",
            "logs/stdin/7",
            "logs/stdout/../stderr/7",
            "frames/1",
            "frames/07.png",
            "frames/../1.png",
            "start",
            "texts/",
            "texts/../input.txt",
            "texts/ABCDEF0123456789abcdef0123456789",
        ] {
            assert_eq!(BlobKey::parse(&format!("{job}/{noun}")), None, "{noun}");
        }
        for job in ["", ".", "..", "lost+found", "a/b"] {
            assert_eq!(BlobKey::parse(&format!("{job}/output.zip")), None, "{job}");
        }
    }
}
