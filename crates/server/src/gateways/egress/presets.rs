//! Names that stand for the hosts of a registry. No name of a host is one of them: each is a single label.

/// The preset that stands for every registry of packages, and for GitHub.
const PACKAGES: &str = "packages";

/// A registry, and its hosts as rules.
struct EgressPreset {
    name: &'static str,
    hosts: &'static [&'static str],
    /// True if `packages` includes it.
    of_packages: bool,
}

const fn registry(name: &'static str, hosts: &'static [&'static str]) -> EgressPreset {
    EgressPreset { name, hosts, of_packages: true }
}

const PRESETS: &[EgressPreset] = &[
    registry("pypi", &["pypi.org", "files.pythonhosted.org"]),
    registry("npm", &["registry.npmjs.org", "registry.yarnpkg.com", "jsr.io", "npm.jsr.io"]),
    registry("crates", &["crates.io", "index.crates.io", "static.crates.io"]),
    registry("go", &["proxy.golang.org", "sum.golang.org"]),
    registry("maven", &["repo.maven.apache.org", "repo1.maven.org"]),
    registry("rubygems", &["rubygems.org", "index.rubygems.org"]),
    registry("conda-forge", &["conda.anaconda.org"]),
    registry("debian", &["deb.debian.org", "security.debian.org"]),
    registry("github", &["github.com", "api.github.com", "codeload.github.com", "*.githubusercontent.com"]),
    // Models and data of anybody, by the gigabyte: only for a job that names it.
    EgressPreset {
        name: "huggingface",
        hosts: &["huggingface.co", "*.huggingface.co", "*.hf.co"],
        of_packages: false,
    },
];

/// Returns the names of all presets, the one that stands for most registries first.
pub fn egress_preset_names() -> impl Iterator<Item = &'static str> {
    std::iter::once(PACKAGES).chain(PRESETS.iter().map(|preset| preset.name))
}

/// Returns the rules that a name stands for; `None` if it is no preset.
pub(super) fn hosts(name: &str) -> Option<Vec<&'static str>> {
    let chosen = |preset: &&EgressPreset| {
        if name == PACKAGES { preset.of_packages } else { preset.name == name }
    };
    let hosts: Vec<_> =
        PRESETS.iter().filter(chosen).flat_map(|preset| preset.hosts.iter().copied()).collect();
    (!hosts.is_empty()).then_some(hosts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_is_every_registry_and_models_are_named() {
        let packages = hosts(PACKAGES).unwrap();
        for host in
            ["pypi.org", "index.crates.io", "proxy.golang.org", "repo.maven.apache.org", "rubygems.org"]
        {
            assert!(packages.contains(&host), "{host}");
        }
        assert!(!packages.iter().any(|host| host.contains("huggingface")));
        assert_eq!(hosts("huggingface").unwrap()[0], "huggingface.co");
        assert_eq!(hosts("conda-forge").unwrap(), ["conda.anaconda.org"]);
        assert_eq!(hosts("example.com"), None);
    }

    #[test]
    fn every_name_stands_for_hosts() {
        assert!(egress_preset_names().all(|name| hosts(name).is_some()));
    }

    #[test]
    fn no_preset_has_the_name_of_a_host() {
        assert!(PRESETS.iter().all(|preset| !preset.name.contains('.') && preset.name != PACKAGES));
    }
}
