//! Tools of the Model Context Protocol in their answers for programs. The official client compares them with the schemas, end
//! to end.

use serde_json::{Value, json};

use crate::client::Served;
use crate::mcp_client::{McpOverHttp, said};

#[tokio::test]
async fn every_tool_has_schemas_for_its_arguments_and_its_answer() {
    let served = Served::start().await;
    let tools = McpOverHttp::of(&served).request("tools/list", &json!({})).await;
    for tool in tools["tools"].as_array().unwrap() {
        for schema in ["inputSchema", "outputSchema"] {
            assert_eq!(tool[schema]["type"], "object", "{}: {schema}", tool["name"]);
        }
    }
}

/// The structured answer of a call, which must have every member that the tool's schema requires.
async fn structured(mcp: &McpOverHttp<'_>, name: &str, arguments: Value) -> Value {
    let result = mcp.call(name, &arguments).await;
    assert_eq!(result["isError"], false, "{name}: {result}");
    let tools = mcp.request("tools/list", &json!({})).await;
    let tool = tools["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == name).unwrap();
    let answer = result["structuredContent"].clone();
    for member in tool["outputSchema"]["required"].as_array().unwrap() {
        assert!(answer.get(member.as_str().unwrap()).is_some(), "{name} lacks {member}: {answer}");
    }
    assert!(!said(&result).is_empty(), "{name} says nothing to a model");
    answer
}

#[tokio::test]
async fn acts_and_files_answer_programs() {
    let served = Served::start().await;
    let mcp = McpOverHttp::of(&served);
    let id = served.session().await;
    let at = |path: &str| json!({"job_id": id, "path": path});
    for (path, content) in [("src/a.txt", "eins zwei"), ("b.bin", "\0"), ("empty", "")] {
        structured(&mcp, "write_file", json!({"job_id": id, "path": path, "content": content})).await;
    }
    let text =
        structured(&mcp, "read_file", json!({"job_id": id, "path": "/workspace/src/a.txt", "max_bytes": 4}))
            .await;
    let expected = json!({
        "path": "src/a.txt", "content": "text", "size": 9, "text": "eins", "next_offset": 4,
        "media_type": null, "listing": null,
    });
    assert_eq!(text, expected);
    let binary = structured(&mcp, "read_file", at("b.bin")).await;
    assert_eq!(
        (&binary["content"], &binary["text"], &binary["size"]),
        (&json!("binary"), &Value::Null, &json!(1))
    );
    assert_eq!(structured(&mcp, "read_file", at("empty")).await["text"], "");
    let folder = structured(&mcp, "read_file", at("src")).await;
    assert_eq!(
        (&folder["content"], &folder["listing"]["entries"][0]["name"]),
        (&json!("folder"), &json!("a.txt"))
    );
    let gone = structured(&mcp, "delete_file", at("b.bin")).await;
    assert_eq!(gone, json!({"done": "deleted", "subject": "b.bin"}));
}

#[tokio::test]
async fn logs_and_the_end_of_a_job_answer_programs() {
    let served = Served::start().await;
    let mcp = McpOverHttp::of(&served);
    let ran =
        json!({"kind": "shell", "code": "echo out; head -c 9000 /dev/zero | tr '\\0' x >&2", "wait_s": 60});
    let id = structured(&mcp, "schedule_job", ran).await["job_id"].as_str().unwrap().to_owned();
    let log = structured(&mcp, "job_logs", json!({"job_id": id})).await;
    assert_eq!(log, json!({"stream": "stdout", "text": "out\n", "left_out_bytes": 0}));
    let long =
        structured(&mcp, "job_logs", json!({"job_id": id, "stream": "stderr", "max_bytes": 1024})).await;
    assert_eq!(long["left_out_bytes"], 9000 - 1024, "{long}");
    let unexplained = mcp.call("explain_result", &json!({"job_id": id})).await;
    assert!(unexplained["isError"] == true && said(&unexplained).contains("not_explained"), "{unexplained}");
    let gone = structured(&mcp, "delete_job", json!({"job_id": id})).await;
    assert_eq!(gone, json!({"done": "deleted", "subject": id}));
}

#[tokio::test]
async fn a_server_without_a_reader_says_so_to_a_model() {
    let served = Served::start().await;
    let mcp = McpOverHttp::of(&served);
    let id = served.session().await;
    let refused = mcp.call("recall", &json!({"job_id": id, "query": "lamp"})).await;
    assert!(refused["isError"] == true && said(&refused).contains("not_available"), "{refused}");
}
