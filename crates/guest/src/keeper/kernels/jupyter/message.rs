//! Messages of the Jupyter protocol, version 5.3: signed, in frames after a delimiter.
//!
//! Of received messages only the members that are used are parsed, so that no JSON becomes larger in memory than on the wire.

use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use super::zmtp::Multipart;
use crate::keeper::clock::unix_ms;

const DELIMITER: &[u8] = b"<IDS|MSG>";
const VERSION: &str = "5.3";
const USER: &str = "sandyard";

/// Signs and checks messages of one kernel.
#[derive(Clone)]
pub(super) struct Signer(Hmac<Sha256>);

impl std::fmt::Debug for Signer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Signer(redacted)")
    }
}

impl Signer {
    /// With the key of the connection file. The job can read it too: a good signature means that a message is for us, not
    /// that it is true.
    pub(super) fn new(key: &str) -> Option<Self> {
        Hmac::new_from_slice(key.as_bytes()).ok().map(Self)
    }

    fn over(&self, parts: &[&[u8]]) -> Hmac<Sha256> {
        let mut mac = self.0.clone();
        for part in parts {
            mac.update(part);
        }
        mac
    }
}

/// A message as it came.
#[derive(Debug)]
pub(super) struct Incoming {
    /// `msg_type` of the header: `stream`, `status`, `execute_reply` and so on.
    pub(super) kind: String,
    /// `msg_id` of the request that the message belongs to.
    pub(super) parent: String,
    /// Its content as JSON, cut if `left_out` is not 0.
    pub(super) content: Bytes,
    /// Bytes that were not taken.
    pub(super) left_out: u64,
    /// Holds its share of memory while the content is used.
    _whole: Multipart,
}

#[derive(Serialize)]
struct Header<'a> {
    msg_id: &'a str,
    session: &'a str,
    username: &'a str,
    date: String,
    msg_type: &'a str,
    version: &'a str,
}

#[derive(Deserialize)]
struct MessageKind {
    msg_type: String,
}

#[derive(Deserialize)]
struct ParentHeader {
    #[serde(default)]
    msg_id: String,
}

/// The frames of a request.
pub(super) fn encode<T: Serialize>(
    signer: &Signer,
    session: &str,
    id: &str,
    kind: &str,
    content: &T,
) -> Result<Vec<Vec<u8>>, serde_json::Error> {
    let header = Header {
        msg_id: id,
        session,
        username: USER,
        date: rfc3339(unix_ms()),
        msg_type: kind,
        version: VERSION,
    };
    let header = serde_json::to_vec(&header)?;
    let content = serde_json::to_vec(content)?;
    let signature = hex::encode(signer.over(&[&header, b"{}", b"{}", &content]).finalize().into_bytes());
    Ok(vec![DELIMITER.to_vec(), signature.into_bytes(), header, b"{}".to_vec(), b"{}".to_vec(), content])
}

/// Reads a message; `None` if it is none, or not signed for us.
pub(super) fn decode(signer: &Signer, message: Multipart) -> Option<Incoming> {
    let start = message.frames.iter().position(|frame| frame.as_ref() == DELIMITER)? + 1;
    let [signature, header, parent, metadata, content] = message.frames.get(start..start + 5)? else {
        return None;
    };
    // The signature of a cut message can't be checked. It is reported as cut, and nothing depends on its content.
    if message.left_out == 0 {
        let signature = hex::decode(signature).ok()?;
        signer.over(&[header, parent, metadata, content]).verify_slice(&signature).ok()?;
    }
    let kind: MessageKind = serde_json::from_slice(header).ok()?;
    let parent: ParentHeader = serde_json::from_slice(parent).ok()?;
    let content = content.clone();
    Some(Incoming {
        kind: kind.msg_type,
        parent: parent.msg_id,
        content,
        left_out: message.left_out,
        _whole: message,
    })
}

/// A moment as the protocol writes it.
fn rfc3339(unix_ms: i64) -> String {
    let (days, rest) = (unix_ms.div_euclid(86_400_000), unix_ms.rem_euclid(86_400_000));
    // Days since 0000-03-01, by Howard Hinnant's civil_from_days.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_index = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_index + 2) / 5 + 1;
    let month = if month_index < 10 { month_index + 3 } else { month_index - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hours, minutes, seconds) = (rest / 3_600_000, rest / 60_000 % 60, rest / 1000 % 60);
    format!("{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}.{:03}Z", rest % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signer() -> Signer {
        Signer::new("k").unwrap()
    }

    fn message(frames: Vec<Vec<u8>>) -> Multipart {
        Multipart::received(frames, 0)
    }

    #[test]
    fn moments_are_written_as_people_count_them() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(951_782_399_999), "2000-02-28T23:59:59.999Z");
        assert_eq!(rfc3339(951_782_400_000), "2000-02-29T00:00:00.000Z");
        assert_eq!(rfc3339(1_794_787_200_000), "2026-11-16T00:00:00.000Z");
    }

    #[test]
    fn what_was_signed_is_read_and_what_was_not_is_nothing() {
        let frames = encode(&signer(), "s", "m1", "status", &serde_json::json!({"a": 1})).unwrap();
        let mut with_topic = vec![b"kernel.status".to_vec()];
        with_topic.extend(frames.clone());
        let incoming = decode(&signer(), message(with_topic)).unwrap();
        assert_eq!((incoming.kind.as_str(), incoming.content.as_ref()), ("status", b"{\"a\":1}".as_slice()));
        for changed in 1..6 {
            let mut frames = frames.clone();
            frames[changed][0] ^= 1;
            assert!(decode(&signer(), message(frames)).is_none(), "frame {changed}");
        }
        assert!(decode(&Signer::new("other").unwrap(), message(frames.clone())).is_none());
        for length in 0..6 {
            assert!(decode(&signer(), message(frames[..length].to_vec())).is_none(), "{length} frames");
        }
    }

    #[test]
    fn garbage_is_nothing() {
        let garbage: [&[u8]; 4] = [b"", b"<IDS|MSG>", b"\xff\xff", b"{\"msg_type\": 3}"];
        for one in garbage {
            for two in garbage {
                let frames = vec![
                    DELIMITER.to_vec(),
                    one.to_vec(),
                    two.to_vec(),
                    one.to_vec(),
                    two.to_vec(),
                    one.to_vec(),
                ];
                assert!(decode(&signer(), message(frames)).is_none());
            }
        }
    }
}
