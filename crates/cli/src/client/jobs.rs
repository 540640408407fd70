//! API calls about jobs.

use std::convert::Infallible;

use bytes::Bytes;
use futures_util::stream;
use reqwest::{Body, Method, Response};
use sandyard_api::{
    AvailabilityView, CodeRequest, CodeView, ContextView, ExtendRequest, JobListView, JobView,
    KernelListView, OutputStream, RecallView, ReplyRequest, ScheduleBody, ScheduleView, VersionView,
};

use super::{ApiClient, ClientError, SseReader, escape_path};

/// Length of a piece of a large body.
const SENT_AT_ONCE: usize = 64 * 1024;

/// A change of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KernelChange {
    Interrupt,
    Restart,
    Remove,
}

/// Filter and page of a job list.
#[derive(Debug, Clone, Default, serde::Serialize)]
pub(crate) struct JobQuery {
    /// Only jobs with this status or state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<String>,
    /// Only jobs of this kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) kind: Option<String>,
    /// Largest number of jobs.
    pub(crate) limit: u64,
    /// Cursor of the page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cursor: Option<String>,
}

impl ApiClient {
    /// Schedules a job and returns its id and addresses.
    pub(crate) async fn schedule(&self, body: &ScheduleBody) -> Result<ScheduleView, ClientError> {
        self.json(self.request(Method::POST, "/schedule").json(body)).await
    }

    /// Schedules a job whose body is large. `sent` is called with the length of each piece that is on its way.
    pub(crate) async fn schedule_large(
        &self,
        json: Bytes,
        mut sent: impl FnMut(usize) + Send + 'static,
    ) -> Result<ScheduleView, ClientError> {
        let length = json.len();
        let pieces = (0..length).step_by(SENT_AT_ONCE).map(move |start| {
            let piece = json.slice(start..(start + SENT_AT_ONCE).min(length));
            sent(piece.len());
            Ok::<_, Infallible>(piece)
        });
        let request = self.request(Method::POST, "/schedule").header("content-type", "application/json");
        // Without a length the server accepts only as much as it can hold in memory.
        let request = request.header("content-length", length);
        self.json(request.body(Body::wrap_stream(stream::iter(pieces)))).await
    }

    /// Returns the status of a job.
    pub(crate) async fn status(&self, job: &str) -> Result<JobView, ClientError> {
        self.json(self.request(Method::GET, &format!("/jobs/{job}"))).await
    }

    /// Returns the status of a job after its state changed, or after `wait_s` seconds.
    pub(crate) async fn status_after(&self, job: &str, wait_s: u64) -> Result<JobView, ClientError> {
        self.json(self.request(Method::GET, &format!("/jobs/{job}?wait={wait_s}"))).await
    }

    /// Returns a page of jobs, newest first.
    pub(crate) async fn list(&self, query: &JobQuery) -> Result<JobListView, ClientError> {
        self.json(self.request(Method::GET, "/jobs").query(query)).await
    }

    /// Lets a job run for this many seconds from now on.
    pub(crate) async fn extend(&self, job: &str, timeout_s: u64) -> Result<JobView, ClientError> {
        let body = ExtendRequest { timeout_s };
        self.json(self.request(Method::POST, &format!("/jobs/{job}/extend")).json(&body)).await
    }

    /// Returns the status of a job after it has ended, or after `wait_s` seconds.
    pub(crate) async fn status_at_end(&self, job: &str, wait_s: u64) -> Result<JobView, ClientError> {
        self.json(self.request(Method::GET, &format!("/jobs/{job}?wait={wait_s}&wait_for=end"))).await
    }

    /// Streams measurements of a job's sandbox.
    pub(crate) async fn stats(&self, job: &str, query: &str) -> Result<SseReader, ClientError> {
        let request = self.request(Method::GET, &format!("/jobs/{job}/stats{query}"));
        Ok(SseReader::new(self.send(request.header("accept", "text/event-stream")).await?))
    }

    /// Returns the kernels of a live sandbox.
    pub(crate) async fn kernels(&self, job: &str) -> Result<KernelListView, ClientError> {
        self.json(self.request(Method::GET, &format!("/jobs/{job}/kernels"))).await
    }

    /// Interrupts or restarts a kernel, or removes it.
    pub(crate) async fn change_kernel(
        &self,
        job: &str,
        kernel: &str,
        change: KernelChange,
    ) -> Result<(), ClientError> {
        let (method, verb) = match change {
            KernelChange::Interrupt => (Method::POST, "/interrupt"),
            KernelChange::Restart => (Method::POST, "/restart"),
            KernelChange::Remove => (Method::DELETE, ""),
        };
        let path = format!("/jobs/{job}/kernels/{}{verb}", escape_path(kernel));
        self.send(self.request(method, &path)).await.map(drop)
    }

