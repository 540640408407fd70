//! Numbers and texts as bytes: LEB128 integers and length-prefixed texts. Readers return `None` for anything that is cut off or
//! malformed, because an index file may be damaged in any way.

/// Appends values to a buffer.
#[derive(Debug, Default)]
pub(crate) struct ByteWriter {
    bytes: Vec<u8>,
}

impl ByteWriter {
    pub(crate) fn number(&mut self, value: u64) {
        put_number(&mut self.bytes, value);
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.bytes.extend_from_slice(text.as_bytes());
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// Appends a LEB128 integer: seven bits per byte, low bits first.
pub(crate) fn put_number(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Reads values from a buffer, front to back.
#[derive(Debug, Clone)]
pub(crate) struct ByteReader<'a> {
    bytes: &'a [u8],
}

impl<'a> ByteReader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(crate) fn number(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.bytes.split_first()?;
            self.bytes = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    pub(crate) fn number_u32(&mut self) -> Option<u32> {
        self.number()?.try_into().ok()
    }

    /// A count of things that take at least one byte each, so a damaged count can't ask for more memory than the file has.
    pub(crate) fn count(&mut self) -> Option<usize> {
        let count = usize::try_from(self.number()?).ok()?;
        (count <= self.bytes.len()).then_some(count)
    }

    pub(crate) fn raw(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(len)?;
        self.bytes = rest;
        Some(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.raw(N)?.try_into().ok()
    }

    pub(crate) fn text(&mut self) -> Option<&'a str> {
        let len = self.count()?;
        std::str::from_utf8(self.raw(len)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(values in prop::collection::vec((any::<u64>(), ".{0,20}"), 0..20)) {
            let mut writer = ByteWriter::default();
            for (number, text) in &values {
                writer.number(*number);
                writer.text(text);
            }
            let bytes = writer.into_bytes();
            let mut reader = ByteReader::new(&bytes);
            for (number, text) in &values {
                prop_assert_eq!(reader.number(), Some(*number));
                prop_assert_eq!(reader.text(), Some(text.as_str()));
            }
            prop_assert!(reader.is_empty());
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let mut reader = ByteReader::new(&bytes);
            while reader.text().is_some() && !reader.is_empty() {}
            let mut reader = ByteReader::new(&bytes);
            while reader.number().is_some() {}
        }
    }
}
