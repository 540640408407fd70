//! Spans of time in words.

use sandyard_api::Timestamp;

/// Returns the time between two moments in words.
pub(crate) fn age(now: Timestamp, then: Timestamp) -> String {
    duration((now.unix_ms() - then.unix_ms()).max(0))
}

/// Returns a time span in one or two units.
pub(crate) fn duration(milliseconds: i64) -> String {
    let seconds = milliseconds / 1000;
    match seconds {
        0 => format!("{milliseconds} ms"),
        1..60 => format!("{seconds}.{} s", milliseconds % 1000 / 100),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_read_well() {
        for (milliseconds, text) in [
            (7, "7 ms"),
            (1_250, "1.2 s"),
            (61_000, "1 min 1 s"),
            (3_600_000, "1 h 0 min"),
            (200_000_000, "2 d 7 h"),
        ] {
            assert_eq!(duration(milliseconds), text);
        }
    }
}