    /// Streams the events after a number, with a tail only the last of those that there are and what follows.
    pub(crate) async fn events(
        &self,
        job: &str,
        after: u64,
        tail: Option<u64>,
    ) -> Result<SseReader, ClientError> {
        let tail = tail.map(|tail| format!("?tail={tail}")).unwrap_or_default();
        let request = self
            .request(Method::GET, &format!("/jobs/{job}/events{tail}"))
            .header("accept", "text/event-stream");
        let request = if after > 0 { request.header("last-event-id", after.to_string()) } else { request };
        Ok(SseReader::new(self.send(request).await?))
    }

    /// Returns the number of the newest event of a job; 0 if there is none.
    pub(crate) async fn newest_event(&self, job: &str) -> Result<u64, ClientError> {
        let request = self.request(Method::GET, &format!("/jobs/{job}/events?tail=1&wait=0"));
        let mut reader = SseReader::new(self.send(request).await?);
        let mut newest = 0;
        while let Some(frame) = reader.next().await? {
            newest = frame.id.unwrap_or(newest);
        }
        Ok(newest)
    }

    /// Streams the output so far.
    pub(crate) async fn logs(&self, job: &str, stream: OutputStream) -> Result<Response, ClientError> {
        let name = match stream {
            OutputStream::Stdout => "stdout",
            OutputStream::Stderr => "stderr",
        };
        self.send(self.request(Method::GET, &format!("/jobs/{job}/logs?stream={name}"))).await
    }

    /// Sends a message to a task.
    pub(crate) async fn reply(&self, job: &str, body: &ReplyRequest) -> Result<(), ClientError> {
        self.send(self.request(Method::POST, &format!("/jobs/{job}/reply")).json(body)).await.map(drop)
    }

    /// Cancels a job. Its workspace stays.
    pub(crate) async fn cancel(&self, job: &str) -> Result<(), ClientError> {
        self.send(self.request(Method::POST, &format!("/jobs/{job}/cancel"))).await.map(drop)
    }

    /// Removes a job with all its data.
    pub(crate) async fn delete(&self, job: &str) -> Result<(), ClientError> {
        self.send(self.request(Method::DELETE, &format!("/jobs/{job}"))).await.map(drop)
    }

    /// Streams the workspace of an ended job as a zip.
    pub(crate) async fn download(&self, job: &str) -> Result<Response, ClientError> {
        self.send(self.request(Method::GET, &format!("/jobs/{job}/download"))).await
    }

    /// Returns passages of what a job has seen.
    pub(crate) async fn recall(
        &self,
        job: &str,
        query: &[(&str, String)],
    ) -> Result<RecallView, ClientError> {
        let request = self.request(Method::GET, &format!("/jobs/{job}/recall")).query(query);
        self.json(request).await
    }

    /// Returns what the model read for its answer at or behind a journal entry.
    pub(crate) async fn context(&self, job: &str, step: u64) -> Result<ContextView, ClientError> {
        let request = self.request(Method::GET, &format!("/jobs/{job}/context")).query(&[("step", step)]);
        self.json(request).await
    }

    /// Streams the audit records of a job; the last line is their signed head.
    pub(crate) async fn audit(&self, job: &str) -> Result<String, ClientError> {
        let response = self.send(self.request(Method::GET, &format!("/jobs/{job}/audit"))).await?;
        response.text().await.map_err(ClientError::Lost)
    }

    /// The audit records of the yard itself; the last line is their signed head.
    pub(crate) async fn yard_audit(&self) -> Result<String, ClientError> {
        let response = self.send(self.request(Method::GET, "/audit")).await?;
        response.text().await.map_err(ClientError::Lost)
    }

    /// Runs code in a live sandbox and returns its results.
    pub(crate) async fn code(&self, job: &str, body: &CodeRequest) -> Result<CodeView, ClientError> {
        self.json(self.request(Method::POST, &format!("/jobs/{job}/code")).json(body)).await
    }

    /// Runs code in a live sandbox and streams its events.
    pub(crate) async fn code_events(&self, job: &str, body: &CodeRequest) -> Result<SseReader, ClientError> {
        let request = self.request(Method::POST, &format!("/jobs/{job}/code"));
        let request = request.header("accept", "text/event-stream").json(body);
        Ok(SseReader::new(self.send(request).await?))
    }

    /// Returns the version of the server.
    pub(crate) async fn version(&self) -> Result<VersionView, ClientError> {
        self.json(self.request(Method::GET, "/version")).await
    }

    /// Returns the drivers and images of the server.
    pub(crate) async fn drivers(&self) -> Result<AvailabilityView, ClientError> {
        self.json(self.request(Method::GET, "/drivers")).await
    }
}
