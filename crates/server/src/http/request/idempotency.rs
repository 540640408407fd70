//! The header `Idempotency-Key`: the same key and body do a thing once.

use std::sync::Arc;

use axum::http::HeaderMap;
use sandyard_api::{ApiError, ErrorCode, bounds};
use sandyard_protocol::{GuestErrorCode, RequestKey};
use sandyard_sandbox::machine::MachineError;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::body::{BodyType, RequestBody, WholeBody, parse_json, require_json};
use super::room::BodyRoom;
use crate::http::response::failure::HttpFailure;

/// A JSON body that was read, with the key of its request.
pub(in crate::http) struct KeyedBody<T> {
    pub(in crate::http) request: T,
    /// For the machine, which keeps the keys of its commands and code.
    pub(in crate::http) key: Option<RequestKey>,
    /// Held until the request is answered.
    pub(in crate::http) room: Arc<BodyRoom>,
}

/// Reads a JSON body and the key of its request.
pub(in crate::http) async fn keyed_json<T: Send + 'static>(
    headers: &HeaderMap,
    body: RequestBody,
    read: fn(&Value) -> Result<T, ApiError>,
) -> Result<KeyedBody<T>, HttpFailure> {
    require_json(headers)?;
    let key = idempotency_key(headers)?;
    let reader = body.reader();
    let WholeBody { bytes, room } = body.whole(BodyType::Json).await?;
    let length = bytes.len();
    let work = move || -> Result<_, HttpFailure> {
        let request = read(&parse_json(&bytes)?)?;
        let key = key.map(|key| RequestKey {
            key_sha256: hex::encode(Sha256::digest(key.as_bytes())),
            body_sha256: hex::encode(fingerprint(BodyType::Json, &bytes)),
        });
        Ok((request, key))
    };
    let (request, key) = reader.work(length, work).await??;
    Ok(KeyedBody { request, key, room })
}

/// The key of a request, if it has one.
pub(in crate::http) fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, HttpFailure> {
    let mut values = headers.get_all("idempotency-key").iter();
    let Some(value) = values.next() else { return Ok(None) };
    let key = value.to_str().ok().filter(|key| (1..=bounds::IDEMPOTENCY_KEY_BYTES).contains(&key.len()));
    match (key, values.next()) {
        (Some(key), None) => Ok(Some(key.to_owned())),
        _ => {
            let most = bounds::IDEMPOTENCY_KEY_BYTES;
            let message = format!("Idempotency-Key must be given once, with 1 to {most} ASCII characters");
            Err(ApiError::new(ErrorCode::BadRequest, message).into())
        }
    }
}

/// SHA-256 of a body and its type: the same bytes as text and as JSON are two requests.
pub(in crate::http) fn fingerprint(kind: BodyType, bytes: &[u8]) -> [u8; 32] {
    let mut digest = Sha256::new();
    digest.update(match kind {
        BodyType::Json => b"json\0",
        BodyType::Text => b"text\0",
    });
    digest.update(bytes);
    digest.finalize().into()
}

/// A failure to start something with a key: "already exists" of the guest means the key.
pub(in crate::http) fn known_key(error: MachineError) -> Result<HttpFailure, MachineError> {
    match error {
        MachineError::Guest(refusal) if refusal.code == GuestErrorCode::AlreadyExists => {
            let error = ApiError::new(ErrorCode::IdempotencyKeyReused, refusal.message);
            Ok(error.with_hint("use a new key for a new request").into())
        }
        other => Err(other),
    }
}
