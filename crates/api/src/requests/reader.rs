//! Reads a request body from JSON: serde finds the members, this file writes the error messages.
//!
//! [`RequestDeserializer`] walks a [`Value`] and rejects unknown members and wrong JSON types itself, so that every
//! refusal has a stable code and a sentence for a person. `serde_path_to_error` adds the path of the member.
//! Numbers are compared with [`JsonRequest::NUMBERS`]; every other rule is in [`JsonRequest::checked`].
//!
//! `null` counts as absent in every object with fixed members, because some clients send all members they know.

use std::fmt::Display;
use std::ops::RangeInclusive;

use serde::de::value::{MapDeserializer, SeqDeserializer, StrDeserializer};
use serde::de::{DeserializeOwned, Deserializer, IntoDeserializer, Visitor};
use serde_json::{Map, Value};

use super::refusal::{MemberError, invalid};
use crate::ApiError;

/// A body that a client may send.
pub(crate) trait JsonRequest: DeserializeOwned {
    /// The bounds of number members, by path from the body.
    const NUMBERS: &'static [(&'static str, NumberBounds)] = &[];

    /// Applies the rules that JSON types can't express, and normalizes values.
    fn checked(self) -> Result<Self, ApiError> {
        Ok(self)
    }
}

/// The accepted values of a number member.
pub(crate) enum NumberBounds {
    Whole(RangeInclusive<u64>),
    Real(RangeInclusive<f64>),
}

/// Reads and checks a whole body.
pub(crate) fn read<T: JsonRequest>(body: &Value) -> Result<T, ApiError> {
    let parsed = serde_path_to_error::deserialize::<_, T>(RequestDeserializer(body));
    match parsed {
        // The bounds make a better sentence than "not a whole number".
        Err(error) if error.inner().is_number() => {
            check_numbers(body, T::NUMBERS)?;
            Err(error.into())
        }
        Err(error) => Err(error.into()),
        Ok(request) => {
            check_numbers(body, T::NUMBERS)?;
            request.checked()
        }
    }
}

fn check_numbers(body: &Value, numbers: &[(&str, NumberBounds)]) -> Result<(), ApiError> {
    for (path, bounds) in numbers {
        let member = path.split('.').try_fold(body, |value, name| value.get(name));
        let Some(number) = member.filter(|value| value.is_number()) else { continue };
        match bounds {
            NumberBounds::Whole(range) if number.as_u64().is_none_or(|number| !range.contains(&number)) => {
                return Err(out_of_bounds(path, "a whole number", range));
            }
            NumberBounds::Real(range) if number.as_f64().is_none_or(|number| !range.contains(&number)) => {
                return Err(out_of_bounds(path, "a number", range));
            }
            NumberBounds::Whole(_) | NumberBounds::Real(_) => {}
        }
    }
    Ok(())
}

fn out_of_bounds<T: Display>(path: &str, wanted: &str, range: &RangeInclusive<T>) -> ApiError {
    invalid(path, &format!("must be {wanted} from {} to {}", range.start(), range.end()))
}

/// A JSON value as a serde deserializer.
#[derive(Clone, Copy)]
struct RequestDeserializer<'de>(&'de Value);

impl<'de> RequestDeserializer<'de> {
    fn object(self) -> Result<&'de Map<String, Value>, MemberError> {
        self.0.as_object().ok_or_else(|| MemberError::wrong_type("an object", self.0))
    }

    /// Returns a string without NUL: no argument, path or variable of a process can contain one.
    fn text(self) -> Result<&'de str, MemberError> {
        let text = self.0.as_str().ok_or_else(|| MemberError::wrong_type("text", self.0))?;
        if text.contains('\0') {
            return Err(MemberError::invalid("must not contain the character NUL"));
        }
        Ok(text)
    }
}

fn entries(
    object: &Map<String, Value>,
) -> impl Iterator<Item = (StrDeserializer<'_, MemberError>, RequestDeserializer<'_>)> {
    object.iter().map(|(name, value)| (name.as_str().into_deserializer(), RequestDeserializer(value)))
}

fn given_entries(
    object: &Map<String, Value>,
) -> impl Iterator<Item = (StrDeserializer<'_, MemberError>, RequestDeserializer<'_>)> {
    entries(object).filter(|(_, value)| !value.0.is_null())
}

impl<'de> IntoDeserializer<'de, MemberError> for RequestDeserializer<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

macro_rules! checked_scalars {
    ($($method:ident $visit:ident $read:expr;)+) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, MemberError> {
            let read: fn(Self) -> Result<_, MemberError> = $read;
            visitor.$visit(read(self)?)
        }
    )+};
}

fn number(value: RequestDeserializer<'_>) -> Result<f64, MemberError> {
    value.0.as_f64().ok_or_else(|| MemberError::wrong_type("a number", value.0))
}

fn whole_number(value: RequestDeserializer<'_>) -> Result<u64, MemberError> {
    if !value.0.is_number() {
        return Err(MemberError::wrong_type("a whole number", value.0));
    }
    value.0.as_u64().ok_or_else(MemberError::not_whole)
}

fn boolean(value: RequestDeserializer<'_>) -> Result<bool, MemberError> {
    value.0.as_bool().ok_or_else(|| MemberError::wrong_type("true or false", value.0))
}

impl<'de> Deserializer<'de> for RequestDeserializer<'de> {
    type Error = MemberError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, MemberError> {
        match self.0 {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Number(number) => match (number.as_u64(), number.as_i64()) {
                (Some(number), _) => visitor.visit_u64(number),
                (None, Some(number)) => visitor.visit_i64(number),
                (None, None) => visitor.visit_f64(number.as_f64().unwrap_or(f64::NAN)),
            },
            Value::String(text) => visitor.visit_str(text),
            Value::Array(_) => self.deserialize_seq(visitor),
            Value::Object(object) => visitor.visit_map(MapDeserializer::new(given_entries(object))),
        }
    }

    checked_scalars! {
        deserialize_bool visit_bool boolean;
        deserialize_u64 visit_u64 whole_number;
        deserialize_f64 visit_f64 number;
        deserialize_str visit_str |value| value.text();
        deserialize_string visit_str |value| value.text();
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, MemberError> {
        if self.0.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, MemberError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, MemberError> {
        let list = self.0.as_array().ok_or_else(|| MemberError::wrong_type("a list", self.0))?;
        visitor.visit_seq(SeqDeserializer::new(list.iter().map(RequestDeserializer)))
    }

    /// Reads an object with names of the client (`env`, `files`). Every member counts, even `null`.
    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, MemberError> {
        visitor.visit_map(MapDeserializer::new(entries(self.object()?)))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        known: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, MemberError> {
        let object = self.object()?;
        if let Some(name) = object.keys().find(|name| !known.contains(&name.as_str())) {
            return Err(serde::de::Error::unknown_field(name, known));
        }
        visitor.visit_map(MapDeserializer::new(given_entries(object)))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, MemberError> {
        visitor.visit_enum(self.text()?.into_deserializer())
    }

    serde::forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u32 u128 f32 char bytes byte_buf unit unit_struct tuple tuple_struct identifier
        ignored_any
    }
}
