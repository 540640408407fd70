//! Access to the API.
//!
//! Owns the rules on `Host` and `Origin` ([`origins`]), on bearer keys ([`keys`]), on the origins of sandboxes' ports
//! ([`visits`], [`passes`]), and on whose job it is ([`may`]); `app` makes and redeems tickets. Every request, upgrades
//! included, is first sorted to the API or to a job's origin ([`AccessRules::site`]), then passes [`AccessRules::admit`] or
//! [`AccessRules::visit`] once. The API knows no cookies, so nothing that a browser sends by itself opens anything there.

mod caller;
pub mod keys;
pub mod origins;
mod ownership;
pub mod passes;
mod scope;
pub mod visits;

use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};
use axum::http::{HeaderMap, Method};
use sandyard_api::{ApiError, ErrorCode};

pub use crate::key_file::KeyFileError;
pub use caller::{AccountId, Caller, TenantId};
pub use keys::{CreatedKey, KeyStore};
use origins::{
    Domain, JobOrigin, LOCAL_DOMAIN, host_name, is_job_origin, is_local_name, name_of_authority,
    name_of_origin,
};
pub use ownership::{AccessDenied, OwnerAccount, may};
use passes::{PassSecret, Passes};
pub use scope::{AccessScope, AccessScopes};

/// The rules of one listening address.
#[derive(Debug)]
pub struct AccessRules {
    keys: KeyStore,
    listen_name: String,
    open: bool,
    domain: Option<Domain>,
    passes: Passes,
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
        Self { keys, listen_name, open, domain: None, passes }
    }

    /// Adds job origins below a domain to those on the machine itself.
    #[must_use]
    pub fn with_domain(self, domain: Domain) -> Self {
        Self { domain: Some(domain), ..self }
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

    /// Rejects a request by an unknown name of this server, or one that a page of another origin caused.
    pub fn check(&self, method: &Method, headers: &HeaderMap) -> Result<(), ApiError> {
        // The host first: the check of the origin compares with it.
        let host = self.check_host(headers)?;
        self.check_origin(headers, &host)?;
        refuse_foreign_page(method, headers)
    }

    /// Checks a request as [`AccessRules::check`] does, then its key, and returns its caller. An open address needs no key.
    pub fn admit(&self, method: &Method, headers: &HeaderMap) -> Result<Caller, ApiError> {
        // Before the key: a foreign page learns nothing about keys, and an open address is protected by these checks alone.
        self.check(method, headers)?;
        if self.open {
            return Ok(Caller::operator());
        }
        // Every key is the operator's until accounts have keys of their own.
        Ok(Caller::operator().with_key(self.key_id(headers)?))
    }

    /// An open address answers only to its own names, or a page could rebind its name to this address and read everything.
    /// With keys there is nothing ambient to steal, but a job's origin is still never the API.
    fn check_host(&self, headers: &HeaderMap) -> Result<String, ApiError> {
        let mut values = headers.get_all(HOST).iter();
        let value = values.next().and_then(|value| value.to_str().ok());
        let (Some(value), None) = (value, values.next()) else {
            return Err(ApiError::new(ErrorCode::BadRequest, "the request needs exactly one Host header"));
        };
        let name = name_of_authority(value)
            .ok_or_else(|| ApiError::new(ErrorCode::BadRequest, "the Host header is malformed"))?;
        let known = self.is_own_name(&name) || (!self.open && !is_job_origin(&name));
        if known { Ok(name) } else { Err(foreign_host()) }
    }

    fn check_origin(&self, headers: &HeaderMap, host: &str) -> Result<(), ApiError> {
        for origin in headers.get_all(ORIGIN) {
            let name = origin.to_str().ok().and_then(name_of_origin).ok_or_else(foreign_origin)?;
            let same = self.is_own_name(&name) || (!self.open && name == host);
            // A page of a sandbox is hostile, although its name is below the server's own.
            if !same || is_job_origin(&name) {
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
fn refuse_foreign_page(method: &Method, headers: &HeaderMap) -> Result<(), ApiError> {
    let field = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let foreign = matches!(field("sec-fetch-site"), Some("cross-site" | "same-site"));
    let followed_link = method == Method::GET && field("sec-fetch-mode") == Some("navigate");
    if foreign && !followed_link { Err(foreign_origin()) } else { Ok(()) }
}

fn foreign_host() -> ApiError {
    ApiError::new(ErrorCode::ForeignHost, "this server does not go by the name in the Host header")
        .with_hint("use localhost or 127.0.0.1, or listen on another address, where a key is required")
}

fn foreign_origin() -> ApiError {
    ApiError::new(ErrorCode::ForeignOrigin, "pages of other origins may not use this API")
}

/// Returns the refusal of a missing or wrong key or ticket. It does not tell these cases apart.
pub fn unauthorized() -> ApiError {
    ApiError::new(ErrorCode::Unauthorized, "a valid key is needed")
        .with_hint("send `Authorization: Bearer <key>`; the key was printed at the server's first start")
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    fn headers(fields: &[(&str, &str)]) -> HeaderMap {
        let field = |(name, value): &(&str, &str)| {
            (name.parse::<HeaderName>().unwrap(), value.parse::<HeaderValue>().unwrap())
        };
        let mut map = HeaderMap::new();
        for (name, value) in fields.iter().map(field) {
            map.append(name, value);
        }
        map
    }

    fn open_code(fields: &[(&str, &str)]) -> Option<ErrorCode> {
        let access = AccessRules::new("127.0.0.1", KeyStore::default());
        access.admit(&Method::POST, &headers(fields)).err().map(|error| error.code)
    }

    #[test]
    fn job_origins_are_told_from_the_api_and_addressed_by_the_name_the_client_used() {
        let job = "k5c7jq3l2m4n6o7p2q3r4s5t6u";
        let origin = JobOrigin { job: crate::job::JobId::parse(job).unwrap(), port: 8888 };
        let plain = AccessRules::new("127.0.0.1", KeyStore::default());
        let domain = AccessRules::new("0.0.0.0", KeyStore::default())
            .with_domain(Domain::parse("https://yard.example").unwrap());
        let site = |access: &AccessRules, host: &str| access.site(&headers(&[("host", host)]));
        let local = format!("8888-{job}.localhost:8000");
        let named = format!("8888-{}.YARD.example", job.to_uppercase());
        assert_eq!(site(&plain, &local), Site::Job(origin.clone()));
        assert_eq!(site(&domain, &local), Site::Job(origin.clone()));
        assert_eq!(site(&domain, &named), Site::Job(origin.clone()));
        assert_eq!(site(&plain, &named), Site::Api);
        assert_eq!(plain.site(&headers(&[("host", &local), ("host", "localhost")])), Site::Api);
        let url = |access: &AccessRules, host: &str| access.origin_url(&origin, &headers(&[("host", host)]));
        assert_eq!(url(&plain, "127.0.0.1:8000"), Some(format!("http://8888-{job}.localhost:8000")));
        assert_eq!(url(&domain, "localhost:9000"), Some(format!("http://8888-{job}.localhost:9000")));
        assert_eq!(url(&domain, "yard.example:8000"), Some(format!("https://8888-{job}.yard.example")));
        assert_eq!(url(&plain, "10.0.0.1:8000"), None);
    }

    #[test]
    fn w2_w8_an_open_address_knows_only_local_names() {
        for host in ["localhost", "localhost:9999", "127.0.0.1:8000", "[::1]:8000", "LOCALHOST", "localhost."]
        {
            assert_eq!(open_code(&[("host", host)]), None, "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.nip.io",
            "8888-abc.localhost:8000",
            "10.0.0.1",
        ] {
            assert_eq!(open_code(&[("host", host)]), Some(ErrorCode::ForeignHost), "{host}");
        }
        for host in ["", "a b", "[::1", "localhost:port", "user@localhost"] {
            assert_eq!(open_code(&[("host", host)]), Some(ErrorCode::BadRequest), "{host}");
        }
        assert_eq!(open_code(&[]), Some(ErrorCode::BadRequest));
        assert_eq!(open_code(&[("host", "localhost"), ("host", "localhost")]), Some(ErrorCode::BadRequest));
    }

    #[test]
    fn w2_w8_origins_are_compared_by_name() {
        for origin in ["http://localhost:3000", "http://127.0.0.1", "http://[::1]:8000", "https://localhost"]
        {
            assert_eq!(open_code(&[("host", "localhost"), ("origin", origin)]), None, "{origin}");
        }
        for origin in [
            "null",
            "",
            "http://evil.example",
            "http://localhost.evil.example",
            "http://8888-abc.localhost:8000",
            "http://5173-k5c7jq3l2m4n6o7p2q3r4s5t6u.localhost",
            "file://",
            "http://localhost@evil.example",
            "localhost",
        ] {
            let code = open_code(&[("host", "localhost"), ("origin", origin)]);
            assert_eq!(code, Some(ErrorCode::ForeignOrigin), "{origin}");
        }
    }

    #[test]
    fn w19_requests_a_foreign_page_causes_without_origin_are_refused() {
        let access = AccessRules::new("localhost", KeyStore::default());
        let fields = |mode| {
            headers(&[("host", "localhost"), ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", mode)])
        };
        assert!(access.admit(&Method::GET, &fields("no-cors")).is_err());
        assert!(access.admit(&Method::POST, &fields("navigate")).is_err());
        assert!(access.admit(&Method::GET, &fields("navigate")).is_ok());
    }

    #[test]
    fn w23_keys_are_needed_everywhere_but_on_an_open_loopback() {
        let store = || KeyStore::from_keys(["sk-right".to_owned()]);
        let code = |access: &AccessRules, fields: &[(&str, &str)]| {
            let mut all = vec![("host", "yard.example:8000")];
            all.extend_from_slice(fields);
            access.admit(&Method::GET, &headers(&all)).err().map(|error| error.code)
        };
        let access = AccessRules::new("0.0.0.0", store());
        assert_eq!(code(&access, &[("authorization", "Bearer sk-right")]), None);
        assert_eq!(code(&access, &[("authorization", "bearer sk-right")]), None);
        for value in [
            "",
            "Bearer",
            "Bearer ",
            "Bearer sk-wrong",
            "Basic sk-right",
            "sk-right",
            "Bearer sk-right,sk-right",
        ] {
            assert_eq!(code(&access, &[("authorization", value)]), Some(ErrorCode::Unauthorized), "{value}");
        }
        let twice = [("authorization", "Bearer sk-right"), ("authorization", "Bearer sk-right")];
        assert_eq!(code(&access, &twice), Some(ErrorCode::Unauthorized));
        assert_eq!(
            code(&AccessRules::new("0.0.0.0", KeyStore::default()), &[]),
            Some(ErrorCode::Unauthorized)
        );
        assert!(!AccessRules::new("127.0.0.1", store()).is_open());
        let own = [("authorization", "Bearer sk-right"), ("origin", "https://yard.example")];
        assert_eq!(code(&access, &own), None);
        let foreign = [("authorization", "Bearer sk-right"), ("origin", "https://other.example")];
        assert_eq!(code(&access, &foreign), Some(ErrorCode::ForeignOrigin));
    }
}
