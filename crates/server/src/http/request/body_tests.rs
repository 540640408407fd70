//! Bounds of bodies.

use axum::http::{HeaderValue, Method};
use futures_util::stream;

use super::super::idle::with_idle_limit;
use super::*;

fn typed(value: &'static str) -> HeaderMap {
    HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(value))])
}

fn request_body(body: Body, budget_bytes: usize) -> RequestBody {
    let reader = BodyReader::new(budget_bytes);
    RequestBody { headers: typed("application/json"), body, whole: None, reader }
}

async fn json(body: impl Into<Body>) -> Result<Value, &'static str> {
    let read = request_body(body.into(), usize::MAX / 2).json(|value| Ok(value.clone())).await;
    read.map(|(value, _)| value).map_err(|failure| failure.code())
}

/// Pieces of a body of which the last never comes.
fn endless(pieces: Vec<Bytes>) -> Body {
    use futures_util::StreamExt;
    Body::from_stream(stream::iter(pieces.into_iter().map(Ok::<_, std::io::Error>)).chain(stream::pending()))
}

#[test]
fn types_are_known_with_their_parameters() {
    assert_eq!(body_type(&typed("application/json; charset=UTF-8")).unwrap(), BodyType::Json);
    assert_eq!(body_type(&typed("Text/Plain")).unwrap(), BodyType::Text);
    assert_eq!(body_type(&typed("application/problem+json")).unwrap(), BodyType::Json);
    for value in ["text/html", "application/x-www-form-urlencoded", "text/plain; charset=latin1", ""] {
        assert_eq!(body_type(&typed(value)).unwrap_err().code(), "unsupported_media_type", "{value}");
    }
    assert!(body_type(&HeaderMap::new()).is_err());
}

#[tokio::test]
async fn r20_size_and_depth_are_bounded() {
    assert_eq!(json("[".repeat(1_000_000)).await, Err("invalid_json"));
    assert_eq!(json(vec![b' '; bounds::BODY_BYTES + 1]).await, Err("too_large"));
}

#[tokio::test]
async fn f5_a_swarm_of_values_is_refused_and_large_text_is_not() {
    let swarm = format!("[{}1]", "[],".repeat(MAX_BODY_VALUES));
    assert_eq!(json(swarm).await, Err("too_large"));
    let text = Value::from("[,\"{".repeat(1_000_000));
    assert_eq!(json(text.to_string()).await, Ok(text));
}

/// The client of such a body sends on and on; it is told at once.
#[tokio::test]
async fn f5_a_swarm_is_refused_before_it_is_whole() {
    let swarm = Bytes::from("[],".repeat(MAX_BODY_VALUES));
    let mut part = PartOfBody {
        bytes: BytesMut::new(),
        began: Instant::now(),
        limit_bytes: bounds::BODY_BYTES,
        scan: Some(JsonScan::default()),
        room: BodyBudget::new(0).empty_room(),
    };
    assert_eq!(part.admit(&swarm).await.unwrap_err().code(), "too_large");
}

#[tokio::test]
async fn f5_a_body_without_room_is_refused_and_a_small_one_is_not() {
    let large = Value::from("x".repeat(100_000)).to_string();
    let refused = request_body(Body::from(large), 64 * 1024).json(|value| Ok(value.clone())).await;
    assert_eq!(refused.unwrap_err().code(), "overloaded");
    let small = request_body(Body::from("[1]"), 0).json(|value| Ok(value.clone())).await;
    assert_eq!(small.unwrap().0, serde_json::json!([1]));
}

#[tokio::test]
async fn f5_the_room_of_a_stalled_body_is_taken_for_another() {
    let reader = BodyReader::new(256 * 1024);
    let body = |body| RequestBody {
        headers: typed("application/json"),
        body,
        whole: None,
        reader: Arc::clone(&reader),
    };
    let stalled =
        body(endless(vec![Bytes::from(vec![b' '; 128 * 1024]), Bytes::from(vec![b' '; 64 * 1024])]));
    let stalled = tokio::spawn(stalled.whole(BodyType::Json));
    while reader.budget.held_bytes() < 192 * 1024 {
        tokio::task::yield_now().await;
    }
    let moving = body(Body::from(Value::from("x".repeat(100_000)).to_string()));
    assert!(moving.json(|value| Ok(value.clone())).await.is_ok());
    assert_eq!(stalled.await.unwrap().unwrap_err().code(), "overloaded");
}

#[tokio::test]
async fn w20_a_body_that_stalls_times_out() {
    let mut request = Request::new(endless(Vec::new()));
    *request.method_mut() = Method::POST;
    let request = with_idle_limit(request, Duration::from_millis(20));
    let failure = request_body(request.into_body(), 0).whole(BodyType::Text).await.unwrap_err();
    assert_eq!(failure.code(), "request_timeout");
}
