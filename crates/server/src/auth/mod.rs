//! Access to the API.
//!
//! Owns the rules on `Host` and `Origin` ([`origins`]), on bearer keys ([`keys`]), on the origins of sandboxes' ports
//! ([`visits`], [`passes`]), and on whose job it is ([`may`]); `app` makes and redeems tickets. Every request, upgrades
//! included, is first sorted to the API or to a job's origin ([`AccessRules::site`]), then passes [`AccessRules::admit`] or
//! [`AccessRules::visit`] once. The API knows no cookies, so nothing that a browser sends by itself opens anything there.
//!
//! Keyless mode is for programs on this machine: on loopback, while there are no keys and no domain, for requests that
//! show no proxy in front ([`fronts`]). Everything else needs a key, a ticket or a pass.

mod caller;
mod fronts;
pub mod keys;
pub mod origins;
mod ownership;
pub mod passes;
mod scope;
pub mod visits;

use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderName, Method, Request, Version};
use sandyard_api::{ApiError, ErrorCode};

pub use crate::key_file::KeyFileError;
pub use caller::{AccountId, Caller, TenantId};
pub use keys::{CreatedKey, KeyFile, KeyStore};
use origins::{
    Domain, JobOrigin, LOCAL_DOMAIN, PageOrigin, host_name, is_job_origin, is_local_name, name_of_authority,
};
pub use ownership::{AccessDenied, OwnerAccount, may};
use passes::{PassSecret, Passes};
pub use scope::{AccessScope, AccessScopes};

/// The rules of one listening address.
#[derive(Debug)]
pub struct AccessRules {
    keys: KeyStore,
    listen_name: String,
    /// True in keyless mode.
    open: bool,
    domain: Option<Domain>,
    passes: Passes,
    /// Headers that programs in sandboxes get although a front may have added them.
    passed_headers: Vec<HeaderName>,
}

/// The head of a request, as far as access depends on it.
#[derive(Debug, Clone, Copy)]
pub struct RequestHead<'a> {
    /// The method; only some of them follow from a person's click.
    pub method: &'a Method,
    /// The version of HTTP that the client speaks.
    pub version: Version,
    /// All headers.
    pub headers: &'a HeaderMap,
}

impl<'a, B> From<&'a Request<B>> for RequestHead<'a> {
    fn from(request: &'a Request<B>) -> Self {
        Self { method: request.method(), version: request.version(), headers: request.headers() }
    }
}

/// The addressee of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Site {
    /// The server itself, or an unknown name.
    Api,
    /// A port of a sandbox.
    Job(JobOrigin),
}

impl AccessRules {
    /// The rules for a listening host (a name or an address without port). Only loopback without keys is open; any other address
    /// without keys refuses everything.
    pub fn new(listen_host: &str, keys: KeyStore) -> Self {
        let listen_name = host_name(listen_host);
        let open = keys.is_empty() && is_local_name(&listen_name);
        // Without randomness nobody gets a pass: a predictable secret would let any page forge one.
        let passes =
            PassSecret::random().map_or_else(|_| Passes::none(), |secret| Passes::new(&secret, &keys));
        Self { keys, listen_name, open, domain: None, passes, passed_headers: Vec::new() }
    }

    /// Adds job origins below a domain to those on the machine itself. A domain is for other machines, so it ends keyless
    /// mode: without keys everything is refused.
    #[must_use]
    pub fn with_domain(self, domain: Domain) -> Self {
        Self { domain: Some(domain), open: false, ..self }
    }

    /// Lets headers pass between clients and programs in sandboxes that are otherwise removed behind a front.
    #[must_use]
    pub fn with_passed_headers(self, passed_headers: Vec<HeaderName>) -> Self {
        Self { passed_headers, ..self }
    }

    /// Replaces the secret of this process by one that outlives it.
    #[must_use]
    pub fn with_pass_secret(self, secret: &PassSecret) -> Self {
        Self { passes: Passes::new(secret, &self.keys), ..self }
    }

