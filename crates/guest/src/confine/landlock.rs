//! File-system rules, enforced by Landlock beside the mounts: read and execute everywhere, write only to paths of the boot document.
//!
//! The kernel must know Landlock at all, or the machine does not start; newer rights (rename across directories, truncate,
//! device ioctls, signals and abstract sockets to the outside) are added where it knows them.

use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, BitFlags, CompatLevel, Compatible as _, PathBeneath, PathFd, Ruleset,
    RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, RulesetStatus, Scope,
};

use crate::boot::BootFailure;

/// The oldest version of Landlock with which a machine starts.
const FLOOR: ABI = ABI::V1;
/// The newest version whose rights were reviewed.
const NEWEST: ABI = ABI::V7;
const STAGE: &str = "landlock";

/// Restricts this process and all its descendants. Needs no-new-privileges.
pub(crate) fn restrict(writable: &[PathBuf]) -> Result<(), BootFailure> {
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(FLOOR))
        .map_err(fails("not in this kernel"))?
        // From here on, rights that the kernel does not know are left out instead of failing.
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST))
        .map_err(fails("file rights"))?
        .scope(Scope::from_all(NEWEST))
        .map_err(fails("scopes"))?
        .create()
        .map_err(fails("create the rules"))?;
    rules = allow(rules, Path::new("/"), AccessFs::from_read(NEWEST))?;
    // Terminals and the null device; making or removing names stays forbidden.
    let device = AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev;
    rules = allow(rules, Path::new("/dev"), device)?;
    // A process may write its own oom_score_adj, comm and the like; everything else there is refused by its owner.
    rules = allow(rules, Path::new("/proc"), AccessFs::WriteFile | AccessFs::Truncate)?;
    for path in writable {
        rules = allow(rules, path, AccessFs::from_all(NEWEST))?;
    }
    let status = rules.restrict_self().map_err(fails("restrict"))?;
    // The crate reports rules that the kernel ignored as a status, not as an error.
    if status.ruleset == RulesetStatus::NotEnforced {
        return Err(BootFailure::plain(STAGE, "the kernel did not enforce the rules"));
    }
    Ok(())
}

fn allow(
    rules: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, BootFailure> {
    let parent = PathFd::new(path)
        .map_err(|error| BootFailure::plain(STAGE, format!("open {}: {error}", path.display())))?;
    rules
        .add_rule(PathBeneath::new(parent, access))
        .map_err(|error| BootFailure::plain(STAGE, format!("allow {}: {error}", path.display())))
}

fn fails<E: std::fmt::Display>(what: &'static str) -> impl Fn(E) -> BootFailure {
    move |error| BootFailure::plain(STAGE, format!("{what}: {error}"))
}
