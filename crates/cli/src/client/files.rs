//! Calls about files in a live sandbox.

use reqwest::{Body, Method, Response};
use sandyard_api::FileStatView;

use super::{ApiClient, ClientError, escape_path};

impl ApiClient {
    /// Returns the metadata of a path; `None` if it does not exist.
    pub(crate) async fn stat(&self, job: &str, path: &str) -> Result<Option<FileStatView>, ClientError> {
        let request = self.request(Method::GET, &format!("{}?stat=1", file_url(job, path)));
        match self.json(request).await {
            Ok(stat) => Ok(Some(stat)),
            Err(ClientError::Refused { code, .. }) if code == "file_not_found" => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Streams the content of a file.
    pub(crate) async fn read_file(&self, job: &str, path: &str) -> Result<Response, ClientError> {
        self.send(self.request(Method::GET, &file_url(job, path))).await
    }

    /// Streams a folder as a zip.
    pub(crate) async fn read_folder(&self, job: &str, path: &str) -> Result<Response, ClientError> {
        self.send(self.request(Method::GET, &format!("{}?archive=zip", file_url(job, path)))).await
    }

    /// Writes a file of this length with these permission bits.
    pub(crate) async fn write_file(
        &self,
        job: &str,
        path: &str,
        mode: u32,
        length: u64,
        body: Body,
    ) -> Result<(), ClientError> {
        let url = format!("{}?mode={mode:o}", file_url(job, path));
        // Without a length the server accepts only as much as it can hold in memory.
        let request = self
            .request(Method::PUT, &url)
            .header("content-type", "application/octet-stream")
            .header("content-length", length);
        self.send(request.body(body)).await.map(drop)
    }

    /// Removes a file.
    pub(crate) async fn remove_file(&self, job: &str, path: &str) -> Result<(), ClientError> {
        self.send(self.request(Method::DELETE, &file_url(job, path))).await.map(drop)
    }
}

fn file_url(job: &str, path: &str) -> String {
    format!("/jobs/{job}/files/{}", escape_path(path.trim_matches('/')))
}