    /// The addressee of a request, by its one `Host`.
    pub fn site(&self, headers: &HeaderMap) -> Site {
        let mut values = headers.get_all(HOST).iter();
        // Most requests are for the API by a name without a hyphen; they pay for one look.
        let name = values.next().filter(|value| value.as_bytes().contains(&b'-'));
        let name = name.and_then(|value| value.to_str().ok()).and_then(name_of_authority);
        // Two `Host` headers go to the API, which refuses them. A proxy in front could read the other one.
        let (Some(name), None) = (name, values.next()) else { return Site::Api };
        let own = self.domain.as_ref().map_or(LOCAL_DOMAIN, |domain| domain.name.as_str());
        JobOrigin::read(&name, &[LOCAL_DOMAIN, own]).map_or(Site::Api, Site::Job)
    }

    /// The address of a job's origin for the client that sent these headers to the API: below the same kind of name, so
    /// that a tunnel works. `None` if the client came by a name or address that has no names below it.
    pub fn origin_url(&self, origin: &JobOrigin, headers: &HeaderMap) -> Option<String> {
        let host = headers.get(HOST)?.to_str().ok()?;
        let name = name_of_authority(host)?;
        let sent_port = host.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
        let (scheme, domain, port) = match &self.domain {
            _ if is_local_name(&name) => ("http", LOCAL_DOMAIN, sent_port),
            Some(domain) if domain.tls => ("https", domain.name.as_str(), domain.port),
            Some(domain) => ("http", domain.name.as_str(), domain.port.or(sent_port)),
            None => return None,
        };
        let port = port.map(|port| format!(":{port}")).unwrap_or_default();
        Some(format!("{scheme}://{}{port}", origin.name(domain)))
    }

    /// The address of the API for a client that came by this `Host`.
    pub fn own_url(&self, host: &str) -> String {
        let local = name_of_authority(host).is_some_and(|name| is_local_name(&name));
        let tls = !local && self.domain.as_ref().is_some_and(|domain| domain.tls);
        format!("{}://{host}", if tls { "https" } else { "http" })
    }

    /// True if a header's bearer key is one of ours. It must not reach a sandbox.
    pub fn is_own_key(&self, authorization: &str) -> bool {
        let (scheme, key) = authorization.split_once(' ').unwrap_or_default();
        scheme.eq_ignore_ascii_case("bearer") && self.keys.holds(key.trim())
    }

    /// Ids of the keys that open this address. They do not reveal the keys.
    pub fn key_ids(&self) -> Vec<String> {
        self.keys.ids()
    }

    /// True if local programs need no key.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// True if something between the client and this server may have added headers and cookies of its own: the client came
    /// by a name that is not local, or a header shows a front.
    pub fn is_behind_front(&self, headers: &HeaderMap) -> bool {
        let host = headers.get(HOST).and_then(|value| value.to_str().ok()).and_then(name_of_authority);
        let local = |name: &str| is_local_name(name) || name.ends_with(".localhost");
        !host.is_some_and(|name| local(&name)) || fronts::has_sign(headers)
    }

    /// True if the operator lets this header pass between clients and programs.
    pub fn passes_header(&self, name: &HeaderName) -> bool {
        self.passed_headers.contains(name)
    }

    /// Rejects a request by an unknown name of this server, or one that a page of another origin caused.
    pub fn check(&self, head: &RequestHead<'_>) -> Result<(), ApiError> {
        // The host first: the check of the origin compares with it.
        let host = self.check_host(head.headers)?;
        self.check_origin(head.headers, host)?;
        refuse_foreign_page(head)
    }

    /// Checks a request as [`AccessRules::check`] does, then its key, and returns its caller. An open address needs no key.
    pub fn admit(&self, head: &RequestHead<'_>) -> Result<Caller, ApiError> {
        // Before the key: a foreign page learns nothing about keys, and an open address is protected by these checks alone.
        self.check(head)?;
        if self.open {
            return if fronts::is_passed_on(head) { Err(needs_key()) } else { Ok(Caller::operator()) };
        }
        // Every key is the operator's until accounts have keys of their own.
        Ok(Caller::operator().with_key(self.key_id(head.headers)?))
    }

