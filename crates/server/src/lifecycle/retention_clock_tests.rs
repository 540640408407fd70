use proptest::prelude::*;

use super::*;

const DAY_MS: i64 = 24 * HOUR_MS;

fn days(clock: &RetentionClock, wall_ms: i64) -> i64 {
    i64::try_from(clock.age_of(wall_ms).as_millis()).unwrap() / DAY_MS
}

#[test]
fn ages_are_real_whatever_the_wall_clock_shows() {
    let mut clock = RetentionClock::standing_at(100 * DAY_MS);
    let before = 95 * DAY_MS;
    assert_eq!(days(&clock, before), 5, "a job from before this clock");
    clock.jump(15 * DAY_MS);
    let during = clock.state.wall_ms;
    clock.pass(2 * DAY_MS);
    assert_eq!((days(&clock, before), days(&clock, during)), (7, 2));
    // The operator sets the clock right again.
    clock.jump(-15 * DAY_MS);
    let after = clock.state.wall_ms;
    clock.pass(3 * DAY_MS);
    assert_eq!((days(&clock, before), days(&clock, during), days(&clock, after)), (10, 5, 3));
}

#[test]
fn a_first_time_service_that_comes_late_does_not_keep_results_for_ever() {
    // A host that starts in 1970 and learns the time a minute later.
    let mut clock = RetentionClock::standing_at(0);
    clock.pass(60_000);
    clock.jump(20_000 * DAY_MS);
    let ended = clock.state.wall_ms;
    clock.pass(14 * DAY_MS);
    assert_eq!(days(&clock, ended), 14);
}

#[test]
fn a_slow_drift_is_followed() {
    let mut clock = RetentionClock::standing_at(0);
    for _ in 0..365 {
        let reading = clock.reading(DAY_MS + 40_000, DAY_MS);
        clock.advance(reading);
    }
    assert_eq!(days(&clock, clock.state.wall_ms - 3 * DAY_MS), 2);
    assert!(clock.state.stretches.len() <= MAX_STRETCHES);
}

#[test]
fn the_clock_survives_restarts_and_believes_a_reboot_up_to_a_day() {
    let data = tempfile::tempdir().unwrap();
    let at = |wall_days: i64, boot_hours: i64, boot: &str| ClockReading {
        wall_ms: wall_days * DAY_MS,
        boot_ms: boot_hours * HOUR_MS,
        boot_id: boot.to_owned(),
    };
    let age = |reading: ClockReading| days(&RetentionClock::open(data.path(), reading), 10 * DAY_MS);
    assert_eq!(age(at(10, 1, "a")), 0);
    // Another server on the same boot, two days later, with a wall clock far ahead.
    assert_eq!(age(at(60, 49, "a")), 2);
    // After a reboot, as long off as the wall clock says, but no more than a day.
    assert_eq!(age(at(61, 1, "b")), 3);
    assert_eq!(age(at(500, 1, "c")), 4);
    assert_eq!(age(at(3, 1, "d")), 4, "a wall clock that jumped back");
    std::fs::write(data.path().join(FILE_NAME), b"{\"stretches\":[]}").unwrap();
    assert_eq!(age(at(12, 1, "e")), 2, "a damaged file is begun anew");
}

proptest! {
    /// Whatever happens to the wall clock, nothing is older than the time that really passed since it ended.
    #[test]
    fn no_job_looks_older_than_it_is(jumps in prop::collection::vec((-40i64..40, 0i64..72), 1..30)) {
        let mut clock = RetentionClock::standing_at(1000 * DAY_MS);
        let mut ended = vec![(clock.state.wall_ms, clock.state.now_ms)];
        for (jump_days, pass_hours) in jumps {
            clock.jump(jump_days * DAY_MS);
            clock.pass(pass_hours * HOUR_MS);
            ended.push((clock.state.wall_ms, clock.state.now_ms));
        }
        for (wall_ms, really_ms) in ended {
            let really = Duration::from_millis(u64::try_from(clock.state.now_ms - really_ms).unwrap());
            let tolerance = Duration::from_millis(u64::try_from(TOLERANCE_MS).unwrap());
            prop_assert!(clock.age_of(wall_ms) <= really + tolerance);
        }
    }
}
