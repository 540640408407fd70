//! The layers and their order, unknown keys, bad values.

use super::layers::ConfigLayer;
use super::*;

fn surroundings(root: bool, variables: &[(&str, &str)]) -> Surroundings {
    let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Surroundings { variables, root }
}

/// A configuration file that lives as long as the test.
fn file(text: &str) -> (tempfile::TempDir, Flags) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("config.toml");
    std::fs::write(&path, text).unwrap();
    let flags = Flags::with_config(Some(path));
    (directory, flags)
}

#[test]
fn the_later_layer_wins_and_is_remembered() {
    let (directory, mut flags) = file("listen = '127.0.0.1:1'\nconcurrency = 3\nqueue = 5\n");
    let around =
        surroundings(false, &[("SANDYARD_CONCURRENCY", "4"), ("SANDYARD_QUEUE", "6"), ("HOME", "/home/x")]);
    flags.set("queue", Some(7));
    let layers = Layers::load(&around, &flags).unwrap();
    let settings = Settings::new(&layers).unwrap();
    assert_eq!(settings.listen.port(), 1);
    assert_eq!((settings.concurrency, settings.queue), (4, 7));
    assert_eq!(settings.retention_days, 14);
    assert_eq!(layers.get("retention_days").1, ConfigLayer::Default);
    assert_eq!(layers.get("listen").1, ConfigLayer::File(directory.path().join("config.toml")));
    assert_eq!(layers.get("concurrency").1, ConfigLayer::Environment("SANDYARD_CONCURRENCY"));
    assert_eq!(layers.get("queue").1, ConfigLayer::Flag);
}

#[test]
fn an_unknown_key_names_the_nearest() {
    let (_directory, flags) = file("lissten = '127.0.0.1:1'\n");
    let error = Layers::load(&surroundings(true, &[]), &flags).unwrap_err();
    assert!(error.to_string().starts_with("unknown key `lissten` in `"), "{error}");
    assert_eq!(error.hint().unwrap(), "did you mean `listen`?");
}

#[test]
fn an_unknown_variable_is_a_warning() {
    let around = surroundings(true, &[("SANDYARD_LISTN", "x"), ("SANDYARD_URL", "http://127.0.0.1:1")]);
    let layers = Layers::load(&around, &Flags::default()).unwrap();
    assert_eq!(
        layers.warnings(),
        ["the variable SANDYARD_LISTN means nothing; did you mean SANDYARD_LISTEN?"]
    );
}

#[test]
fn a_bad_value_says_where_it_came_from() {
    let around = surroundings(true, &[("SANDYARD_LISTEN", "nowhere")]);
    let layers = Layers::load(&around, &Flags::default()).unwrap();
    let error = Settings::new(&layers).unwrap_err();
    assert_eq!(error.to_string(), "`nowhere` is no value for `listen` (from: SANDYARD_LISTEN)");
    assert_eq!(error.hint().unwrap(), "expected an address and a port, like 127.0.0.1:8000");
}

#[test]
fn a_lease_of_nothing_is_refused() {
    let (_directory, flags) = file("lease_s = 0\n");
    let layers = Layers::load(&surroundings(true, &[]), &flags).unwrap();
    assert!(Settings::new(&layers).is_err());
}

#[test]
fn root_gets_system_places_and_others_their_own() {
    let load =
        |around: &Surroundings| Settings::new(&Layers::load(around, &Flags::default()).unwrap()).unwrap();
    assert_eq!(load(&surroundings(true, &[("HOME", "/root")])).data, PathBuf::from("/var/lib/sandyard"));
    let own = load(&surroundings(false, &[("HOME", "/home/x")]));
    assert_eq!(own.data, PathBuf::from("/home/x/.local/share/sandyard"));
    assert_eq!(
        own.cache,
        PathBuf::from("/var/cache/sandyard"),
        "images are root's to build and everybody's to use"
    );
    let moved = load(&surroundings(false, &[("HOME", "/home/x"), ("XDG_DATA_HOME", "/d")]));
    assert_eq!(moved.socket(), PathBuf::from("/d/sandyard/sandyard.sock"));
}

