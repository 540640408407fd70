//! API calls about jobs.

use reqwest::{Method, Response};
use sandyard_api::{
    AvailabilityView, CodeRequest, CodeView, ContextView, JobListView, JobView, OutputStream, RecallView,
    ReplyRequest, ScheduleBody, ScheduleView,
};

use super::{ApiClient, ClientError, SseReader};

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

    /// Streams the events after a number.
    pub(super) async fn events(&self, job: &str, after: u64) -> Result<SseReader, ClientError> {
        let request =
            self.request(Method::GET, &format!("/jobs/{job}/events")).header("accept", "text/event-stream");
        let request = if after > 0 { request.header("last-event-id", after.to_string()) } else { request };
        Ok(SseReader::new(self.send(request).await?))
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

    /// Returns the drivers and images of the server.
    pub(crate) async fn drivers(&self) -> Result<AvailabilityView, ClientError> {
        self.json(self.request(Method::GET, "/drivers")).await
    }
}
