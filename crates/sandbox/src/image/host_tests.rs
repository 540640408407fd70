//! What is taken from a host and what is not.

use super::*;

fn settings(pairs: &[(&str, &str)]) -> HostSettings {
    let variables = pairs.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
    HostSettings { variables, home: None }
}

#[test]
fn steps_get_proxies_and_indexes_but_no_other_variable() {
    let given = settings(&[
        ("HTTPS_PROXY", "http://proxy.example:3128"),
        ("no_proxy", "localhost"),
        ("PIP_INDEX_URL", "https://index.example/simple"),
        ("PIP_FIND_LINKS", "/somewhere"),
        ("API_TOKEN", "secret"),
    ]);
    let names: Vec<_> = given.variables().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["HTTPS_PROXY", "PIP_INDEX_URL", "no_proxy"]);
}

#[test]
fn only_network_settings_of_pip_and_npm_are_taken() {
    let pip =
        "[global]\nindex-url = https://index.example/simple\ncert = /etc/x.crt\n[install]\nuser = true\n";
    assert_eq!(PackageClient::Pip.network_lines(pip), ["index-url = https://index.example/simple"]);
    let npm = "registry=https://npm.example/\nnodedir=/usr\n//npm.example/:_authToken=abc\n@us:registry=https://us.example/\n";
    assert_eq!(PackageClient::Npm.network_lines(npm).len(), 3);
    assert!(!PackageClient::Npm.file(&PackageClient::Npm.network_lines(npm)).contains("nodedir"));
}

#[test]
fn everything_lent_becomes_a_mark_and_debians_own_does_not() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join(".npmrc"), "registry=https://npm.example/\n").unwrap();
    let mut given = settings(&[("http_proxy", "http://proxy.example:3128"), ("pip_retries", "3")]);
    given.home = Some(home.path().to_owned());
    let directory = tempfile::tempdir().unwrap();
    let staged = given.stage(directory.path(), "bookworm", None).unwrap();
    assert!(staged.marks.contains(&"http://proxy.example:3128".to_owned()));
    assert!(staged.marks.contains(&"https://npm.example/".to_owned()));
    assert!(staged.marks.iter().all(|mark| !mark.contains("deb.debian.org") && mark.len() >= 12));
    assert!(fs::read_to_string(staged.inputs.join("apt.conf")).unwrap().contains("/run/inputs/sources.list"));
    assert!(fs::read_to_string(&staged.sources).unwrap().contains("bookworm-security"));
}

#[test]
fn a_snapshot_replaces_the_hosts_mirrors_and_accepts_expired_lists() {
    let directory = tempfile::tempdir().unwrap();
    let snapshot = ArchiveSnapshot::parse("20261101").unwrap();
    let staged = settings(&[]).stage(directory.path(), "bookworm", Some(&snapshot)).unwrap();
    for list in [&staged.sources, &staged.inputs.join("sources.list")] {
        let text = fs::read_to_string(list).unwrap();
        let is_of_the_moment =
            |line: &str| line.contains("signed-by=") && line.contains("/20261101T000000Z/ bookworm");
        assert_eq!(text.lines().filter(|line| is_of_the_moment(line)).count(), 3, "{text}");
        assert_eq!(text.lines().count(), 3, "{text}");
    }
    for options in [&staged.apt_options, &staged.inputs.join("apt.conf")] {
        let text = fs::read_to_string(options).unwrap();
        assert!(text.contains("Acquire::Check-Valid-Until \"false\""), "{text}");
    }
    assert!(staged.marks.iter().all(|mark| !mark.contains("snapshot.debian.org")), "{:?}", staged.marks);
}

#[test]
fn named_certificates_are_added_to_the_bundle() {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), "-----BEGIN CERTIFICATE-----\nours\n-----END CERTIFICATE-----").unwrap();
    let given = settings(&[("PIP_CERT", file.path().to_str().unwrap())]);
    assert!(given.certificates().concat().contains("\nours\n-----END CERTIFICATE-----\n"));
}

#[test]
fn a_certificate_is_known_by_a_line_of_its_middle() {
    let line = |letter: char| letter.to_string().repeat(64);
    let pem = format!("-----BEGIN-----\n{}\n{}\n{}\nshort\n", line('a'), line('b'), line('c'));
    assert_eq!(certificate_mark(&pem), Some(line('b')));
    assert_eq!(certificate_mark("-----BEGIN-----"), None);
}
