//! The headers that pass between a client and a program in a sandbox.
//!
//! Behind a front everything is an allow-list, both ways: a front adds headers that say who its visitor is, and obeys headers
//! of answers. A client that reached this server directly sends what it likes; of an answer it gets the listed headers and
//! those that a program invented (`x-…`), because every other name may mean something to a browser.

/// Headers of requests that say nothing about who a visitor is.
const REQUEST: [&str; 43] = [
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "access-control-request-headers",
    "access-control-request-method",
    "cache-control",
    "content-digest",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-length",
    "content-location",
    "content-range",
    "content-type",
    "date",
    "depth",
    "destination",
    "dnt",
    "idempotency-key",
    "if",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "last-event-id",
    "lock-token",
    "overwrite",
    "pragma",
    "prefer",
    "priority",
    "purpose",
    "range",
    "rsc",
    "save-data",
    "sec-gpc",
    "service-worker",
    "timeout",
    "upgrade-insecure-requests",
    "user-agent",
    "x-http-method-override",
    "x-requested-with",
];
/// Headers of answers that reach no further than their page.
const ANSWER: [&str; 46] = [
    "accept-patch",
    "accept-post",
    "accept-ranges",
    "age",
    "allow",
    "cache-control",
    "content-digest",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-length",
    "content-location",
    "content-range",
    "content-security-policy",
    "content-security-policy-report-only",
    "content-type",
    "cross-origin-embedder-policy",
    "cross-origin-opener-policy",
    "date",
    "dav",
    "etag",
    "expires",
    "last-modified",
    "link",
    "location",
    "lock-token",
    "permissions-policy",
    "pragma",
    "preference-applied",
    "referrer-policy",
    "retry-after",
    "server",
    "server-timing",
    "set-cookie",
    "sourcemap",
    "vary",
    "www-authenticate",
    "x-content-type-options",
    "x-frame-options",
    "x-powered-by",
    "x-request-id",
    "x-robots-tag",
    "x-sourcemap",
    "x-total-count",
    "x-ua-compatible",
    "x-xss-protection",
];
/// Families of headers of frameworks, in either direction.
const FAMILIES: [&str; 27] = [
    "connect-",
    "grpc-",
    "hx-",
    "mcp-",
    "next-",
    "ratelimit",
    "sec-ch-",
    "sec-fetch-",
    "sec-websocket-",
    "turbo-",
    "tus-",
    "upload-",
    "x-action-",
    "x-astro-",
    "x-csrf",
    "x-gradio-",
    "x-grpc-",
    "x-inertia",
    "x-jupyter",
    "x-livewire",
    "x-next-",
    "x-nextjs-",
    "x-ratelimit-",
    "x-remix-",
    "x-streamlit",
    "x-sveltekit-",
    "x-xsrf",
];
/// Families of headers by which a program gives orders to a server or proxy in front of it, or that are our own.
const ORDERS: [&str; 12] = [
    "x-accel-",
    "x-envoy-",
    "x-forwarded",
    "x-lighttpd-",
    "x-litespeed-",
    "x-original-",
    "x-permitted-cross-domain-policies",
    "x-reproxy-",
    "x-rewrite-",
    "x-sandyard-",
    "x-sendfile",
    "x-varnish",
];

/// True if a header of a request passes to the program.
pub(super) fn may_enter(name: &str, behind_front: bool) -> bool {
    // The first two would be taken for a word of this server.
    !name.starts_with("x-sandyard-")
        && name != "x-job-id"
        && (!behind_front || REQUEST.contains(&name) || in_family(name))
}

/// True if a header of an answer passes to the client.
pub(super) fn may_leave(name: &str, behind_front: bool) -> bool {
    let invented = name.starts_with("x-") && !ORDERS.iter().any(|family| name.starts_with(family));
    ANSWER.contains(&name) || in_family(name) || (invented && !behind_front)
}

fn in_family(name: &str) -> bool {
    FAMILIES.iter().any(|family| name.starts_with(family))
}
