//! Signs that a program in front of this server passed a request on: a reverse proxy, a content network, a sign-on service.
//!
//! Such a front makes a request of a stranger look like one of a local program. Keyless mode is for local programs alone, so
//! any sign ends it. The list can't be complete, and need not be: a front without a sign is met by the key that a configured
//! domain brings.

use axum::http::header::{FORWARDED, VIA};
use axum::http::{HeaderMap, HeaderName, Version};

use super::RequestHead;

/// Headers that fronts add. Names that applications use as well, such as `x-auth-token`, are left out: they would shut local
/// programs out.
const SIGNS: [&str; 31] = [
    "cdn-loop",
    "client-ip",
    "fastly-client-ip",
    "fastly-ff",
    "front-end-https",
    "incap-client-ip",
    "proxy-client-ip",
    "remote-addr",
    "remote-email",
    "remote-groups",
    "remote-name",
    "remote-user",
    "true-client-ip",
    "wl-proxy-client-ip",
    "x-amzn-trace-id",
    "x-auth-user",
    "x-authenticated-user",
    "x-client-ip",
    "x-cloud-trace-context",
    "x-cluster-client-ip",
    "x-nginx-proxy",
    "x-proxyuser-ip",
    "x-real-ip",
    "x-remote-ip",
    "x-remote-user",
    "x-request-start",
    "x-scheme",
    "x-url-scheme",
    "x-userinfo",
    "x-varnish",
    "x-vercel-id",
];
/// The beginnings of header families that fronts add.
const SIGN_FAMILIES: [&str; 32] = [
    "akamai-",
    "cf-",
    "cloudfront-",
    "fly-",
    "oidc-",
    "ssl-client-",
    "tailscale-",
    "teleport-",
    "x-akamai-",
    "x-amz-cf-",
    "x-amzn-oidc-",
    "x-appengine-",
    "x-arr-",
    "x-auth-request-",
    "x-authentik-",
    "x-azure-",
    "x-client-cert",
    "x-consumer-",
    "x-envoy-",
    "x-forwarded",
    "x-goog-authenticated-",
    "x-goog-iap-",
    "x-ms-client-principal",
    "x-original-",
    "x-pomerium-",
    "x-rewrite-",
    "x-ssl-client-",
    "x-sucuri-",
    "x-vercel-forwarded",
    "x-vercel-ip-",
    "x-vouch-",
    "x-webauth-",
];

/// True if a request shows that it came through a front.
pub(super) fn is_passed_on(head: &RequestHead<'_>) -> bool {
    // Proxies speak HTTP/1.0 to their origin unless they are told otherwise (nginx before 1.29). Local programs speak 1.1.
    head.version < Version::HTTP_11 || has_sign(head.headers)
}

/// True if a header names a front, or a person whom a front signed in.
pub(super) fn has_sign(headers: &HeaderMap) -> bool {
    headers.keys().any(is_sign)
}

fn is_sign(name: &HeaderName) -> bool {
    let text = name.as_str();
    name == FORWARDED
        || name == VIA
        || SIGNS.contains(&text)
        || SIGN_FAMILIES.iter().any(|family| text.starts_with(family))
}
