//! Filters headers in both directions between a client and a sandbox.
//!
//! To the program on the port every request looks as if it came from inside its machine, for `localhost:<port>`: development
//! servers trust that name and no other, and a job learns nothing about its viewers. No header of an answer that reaches
//! beyond the one origin is passed on.

use axum::http::header::{
    AUTHORIZATION, CONNECTION, CONTENT_SECURITY_POLICY, COOKIE, EXPECT, Entry, HOST, HeaderName, LOCATION,
    ORIGIN, REFERER, SET_COOKIE, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use axum::http::{HeaderMap, HeaderValue};

use crate::auth::visits::is_pass_cookie;
use crate::auth::{AccessRules, visits};

/// Headers for the next hop alone (RFC 9110, 7.6.1), beside those that `Connection` names.
const HOP_BY_HOP: [HeaderName; 9] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    HeaderName::from_static("proxy-authenticate"),
    HeaderName::from_static("proxy-authorization"),
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// Headers that say who a client is. A program would believe them, because they come from this server.
const IDENTITY: [&str; 12] = [
    "forwarded",
    "via",
    "x-real-ip",
    "x-client-ip",
    "x-cluster-client-ip",
    "true-client-ip",
    "cf-connecting-ip",
    "x-job-id",
    "x-auth-user",
    "x-remote-user",
    "x-authenticated-user",
    "remote-user",
];
const IDENTITY_PREFIXES: [&str; 4] = ["x-forwarded-", "x-original-", "x-sandyard-", "x-auth-request-"];

/// Headers of an answer that reach beyond its page: access for other origins, the browser's storage of the whole domain, later
/// connections.
const FAR_REACHING: [&str; 10] = [
    "service-worker-allowed",
    "clear-site-data",
    "strict-transport-security",
    "alt-svc",
    "access-control-allow-origin",
    "access-control-allow-credentials",
    "access-control-allow-headers",
    "access-control-allow-methods",
    "access-control-expose-headers",
    "access-control-max-age",
];
/// Headers that would do so on the API's own origin.
const FAR_REACHING_BELOW_API: [&str; 8] = [
    "refresh",
    "link",
    "nel",
    "report-to",
    "reporting-endpoints",
    "www-authenticate",
    "sourcemap",
    "x-request-id",
];

/// The address of a port, as its client sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PortAddress {
    /// An origin of its own.
    Origin,
    /// A path of the API.
    Below(String),
}

/// The headers for the program on a port. `authorization` is the value that keeper expects.
pub(super) fn to_sandbox(
    headers: &HeaderMap,
    port: u16,
    access: &AccessRules,
    authorization: Option<&str>,
) -> HeaderMap {
    // Taken before the header is replaced: the client's own host decides whether a `Referer` is of the same origin.
    let host = headers.get(HOST).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    let mut sent = headers.clone();
    remove_hop_by_hop(&mut sent);
    for name in [HOST, EXPECT, COOKIE, ORIGIN, REFERER] {
        sent.remove(name);
    }
    remove_if(&mut sent, |name| {
        IDENTITY.contains(&name) || IDENTITY_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
    });
    let inside = format!("localhost:{port}");
    insert(&mut sent, HOST, &inside);
    if headers.contains_key(ORIGIN) {
        insert(&mut sent, ORIGIN, &format!("http://{inside}"));
    }
    if let Some(path) = own_referer(headers, &host) {
        insert(&mut sent, REFERER, &format!("http://{inside}{path}"));
    }
    if let Some(cookies) = other_cookies(headers) {
        insert(&mut sent, COOKIE, &cookies);
    }
    // The key of the yard must never reach a program in a sandbox. Other credentials may be meant for that program.
    let ours = |value: &HeaderValue| value.to_str().is_ok_and(|text| access.is_own_key(text));
    if sent.get_all(AUTHORIZATION).iter().any(ours) {
        sent.remove(AUTHORIZATION);
    }
    if let Some(authorization) = authorization {
        sent.remove(AUTHORIZATION);
        insert(&mut sent, AUTHORIZATION, authorization);
    }
    sent
}

/// The headers for the client.
pub(super) fn to_client(headers: &HeaderMap, port: u16, shown: &PortAddress) -> HeaderMap {
    let mut sent = headers.clone();
    remove_hop_by_hop(&mut sent);
    remove_if(&mut sent, |name| FAR_REACHING.contains(&name));
    // A sandbox must not set the server's cookie, nor one for the whole domain: other jobs are sibling hosts.
    let cookies: Vec<HeaderValue> =
        sent.get_all(SET_COOKIE).iter().filter(|cookie| may_be_set(cookie, shown)).cloned().collect();
    sent.remove(SET_COOKIE);
    for cookie in cookies {
        sent.append(SET_COOKIE, cookie);
    }
    if let Some(location) = sent.get(LOCATION).and_then(|value| value.to_str().ok().map(str::to_owned)) {
        insert(&mut sent, LOCATION, &outside(&location, port, shown));
    }
    match shown {
        PortAddress::Origin => keep_to_itself(&mut sent),
        PortAddress::Below(_) => {
            remove_if(&mut sent, |name| FAR_REACHING_BELOW_API.contains(&name));
            // Below the API's origin a page would act with the API's rights. `sandbox` gives it an origin of its own, without
            // scripts.
            sent.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox"));
            sent.insert("x-frame-options", HeaderValue::from_static("DENY"));
        }
    }
    sent
}

