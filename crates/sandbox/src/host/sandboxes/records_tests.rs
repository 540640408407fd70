use serde_json::json;

use super::*;

fn record(id: &str) -> SandboxRecord {
    serde_json::from_value(json!({ "id": id, "workspace": "/w", "process": null })).unwrap()
}

#[test]
fn a_marker_is_found_until_it_is_deleted() {
    let data = tempfile::tempdir().unwrap();
    let records = SandboxRecords::open(data.path()).unwrap();
    let one = record("one");
    records.write(&one).unwrap();
    assert_eq!(records.read(&one.id).unwrap(), Some(one.clone()));
    assert_eq!(records.all().unwrap(), vec![one.clone()]);
    records.delete(&one.id).unwrap();
    records.delete(&one.id).unwrap();
    assert_eq!(records.ids().unwrap(), vec![]);
}

#[test]
fn a_half_made_marker_is_listed_but_has_no_record() {
    let data = tempfile::tempdir().unwrap();
    let records = SandboxRecords::open(data.path()).unwrap();
    fs::create_dir(data.path().join("sandboxes/half")).unwrap();
    let half = SandboxId::parse("half").unwrap();
    assert_eq!(records.ids().unwrap(), vec![half.clone()]);
    assert_eq!(records.read(&half).unwrap(), None);
}

/// What servers of every version write, driver by driver: none may change, or sandboxes that run are lost by an update or by the
/// way back.
#[test]
fn markers_of_every_driver_are_read_and_written_as_they_were() {
    let process = json!({ "pid": 7, "start_ticks": 8, "boot_id": "b" });
    for (driver, written, ids, groups) in [
        (
            "native",
            json!({ "id": "j-1", "id_base": 5, "groups": "s1", "workspace": "/w", "process": process }),
            Some(5),
            "s1",
        ),
        (
            "oci",
            json!({ "id": "j-1", "id_base": 5, "groups": "s1", "workspace": "/w", "runtime": "/r", "process": null }),
            Some(5),
            "s1",
        ),
        (
            "docker and qemu",
            json!({ "id": "j-1", "id_base": 5, "workspace": "/w", "process": process }),
            Some(5),
            "j-1",
        ),
        (
            "firecracker",
            json!({ "id": "j-1", "name": "f1", "user": 5, "workspace": "/w", "process": process }),
            Some(5),
            "f1",
        ),
    ] {
        let record: SandboxRecord = serde_json::from_value(written.clone()).unwrap();
        assert_eq!((record.taken_ids(), record.groups_name()), (ids, groups), "{driver}");
        assert_eq!(serde_json::to_value(&record).unwrap(), written, "{driver}");
    }
}

/// Kata's containers have the host's ids, for which older servers wrote a null.
#[test]
fn a_sandbox_without_ids_of_its_own_is_read() {
    let written = json!({ "id": "j-1", "id_base": null, "workspace": "/w", "process": null });
    assert_eq!(serde_json::from_value::<SandboxRecord>(written).unwrap().taken_ids(), None);
}
