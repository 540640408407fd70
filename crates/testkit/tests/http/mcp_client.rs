//! A client of the Model Context Protocol that keeps nothing between two messages.

use serde_json::{Value, json};

use crate::client::Served;

pub(crate) struct McpOverHttp<'a> {
    served: &'a Served,
}

impl<'a> McpOverHttp<'a> {
    pub(crate) fn of(served: &'a Served) -> Self {
        Self { served }
    }

    /// Sends a request and returns its result.
    pub(crate) async fn request(&self, method: &str, params: &Value) -> Value {
        let headers =
            [("Content-Type", "application/json"), ("Accept", "application/json, text/event-stream")];
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        let reply = self.served.request("POST", "/mcp", &headers, message.as_bytes()).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        let text = reply.text();
        // One answer is either the body or the last event of a stream.
        let body = text.lines().rev().find_map(|line| line.strip_prefix("data: ")).unwrap_or(&text);
        let answer: Value = serde_json::from_str(body).unwrap_or_else(|_| panic!("{text}"));
        assert!(answer["error"].is_null(), "{answer}");
        answer["result"].clone()
    }

    /// Calls a tool. A refusal is a result too.
    pub(crate) async fn call(&self, name: &str, arguments: &Value) -> Value {
        self.request("tools/call", &json!({"name": name, "arguments": arguments})).await
    }
}

/// The texts of a tool's answer.
pub(crate) fn said(result: &Value) -> String {
    let blocks = result["content"].as_array().unwrap();
    blocks.iter().filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n")
}
