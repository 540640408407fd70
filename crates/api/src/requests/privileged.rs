//! Members of other systems that would weaken the isolation. They are rejected by name, so that nobody believes
//! they were honoured.

/// Names without `_` and `-`, in lower case.
const NAMES: [&str; 36] = [
    "annotations",
    "binds",
    "capabilities",
    "capadd",
    "capdrop",
    "cgroup",
    "cgroupparent",
    "container",
    "device",
    "devices",
    "dns",
    "driver",
    "driveropts",
    "entrypoint",
    "hostconfig",
    "hostnetwork",
    "hostpid",
    "image",
    "ipc",
    "labels",
    "mount",
    "mounts",
    "network",
    "networkmode",
    "pid",
    "ports",
    "privileged",
    "publish",
    "root",
    "runtime",
    "securitycontext",
    "securityopt",
    "sysctls",
    "user",
    "userns",
    "volumes",
];

/// True if a member would weaken the isolation.
pub(crate) fn is_privileged(member: &str) -> bool {
    let plain: String = member.chars().filter(|letter| !"_-".contains(*letter)).collect();
    NAMES.contains(&plain.to_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_spellings_are_known() {
        for member in
            ["privileged", "cap_add", "capAdd", "CapAdd", "mounts", "network", "network-mode", "image"]
        {
            assert!(is_privileged(member), "{member}");
        }
        assert!(!is_privileged("limits"));
    }
}
