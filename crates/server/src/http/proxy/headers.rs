//! Filters headers in both directions between a client and a sandbox.
//!
//! To the program on the port every request looks as if it came from inside its machine, for `localhost:<port>`: development
//! servers trust that name and no other, and a job learns nothing about its viewers. No header of an answer that reaches
//! beyond the one origin is passed on, and the server's own always win. `header_lists` names the headers that pass, `cookies`
//! filters cookies.

use axum::http::header::{
    AUTHORIZATION, CONNECTION, CONTENT_SECURITY_POLICY, COOKIE, EXPECT, HOST, HeaderName, LOCATION, ORIGIN,
    REFERER, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use axum::http::{HeaderMap, HeaderValue};

use super::header_lists::{may_enter, may_leave};
use crate::auth::AccessRules;
use crate::auth::origins::JobOrigin;

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

/// Headers of answers that would act on the API's own origin.
const NOT_BELOW_API: [&str; 4] = ["link", "sourcemap", "www-authenticate", "x-request-id"];

/// The address of a port, as its client sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PortAddress {
    /// An origin of its own.
    Origin,
    /// A path of the API.
    Below(String),
}

/// The rules for the headers of one request to a port and of its answer.
#[derive(Debug)]
pub(super) struct HeaderFilter<'a> {
    pub(super) access: &'a AccessRules,
    pub(super) origin: JobOrigin,
    pub(super) address: PortAddress,
    /// True if a front may have added headers and cookies to the request, and may obey those of the answer.
    pub(super) behind_front: bool,
    /// True if the client's browser came by TLS.
    pub(super) tls: bool,
}

impl<'a> HeaderFilter<'a> {
    /// The rules for a request with these headers.
    pub(super) fn new(
        access: &'a AccessRules,
        origin: JobOrigin,
        address: PortAddress,
        headers: &HeaderMap,
    ) -> Self {
        let (behind_front, tls) = (access.is_behind_front(headers), access.is_tls(headers));
        Self { access, origin, address, behind_front, tls }
    }

    /// The headers for the program on the port. `authorization` is the value that keeper expects.
    pub(super) fn to_sandbox(&self, headers: &HeaderMap, authorization: Option<&str>) -> HeaderMap {
        let host = headers.get(HOST).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let mut sent = headers.clone();
        remove_hop_by_hop(&mut sent);
        for name in [HOST, EXPECT, COOKIE, ORIGIN, REFERER] {
            sent.remove(name);
        }
        // Behind a front `Authorization` goes with the rest: it may be that of the front, and opens more than this program.
        // On the way from a direct client it is meant for the program.
        retain(&mut sent, |name| {
            may_enter(name.as_str(), self.behind_front) || self.access.passes_header(name)
        });
        let inside = format!("localhost:{}", self.origin.port);
        insert(&mut sent, HOST, &inside);
        if headers.contains_key(ORIGIN) {
            insert(&mut sent, ORIGIN, &format!("http://{inside}"));
        }
        // The client's own host decides whether a `Referer` is of the same origin.
        if let Some(path) = own_referer(headers, host) {
            insert(&mut sent, REFERER, &format!("http://{inside}{path}"));
        }
        self.pass_cookies(headers, &mut sent);
        // The key of the yard must never reach a program in a sandbox, whatever header a client put it into.
        let ours = |value: &HeaderValue| value.to_str().is_ok_and(|text| self.access.is_own_key(text));
        let leaking: Vec<_> =
            sent.iter().filter(|(_, value)| ours(value)).map(|(name, _)| name.clone()).collect();
        leaking.iter().for_each(|name| drop(sent.remove(name)));
        if let Some(authorization) = authorization {
            sent.remove(AUTHORIZATION);
            insert(&mut sent, AUTHORIZATION, authorization);
        }
        sent
    }

    /// The headers for the client.
    pub(super) fn to_client(&self, headers: &HeaderMap) -> HeaderMap {
        let mut sent = headers.clone();
        remove_hop_by_hop(&mut sent);
        retain(&mut sent, |name| {
            may_leave(name.as_str(), self.behind_front) || self.access.passes_header(name)
        });
        self.filter_set_cookies(&mut sent);
        if let Some(location) = sent.get(LOCATION).and_then(|value| value.to_str().ok().map(str::to_owned)) {
            insert(&mut sent, LOCATION, &outside(&location, self.origin.port, &self.address));
        }
        match self.address {
            PortAddress::Origin => keep_to_itself(&mut sent),
            PortAddress::Below(_) => {
                retain(&mut sent, |name| !NOT_BELOW_API.contains(&name.as_str()));
                // Below the API's origin a page would act with the API's rights. `sandbox` gives it an origin of its own,
                // without scripts.
                sent.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox"));
                sent.insert("x-frame-options", HeaderValue::from_static("DENY"));
            }
        }
        sent
    }
}

/// Isolates a page of a sandbox: only its own origin may frame it, and no other origin gets a handle of it. A content policy of
/// the page's own stays beside ours: browsers obey all that they are given. Of the other headers there is one, and it is
/// ours unless the program's is stricter.
fn keep_to_itself(sent: &mut HeaderMap) {
    sent.append(CONTENT_SECURITY_POLICY, HeaderValue::from_static("frame-ancestors 'self'"));
    for (name, value, stricter) in [
        // Pages that use memory shared between threads need the stricter one.
        ("cross-origin-opener-policy", "same-origin-allow-popups", "same-origin"),
        ("cross-origin-resource-policy", "same-origin", "same-origin"),
        ("origin-agent-cluster", "?1", "?1"),
        ("referrer-policy", "same-origin", "no-referrer"),
    ] {
        let mut theirs = sent.get_all(name).iter();
        let keeps = theirs.next().is_some_and(|value| value == stricter) && theirs.next().is_none();
        if !keeps {
            sent.insert(name, HeaderValue::from_static(value));
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

fn retain(headers: &mut HeaderMap, stays: impl Fn(&HeaderName) -> bool) {
    let gone: Vec<HeaderName> = headers.keys().filter(|name| !stays(name)).cloned().collect();
    for name in gone {
        headers.remove(name);
    }
}

/// Leaves out a value that a header can't hold.
pub(super) fn insert(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

/// Returns the path of a `Referer` of the same origin; `None` for any other, which would tell the job about its viewer.
fn own_referer(headers: &HeaderMap, host: &str) -> Option<String> {
    let value = headers.get(REFERER)?.to_str().ok()?;
    let rest = value.strip_prefix("http://").or_else(|| value.strip_prefix("https://"))?;
    let path = rest.strip_prefix(host)?;
    path.starts_with('/').then(|| path.to_owned())
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
