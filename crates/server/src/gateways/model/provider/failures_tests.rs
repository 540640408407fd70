use super::*;

fn code(status: u16, body: &str) -> Result<ModelFailureCode, String> {
    match ProviderError::read(body).judge(status, None) {
        AttemptError::Final(failure) => Ok(failure.code),
        AttemptError::Passing { message, .. } | AttemptError::Stranger(message) => Err(message),
    }
}

#[test]
fn a_conversation_that_is_too_long_is_recognised_in_every_dialect() {
    for (status, body) in [
        (
            400,
            r#"{"error":{"message":"This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#,
        ),
        (
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}"#,
        ),
        (
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000, decrease input length or `max_tokens` and try again"}}"#,
        ),
        (
            413,
            r#"{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}"#,
        ),
        (
            400,
            r#"{"object":"error","message":"This model's maximum context length is 16384 tokens. However, you requested 122946 tokens (112946 in the messages, 10000 in the completion).","type":"BadRequestError","param":null,"code":400}"#,
        ),
        (
            400,
            r#"{"error":{"message":"The decoder prompt (length 9000) is longer than the maximum model length of 4096.","type":"BadRequestError","param":null,"code":400}}"#,
        ),
        (
            400,
            r#"{"error":{"code":400,"message":"request (9000 tokens) exceeds the available context size (4096 tokens), try increasing it","type":"exceed_context_size_error","n_prompt_tokens":9000,"n_ctx":4096}}"#,
        ),
        (
            500,
            r#"{"error":{"code":500,"message":"the request exceeds the available context size. try increasing the context size or enable context shift","type":"server_error"}}"#,
        ),
        (400, r#"{"error":"prompt too long; exceeded max context length by 17 tokens"}"#),
    ] {
        assert_eq!(code(status, body), Ok(ModelFailureCode::ContextTooLong), "{body}");
    }
}

#[test]
fn limits_per_minute_pass_and_quotas_do_not() {
    let per_minute = r#"{"error":{"message":"Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000","type":"tokens","code":"rate_limit_exceeded"}}"#;
    assert!(code(429, per_minute).is_err());
    let quota = r#"{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}"#;
    let credit = r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the Anthropic API."}}"#;
    for (status, body) in [(429, quota), (400, credit), (402, "{}")] {
        let AttemptError::Final(failure) = ProviderError::read(body).judge(status, None) else {
            panic!("{body}")
        };
        assert_eq!(failure.code, ModelFailureCode::Credentials);
        assert!(failure.message.contains("its key is right"), "{}", failure.message);
    }
    for status in [408, 500, 502, 503, 504, 529] {
        assert!(code(status, "{}").is_err(), "{status}");
    }
}

#[test]
fn what_keys_are_refused_with_is_not_passed_on() {
    let body = r#"{"error":{"message":"Incorrect API key provided: sk-proj-****abcd"}}"#;
    for status in [401, 403] {
        let AttemptError::Final(failure) = ProviderError::read(body).judge(status, None) else { panic!() };
        assert_eq!(failure.code, ModelFailureCode::Credentials);
        assert!(!failure.message.contains("sk-proj"), "{}", failure.message);
    }
}

#[test]
fn other_refusals_are_final_and_told_in_one_bounded_line() {
    for (status, body, words) in [
        (
            404,
            r#"{"error":{"message":"model 'x' not found","type":"not_found_error"}}"#,
            "model 'x' not found",
        ),
        (400, r#"{"detail":[{"loc":["body"],"msg":"field required"}]}"#, "field required"),
        (422, "<html>\n<b>no</b>\u{7}", "<html> <b>no</b>"),
        (418, "null", "status 418"),
    ] {
        let AttemptError::Final(failure) = ProviderError::read(body).judge(status, None) else {
            panic!("{body}")
        };
        assert_eq!(failure.code, ModelFailureCode::Rejected, "{body}");
        assert!(failure.message.contains(words), "{}", failure.message);
    }
    let long = ProviderError::read(&"word ".repeat(10_000)).message;
    assert!(long.len() < MAX_MESSAGE_BYTES + 10 && long.ends_with('…'));
    assert!(ProviderError::read(&"x".repeat(10_000)).message.len() < MAX_MESSAGE_BYTES);
}

#[test]
fn a_web_page_is_told_from_an_answer_by_its_type_or_its_beginning() {
    for (kind, body) in [
        (Some("text/html; charset=utf-8"), ""),
        (Some("TEXT/HTML"), "{}"),
        (None, "\n<!DOCTYPE html><title>hi</title>"),
        (Some("application/json"), "<HTML lang=en>"),
    ] {
        assert!(is_web_page(kind, body), "{kind:?} {body}");
    }
    for (kind, body) in [(Some("application/json"), "{}"), (None, "data: {}"), (None, ""), (None, "<htm")] {
        assert!(!is_web_page(kind, body), "{kind:?} {body}");
    }
    let elsewhere = ProviderError::read("").judge(302, None);
    assert!(
        matches!(elsewhere, AttemptError::Stranger(message) if message.contains("redirects are not followed"))
    );
}