    /// An open address answers only to its own names, or a page could rebind its name to this address and read everything.
    /// With keys there is nothing ambient to steal, but a job's origin is still never the API.
    fn check_host<'h>(&self, headers: &'h HeaderMap) -> Result<&'h str, ApiError> {
        let mut values = headers.get_all(HOST).iter();
        let value = values.next().and_then(|value| value.to_str().ok());
        let (Some(value), None) = (value, values.next()) else {
            return Err(ApiError::new(ErrorCode::BadRequest, "the request needs exactly one Host header"));
        };
        let name = name_of_authority(value)
            .ok_or_else(|| ApiError::new(ErrorCode::BadRequest, "the Host header is malformed"))?;
        let known = self.is_own_name(&name) || (!self.open && !is_job_origin(&name));
        if known { Ok(value) } else { Err(foreign_host()) }
    }

    /// Every `Origin` is exactly the one that the request goes to, or that of the domain, which a proxy in front may have
    /// replaced in `Host`. Another port of the same name is another program, whose pages are foreign.
    fn check_origin(&self, headers: &HeaderMap, host: &str) -> Result<(), ApiError> {
        for origin in headers.get_all(ORIGIN) {
            let page = origin.to_str().ok().and_then(PageOrigin::parse).ok_or_else(foreign_origin)?;
            let same =
                page.is_of(host) || self.domain.as_ref().is_some_and(|domain| page.is_of_domain(domain));
            // A page of a sandbox is hostile, although its name is below the server's own.
            if !same || is_job_origin(&page.name) {
                return Err(foreign_origin());
            }
        }
        Ok(())
    }

    fn is_own_name(&self, name: &str) -> bool {
        if self.open { is_local_name(name) } else { name == self.listen_name }
    }

    /// The id of the one bearer key of a request.
    fn key_id(&self, headers: &HeaderMap) -> Result<String, ApiError> {
        let mut values = headers.get_all(AUTHORIZATION).iter();
        // Exactly one: programs in front of this server may disagree about which of two counts.
        let (Some(value), None) = (values.next(), values.next()) else { return Err(unauthorized()) };
        let (scheme, key) =
            value.to_str().ok().and_then(|text| text.split_once(' ')).ok_or_else(unauthorized)?;
        let key = key.trim();
        self.keys.id(key).filter(|_| scheme.eq_ignore_ascii_case("bearer")).ok_or_else(unauthorized)
    }
}

/// Requests without `Origin` that a page of another site makes a browser send: images, scripts, forms by GET. Following a link
/// is a person's own act and stays allowed.
fn refuse_foreign_page(head: &RequestHead<'_>) -> Result<(), ApiError> {
    let field = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok());
    let foreign = matches!(field("sec-fetch-site"), Some("cross-site" | "same-site"));
    let followed_link = *head.method == Method::GET && field("sec-fetch-mode") == Some("navigate");
    if foreign && !followed_link { Err(foreign_origin()) } else { Ok(()) }
}

fn foreign_host() -> ApiError {
    ApiError::new(ErrorCode::ForeignHost, "this server does not go by the name in the Host header")
        .with_hint(
            "use localhost or 127.0.0.1; for other names start the server with `--domain https://NAME` or listen on another \
             address: both require a key",
        )
}

fn foreign_origin() -> ApiError {
    ApiError::new(ErrorCode::ForeignOrigin, "pages of other origins may not use this API").with_hint(
        "name, port and scheme must be those of the request; behind a proxy start the server with `--domain https://NAME[:PORT]`",
    )
}

/// Returns the refusal of a request that came through a front while there is no key.
fn needs_key() -> ApiError {
    let message = "without a key this server answers programs on its own machine only, and a proxy passed this request on";
    ApiError::new(ErrorCode::NeedsKey, message).with_hint(
        "start the server with `sandyard up --domain https://NAME`, which makes a key and prints it, or write a key into \
         `api.key` of its data folder (mode 0600) and start it again",
    )
}

/// Returns the refusal of a missing or wrong key or ticket. It does not tell these cases apart.
pub fn unauthorized() -> ApiError {
    ApiError::new(ErrorCode::Unauthorized, "a valid key is needed")
        .with_hint("send `Authorization: Bearer <key>`; the key was printed at the server's first start")
}

#[cfg(test)]
#[path = "access_tests.rs"]
mod tests;
