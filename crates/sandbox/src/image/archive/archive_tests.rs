//! Archives of small trees, read back.

use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use super::*;
use crate::image::{ImageArchitecture, ImageDigest, ImageFacts, ImageFlavour};

fn image(root: &Path) -> Image {
    let digest = |digit: &str| ImageDigest::parse(&digit.repeat(64)).unwrap();
    let facts = ImageFacts {
        flavour: ImageFlavour::Base,
        architecture: ImageArchitecture::native(),
        recipe: digest("b"),
        parent: None,
        with: Vec::new(),
        refresh: 0,
        snapshot: None,
        created_s: 1_700_000_000,
        build_s: 1,
        size_bytes: 1,
        entries: 1,
        packages: 1,
    };
    Image { digest: digest("a"), flavour: ImageFlavour::Base, root: root.to_owned(), facts }
}

fn tree() -> tempfile::TempDir {
    let tree = tempfile::tempdir().unwrap();
    let at = |path: &str| tree.path().join(path);
    std::fs::create_dir_all(at("usr/bin")).unwrap();
    std::fs::create_dir(at("proc")).unwrap();
    std::fs::write(at("usr/bin/tool"), "x".repeat(1000)).unwrap();
    std::fs::set_permissions(at("usr/bin/tool"), std::fs::Permissions::from_mode(0o750)).unwrap();
    std::fs::hard_link(at("usr/bin/tool"), at("usr/bin/twin")).unwrap();
    symlink("usr/bin", at("bin")).unwrap();
    std::fs::create_dir(at(&"d".repeat(120))).unwrap();
    std::fs::write(at(&format!("{}/{}", "d".repeat(120), "n".repeat(120))), "long").unwrap();
    tree
}

fn written(image: &Image) -> (Vec<u8>, String, Vec<u8>) {
    let (mut bytes, mut told) = (Vec::new(), Vec::new());
    let id = ImageArchive::of(image).unwrap().write(&mut bytes, &mut |percent| told.push(percent)).unwrap();
    (bytes, id, told)
}

fn files(archive: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in tar::Archive::new(archive).entries().unwrap() {
        let mut entry = entry.unwrap();
        let mut content = Vec::new();
        entry.read_to_end(&mut content).unwrap();
        files.insert(entry.path().unwrap().display().to_string(), content);
    }
    files
}

#[test]
fn an_engine_finds_layer_configuration_and_name() {
    let tree = tree();
    let (bytes, id, told) = written(&image(tree.path()));
    let files = files(&bytes);
    let manifest: serde_json::Value = serde_json::from_slice(&files["manifest.json"]).unwrap();
    assert_eq!(manifest[0]["RepoTags"][0], "sandyard/base:aaaaaaaaaaaa");
    let config_name = manifest[0]["Config"].as_str().unwrap();
    assert_eq!(format!("sha256:{config_name}"), format!("{id}.json"));
    let config: serde_json::Value = serde_json::from_slice(&files[config_name]).unwrap();
    assert_eq!(config["config"]["Labels"][IMAGE_LABEL], "a".repeat(64));
    let layer = format!("sha256:{}", hex::encode(Sha256::digest(&files["layer.tar"])));
    assert_eq!(config["rootfs"]["diff_ids"][0], layer);
    assert_eq!(told.last(), Some(&100));
    assert!(told.is_sorted());
}

#[test]
fn the_same_tree_gives_the_same_bytes_and_another_does_not() {
    let tree = tree();
    let first = written(&image(tree.path()));
    assert_eq!(first, written(&image(tree.path())));
    std::fs::write(tree.path().join("usr/bin/tool"), "y".repeat(1000)).unwrap();
    assert_ne!(first.1, written(&image(tree.path())).1);
}

#[test]
fn links_modes_and_long_names_survive() {
    let tree = tree();
    let (bytes, ..) = written(&image(tree.path()));
    let layer = &files(&bytes)["layer.tar"];
    let mut found = BTreeMap::new();
    for entry in tar::Archive::new(layer.as_slice()).entries().unwrap() {
        let entry = entry.unwrap();
        let link = entry.link_name().unwrap().map(|link| link.display().to_string());
        let header = entry.header();
        let kind = header.entry_type();
        found.insert(entry.path().unwrap().display().to_string(), (kind, header.mode().unwrap(), link));
    }
    assert_eq!(found["usr/bin/tool"], (tar::EntryType::Regular, 0o750, None));
    assert_eq!(found["usr/bin/twin"].2.as_deref(), Some("usr/bin/tool"));
    assert_eq!(found["bin"].2.as_deref(), Some("usr/bin"));
    assert!(found.contains_key(&format!("{}/{}", "d".repeat(120), "n".repeat(120))), "{found:?}");
}

#[test]
fn a_file_that_can_t_be_finished_is_not_left() {
    let tree = tree();
    let folder = tempfile::tempdir().unwrap();
    let mut broken = image(tree.path());
    broken.facts.created_s = u64::MAX;
    let path = folder.path().join("image.tar");
    write_file(&broken, &path, &mut |_| {}).unwrap_err();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    write_file(&image(tree.path()), &path, &mut |_| {}).unwrap();
    assert!(path.exists());
}