#[test]
fn a_named_file_must_exist_and_be_toml() {
    let flags = Flags::with_config(Some("/nonexistent/sandyard.toml".into()));
    assert!(matches!(Layers::load(&surroundings(true, &[]), &flags), Err(ConfigError::Read { .. })));
    let (_directory, flags) = file("listen = \n");
    assert!(matches!(Layers::load(&surroundings(true, &[]), &flags), Err(ConfigError::Syntax { .. })));
    let (_directory, flags) = file("[listen]\nport = 1\n");
    assert!(matches!(Layers::load(&surroundings(true, &[]), &flags), Err(ConfigError::BadValue { .. })));
}

#[test]
fn the_floor_of_a_server_is_a_level() {
    let load = |floor| {
        let around = surroundings(true, &[("SANDYARD_ISOLATION", floor)]);
        Settings::new(&Layers::load(&around, &Flags::default()).unwrap())
    };
    assert_eq!(load("vm").unwrap().isolation.as_text(), "vm");
    assert_eq!(load("any").unwrap().isolation.as_text(), "any");
    assert!(load("none").is_err() && load("docker").unwrap_err().hint().unwrap().contains("set `driver`"));
}

#[test]
fn a_snapshot_is_a_date_and_nothing_else() {
    let load = |text| {
        let (_directory, flags) = file(text);
        Settings::new(&Layers::load(&surroundings(true, &[]), &flags).unwrap())
    };
    assert_eq!(load("").unwrap().snapshot, None);
    let snapshot = load("snapshot = 20261101\n").unwrap().snapshot;
    assert_eq!(snapshot.unwrap().as_str(), "20261101T000000Z");
    assert!(load("snapshot = 'yesterday'\n").unwrap_err().hint().unwrap().contains("20261101"));
}

#[test]
fn drivers_have_tables_of_their_own() {
    let (_directory, flags) = file(
        "[drivers.oci]\nruntime = 'crun'\nallow_outdated_runtime = true\n[drivers.docker]\nsocket = '/s'\n",
    );
    let around = surroundings(true, &[("SANDYARD_OCI_RUNTIME", "runc")]);
    let settings = Settings::new(&Layers::load(&around, &flags).unwrap()).unwrap().drivers;
    assert_eq!(settings.oci.runtime.as_deref(), Some("runc"));
    assert!(settings.oci.allow_outdated_runtime);
    assert_eq!(settings.docker.socket, Some(PathBuf::from("/s")));

    let (_directory, flags) = file("[drivers.oci]\nruntme = 'crun'\n");
    let error = Layers::load(&surroundings(true, &[]), &flags).unwrap_err();
    assert_eq!(error.hint().unwrap(), "did you mean `drivers.oci.runtime`?");

    let (_directory, flags) = file("[drivers.oci]\nallow_outdated_runtime = 'perhaps'\n");
    let layers = Layers::load(&surroundings(true, &[]), &flags).unwrap();
    assert_eq!(Settings::new(&layers).unwrap_err().hint().unwrap(), "expected true or false");
}

#[test]
fn a_password_of_the_store_is_never_shown() {
    let around = surroundings(true, &[("SANDYARD_STORE", "postgres://yard:hunter2@db.example/jobs")]);
    let layers = Layers::load(&around, &Flags::default()).unwrap();
    let settings = Settings::new(&layers).unwrap();
    let row = layers.rows().into_iter().find(|row| row[0] == "store").unwrap();
    assert_eq!(row, ["store", "postgres://db.example/jobs", "SANDYARD_STORE"].map(str::to_owned));
    assert!(!format!("{settings:?}").contains("hunter2"));
    let around = surroundings(true, &[("SANDYARD_STORE", "mysql://yard:hunter2@db.example/jobs")]);
    let error = Settings::new(&Layers::load(&around, &Flags::default()).unwrap()).unwrap_err();
    assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
}
