use super::*;
use crate::job::random_id;

/// A look of that time is never repeated.
fn far() -> Instant {
    Instant::now() + Duration::from_secs(3600)
}

/// A ledger whose last look found this much free.
fn ledger(free_mib: u64, reserve_mib: u64) -> DiskLedger {
    let mut ledger = DiskLedger::new(Path::new("/"), reserve_mib, None);
    ledger.look = DiskLook { at: Some(far()), free: free_mib * MIB, spent: 0 };
    ledger
}

/// As the next look would find it.
fn seen(ledger: &mut DiskLedger, free_mib: u64, used_mib: &[(u64, u64)]) {
    for (hold, used) in used_mib {
        ledger.holds.get_mut(hold).unwrap().used = Some(used * MIB);
    }
    ledger.look = DiskLook { at: Some(far()), free: free_mib * MIB, spent: 0 };
}

#[test]
fn f3_promises_and_reserve_never_exceed_what_is_free() {
    let mut ledger = ledger(1000, 100);
    let first = ledger.promise(500);
    assert_eq!(ledger.free_mib(), 400);
    let second = ledger.promise(400);
    assert_eq!(ledger.free_mib(), 0);
    // The first writes 300 of its 500: that is gone from the free space and from its promise alike.
    seen(&mut ledger, 700, &[(first, 300), (second, 0)]);
    assert_eq!(ledger.free_mib(), 0);
    // Another program writes 50: nothing is promised until the promises fit again.
    seen(&mut ledger, 650, &[(first, 300), (second, 0)]);
    assert_eq!(ledger.free_mib(), 0);
    ledger.end(second);
    // Its space may be in a result by now, so it is not free before the next look.
    assert_eq!(ledger.free_mib(), 0);
    seen(&mut ledger, 650, &[(first, 300)]);
    assert_eq!(ledger.free_mib(), 350);
}

#[test]
fn the_server_writes_only_what_harms_no_promise() {
    let mut ledger = ledger(1000, 100);
    let own = ledger.promise(600);
    assert!(ledger.spend(200 * MIB, None));
    assert!(!ledger.spend(200 * MIB, None), "100 are left beside the promise");
    // Once its sandbox has nothing left to write, the job may use the rest of its own promise.
    seen(&mut ledger, 600, &[(own, 200)]);
    assert!(!ledger.spend(200 * MIB, None));
    seen(&mut ledger, 600, &[(own, 200)]);
    assert!(ledger.spend(450 * MIB, Some(own)));
    assert!(!ledger.spend(100 * MIB, Some(own)), "and never the reserve");
}

#[test]
fn an_operator_may_fix_the_space_for_promises() {
    let mut ledger = DiskLedger::new(Path::new("/"), 1, Some(100));
    assert_eq!(ledger.largest_mib(), 100);
    let _first = ledger.promise(60);
    assert_eq!(ledger.lacks(41), Some(40));
    assert_eq!(ledger.lacks(40), None);
    assert_eq!(ledger.promised_mib(), 60);
}

#[test]
fn use_is_counted_in_blocks_and_the_largest_user_is_known() {
    let data = tempfile::tempdir().unwrap();
    let mut ledger = DiskLedger::new(data.path(), 0, None);
    let mut jobs = Vec::new();
    for (name, mib) in [("small", 1), ("large", 3)] {
        let folder = data.path().join(name);
        std::fs::create_dir(&folder).unwrap();
        let disk = std::fs::File::create(folder.join("disk.ext4")).unwrap();
        disk.set_len(1 << 30).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&disk, &vec![1; mib << 20], 0).unwrap();
        disk.sync_all().unwrap();
        let (job, hold) = (random_id().unwrap(), ledger.promise(1024));
        ledger.place(hold, &job, folder);
        jobs.push(job);
    }
    let free_mib = ledger.look().unwrap();
    assert_eq!(ledger.largest_user(), Some(DiskUser { job: jobs[1].clone(), used_mib: 3 }));
    assert_eq!(ledger.used_mib(&jobs[0]), Some(1));
    assert!(ledger.free_mib() <= free_mib - 2 * 1024 + 4 + 1);
    assert!(ledger.largest_mib() >= free_mib);
}
