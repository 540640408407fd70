//! Ports of a sandbox: tickets for browsers, and plain connections.

use reqwest::header::{CONNECTION, UPGRADE};
use reqwest::{Method, StatusCode, Upgraded};
use sandyard_api::TicketView;
use serde_json::json;

use super::{ApiClient, ClientError};

impl ApiClient {
    /// Requests a link that opens something of a job once, within 30 seconds.
    pub(crate) async fn ticket(&self, job: &str, purpose: &str) -> Result<TicketView, ClientError> {
        let request = self.request(Method::POST, &format!("/jobs/{job}/tickets"));
        self.json(request.json(&json!({ "for": purpose }))).await
    }

    /// Opens a connection to a port of a live sandbox.
    pub(crate) async fn connect_port(&self, job: &str, port: u16) -> Result<Upgraded, ClientError> {
        let request = self.request(Method::GET, &format!("/jobs/{job}/proxy/{port}"));
        let request = request.header(CONNECTION, "upgrade").header(UPGRADE, "tcp");
        let response = request.send().await.map_err(|error| ClientError::sending(&self.endpoint, error))?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            let status = response.status().as_u16();
            return Err(ClientError::refused(status, &response.bytes().await.unwrap_or_default()));
        }
        response.upgrade().await.map_err(ClientError::Lost)
    }
}
