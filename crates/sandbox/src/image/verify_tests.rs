//! A small tree that passes, and each way to spoil it.

use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

fn pem(letters: &str) -> String {
    format!("-----BEGIN CERTIFICATE-----\n{letters}\n-----END CERTIFICATE-----\n")
}

fn tree() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    for place in MOUNT_POINTS.iter().chain(&[
        "etc/ssl/certs",
        "usr/share/ca-certificates/mozilla",
        "usr/bin",
        "var/lib/dpkg",
    ]) {
        fs::create_dir_all(root.join(place)).unwrap();
    }
    let passwd = "root:x:0:0::/root:/bin/bash\nagent:x:1000:1000::/home/agent:/bin/bash\nkeeper:x:990:990::/nonexistent:/usr/sbin/nologin\n";
    fs::write(root.join("etc/passwd"), passwd).unwrap();
    fs::write(root.join("etc/resolv.conf"), "").unwrap();
    fs::write(root.join("etc/machine-id"), "").unwrap();
    fs::write(root.join("usr/share/ca-certificates/mozilla/a.crt"), pem("debian")).unwrap();
    fs::write(root.join("etc/ssl/certs/ca-certificates.crt"), pem("debian")).unwrap();
    fs::write(root.join("usr/bin/tool"), "12345").unwrap();
    fs::write(root.join("var/lib/dpkg/status"), "Package: a\nStatus: install ok installed\n").unwrap();
    directory
}

fn fault_of(spoil: impl FnOnce(&Path)) -> ImageFault {
    let tree = tree();
    spoil(tree.path());
    verify(tree.path(), &["http://mirror.example/debian".to_owned()]).unwrap_err()
}

#[test]
fn a_clean_tree_passes_and_is_counted() {
    let tree = tree();
    let census = verify(tree.path(), &["http://mirror.example/debian".to_owned()]).unwrap();
    assert_eq!(census.packages, 1);
    assert!(census.entries > 15);
    assert!(census.size_bytes > 5);
}

#[test]
fn set_id_bits_are_found_on_files_and_directories() {
    for mode in [0o4755, 0o2755] {
        for place in ["usr/bin/tool", "usr/bin"] {
            let fault = fault_of(|root| {
                fs::set_permissions(root.join(place), fs::Permissions::from_mode(mode)).unwrap();
            });
            assert!(matches!(&fault, ImageFault::Privileged(path) if path.ends_with(place)), "{fault}");
        }
    }
}

#[test]
fn mount_points_must_be_real_and_empty() {
    let linked = fault_of(|root| {
        fs::remove_dir(root.join("tmp")).unwrap();
        symlink("/", root.join("tmp")).unwrap();
    });
    let filled = fault_of(|root| fs::write(root.join("dev/null"), "").unwrap());
    let missing = fault_of(|root| fs::remove_dir(root.join("workspace")).unwrap());
    for fault in [linked, filled, missing] {
        assert!(matches!(fault, ImageFault::MountPoint(_)), "{fault}");
    }
}

#[test]
fn pipes_sockets_and_devices_are_found() {
    let fault = fault_of(|root| {
        drop(std::os::unix::net::UnixListener::bind(root.join("usr/bin/socket")).unwrap());
    });
    assert!(matches!(fault, ImageFault::Special(_)), "{fault}");
}

#[test]
fn what_the_host_lent_is_found() {
    let mirror = fault_of(|root| {
        fs::write(root.join("etc/sources"), "deb http://mirror.example/debian x").unwrap();
    });
    assert!(matches!(mirror, ImageFault::Leak { .. }), "{mirror}");
    let certificate = fault_of(|root| {
        let bundle = format!("{}{}", pem("debian"), pem("host"));
        fs::write(root.join("etc/ssl/certs/ca-certificates.crt"), bundle).unwrap();
    });
    assert!(matches!(certificate, ImageFault::ForeignCertificates(1)), "{certificate}");
    let resolver = fault_of(|root| fs::write(root.join("etc/resolv.conf"), "nameserver 192.0.2.1").unwrap());
    assert!(matches!(resolver, ImageFault::NotEmpty(_)), "{resolver}");
}

#[test]
fn users_must_have_their_ids() {
    let fault = fault_of(|root| fs::write(root.join("etc/passwd"), "agent:x:1001:1001:::\n").unwrap());
    assert!(matches!(fault, ImageFault::User("agent")), "{fault}");
}
