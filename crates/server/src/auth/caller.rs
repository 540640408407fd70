//! The caller of a use case: an account of a tenant, its scopes, and its proof of identity.
//!
//! Plain data. `http` makes one for each request, tickets and passes carry the one that made them, and every use case of
//! `app` takes one. An audit never names a key, only the beginning of its hash.

use std::borrow::Cow;

use super::scope::{AccessScope, AccessScopes};
use crate::audit::CallerFacts;

/// Longest name of an account or tenant: it travels in cookies.
const MAX_ID_BYTES: usize = 64;

/// The name of an account: lower-case letters, digits and hyphens.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AccountId(Cow<'static, str>);

/// The name of a tenant, in the same letters.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TenantId(Cow<'static, str>);

impl AccountId {
    /// The account of the person who runs the server. It owns every job.
    pub const OPERATOR: Self = Self(Cow::Borrowed("operator"));

    /// Reads a name; `None` if it has other letters or a wrong length.
    pub fn parse(text: &str) -> Option<Self> {
        is_id(text).then(|| Self(Cow::Owned(text.to_owned())))
    }

    /// Returns the name of the account.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TenantId {
    /// The only tenant of a server without accounts.
    pub const DEFAULT: Self = Self(Cow::Borrowed("default"));

    /// Reads a name; `None` if it has other letters or a wrong length.
    pub fn parse(text: &str) -> Option<Self> {
        is_id(text).then(|| Self(Cow::Owned(text.to_owned())))
    }

    /// Returns the name of the tenant.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_id(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=MAX_ID_BYTES).contains(&text.len()) && text.bytes().all(plain)
}

/// The proof of identity that a caller gave.
#[derive(Debug, Clone, PartialEq, Eq)]
enum CallerProof {
    /// A program on this machine that needed no key.
    Local,
    /// A bearer key, named by the beginning of its hash.
    Key(String),
    /// A ticket. The audit has a record of its making too.
    Ticket,
    /// The cookie of a job's origin.
    Pass,
}

/// The originator of a request: an account, its rights, and how it proved itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    account: AccountId,
    tenant: TenantId,
    scopes: AccessScopes,
    proof: CallerProof,
    /// The protocol between the caller and the API, if there is one.
    over: Option<&'static str>,
}

impl Caller {
    /// The operator on the server's own machine, with every scope.
    pub const fn operator() -> Self {
        Self {
            account: AccountId::OPERATOR,
            tenant: TenantId::DEFAULT,
            scopes: AccessScopes::ALL,
            proof: CallerProof::Local,
            over: None,
        }
    }

    /// An account of a tenant with some scopes.
    pub const fn new(account: AccountId, tenant: TenantId, scopes: AccessScopes) -> Self {
        Self { account, tenant, scopes, proof: CallerProof::Local, over: None }
    }

    /// Returns the account in whose name the caller acts.
    pub fn account(&self) -> &AccountId {
        &self.account
    }

    /// Returns the tenant that the account belongs to.
    pub fn tenant(&self) -> &TenantId {
        &self.tenant
    }

    /// True if the caller may do what this scope covers.
    pub fn has(&self, scope: AccessScope) -> bool {
        self.scopes.contains(scope)
    }

    /// This caller, who sent the key with that id.
    #[must_use]
    pub(super) fn with_key(self, id: String) -> Self {
        Self { proof: CallerProof::Key(id), ..self }
    }

    /// This caller, represented by the holder of a ticket that it made.
    #[must_use]
    pub(crate) fn by_ticket(self) -> Self {
        Self { proof: CallerProof::Ticket, ..self }
    }

    /// This caller, represented by the holder of a pass: it opens ports of a sandbox and nothing else.
    #[must_use]
    pub(super) fn by_pass(self) -> Self {
        Self { proof: CallerProof::Pass, scopes: AccessScopes::only(AccessScope::UseSandbox), ..self }
    }

    /// This caller, who came by the Model Context Protocol.
    #[must_use]
    pub(crate) fn over_mcp(self) -> Self {
        Self { over: Some("mcp"), ..self }
    }

    /// The caller's part of the facts of an audit record.
    pub(crate) fn facts(&self) -> CallerFacts {
        let by = match &self.proof {
            CallerProof::Local => "local".to_owned(),
            CallerProof::Key(id) => format!("key:{id}"),
            CallerProof::Ticket => "ticket".to_owned(),
            CallerProof::Pass => "pass".to_owned(),
        };
        CallerFacts { by, over: self.over }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_accounts_have_few_letters() {
        assert_eq!(AccountId::parse("operator"), Some(AccountId::OPERATOR));
        assert_eq!(TenantId::parse("default"), Some(TenantId::DEFAULT));
        for text in ["", "A", "a.b", "a b", "ü", &"a".repeat(65)] {
            assert_eq!(AccountId::parse(text), None, "{text}");
        }
    }

    #[test]
    fn an_audit_names_the_proof_and_never_the_key() {
        let described = |caller: Caller| (caller.facts().by, caller.facts().over);
        assert_eq!(described(Caller::operator()), ("local".to_owned(), None));
        let keyed = Caller::operator().with_key("abc".to_owned());
        assert_eq!(described(keyed.clone().over_mcp()), ("key:abc".to_owned(), Some("mcp")));
        assert_eq!(described(keyed.by_ticket()), ("ticket".to_owned(), None));
    }
}
