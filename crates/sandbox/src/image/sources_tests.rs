//! Source files as they are found on real hosts.

use super::*;

const DEB822: &str = "Types: deb\n# http://snapshot.example/archive\nURIs: http://mirror.example/debian\nSuites: bookworm bookworm-updates\nComponents: main contrib\nSigned-By: /usr/share/keyrings/debian-archive-keyring.gpg\n\nTypes: deb deb-src\nURIs: http://mirror.example/debian-security\nSuites: bookworm-security\nComponents: main\nSigned-By: /usr/share/keyrings/debian-archive-keyring.gpg\n";

fn lines(sources: &[PackageSource]) -> Vec<String> {
    sources.iter().map(|source| source.line(None)).collect()
}

fn host(files: &[(&str, &str)]) -> Vec<PackageSource> {
    let apt = tempfile::tempdir().unwrap();
    fs::create_dir(apt.path().join("sources.list.d")).unwrap();
    for (name, text) in files {
        fs::write(apt.path().join(name), text).unwrap();
    }
    of_host(apt.path())
}

#[test]
fn the_hosts_mirrors_are_used_for_exactly_the_suite() {
    let sources = host(&[
        ("sources.list.d/debian.sources", DEB822),
        ("sources.list.d/node.list", "deb https://deb.nodes.example/node_20.x nodistro main\n"),
    ]);
    assert_eq!(
        lines(&choose(&sources, "bookworm")),
        [
            "deb http://mirror.example/debian bookworm main",
            "deb http://mirror.example/debian bookworm-updates main",
            "deb http://mirror.example/debian-security bookworm-security main",
        ]
    );
}

#[test]
fn a_third_party_with_the_same_suite_name_is_left_out() {
    let other =
        "deb [arch=amd64 signed-by=/etc/apt/keyrings/other.gpg] https://apt.other.example bookworm main\n";
    let sources = host(&[("sources.list", other), ("sources.list.d/debian.sources", DEB822)]);
    assert!(lines(&choose(&sources, "bookworm")).iter().all(|line| line.contains("mirror.example")));
}

#[test]
fn a_company_mirror_with_its_own_key_is_used_when_it_is_the_only_one() {
    let text =
        "deb [signed-by=/etc/apt/keyrings/company.gpg] https://apt.company.example/debian bookworm main\n";
    let chosen = choose(&host(&[("sources.list", text)]), "bookworm");
    assert_eq!(lines(&chosen), ["deb https://apt.company.example/debian bookworm main"]);
    assert_eq!(chosen[0].keyring, Some(Keyring::File("/etc/apt/keyrings/company.gpg".into())));
}

#[test]
fn a_host_of_another_release_lends_its_mirrors() {
    let text =
        "deb http://mirror.example/debian trixie main\ndeb http://mirror.example/sec trixie-security main\n";
    assert_eq!(
        lines(&choose(&host(&[("sources.list", text)]), "bookworm")),
        [
            "deb http://mirror.example/debian bookworm main",
            "deb http://mirror.example/debian bookworm-updates main",
            "deb http://mirror.example/sec bookworm-security main",
        ]
    );
}

#[test]
fn a_host_that_is_not_debian_gets_debians_own() {
    let text = "deb http://archive.ubuntu.example/ubuntu noble main universe\n";
    let chosen = choose(&host(&[("sources.list", text)]), "bookworm");
    assert_eq!(chosen.len(), 3);
    assert!(chosen.iter().all(|source| source.uri.starts_with("http://deb.debian.org/")));
    assert_eq!(chosen[0].keyring, Some(Keyring::File(DEBIAN_KEYRING.into())));
}

#[test]
fn mirror_lists_of_cloud_images_are_resolved() {
    let list = tempfile::NamedTempFile::new().unwrap();
    fs::write(list.path(), "# ours\nhttps://cdn.example/debian\tpriority:1\n").unwrap();
    let text = format!("deb mirror+file://{} bookworm main\n", list.path().display());
    let chosen = choose(&host(&[("sources.list", &text)]), "bookworm");
    assert_eq!(lines(&chosen), ["deb https://cdn.example/debian bookworm main"]);
}

#[test]
fn disabled_source_only_and_local_entries_are_ignored() {
    let text = "Enabled: no\nTypes: deb\nURIs: http://a.example\nSuites: bookworm\nComponents: main\n\nTypes: deb-src\nURIs: http://b.example\nSuites: bookworm\nComponents: main\n";
    let list = "deb-src http://c.example bookworm main\n# deb http://d.example bookworm main\ndeb cdrom:[x] bookworm main\ndeb file:/srv bookworm main\n";
    assert_eq!(host(&[("sources.list.d/a.sources", text), ("sources.list", list)]), []);
}

#[test]
fn a_key_inside_the_source_file_is_kept() {
    let text = "Types: deb\nURIs: http://a.example\nSuites: bookworm\nComponents: main\nSigned-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n abc\n -----END PGP PUBLIC KEY BLOCK-----\nTrusted: yes\n";
    let sources = host(&[("sources.list.d/a.sources", text)]);
    let key = "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nabc\n-----END PGP PUBLIC KEY BLOCK-----\n";
    assert_eq!(sources[0].keyring, Some(Keyring::Inline(key.to_owned())));
    assert_eq!(
        sources[0].line(Some(Path::new("/k"))),
        "deb [signed-by=/k trusted=yes] http://a.example bookworm main"
    );
}
