//! The first calls on a sandbox that is not there yet: they wait for it, unless they say that they do not.

use std::time::Duration;

use sandyard_testkit::TestYard;
use serde_json::{Value, json};

use crate::client::{Reply, Served, open};
use crate::mcp_client::{McpOverHttp, said};

/// A yard whose sandboxes take this long to start.
async fn slow(start_delay: Duration) -> Served {
    let served = Served::serve(TestYard::new().await.unwrap(), open(), Default::default()).await;
    served.yard.world.script(|faults| faults.start_delay = start_delay);
    served
}

/// Longer than any test: the sandbox is starting as long as the test looks at it.
const NEVER: Duration = Duration::from_secs(3600);
/// Long enough that every first call finds the sandbox missing.
const SOON: Duration = Duration::from_secs(1);

fn session() -> Value {
    json!({"kind": "session"})
}

async fn echo(served: &Served, id: &str, query: &str) -> Reply {
    served.post(&format!("/jobs/{id}/shell{query}"), &json!({"command": "echo first"})).await
}

#[tokio::test]
async fn the_first_call_waits_for_the_sandbox() {
    let served = slow(SOON).await;
    let id = served.schedule(&session()).await;
    let file = format!("/jobs/{id}/files/note");
    let kernels = format!("/jobs/{id}/kernels");
    let (ran, wrote, listed) = tokio::join!(
        echo(&served, &id, ""),
        served.request("PUT", &file, &[], b"hello"),
        served.get(&kernels),
    );
    assert_eq!((ran.status, &ran.json()["stdout"]), (200, &json!("first\n")), "{ran:?}");
    assert_eq!((wrote.status, listed.status), (200, 200), "{wrote:?} {listed:?}");
    let status = served.get(&format!("/status/{id}")).await.json();
    assert_eq!(status["sandbox"], "live", "{status}");
}

#[tokio::test]
async fn the_first_tool_call_of_a_model_waits_too() {
    let served = slow(SOON).await;
    let mcp = McpOverHttp::of(&served);
    let scheduled = mcp.call("schedule_job", &session()).await;
    let id = scheduled["structuredContent"]["job_id"].as_str().unwrap();
    let ran = mcp.call("run_shell", &json!({"job_id": id, "command": "echo first"})).await;
    assert_eq!(
        (&ran["isError"], &ran["structuredContent"]["stdout"]),
        (&json!(false), &json!("first\n")),
        "{ran}"
    );
    assert!(said(&ran).contains("first"), "{ran}");
}

#[tokio::test]
async fn a_call_that_does_not_wait_is_told_that_the_sandbox_starts() {
    let served = slow(NEVER).await;
    let id = served.schedule(&session()).await;
    // A bounded wait ends as none does.
    for query in ["?wait=0", "?wait=1"] {
        let refused = echo(&served, &id, query).await;
        assert_eq!((refused.status, refused.code().as_str()), (409, "sandbox_not_live"), "{query}");
        let told = refused.json();
        assert!(told["error"]["message"].as_str().unwrap().contains("starting"), "{told}");
        assert!(told["error"]["hint"].as_str().unwrap().contains("?wait="), "{told}");
    }
    let wrong = echo(&served, &id, "?wait=soon").await;
    assert_eq!(wrong.status, 400, "{wrong:?}");
}

#[tokio::test]
async fn a_call_that_waits_ends_with_a_job_that_never_gets_a_sandbox() {
    let served = slow(NEVER).await;
    let id = served.schedule(&session()).await;
    let cancel = async {
        while served.get(&format!("/status/{id}")).await.json()["sandbox"] != "starting" {}
        served.post(&format!("/jobs/{id}/cancel"), &json!({})).await
    };
    let (refused, cancelled) = tokio::join!(echo(&served, &id, "?wait=300"), cancel);
    assert_eq!(cancelled.status, 200, "{cancelled:?}");
    assert_eq!((refused.status, refused.code().as_str()), (409, "sandbox_not_live"), "{refused:?}");
}
