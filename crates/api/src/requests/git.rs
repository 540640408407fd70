//! `git` of `POST /schedule`: the repository that a job starts from, and the rules for its address.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::refusal::invalid;
use super::schedule_rules::is_host_name;
use crate::ApiError;

/// A repository of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GitBody {
    /// An `https` address without a user or a key.
    pub url: String,
    /// Branch, tag or full commit id; the default branch if not given.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
}

/// A repository to start from, as a stored job has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GitSource {
    /// An `https` address, or an `http` address whose host and port are in `egress`.
    pub url: String,
    /// Branch, tag or commit.
    pub reference: Option<String>,
}

impl From<GitBody> for GitSource {
    fn from(body: GitBody) -> Self {
        Self { url: body.url, reference: body.reference }
    }
}

impl GitBody {
    /// Checks address and reference. Plain `http` is for mirrors inside a network: `egress` must name its host and port.
    pub(super) fn check(&self, egress: &[String]) -> Result<(), ApiError> {
        let url = self.url.as_str();
        let clean = url.bytes().all(|byte| byte.is_ascii_graphic()) && url.len() <= 2048;
        let (scheme, rest) = url.split_once("://").filter(|_| clean).unwrap_or_default();
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        if authority.contains('@') {
            return Err(invalid("git.url", "must not have a user or a key in it")
                .with_hint("it would be readable in the sandbox and in the download"));
        }
        let (host, port) = authority.split_once(':').unwrap_or((authority, ""));
        let port_fits = port.is_empty() || port.parse::<u16>().is_ok_and(|port| port > 0);
        let named = || {
            let wanted = format!("{host}:{}", if port.is_empty() { "80" } else { port }).to_ascii_lowercase();
            egress.contains(&wanted)
        };
        let scheme_fits = scheme == "https" || (scheme == "http" && named());
        if !scheme_fits || !port_fits || !is_host_name(host) {
            return Err(invalid(
                "git.url",
                "must be an `https://` address, or an `http://` one whose host and port are in `egress`",
            ));
        }
        if self.reference.as_deref().is_some_and(|reference| !is_reference(reference)) {
            return Err(invalid("git.ref", "must name a branch, tag or commit"));
        }
        Ok(())
    }
}

/// True for names of branches and tags and for object ids, as git defines them; false for options and ranges.
fn is_reference(text: &str) -> bool {
    let clean = text.bytes().all(|byte| byte.is_ascii_graphic() && !b"~^:?*[\\".contains(&byte));
    clean
        && (1..=255).contains(&text.len())
        && !text.starts_with('-')
        && !text.contains("..")
        && !text.contains("@{")
}
