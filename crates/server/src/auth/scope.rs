//! Scopes: the rights of a caller, as the table of routes and the use cases name them.

/// One kind of thing that a caller may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessScope {
    /// Read jobs: status, events, logs, pictures, results, audits.
    ReadJobs,
    /// Schedule, answer, cancel and delete jobs.
    WriteJobs,
    /// Work in a live sandbox: shell, code, files, desktop, ports.
    UseSandbox,
    /// Read about the server itself: version, drivers, counters.
    ReadYard,
}

/// A set of scopes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccessScopes(u8);

impl AccessScopes {
    /// The set of all scopes, for the operator.
    pub const ALL: Self = Self(u8::MAX);
    /// The empty set: every check fails.
    pub const NONE: Self = Self(0);

    /// Returns the set with one scope.
    pub const fn only(scope: AccessScope) -> Self {
        Self(1 << scope as u8)
    }

    /// These scopes and one more.
    #[must_use]
    pub const fn and(self, scope: AccessScope) -> Self {
        Self(self.0 | Self::only(scope).0)
    }

    /// True if the scope is one of these.
    pub const fn contains(self, scope: AccessScope) -> bool {
        self.0 & Self::only(scope).0 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_what_was_put_into_it() {
        let scopes = AccessScopes::only(AccessScope::ReadJobs).and(AccessScope::UseSandbox);
        assert!(scopes.contains(AccessScope::ReadJobs) && scopes.contains(AccessScope::UseSandbox));
        assert!(!scopes.contains(AccessScope::WriteJobs) && !scopes.contains(AccessScope::ReadYard));
        assert!(
            AccessScopes::ALL.contains(AccessScope::ReadYard)
                && !AccessScopes::NONE.contains(AccessScope::ReadJobs)
        );
    }
}
