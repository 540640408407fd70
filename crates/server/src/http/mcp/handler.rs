//! The tools behind the protocol: the instructions, the list, and calls.

use std::sync::Arc;

use axum::http::header::HOST;
use axum::http::request::Parts;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, Implementation, ListToolsResult, PaginatedRequestParams,
    ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, ServerInitializeError};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::{ErrorData, RoleServer, ServerHandler, serve_server};
use tokio::io::{AsyncRead, AsyncWrite};

use super::MAX_MESSAGE_BYTES;
use super::answer::refusal;
use super::call::ApiTransport;
use super::tools::{self, McpToolContext};

const INSTRUCTIONS: &str = "Sandyard gives each job a sandbox: a Linux machine of its own. To work in one step by step, schedule_job with \
    kind `session`, use run_shell, run_code, the file tools and gui with its job_id (the first call waits for the sandbox), \
    and cancel_job when you are done. To run one script, schedule_job with `kind`, `code` and `wait_s`. To have something built by \
    the server's own agent, schedule_job with `task`. Work is kept in /workspace; download_link gives it to a person afterwards. \
    Sandboxes have no network except the hosts named in `egress`.";

/// A client on a pair of streams could not be served.
#[derive(Debug, thiserror::Error)]
pub enum StreamsError {
    /// The client did not begin as the protocol requires.
    #[error("the client did not open the protocol")]
    Opening(#[from] Box<ServerInitializeError>),
    /// The task that served it failed.
    #[error("serving the client failed")]
    Serving(#[from] tokio::task::JoinError),
}

/// Serves the tools to one client.
#[derive(Clone)]
pub struct Tools {
    api: Arc<dyn ApiTransport>,
    version: Arc<str>,
    /// The address of the server for a client that did not come by HTTP.
    address: Arc<str>,
}

impl Tools {
    /// The tools of a server that `api` leads to.
    pub fn new(api: Arc<dyn ApiTransport>, version: &str, address: &str) -> Self {
        Self { api, version: version.into(), address: address.into() }
    }

    /// Serves one client over a pair of streams, a message on each line, until the client closes its own.
    pub async fn serve_streams<R, W>(self, input: R, output: W) -> Result<(), StreamsError>
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let transport = AsyncRwTransport::new(input, output).with_max_line_length(MAX_MESSAGE_BYTES);
        let running = serve_server(self, transport).await.map_err(Box::new)?;
        running.waiting().await?;
        Ok(())
    }

    /// The address of the server for this client: the name that it used itself.
    fn address(&self, context: &RequestContext<RoleServer>) -> String {
        let host = context.extensions.get::<Parts>().and_then(|parts| parts.headers.get(HOST)?.to_str().ok());
        match host {
            Some(host) => self.api.address(host),
            None => self.address.to_string(),
        }
    }
}

impl ServerHandler for Tools {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("sandyard", self.version.as_ref()).with_title("Sandyard"))
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools::tools().to_vec()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        tools::tools().iter().find(|tool| tool.name == name).cloned()
    }

    /// A call ends with its client: a command or code that runs for it in the sandbox ends too.
    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = tools::find(&request.name) else {
            let shown: String = request.name.chars().take(64).collect();
            return Err(ErrorData::invalid_params(format!("there is no tool `{shown}`"), None));
        };
        let address = self.address(&context);
        let behalf = context.extensions.get::<Parts>().and_then(|client| self.api.on_behalf(client));
        let api = behalf.unwrap_or_else(|| Arc::clone(&self.api));
        let tool_context = McpToolContext { api: api.as_ref(), address: &address };
        // The client may cancel at any time. Dropping the call drops its request to the API, which ends a command or code that
        // runs for it in the sandbox.
        tokio::select! {
            answer = tool.call(tool_context, request.arguments.unwrap_or_default()) => {
                let result = answer.map_or_else(|error| refusal(&error), |answer| answer.into_result());
                Ok(result.into())
            }
            () = context.ct.cancelled() => Err(ErrorData::internal_error("the call was cancelled", None)),
        }
    }
}
