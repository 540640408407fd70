//! Reads the server name from the first bytes of a TLS client, so that a tunnel to one name is not used to reach another name
//! behind the same address.
//!
//! rustls parses the client hello. It rejects what a server could read in two ways, such as a repeated extension, and a
//! hello without `signature_algorithms`, which TLS 1.2 clients have sent since 2008.

use rustls::server::Acceptor;

/// A client hello that is not complete within this many bytes is not judged; browsers send less than 2 KiB.
pub(super) const MAX_HELLO_BYTES: usize = 16 * 1024;

/// Content type of a TLS record with a handshake message.
const HANDSHAKE: u8 = 22;

/// The first bytes of a tunnel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Greeting {
    /// Too few bytes to tell.
    Unfinished,
    /// Another protocol than TLS, which names no server.
    Other,
    /// TLS, with the requested name in lower case; none if the hello has no name or is not valid.
    Tls(Option<String>),
}

/// Judges the first bytes that a client sent. Keeps no state: callers pass all bytes again when more arrive.
pub(super) fn greeting(bytes: &[u8]) -> Greeting {
    match bytes {
        [] => return Greeting::Unfinished,
        [HANDSHAKE, ..] => {}
        _ => return Greeting::Other,
    }
    let mut acceptor = Acceptor::default();
    let mut rest = bytes;
    // rustls takes a part of the bytes at a time, and joins a hello that is split over several records.
    while !rest.is_empty() {
        if acceptor.read_tls(&mut rest).is_err() {
            return Greeting::Tls(None);
        }
        match acceptor.accept() {
            Ok(None) => {}
            Ok(Some(accepted)) => {
                return Greeting::Tls(accepted.client_hello().server_name().map(str::to_owned));
            }
            Err(_) => return Greeting::Tls(None),
        }
    }
    if bytes.len() >= MAX_HELLO_BYTES { Greeting::Tls(None) } else { Greeting::Unfinished }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The extension with a host name.
    fn server_name(name: &str) -> Vec<u8> {
        let length = u16::try_from(name.len()).unwrap();
        let mut extension = vec![0, 0];
        extension.extend((length + 5).to_be_bytes());
        extension.extend((length + 3).to_be_bytes());
        extension.push(0);
        extension.extend(length.to_be_bytes());
        extension.extend(name.bytes());
        extension
    }

    /// A client hello with these names, in one record.
    fn hello(names: &[&str]) -> Vec<u8> {
        // extended_master_secret, and signature_algorithms with one scheme.
        let mut extensions = vec![0, 23, 0, 0, 0, 13, 0, 4, 0, 2, 4, 3];
        extensions.extend(names.iter().flat_map(|name| server_name(name)));
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
        assert_eq!(greeting(&hello(&["Pypi.ORG"])), Greeting::Tls(Some("pypi.org".into())));
        assert_eq!(greeting(&hello(&[])), Greeting::Tls(None));
        assert_eq!(greeting(b"SSH-2.0-client\r\n"), Greeting::Other);
        assert_eq!(greeting(b""), Greeting::Unfinished);
    }

    #[test]
    fn n2_a_second_name_makes_the_hello_invalid() {
        assert_eq!(greeting(&hello(&["pypi.org", "evil.example"])), Greeting::Tls(None));
    }

    #[test]
    fn every_beginning_is_unfinished_and_never_a_panic() {
        let whole = hello(&["pypi.org"]);
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
    fn a_hello_in_several_records_is_put_together() {
        let whole = hello(&["pypi.org"]);
        let mut split = Vec::new();
        for part in whole[5..].chunks(30) {
            split.extend([22, 3, 1]);
            split.extend(u16::try_from(part.len()).unwrap().to_be_bytes());
            split.extend(part);
        }
        assert_eq!(greeting(&split), Greeting::Tls(Some("pypi.org".into())));
    }

    #[test]
    fn a_hello_that_never_ends_is_given_up() {
        let mut endless = vec![22, 3, 1, 0x40, 0];
        endless.extend([1, 0, 0xff, 0xff]);
        endless.resize(MAX_HELLO_BYTES - 1, 7);
        assert_eq!(greeting(&endless), Greeting::Unfinished);
        endless.push(7);
        assert_eq!(greeting(&endless), Greeting::Tls(None));
    }
}
