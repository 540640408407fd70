//! API calls of the tools that `sandyard mcp` offers, over the same connection as all commands.

use async_trait::async_trait;
use futures_util::StreamExt as _;
use reqwest::Method;
use sandyard_api::{ApiError, ErrorCode};
use sandyard_server::http::mcp::{ApiCall, ApiReply, ApiTransport, CallVerb};

use super::{ApiClient, ClientError};

#[async_trait]
impl ApiTransport for ApiClient {
    async fn send(&self, call: ApiCall) -> Result<ApiReply, ApiError> {
        let method = match call.verb {
            CallVerb::Get => Method::GET,
            CallVerb::Post => Method::POST,
            CallVerb::Put => Method::PUT,
            CallVerb::Patch => Method::PATCH,
            CallVerb::Delete => Method::DELETE,
        };
        let mut collector = call.collector();
        let mut request = self.request(method, &call.path).body(call.body);
        for (name, value) in call.headers {
            request = request.header(name, value);
        }
        let response =
            request.send().await.map_err(|error| lost(ClientError::sending(&self.endpoint, error)))?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let mut body = response.bytes_stream();
        while let Some(bytes) = body.next().await {
            collector.push(&bytes.map_err(|error| lost(ClientError::Lost(error)))?);
        }
        Ok(collector.finish(status, |name| Some(headers.get(name)?.to_str().ok()?.to_owned())))
    }

    fn address(&self, _: &str) -> String {
        self.endpoint.base().to_owned()
    }
}

fn lost(error: ClientError) -> ApiError {
    ApiError::new(ErrorCode::Internal, error.to_string())
        .with_hint("start the server with `sandyard up`, or name another with SANDYARD_URL")
}
