//! Times on the wire: RFC 3339 in UTC, to the millisecond.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use utoipa::ToSchema;

/// A time as milliseconds since 1970; on the wire `2026-01-31T08:15:00.250Z`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, ToSchema)]
#[schema(value_type = String, format = DateTime, example = "2026-01-31T08:15:00.250Z")]
pub struct Timestamp(i64);

impl Timestamp {
    /// Converts from milliseconds since 1970.
    pub fn from_unix_ms(milliseconds: i64) -> Self {
        Self(milliseconds)
    }

    /// Converts to milliseconds since 1970.
    pub fn unix_ms(self) -> i64 {
        self.0
    }

    /// Returns the text. A time outside the years 0 to 9999, which no event of a yard has, becomes 1970.
    pub fn to_text(self) -> String {
        let moment = OffsetDateTime::from_unix_timestamp_nanos(i128::from(self.0) * 1_000_000)
            .ok()
            .filter(|moment| (0..=9999).contains(&moment.year()))
            .unwrap_or(OffsetDateTime::UNIX_EPOCH);
        let (hour, minute, second, millisecond) = moment.to_hms_milli();
        let (year, month, day) = (moment.year(), u8::from(moment.month()), moment.day());
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millisecond:03}Z")
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.to_text())
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let moment = OffsetDateTime::parse(&text, &Rfc3339).map_err(serde::de::Error::custom)?;
        let milliseconds = moment.unix_timestamp_nanos().div_euclid(1_000_000);
        i64::try_from(milliseconds).map(Self).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_has_milliseconds_and_reads_back() {
        let moment = Timestamp::from_unix_ms(1_769_847_300_007);
        assert_eq!(moment.to_text(), "2026-01-31T08:15:00.007Z");
        let json = serde_json::to_string(&moment).unwrap();
        assert_eq!(serde_json::from_str::<Timestamp>(&json).unwrap(), moment);
    }

    #[test]
    fn absurd_moments_do_not_panic() {
        for milliseconds in [i64::MIN, i64::MAX, -62_167_219_200_001] {
            assert_eq!(Timestamp::from_unix_ms(milliseconds).to_text(), "1970-01-01T00:00:00.000Z");
        }
    }
}
