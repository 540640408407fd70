//! Each condition alone: it is named, and its fix is the one that helps.

use super::*;

fn good() -> HostFacts {
    let range = Some(IdRange { first: 100_000, count: 65_536 });
    HostFacts {
        user: 1000,
        max_user_namespaces: Some(15_000),
        unprivileged_userns_clone: Some(1),
        apparmor_restricts: Some(0),
        apparmor_label: "unconfined\n".into(),
        mappers: Some(Mappers {
            newuidmap: "/usr/bin/newuidmap".into(),
            newgidmap: "/usr/bin/newgidmap".into(),
        }),
        subuid: range,
        subgid: range,
        group: Ok("/sys/fs/cgroup/user.slice".into()),
    }
}

#[track_caller]
fn assert_named(facts: &HostFacts, detail: &str, fix: &str) {
    let obstacles = facts.obstacles();
    let [obstacle] = obstacles.as_slice() else { panic!("{obstacles:?}") };
    assert!(obstacle.detail.contains(detail), "{obstacle:?}");
    assert!(obstacle.fix.contains(fix), "{obstacle:?}");
}

#[test]
fn a_good_host_has_no_obstacle() {
    assert_eq!(good().obstacles(), []);
    // Kernels without the settings of Debian and Ubuntu.
    let plain = HostFacts { unprivileged_userns_clone: None, apparmor_restricts: None, ..good() };
    assert_eq!(plain.obstacles(), []);
}

#[test]
fn switched_off_user_namespaces_are_named() {
    let off = HostFacts { unprivileged_userns_clone: Some(0), ..good() };
    assert_named(&off, "unprivileged_userns_clone is 0", "sysctl -w kernel.unprivileged_userns_clone=1");
    let none = HostFacts { max_user_namespaces: Some(0), ..good() };
    assert_named(&none, "max_user_namespaces is 0", "sysctl -w user.max_user_namespaces");
}

#[test]
fn apparmor_is_no_obstacle_to_a_program_with_a_profile() {
    let restricted = HostFacts { apparmor_restricts: Some(1), ..good() };
    assert_named(&restricted, "AppArmor restricts", "packaging/apparmor/sandyard");
    let profiled = HostFacts { apparmor_label: "sandyard (unconfined)\n".into(), ..restricted };
    assert_eq!(profiled.obstacles(), []);
}

#[test]
fn missing_programs_and_ids_are_named() {
    assert_named(&HostFacts { mappers: None, ..good() }, "newuidmap", "apt-get install uidmap");
    assert_named(&HostFacts { subuid: None, ..good() }, "/etc/subuid", "--add-subuids");
    assert_named(&HostFacts { subgid: None, ..good() }, "/etc/subgid", "--add-subgids");
}

#[test]
fn each_lack_of_delegation_has_its_own_fix() {
    let with = |error| HostFacts { group: Err(error), ..good() };
    assert_named(&with(DelegationError::NotUnified), "version 2", "unified_cgroup_hierarchy=1");
    let not_ours = DelegationError::NotOurs("/sys/fs/cgroup/x".into());
    assert_named(&with(not_ours), "/sys/fs/cgroup/x can't be written", "systemd-run --user --scope");
    let lacking = DelegationError::Controllers { missing: "cpu".into() };
    assert_named(&with(lacking), "lacks the cpu controller", "Delegate=cpu memory pids");
}

#[test]
fn all_that_is_missing_is_told_at_once() {
    let facts = HostFacts { mappers: None, subuid: None, ..good() };
    let DriverOpenError::Unusable { detail, fix } = unusable(&facts.obstacles()) else { panic!() };
    assert_eq!(
        detail,
        "not root, and newuidmap and newgidmap are not installed; user 1000 has no range of ids in /etc/subuid"
    );
    assert!(fix.starts_with("run as root, or apt-get install uidmap; usermod --add-subuids"), "{fix}");
}
