//! Whose job it is, and whether a caller may do something to it: the one comparison that every way to a job goes through.

use super::caller::{AccountId, Caller, TenantId};
use super::scope::AccessScope;

/// The account and tenant that a job belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnerAccount {
    /// The account that scheduled it.
    pub account: AccountId,
    /// The tenant of that account.
    pub tenant: TenantId,
}

impl OwnerAccount {
    /// The owner of every job of a server without accounts.
    pub const OPERATOR: Self = Self { account: AccountId::OPERATOR, tenant: TenantId::DEFAULT };
}

/// Why a caller may not do something to a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessDenied {
    /// The job belongs to somebody else. The caller must not learn that it exists.
    NotOwner,
    /// The caller may see the job, but lacks the scope.
    MissingScope,
}

/// Decides whether a caller may do what `scope` covers to a job of `owner`. The operator owns every job of every tenant.
pub fn may(caller: &Caller, owner: &OwnerAccount, scope: AccessScope) -> Result<(), AccessDenied> {
    let is_operator = *caller.account() == AccountId::OPERATOR;
    let owns = *caller.account() == owner.account && *caller.tenant() == owner.tenant;
    // Ownership first: a refusal for want of a scope would tell a stranger that the job exists.
    if !is_operator && !owns {
        return Err(AccessDenied::NotOwner);
    }
    if caller.has(scope) { Ok(()) } else { Err(AccessDenied::MissingScope) }
}

#[cfg(test)]
mod tests {
    use super::super::scope::AccessScopes;
    use super::*;

    fn caller(account: &str, tenant: &str, scopes: AccessScopes) -> Caller {
        Caller::new(AccountId::parse(account).unwrap(), TenantId::parse(tenant).unwrap(), scopes)
    }

    fn owner(account: &str, tenant: &str) -> OwnerAccount {
        OwnerAccount { account: AccountId::parse(account).unwrap(), tenant: TenantId::parse(tenant).unwrap() }
    }

    #[test]
    fn a_job_is_its_owners_and_the_operators() {
        let job = owner("ann", "red");
        let scope = AccessScope::ReadJobs;
        assert_eq!(may(&caller("ann", "red", AccessScopes::ALL), &job, scope), Ok(()));
        assert_eq!(may(&Caller::operator(), &job, scope), Ok(()));
        for (account, tenant) in [("bob", "red"), ("ann", "blue"), ("bob", "blue")] {
            let other = caller(account, tenant, AccessScopes::ALL);
            assert_eq!(may(&other, &job, scope), Err(AccessDenied::NotOwner), "{account} of {tenant}");
        }
        let other = caller("ann", "default", AccessScopes::ALL);
        assert_eq!(may(&other, &OwnerAccount::OPERATOR, scope), Err(AccessDenied::NotOwner));
    }

    #[test]
    fn an_owner_needs_the_scope_and_a_stranger_does_not_learn_of_the_job() {
        let job = owner("ann", "red");
        let reader = caller("ann", "red", AccessScopes::only(AccessScope::ReadJobs));
        assert_eq!(may(&reader, &job, AccessScope::ReadJobs), Ok(()));
        for scope in [AccessScope::WriteJobs, AccessScope::UseSandbox, AccessScope::ReadYard] {
            assert_eq!(may(&reader, &job, scope), Err(AccessDenied::MissingScope), "{scope:?}");
        }
        let stranger = caller("bob", "red", AccessScopes::NONE);
        assert_eq!(may(&stranger, &job, AccessScope::ReadJobs), Err(AccessDenied::NotOwner));
        let pass = Caller::operator().by_pass();
        assert_eq!(may(&pass, &job, AccessScope::UseSandbox), Ok(()));
        assert_eq!(may(&pass, &job, AccessScope::WriteJobs), Err(AccessDenied::MissingScope));
    }
}
