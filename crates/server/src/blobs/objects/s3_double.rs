//! A double of an S3 server, for tests: the part of the protocol that blobs use, in memory. It compares checksums, refuses what the
//! tests ask it to refuse, and knows nothing of signatures.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Method, Request, Response, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::BodyExt;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use super::{BlobsLocation, CredentialVariables, ObjectBlobs};

/// Keys in one answer of a listing: few, so that pages are needed.
const PAGE: usize = 400;

#[derive(Debug, Default)]
pub(in crate::blobs) struct S3Double {
    objects: Mutex<BTreeMap<String, Bytes>>,
    /// Parts by upload and number.
    uploads: Mutex<BTreeMap<String, BTreeMap<u32, Bytes>>>,
    requests: AtomicUsize,
    /// Every so many requests one is put off with 503.
    refuse_every: AtomicUsize,
}

type Query = BTreeMap<String, String>;
type Answer = Response<Body>;

impl S3Double {
    /// Starts a server, and opens blobs in its bucket.
    pub(in crate::blobs) fn start() -> (Arc<Self>, ObjectBlobs) {
        let double = Arc::new(Self::default());
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        let router = Router::new().fallback(answer).with_state(Arc::clone(&double));
        tokio::spawn(async move { axum::serve(listener, router).await });
        let endpoint = format!("http://{address}");
        let variables = [
            ("AWS_ACCESS_KEY_ID", "key"),
            ("AWS_SECRET_ACCESS_KEY", "secret"),
            ("AWS_ENDPOINT", endpoint.as_str()),
            ("AWS_ALLOW_HTTP", "true"),
        ];
        let variables = CredentialVariables::of(variables.into_iter());
        let place = BlobsLocation::parse("s3://yard/below/here").unwrap();
        (double, place.open(&variables).unwrap().unwrap())
    }

    pub(in crate::blobs) fn refuse_every(&self, requests: usize) {
        self.refuse_every.store(requests, Ordering::Relaxed);
    }

    pub(in crate::blobs) fn unfinished_uploads(&self) -> usize {
        self.uploads.lock().len()
    }

    pub(in crate::blobs) fn names(&self) -> Vec<String> {
        self.objects.lock().keys().cloned().collect()
    }

    fn get(&self, key: &str, headers: &HeaderMap, with_body: bool) -> Answer {
        let Some(whole) = self.objects.lock().get(key).cloned() else { return status(StatusCode::NOT_FOUND) };
        let total = whole.len();
        let range = headers.get("range").and_then(|range| range.to_str().ok()?.strip_prefix("bytes="));
        let response = Response::builder()
            .header("last-modified", "Wed, 18 Nov 2026 20:00:00 GMT")
            .header("etag", "\"x\"");
        let Some((start, end)) = range.and_then(|range| range.split_once('-')) else {
            let response = response.header("content-length", total);
            return response.body(if with_body { whole.into() } else { Body::empty() }).unwrap();
        };
        let start: usize = start.parse().unwrap();
        let end = end.parse::<usize>().unwrap().saturating_add(1).min(total);
        if start >= total {
            return status(StatusCode::RANGE_NOT_SATISFIABLE);
        }
        let response = response.status(StatusCode::PARTIAL_CONTENT);
        let response = response.header("content-range", format!("bytes {start}-{}/{total}", end - 1));
        response.body(whole.slice(start..end).into()).unwrap()
    }

    fn put(&self, key: &str, query: &Query, headers: &HeaderMap, body: Bytes) -> Answer {
        let given = headers.get("x-amz-checksum-sha256").map(|value| value.to_str().unwrap().to_owned());
        if given.as_deref() != Some(STANDARD.encode(Sha256::digest(&body)).as_str()) {
            return status(StatusCode::BAD_REQUEST);
        }
        match (query.get("uploadId"), query.get("partNumber")) {
            (Some(upload), Some(number)) => {
                let mut uploads = self.uploads.lock();
                let Some(parts) = uploads.get_mut(upload) else { return status(StatusCode::NOT_FOUND) };
                parts.insert(number.parse().unwrap(), body);
            }
            _ => drop(self.objects.lock().insert(key.to_owned(), body)),
        }
        let mut response = Response::builder().header("etag", "\"x\"");
        if let Some(given) = given {
            response = response.header("x-amz-checksum-sha256", given);
        }
        response.body(Body::empty()).unwrap()
    }

