//! Tools on the ports of a live sandbox.

use sandyard_api::{ApiError, TicketView};
use serde_json::json;

use super::super::answer::ToolAnswer;
use super::super::arguments::Arguments;
use super::super::call::{ApiCall, CallVerb};
use super::jobs::link;
use super::{McpToolContext, ToolEffect, ToolEntry, job_id, output_schema};

/// Every port but 0, which is none.
const PORTS: std::ops::RangeInclusive<u64> = 1..=65_535;

pub(super) const ENTRIES: &[ToolEntry] = &[ToolEntry {
    name: "port_link",
    title: "Link to a port",
    description: "Makes a link to a server that listens on a port of a live sandbox, such as a development server, for a person's browser. \
        Start the server first, with run_shell in the background. The link needs no key, works once and only within 30 seconds: make \
        it when it is needed. In the sandbox itself, use http://localhost and the port.",
    effect: ToolEffect::Adds,
    properties: || {
        json!({
            "job_id": job_id(),
            "port": {"type": "integer", "minimum": 1, "maximum": 65535, "description": "The port on which the server listens"},
        })
    },
    required: &["job_id", "port"],
    output: output_schema::<TicketView>,
    run: |context, arguments| Box::pin(port_link(context, arguments)),
}];

async fn port_link(context: McpToolContext<'_>, mut arguments: Arguments) -> Result<ToolAnswer, ApiError> {
    let id = arguments.job()?;
    let port = arguments.needed_whole("port", PORTS)?;
    let purpose = json!({"for": format!("port:{port}")});
    let call = ApiCall::new(CallVerb::Post, format!("/jobs/{id}/tickets")).json(&purpose);
    let ticket: TicketView = context.send(call).await?.view()?;
    Ok(link(context, ticket))
}
