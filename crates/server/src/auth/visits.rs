//! Access to a port of a sandbox on its own origin.
//!
//! A browser needs the origin's own cookie, which holds a pass. A request that a page of another origin causes is refused
//! with or without the cookie: browsers count the names below one domain as one site, so `SameSite` alone would let one
//! job's page reach another's. A link that was followed from elsewhere asks the person first. In keyless mode a local
//! program needs nothing, and a person who types the address gets the cookie with the first page; a request that came
//! through a proxy needs the cookie always.

use std::time::Duration;

use axum::http::header::{COOKIE, HOST, ORIGIN, USER_AGENT};
use axum::http::{HeaderMap, Method};

use super::caller::Caller;
use super::origins::{Domain, JobOrigin, PageOrigin};
use super::{AccessRules, RequestHead, fronts};

/// The cookie's name without TLS.
const COOKIE_NAME: &str = "sandyard-pass";
/// Begins the name of the cookie that seals a program's cookie.
const SEAL_PREFIX: &str = "sandyard-seal-";
/// With TLS our cookies get the prefix that makes browsers keep them to their host.
const HOST_PREFIX: &str = "__Host-";
/// Lifetime of a seal: longer than a browser's session, since a program's cookie may be.
const SEAL_LIFETIME: Duration = Duration::from_secs(30 * 24 * 3600);
/// Longest name of a cookie that is sealed.
const MAX_SEALED_NAME_BYTES: usize = 128;

/// The decision on a request that is admitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PortVisit {
    /// It goes to the sandbox, in the name of this caller.
    Known(Caller),
    /// It goes to the sandbox, and the answer brings a pass of this caller.
    First(Caller),
    /// A page of another origin led here; the person decides.
    Ask,
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VisitRefused {
    /// A page of another origin caused it.
    Foreign,
    /// It has no pass, or none that is good here.
    NoPass,
}

impl AccessRules {
    /// Decides about a request to a job's origin. Upgrades pass the same rules. The caller's right to the job is not decided
    /// here: that is the job's own check.
    pub fn visit(
        &self,
        origin: &JobOrigin,
        head: &RequestHead<'_>,
        now: Duration,
    ) -> Result<PortVisit, VisitRefused> {
        let RequestHead { method, headers, .. } = *head;
        let cause = RequestCause::of(headers);
        if !is_own_origin(headers) {
            return Err(VisitRefused::Foreign);
        }
        // Before the cookie: a page of another job is of the same site, so its requests carry this origin's cookie too.
        if cause.foreign {
            return if cause.is_page(method) { Ok(PortVisit::Ask) } else { Err(VisitRefused::Foreign) };
        }
        if let Some(caller) = passes_in(headers).find_map(|pass| self.passes.caller(origin, pass, now)) {
            return Ok(PortVisit::Known(caller));
        }
        if !self.open || fronts::is_passed_on(head) {
            return Err(VisitRefused::NoPass);
        }
        let local = Caller::operator().by_pass();
        match cause.browser {
            false => Ok(PortVisit::Known(local)),
            // Only a page that a person opens gets the cookie. A script's first request must not, or any page could obtain one.
            true if cause.is_page(method) => Ok(PortVisit::First(local)),
            true => Err(VisitRefused::NoPass),
        }
    }

    /// The `Set-Cookie` that lets a browser into an origin in the name of a caller: sent to that host alone, out of reach of
    /// scripts, and never with requests that another site causes.
    pub fn pass_cookie(
        &self,
        origin: &JobOrigin,
        caller: &Caller,
        headers: &HeaderMap,
        now: Duration,
    ) -> String {
        let pass = self.passes.make(origin, caller, now);
        let rest = format!("Path=/; HttpOnly; SameSite=Strict; Max-Age={}", self.passes.life().as_secs());
        if self.is_tls(headers) {
            format!("{HOST_PREFIX}{COOKIE_NAME}={pass}; Secure; {rest}")
        } else {
            format!("{COOKIE_NAME}={pass}; {rest}")
        }
    }

