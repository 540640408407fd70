//! Passes: the content of a job origin's cookie. Each opens one port of one job for one account and a bounded time.
//!
//! A pass is an expiry, the account that made it, and a message authentication code, so no server has to remember it and a
//! restart does not sign anybody out. The code's key is made from a secret on disk and the API's keys: changing the keys ends
//! every pass.

use std::path::Path;
use std::time::Duration;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::caller::{AccountId, Caller, TenantId};
use super::keys::KeyStore;
use super::origins::JobOrigin;
use super::scope::AccessScopes;
use crate::key_file::{KEY_BYTES, KeyFileError, load_or_create_key};

/// Lifetime of a pass: a working day and the evening after it.
const PASS_LIFETIME: Duration = Duration::from_secs(16 * 3600);

/// Makes and verifies passes.
#[derive(Clone)]
pub struct Passes {
    /// Without a secret every pass is refused.
    mac: Option<Hmac<Sha256>>,
}

/// The secret of all passes of a yard.
pub struct PassSecret([u8; KEY_BYTES]);

impl PassSecret {
    /// A secret of this process alone.
    pub fn random() -> Result<Self, KeyFileError> {
        let mut bytes = [0; KEY_BYTES];
        getrandom::fill(&mut bytes).map_err(|_| KeyFileError::Random)?;
        Ok(Self(bytes))
    }

    /// The secret in a file that only its owner can read; makes the file if there is none.
    pub fn load_or_create(path: &Path) -> Result<Self, KeyFileError> {
        load_or_create_key(path).map(Self)
    }
}

impl Passes {
    /// Passes that end when one of the API's keys changes.
    pub(super) fn new(secret: &PassSecret, keys: &KeyStore) -> Self {
        let mac = keys.digests().iter().fold(keyed(&secret.0), |mac, digest| mac.chain_update(digest));
        Self { mac: Some(keyed(&mac.finalize().into_bytes())) }
    }

    /// Passes of a machine without randomness: none is ever good.
    pub(super) fn none() -> Self {
        Self { mac: None }
    }

    /// A pass for an origin in the name of a caller, from this moment on.
    pub fn make(&self, origin: &JobOrigin, caller: &Caller, now: Duration) -> String {
        let until = (now + PASS_LIFETIME).as_secs();
        let (account, tenant) = (caller.account(), caller.tenant());
        let code = self.code(origin, until, account, tenant);
        let code = code.map(|code| code.finalize().into_bytes()).unwrap_or_default();
        let code = hex::encode(code);
        format!("{until:x}.{}.{}.{code}", account.as_str(), tenant.as_str())
    }

    /// Returns the caller of a pass that is valid for an origin at this moment. The pass proves no right to the job; each use
    /// checks that again.
    pub fn caller(&self, origin: &JobOrigin, pass: &str, now: Duration) -> Option<Caller> {
        let parts: Vec<&str> = pass.split('.').collect();
        let &[until, account, tenant, code] = parts.as_slice() else { return None };
        let (until, code) = (u64::from_str_radix(until, 16).ok()?, hex::decode(code).ok()?);
        let (account, tenant) = (AccountId::parse(account)?, TenantId::parse(tenant)?);
        let last = (now + PASS_LIFETIME).as_secs();
        // The upper bound refuses a pass from the future, made while the clock was wrong.
        let in_time = until > now.as_secs() && until <= last;
        // `verify_slice` compares in constant time.
        let right = self.code(origin, until, &account, &tenant)?.verify_slice(&code).is_ok();
        (in_time && right).then(|| Caller::new(account, tenant, AccessScopes::NONE).by_pass())
    }

    /// The seal of a cookie that a program of an origin sets. `None` without a secret.
    pub(super) fn seal(&self, origin: &JobOrigin, name: &str, value: &str) -> Option<String> {
        Some(hex::encode(self.seal_code(origin, name, value)?.finalize().into_bytes()))
    }

    /// True if this is the seal of an origin for a cookie with this name and value.
    pub(super) fn is_seal(&self, origin: &JobOrigin, name: &str, value: &str, seal: &str) -> bool {
        let code = hex::decode(seal).ok().zip(self.seal_code(origin, name, value));
        code.is_some_and(|(seal, code)| code.verify_slice(&seal).is_ok())
    }