/// Isolates a page of a sandbox: only its own origin may frame it, and no other origin gets a handle of it. A policy of
/// the page's own stays: browsers obey all that they are given.
fn keep_to_itself(sent: &mut HeaderMap) {
    sent.append(CONTENT_SECURITY_POLICY, HeaderValue::from_static("frame-ancestors 'self'"));
    for (name, value) in [
        ("cross-origin-opener-policy", "same-origin-allow-popups"),
        ("cross-origin-resource-policy", "same-origin"),
        ("origin-agent-cluster", "?1"),
        ("referrer-policy", "same-origin"),
    ] {
        if let Entry::Vacant(entry) = sent.entry(name) {
            entry.insert(HeaderValue::from_static(value));
        }
    }
}

fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let values = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let named: Vec<HeaderName> =
        values.flat_map(|value| value.split(',')).filter_map(|name| name.trim().parse().ok()).collect();
    for name in named.iter().chain(&HOP_BY_HOP) {
        headers.remove(name);
    }
}

fn remove_if(headers: &mut HeaderMap, goes: impl Fn(&str) -> bool) {
    let names: Vec<HeaderName> = headers.keys().filter(|name| goes(name.as_str())).cloned().collect();
    for name in names {
        headers.remove(name);
    }
}

/// Leaves out a value that a header can't hold.
fn insert(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

/// Returns the client's cookies without the pass of this server.
fn other_cookies(headers: &HeaderMap) -> Option<String> {
    let values = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = values.flat_map(|value| value.split(';')).map(str::trim).filter(|pair| !pair.is_empty());
    let name = |pair: &str| pair.split('=').next().unwrap_or_default().trim().to_owned();
    let kept: Vec<&str> = pairs.filter(|pair| !visits::is_pass_cookie(&name(pair))).collect();
    (!kept.is_empty()).then(|| kept.join("; "))
}

/// Returns the path of a `Referer` of the same origin; `None` for any other, which would tell the job about its viewer.
fn own_referer(headers: &HeaderMap, host: &str) -> Option<String> {
    let value = headers.get(REFERER)?.to_str().ok()?;
    let rest = value.strip_prefix("http://").or_else(|| value.strip_prefix("https://"))?;
    let path = rest.strip_prefix(host)?;
    path.starts_with('/').then(|| path.to_owned())
}

/// True if a sandbox may set the cookie: never the server's own, never for a domain, and below the API only within its path.
fn may_be_set(cookie: &HeaderValue, shown: &PortAddress) -> bool {
    let Ok(text) = cookie.to_str() else { return false };
    let mut parts = text.split(';').map(str::trim);
    let name = parts.next().and_then(|pair| pair.split('=').next()).unwrap_or_default().trim();
    let attributes: Vec<(String, &str)> = parts
        .map(|part| part.split_once('=').unwrap_or((part, "")))
        .map(|(name, value)| (name.trim().to_ascii_lowercase(), value.trim()))
        .collect();
    let has = |wanted: &str| attributes.iter().any(|(name, _)| name == wanted);
    let paths: Vec<&str> =
        attributes.iter().filter(|(name, _)| name == "path").map(|(_, value)| *value).collect();
    let within = match shown {
        PortAddress::Origin => true,
        PortAddress::Below(prefix) => {
            let below = |path: &&str| {
                path.strip_prefix(prefix.as_str())
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            };
            !paths.is_empty() && paths.iter().all(below)
        }
    };
    !has("domain") && !is_pass_cookie(name) && within
}

/// Returns the target of a redirect as the client sees it.
fn outside(location: &str, port: u16, shown: &PortAddress) -> String {
    let inside = ["localhost", "127.0.0.1", "[::1]"].iter().find_map(|host| {
        let rest = location.strip_prefix("http://").or_else(|| location.strip_prefix("https://"))?;
        let rest = rest.strip_prefix(&format!("{host}:{port}"))?;
        // The port must end here: `localhost:80801` is another port than 8080.
        (rest.is_empty() || rest.starts_with(['/', '?', '#'])).then_some(rest)
    });
    let path = match inside {
        Some(rest) if rest.starts_with('/') => rest.to_owned(),
        Some(rest) => format!("/{rest}"),
        None => location.to_owned(),
    };
    match shown {
        PortAddress::Below(prefix) if path.starts_with('/') && !path.starts_with("//") => {
            format!("{prefix}{path}")
        }
        _ => path,
    }
}

#[cfg(test)]
#[path = "headers_tests.rs"]
mod tests;
