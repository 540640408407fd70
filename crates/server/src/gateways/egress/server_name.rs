//! The server name of a TLS greeting, so that a tunnel to one name is not used to reach another behind the same address.

/// A greeting longer than this is not waited for; browsers' are below 2 KiB.
pub(super) const GREETING_BYTES: usize = 16 * 1024;

const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const SERVER_NAME: u16 = 0;
const HOST_NAME: u8 = 0;
const RECORD_HEADER: usize = 5;

/// What the first bytes of a tunnel are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Greeting {
    /// Too few bytes to say.
    Unfinished,
    /// Not TLS.
    Other,
    /// TLS, with the name it asks for, in lower case.
    Tls(Option<String>),
}

/// Looks at the first bytes that a client sent.
pub(super) fn greeting(bytes: &[u8]) -> Greeting {
    match bytes {
        [] => return Greeting::Unfinished,
        [HANDSHAKE, ..] => {}
        _ => return Greeting::Other,
    }
    let Some(hello) = handshake(bytes) else {
        let too_long = bytes.len() >= GREETING_BYTES;
        return if too_long { Greeting::Tls(None) } else { Greeting::Unfinished };
    };
    Greeting::Tls(server_name(&hello))
}

/// The body of the client hello, put together from its records; `None` while some of it is missing.
fn handshake(mut bytes: &[u8]) -> Option<Vec<u8>> {
    let mut message = Vec::new();
    while !bytes.is_empty() {
        let length = usize::from(u16::from_be_bytes([*bytes.get(3)?, *bytes.get(4)?]));
        message.extend_from_slice(bytes.get(RECORD_HEADER..RECORD_HEADER + length)?);
        bytes = &bytes[RECORD_HEADER + length..];
        if let [_, a, b, c, body @ ..] = message.as_slice() {
            let needed = u32::from_be_bytes([0, *a, *b, *c]) as usize;
            if body.len() >= needed {
                return Some(message);
            }
        }
    }
    None
}

fn server_name(message: &[u8]) -> Option<String> {
    let mut reader = Reader(message);
    if reader.take(1)? != [CLIENT_HELLO] {
        return None;
    }
    // Length, version and random; then session, cipher suites and compressions.
    reader.take(3 + 2 + 32)?;
    reader.list8()?;
    reader.list16()?;
    reader.list8()?;
    let mut extensions = Reader(reader.list16()?);
    while !extensions.0.is_empty() {
        let kind = extensions.number()?;
        let mut body = Reader(extensions.list16()?);
        if kind == SERVER_NAME {
            let mut names = Reader(body.list16()?);
            let is_host = names.take(1)? == [HOST_NAME];
            let name = std::str::from_utf8(names.list16()?).ok()?;
            return is_host.then(|| name.to_ascii_lowercase());
        }
    }
    None
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(self.take(2)?.try_into().ok()?))
    }

    fn list8(&mut self) -> Option<&'a [u8]> {
        let length = usize::from(*self.take(1)?.first()?);
        self.take(length)
    }

    fn list16(&mut self) -> Option<&'a [u8]> {
        let length = usize::from(self.number()?);
        self.take(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client hello as a client would send it, in one record.
    fn hello(name: Option<&str>) -> Vec<u8> {
        let mut extensions = vec![0, 23, 0, 0];
        if let Some(name) = name {
            let length = u16::try_from(name.len()).unwrap();
            extensions.extend([0, 0]);
            extensions.extend((length + 5).to_be_bytes());
            extensions.extend((length + 3).to_be_bytes());
            extensions.push(0);
            extensions.extend(length.to_be_bytes());
            extensions.extend(name.bytes());
        }
        let mut body = vec![3, 3];
        body.extend([7; 32]);
        body.extend([0, 0, 2, 0x13, 1, 1, 0]);
        body.extend(u16::try_from(extensions.len()).unwrap().to_be_bytes());
        body.extend(extensions);
        let mut message = vec![1];
        message.extend(&u32::try_from(body.len()).unwrap().to_be_bytes()[1..]);
        message.extend(body);
        let mut record = vec![22, 3, 1];
        record.extend(u16::try_from(message.len()).unwrap().to_be_bytes());
        record.extend(message);
        record
    }

    #[test]
    fn n2_the_name_is_found_and_its_absence_too() {
        assert_eq!(greeting(&hello(Some("Pypi.ORG"))), Greeting::Tls(Some("pypi.org".into())));
        assert_eq!(greeting(&hello(None)), Greeting::Tls(None));
        assert_eq!(greeting(b"SSH-2.0-client\r\n"), Greeting::Other);
        assert_eq!(greeting(b""), Greeting::Unfinished);
    }

    #[test]
    fn every_beginning_is_unfinished_and_never_a_panic() {
        let whole = hello(Some("pypi.org"));
        for length in 1..whole.len() {
            assert_eq!(greeting(&whole[..length]), Greeting::Unfinished, "{length}");
        }
        for place in 0..whole.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut broken = whole.clone();
                broken[place] = value;
                let _ = greeting(&broken);
            }
        }
    }

    #[test]
    fn a_hello_in_two_records_is_put_together() {
        let whole = hello(Some("pypi.org"));
        let message = &whole[5..];
        let mut split = Vec::new();
        for part in message.chunks(30) {
            split.extend([22, 3, 1]);
            split.extend(u16::try_from(part.len()).unwrap().to_be_bytes());
            split.extend(part);
        }
        assert_eq!(greeting(&split), Greeting::Tls(Some("pypi.org".into())));
    }
}