    fn post(&self, bucket: &str, key: &str, query: &Query, body: &[u8]) -> Answer {
        if query.contains_key("delete") {
            let text = String::from_utf8_lossy(body);
            let keys = text.split("<Key>").skip(1).filter_map(|part| part.split("</Key>").next());
            let keys: Vec<String> = keys.map(|name| format!("{bucket}/{name}")).collect();
            keys.iter().for_each(|key| drop(self.objects.lock().remove(key)));
            let names = keys.iter().map(|key| key.split_once('/').unwrap().1);
            let deleted: String = names.map(|name| format!("<Deleted><Key>{name}</Key></Deleted>")).collect();
            return xml(format!("<DeleteResult>{deleted}</DeleteResult>"));
        }
        if query.contains_key("uploads") {
            let upload = self.requests.load(Ordering::Relaxed).to_string();
            self.uploads.lock().insert(upload.clone(), BTreeMap::new());
            return xml(format!(
                "<InitiateMultipartUploadResult><UploadId>{upload}</UploadId></InitiateMultipartUploadResult>"
            ));
        }
        let Some(parts) = self.uploads.lock().remove(&query["uploadId"]) else {
            return status(StatusCode::NOT_FOUND);
        };
        let whole: Vec<u8> = parts.into_values().flatten().collect();
        self.objects.lock().insert(key.to_owned(), whole.into());
        xml("<CompleteMultipartUploadResult><ETag>\"x\"</ETag></CompleteMultipartUploadResult>".to_owned())
    }

    fn list(&self, bucket: &str, query: &Query) -> Answer {
        let word = |name: &str| query.get(name).cloned().unwrap_or_default();
        let (prefix, delimiter) = (word("prefix"), word("delimiter"));
        let after = word("start-after").max(word("continuation-token"));
        let limit = query.get("max-keys").map_or(PAGE, |limit| limit.parse::<usize>().unwrap().min(PAGE));
        let objects = self.objects.lock();
        let below = format!("{bucket}/");
        let names = objects.iter().filter_map(|(key, bytes)| Some((key.strip_prefix(&below)?, bytes.len())));
        let names = names.filter(|(name, _)| name.starts_with(&prefix) && *name > after.as_str());
        let (mut text, mut last, mut folder, mut count) = (String::new(), String::new(), String::new(), 0);
        let mut is_cut = false;
        for (name, size) in names {
            if !folder.is_empty() && name.starts_with(&folder) {
                last = name.to_owned();
                continue;
            }
            if count == limit {
                is_cut = true;
                break;
            }
            (count, last) = (count + 1, name.to_owned());
            let rest = &name[prefix.len()..];
            match rest.split_once('/').filter(|_| !delimiter.is_empty()) {
                Some((first, _)) => {
                    folder = format!("{prefix}{first}/");
                    text += &format!("<CommonPrefixes><Prefix>{folder}</Prefix></CommonPrefixes>");
                }
                None => {
                    text += &format!(
                        "<Contents><Key>{name}</Key><Size>{size}</Size><LastModified>2026-11-18T20:00:00.000Z</LastModified><ETag>\"x\"</ETag></Contents>"
                    );
                }
            }
        }
        let next = if is_cut {
            format!("<NextContinuationToken>{last}</NextContinuationToken>")
        } else {
            String::new()
        };
        xml(format!("<ListBucketResult>{text}<IsTruncated>{is_cut}</IsTruncated>{next}</ListBucketResult>"))
    }
}

fn status(status: StatusCode) -> Answer {
    Response::builder().status(status).body(Body::empty()).unwrap()
}

fn xml(text: String) -> Answer {
    Response::builder().header("content-type", "application/xml").body(text.into()).unwrap()
}

async fn answer(State(double): State<Arc<S3Double>>, request: Request<Body>) -> Answer {
    let number = double.requests.fetch_add(1, Ordering::Relaxed) + 1;
    let every = double.refuse_every.load(Ordering::Relaxed);
    let (parts, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    if every > 0 && number.is_multiple_of(every) {
        return status(StatusCode::SERVICE_UNAVAILABLE);
    }
    let query = parts.uri.query().unwrap_or_default();
    let query: Query = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
    let key = parts.uri.path().trim_start_matches('/').to_owned();
    let bucket = key.split('/').next().unwrap_or_default().to_owned();
    let is_bucket = key.trim_end_matches('/') == bucket;
    match parts.method {
        Method::GET if is_bucket => double.list(&bucket, &query),
        Method::GET => double.get(&key, &parts.headers, true),
        Method::HEAD => double.get(&key, &parts.headers, false),
        Method::PUT => double.put(&key, &query, &parts.headers, body),
        Method::POST => double.post(&bucket, &key, &query, &body),
        Method::DELETE => {
            match query.get("uploadId") {
                Some(upload) => drop(double.uploads.lock().remove(upload)),
                None => drop(double.objects.lock().remove(&key)),
            }
            status(StatusCode::NO_CONTENT)
        }
        _ => status(StatusCode::METHOD_NOT_ALLOWED),
    }
}
