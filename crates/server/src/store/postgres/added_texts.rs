//! The texts that a group of writes adds.

use super::codecs::{SqlStep, SqlValue};
use crate::job::{NewTextBody, TextRow};

const ADD: &str = "INSERT INTO texts (job, number, entry, origin, path, at_ms, digest, bytes, packed, in_blob) \
    SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::bigint[], \
    $7::bytea[], $8::bigint[], $9::bytea[], $10::bigint[])";

/// A text that a group adds: the number of its job, its row, and the place of its bytes.
pub(super) type AddedText = (i64, TextRow, Option<NewTextBody>);

/// The statement that adds texts, if there are any.
pub(super) fn step(texts: &[AddedText]) -> Option<SqlStep> {
    let integers = |of: &dyn Fn(&AddedText) -> i64| SqlValue::Integers(texts.iter().map(of).collect());
    let count = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let packed = |body: &Option<NewTextBody>| match body {
        Some(NewTextBody::Inline(packed)) => Some(packed.to_vec()),
        _ => None,
    };
    let values = vec![
        integers(&|(job, ..)| *job),
        integers(&|(_, text, _)| count(text.number)),
        integers(&|(_, text, _)| count(text.entry)),
        integers(&|(_, text, _)| text.origin.to_byte().into()),
        SqlValue::Texts(texts.iter().map(|(_, text, _)| text.path.replace('\0', "\u{fffd}")).collect()),
        integers(&|(_, text, _)| text.at_ms),
        SqlValue::MaybeBytes(
            texts.iter().map(|(_, text, _)| Some(text.digest.to_bytes().to_vec())).collect(),
        ),
        integers(&|(_, text, _)| count(text.bytes)),
        SqlValue::MaybeBytes(texts.iter().map(|(.., body)| packed(body)).collect()),
        integers(&|(.., body)| i64::from(matches!(body, Some(NewTextBody::Blob(_))))),
    ];
    (!texts.is_empty()).then(|| (ADD.to_owned(), values))
}