    /// The `Set-Cookie` that seals a cookie which a program sets behind a front. The browser sends cookies of the whole domain
    /// to every origin below it; the seal proves that this origin's program itself set this name to this value. `None`
    /// for a name that can't be part of another. `path` is that of the program, if it has no origin of its own; `tls` is
    /// [`AccessRules::is_tls`] of the request.
    pub fn seal_cookie(
        &self,
        origin: &JobOrigin,
        (name, value): (&str, &str),
        tls: bool,
        path: Option<&str>,
    ) -> Option<String> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if name.is_empty() || name.len() > MAX_SEALED_NAME_BYTES || !name.bytes().all(plain) {
            return None;
        }
        let seal = self.passes.seal(origin, name, value)?;
        // The prefix is only good for the path `/`.
        let (prefix, secure) = match (tls, path) {
            (true, None) => (HOST_PREFIX, "; Secure"),
            _ => ("", ""),
        };
        let rest = format!("HttpOnly; SameSite=Lax; Max-Age={}", SEAL_LIFETIME.as_secs());
        Some(format!("{prefix}{SEAL_PREFIX}{name}={seal}{secure}; Path={}; {rest}", path.unwrap_or("/")))
    }

    /// True if the request has the seal of this origin for a cookie.
    pub fn is_sealed(&self, origin: &JobOrigin, (name, value): (&str, &str), headers: &HeaderMap) -> bool {
        let seals = |(known, seal): (&str, &str)| {
            let sealed = known.strip_prefix(HOST_PREFIX).unwrap_or(known).strip_prefix(SEAL_PREFIX);
            sealed == Some(name) && self.passes.is_seal(origin, name, value, seal)
        };
        cookies_in(headers).any(seals)
    }

    /// True if browsers reach this host by TLS, as the operator configured it.
    pub fn is_tls(&self, headers: &HeaderMap) -> bool {
        let host = headers.get(HOST).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let below = |domain: &Domain| {
            super::name_of_authority(host).is_some_and(|name| name.ends_with(&format!(".{}", domain.name)))
        };
        self.domain.as_ref().is_some_and(|domain| domain.tls && below(domain))
    }
}

/// True if a name is that of a cookie of ours: a pass, or the seal of a program's cookie. A sandbox may neither see nor set
/// it.
pub fn is_own_cookie(name: &str) -> bool {
    let name = name.strip_prefix(HOST_PREFIX).unwrap_or(name);
    name == COOKIE_NAME || name.starts_with(SEAL_PREFIX)
}

/// True if a browser says that a page of another origin caused the request.
pub fn is_foreign(headers: &HeaderMap) -> bool {
    RequestCause::of(headers).foreign
}

/// True if a browser sent the request.
pub fn is_browser(headers: &HeaderMap) -> bool {
    RequestCause::of(headers).browser
}

/// The cause of a request, as its headers tell it.
struct RequestCause {
    browser: bool,
    foreign: bool,
    top_level: bool,
}

impl RequestCause {
    fn of(headers: &HeaderMap) -> Self {
        let field =
            |name: &str| headers.get_all(name).iter().map(|value| value.as_bytes()).collect::<Vec<_>>();
        let site = field("sec-fetch-site");
        let agent = headers.get(USER_AGENT).map(|value| value.as_bytes()).unwrap_or_default();
        let fetches = headers.keys().any(|name| name.as_str().starts_with("sec-fetch-"));
        Self {
            // Every browser calls itself Mozilla; an old one says nothing else that tells it from a program.
            browser: fetches || headers.contains_key(ORIGIN) || agent.starts_with(b"Mozilla/"),
            foreign: !matches!(site.as_slice(), [] | [b"same-origin"] | [b"none"]),
            top_level: field("sec-fetch-mode") == [b"navigate"] && field("sec-fetch-dest") == [b"document"],
        }
    }

    /// A whole page that a person opens, in a tab or window of its own.
    fn is_page(&self, method: &Method) -> bool {
        self.top_level && method == Method::GET
    }
}

/// Every `Origin` is exactly the one that the request goes to. A browser sends it with every upgrade.
fn is_own_origin(headers: &HeaderMap) -> bool {
    let host = headers.get(HOST).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let own = |origin: &str| PageOrigin::parse(origin).is_some_and(|page| page.is_of(host));
    headers.get_all(ORIGIN).iter().all(|origin| origin.to_str().is_ok_and(own))
}

/// All cookies of our name: a page of another name below the same domain may have put one beside the right one.
fn passes_in(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let is_pass = |&(name, _): &(&str, &str)| name.strip_prefix(HOST_PREFIX).unwrap_or(name) == COOKIE_NAME;
    cookies_in(headers).filter(is_pass).map(|(_, value)| value)
}

/// Name and value of each cookie in a request.
pub fn cookies_in(headers: &HeaderMap) -> impl Iterator<Item = (&str, &str)> {
    let values = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = values.flat_map(|value| value.split(';')).filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (name.trim(), value.trim()))
}

#[cfg(test)]
#[path = "visits_tests.rs"]
mod tests;