    fn seal_code(
        &self,
        JobOrigin { job, port }: &JobOrigin,
        name: &str,
        value: &str,
    ) -> Option<Hmac<Sha256>> {
        // The first word keeps seals and passes apart; no header contains a zero byte.
        let text = format!("cookie\0{job}\0{port}\0{name}\0{value}");
        self.mac.clone().map(|mac| mac.chain_update(text))
    }

    /// Returns the lifetime of a pass.
    pub fn life(&self) -> Duration {
        PASS_LIFETIME
    }

    fn code(
        &self,
        origin: &JobOrigin,
        until: u64,
        account: &AccountId,
        tenant: &TenantId,
    ) -> Option<Hmac<Sha256>> {
        let JobOrigin { job, port } = origin;
        let (account, tenant) = (account.as_str(), tenant.as_str());
        // Zero bytes separate the fields; none of them can contain one, so no two passes have the same text.
        let text = format!("pass\0{job}\0{port}\0{until}\0{account}\0{tenant}");
        self.mac.clone().map(|mac| mac.chain_update(text))
    }
}

impl std::fmt::Debug for Passes {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Passes(redacted)")
    }
}

/// HMAC takes keys of every length; a constructor that could fail is not offered for fixed ones.
fn keyed(key: &[u8]) -> Hmac<Sha256> {
    let mut block = [0; 64];
    block[..key.len().min(64)].copy_from_slice(&key[..key.len().min(64)]);
    Hmac::new(&block.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::JobId;

    fn origin(port: u16) -> JobOrigin {
        JobOrigin { job: JobId::parse(&"a".repeat(26)).unwrap(), port }
    }

    #[test]
    fn w7_a_pass_opens_one_port_of_one_job_for_its_time() {
        let secret = PassSecret([7; 32]);
        let passes = Passes::new(&secret, &KeyStore::default());
        let now = Duration::from_secs(1_000_000);
        let operator = Caller::operator();
        let pass = passes.make(&origin(8888), &operator, now);
        assert_eq!(passes.caller(&origin(8888), &pass, now), Some(operator.clone().by_pass()));
        assert_eq!(passes.caller(&origin(5173), &pass, now), None, "another port");
        let other = JobOrigin { job: JobId::parse(&"b".repeat(26)).unwrap(), port: 8888 };
        assert_eq!(passes.caller(&other, &pass, now), None, "another job");
        assert_eq!(passes.caller(&origin(8888), &pass, now + PASS_LIFETIME), None, "too late");
        let (until, rest) = pass.split_once('.').unwrap();
        let later = u64::from_str_radix(until, 16).unwrap() + 1;
        for wrong in [
            String::new(),
            ".".into(),
            until.into(),
            format!("{later:x}.{rest}"),
            pass.replace('.', ""),
            pass.replace("operator", "ann"),
            pass.replace("default", "red"),
        ] {
            assert_eq!(passes.caller(&origin(8888), &wrong, now), None, "{wrong}");
        }
        let rekeyed = Passes::new(&secret, &KeyStore::from_keys(["sy_new".to_owned()]));
        assert_eq!(rekeyed.caller(&origin(8888), &pass, now), None, "the API's keys were changed");
        let restarted = Passes::new(&secret, &KeyStore::default());
        assert!(restarted.caller(&origin(8888), &pass, now).is_some(), "a restart");
        let ann =
            Caller::new(AccountId::parse("ann").unwrap(), TenantId::parse("red").unwrap(), AccessScopes::ALL);
        let pass = passes.make(&origin(8888), &ann, now);
        assert_eq!(passes.caller(&origin(8888), &pass, now), Some(ann.by_pass()), "another account");
    }

    #[test]
    fn the_secret_outlives_the_process_and_is_nobody_elses() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("origins.key");
        let first = PassSecret::load_or_create(&path).unwrap();
        assert_eq!(first.0, PassSecret::load_or_create(&path).unwrap().0);
        let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&path).unwrap());
        assert_eq!(mode & 0o777, 0o600);
        std::fs::write(&path, "short").unwrap();
        assert!(matches!(PassSecret::load_or_create(&path), Err(KeyFileError::Empty { .. })));
    }
}
