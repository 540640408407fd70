//! The store with trees made by hand.

use std::fs;
use std::path::Path;

use super::store::ImageStore;
use super::{Image, ImageArchitecture, ImageDigest, ImageFacts, ImageFlavour, ImageRequest, recipe};

fn add(store: &ImageStore, flavour: ImageFlavour, refresh: u64, created_s: u64) -> Image {
    let request = ImageRequest { refresh: Some(refresh), ..ImageRequest::plain(flavour) };
    let digest = store.digest_of(&request).unwrap();
    let built = store.make_temporary(&digest).unwrap().join("out");
    fs::create_dir_all(built.join("root/etc")).unwrap();
    let recipe = recipe::recipe_digest(&ImageRequest::plain(flavour)).unwrap();
    let facts = ImageFacts {
        flavour,
        architecture: ImageArchitecture::native(),
        recipe,
        parent: None,
        with: Vec::new(),
        refresh,
        snapshot: None,
        created_s,
        build_s: 1,
        size_bytes: 0,
        entries: 2,
        packages: 0,
    };
    store.finish(&built, digest, facts).unwrap()
}

fn count(directory: &Path) -> usize {
    fs::read_dir(directory).map(Iterator::count).unwrap_or(0)
}

#[test]
fn an_empty_cache_has_no_images() {
    let cache = tempfile::tempdir().unwrap();
    let store = ImageStore::new(cache.path().join("not yet there"));
    assert_eq!(store.list().unwrap(), []);
    assert_eq!(store.find(&ImageRequest::plain(ImageFlavour::Base)).unwrap(), None);
    assert_eq!(store.building(ImageFlavour::Base), None);
    assert_eq!(store.prune(&[]).unwrap(), []);
}

#[test]
fn a_finished_image_is_found_and_an_unfinished_is_not() {
    let cache = tempfile::tempdir().unwrap();
    let store = ImageStore::new(cache.path());
    let request = ImageRequest::plain(ImageFlavour::Base);
    let half = store.make_temporary(&store.digest_of(&request).unwrap()).unwrap().join("out");
    fs::create_dir_all(half.join("root")).unwrap();
    fs::write(half.join("manifest.json"), "{}").unwrap();
    assert_eq!(store.find(&request).unwrap(), None);

    let image = add(&store, ImageFlavour::Base, 0, 5);
    assert_eq!(store.find(&request).unwrap().as_ref(), Some(&image));
    assert_eq!(store.get(&image.digest), Some(image.clone()));
    assert!(image.root.join("etc").is_dir());
    assert_eq!(store.find(&ImageRequest::plain(ImageFlavour::Full)).unwrap(), None);
    let with = ImageRequest { with: vec!["vim".to_owned()], ..request };
    assert_eq!(store.find(&with).unwrap(), None);
}

#[test]
fn a_manifest_that_does_not_parse_is_no_image() {
    let cache = tempfile::tempdir().unwrap();
    let store = ImageStore::new(cache.path());
    let image = add(&store, ImageFlavour::Base, 0, 5);
    fs::write(image.root.parent().unwrap().join("manifest.json"), "{").unwrap();
    assert_eq!(store.list().unwrap(), []);
}

#[test]
fn the_newest_refresh_is_found_and_older_ones_do_not_answer_a_newer_stamp() {
    let cache = tempfile::tempdir().unwrap();
    let store = ImageStore::new(cache.path());
    let newer = add(&store, ImageFlavour::Base, 200, 1);
    let older = add(&store, ImageFlavour::Base, 0, 9);
    assert_ne!(older.digest, newer.digest);
    let find =
        |refresh| store.find(&ImageRequest { refresh, ..ImageRequest::plain(ImageFlavour::Base) }).unwrap();
    assert_eq!(find(None), Some(newer.clone()));
    assert_eq!(find(Some(200)), Some(newer));
    assert_eq!(find(Some(201)), None);
}

#[test]
fn prune_removes_all_but_what_is_kept() {
    let cache = tempfile::tempdir().unwrap();
    let store = ImageStore::new(cache.path());
    let first = add(&store, ImageFlavour::Base, 0, 1);
    let second = add(&store, ImageFlavour::Base, 2, 2);
    assert_eq!(store.list().unwrap(), [first.clone(), second.clone()]);
    assert_eq!(store.prune(std::slice::from_ref(&second.digest)).unwrap(), vec![first.digest.clone()]);
    assert_eq!(store.list().unwrap(), [second]);
    assert!(!first.root.exists());
    assert_eq!(count(&cache.path().join("tmp")), 0);
}

#[test]
fn prune_leaves_builds_alone_and_removes_what_dead_ones_left() {
    let cache = tempfile::tempdir().unwrap();
    let store = ImageStore::new(cache.path());
    let digest = ImageDigest::parse(&"a".repeat(64)).unwrap();
    let build = store.make_temporary(&digest).unwrap();
    fs::write(build.join("progress"), r#"{"flavour":"full","phase":"copying","percent":41}"#).unwrap();

    let lock = store.try_lock(&digest).unwrap();
    assert!(lock.is_some());
    assert_eq!(store.building(ImageFlavour::Full).map(|progress| progress.percent), Some(41));
    assert_eq!(store.building(ImageFlavour::Base), None);
    store.prune(&[]).unwrap();
    assert!(build.exists());

    drop(lock);
    assert_eq!(store.building(ImageFlavour::Full), None);
    store.prune(&[]).unwrap();
    assert!(!build.exists());
}

#[test]
fn a_new_builder_removes_what_a_dead_one_left_of_the_same_image() {
    let cache = tempfile::tempdir().unwrap();
    let store = ImageStore::new(cache.path());
    let digest = ImageDigest::parse(&"b".repeat(64)).unwrap();
    let left = store.make_temporary(&digest).unwrap();
    let _lock = store.try_lock(&digest).unwrap().unwrap();
    store.dead_builds(None).unwrap().remove().unwrap();
    assert!(left.exists());
    store.dead_builds(Some(&digest)).unwrap().remove().unwrap();
    assert!(!left.exists());
}

#[test]
fn digests_are_stable_and_checked() {
    let store = ImageStore::new("/nowhere");
    let request = ImageRequest::plain(ImageFlavour::Full);
    let digest = store.digest_of(&request).unwrap();
    assert_eq!(digest, store.digest_of(&request).unwrap());
    assert_eq!(ImageDigest::parse(digest.as_str()), Some(digest));
    for bad in ["", "../x", &"A".repeat(64), &"a".repeat(63), &"g".repeat(64)] {
        assert_eq!(ImageDigest::parse(bad), None, "{bad}");
    }
}
