//! Cookies between a client and a program in a sandbox.
//!
//! Behind a front a browser sends more cookies than the program's own: those of a sign-on service for the whole domain come
//! with every request. So a program gets exactly the cookies that it set itself, with the values that it gave them. A seal,
//! a cookie of the server's own beside each of them, proves that. Scripts of a page can't make one.

use axum::http::header::{COOKIE, SET_COOKIE};
use axum::http::{HeaderMap, HeaderValue};

use super::headers::{HeaderFilter, PortAddress, insert};
use crate::auth::visits::{cookies_in, is_own_cookie};

impl HeaderFilter<'_> {
    /// Puts the cookies for the program into its headers.
    pub(super) fn pass_cookies(&self, headers: &HeaderMap, sent: &mut HeaderMap) {
        let kept: Vec<String> = cookies_in(headers)
            .filter(|(name, _)| !is_own_cookie(name))
            .filter(|cookie| !self.behind_front || self.access.is_sealed(&self.origin, *cookie, headers))
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        if !kept.is_empty() {
            insert(sent, COOKIE, &kept.join("; "));
        }
    }

    /// Replaces the cookies that a program sets by those that it may set, each with its seal where one is needed.
    pub(super) fn filter_set_cookies(&self, sent: &mut HeaderMap) {
        let cookies: Vec<HeaderValue> = sent
            .get_all(SET_COOKIE)
            .iter()
            .filter(|cookie| may_be_set(cookie, &self.address))
            .cloned()
            .collect();
        sent.remove(SET_COOKIE);
        for cookie in cookies {
            let seal = self.seal(&cookie);
            sent.append(SET_COOKIE, cookie);
            if let Some(seal) = seal {
                sent.append(SET_COOKIE, seal);
            }
        }
    }

    fn seal(&self, cookie: &HeaderValue) -> Option<HeaderValue> {
        let pair = cookie.to_str().ok().filter(|_| self.behind_front)?.split(';').next()?;
        let (name, value) = pair.split_once('=')?;
        let path = match &self.address {
            PortAddress::Origin => None,
            PortAddress::Below(prefix) => Some(prefix.as_str()),
        };
        let set = self.access.seal_cookie(&self.origin, (name.trim(), value.trim()), self.tls, path)?;
        HeaderValue::from_str(&set).ok()
    }
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
    !has("domain") && !is_own_cookie(name) && within
}
