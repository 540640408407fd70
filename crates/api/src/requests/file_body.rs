//! A file inside a JSON body.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use utoipa::ToSchema;

/// A file of a request: text, or bytes as base64.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(untagged)]
pub enum FileBody {
    /// Text.
    Text(String),
    /// Bytes.
    Bytes {
        /// Standard base64 with padding.
        #[schema(value_type = String)]
        base64: Base64Bytes,
    },
}

impl FileBody {
    /// Returns the size of the file in bytes.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Bytes { base64 } => base64.0.len(),
        }
    }

    /// Returns the content of the file.
    pub fn into_bytes(self) -> Vec<u8> {
        match self {
            Self::Text(text) => text.into_bytes(),
            Self::Bytes { base64 } => base64.0,
        }
    }
}

/// Bytes that JSON carries as standard base64 with padding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base64Bytes(pub Vec<u8>);

impl Serialize for Base64Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&base64::display::Base64Display::new(&self.0, &STANDARD))
    }
}

impl<'de> Deserialize<'de> for Base64Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let encoded = String::deserialize(deserializer)?;
        STANDARD.decode(encoded).map(Self).map_err(|_| D::Error::custom("is not base64"))
    }
}

/// By hand, because an untagged enum would report only that no variant matched.
impl<'de> Deserialize<'de> for FileBody {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FileBodyVisitor)
    }
}

struct FileBodyVisitor;

impl<'de> Visitor<'de> for FileBodyVisitor {
    type Value = FileBody;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("text or {\"base64\": \"…\"}")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<FileBody, E> {
        Ok(FileBody::Text(text.to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<FileBody, A::Error> {
        let mut base64 = None;
        while let Some(name) = members.next_key::<String>()? {
            if name != "base64" {
                return Err(A::Error::unknown_field(&name, &["base64"]));
            }
            base64 = Some(members.next_value()?);
        }
        let base64 = base64.ok_or_else(|| A::Error::missing_field("base64"))?;
        Ok(FileBody::Bytes { base64 })
    }
}
