//! Tells by the first bytes of a client which protocol a tunnel carries, so that a tunnel to one name is not used to reach
//! another name behind the same address.
//!
//! rustls parses the client hello of TLS. It rejects what a server could read in two ways, such as a repeated extension, and a
//! hello without `signature_algorithms`, which TLS 1.2 clients have sent since 2008. A line that may be a request of HTTP
//! counts as one, also if it is malformed: the parser of HTTP rejects it afterwards.

use rustls::server::Acceptor;

/// A client hello that is not complete within this many bytes is refused; browsers send less than 2 KiB. A first line that
/// is longer counts as a request of HTTP.
pub(super) const MAX_GREETING_BYTES: usize = 16 * 1024;

/// Content type of a TLS record with a handshake message.
const HANDSHAKE: u8 = 22;

/// The first bytes of a tunnel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Greeting {
    /// Too few bytes to tell, and not TLS.
    Unfinished,
    /// The beginning of a client hello.
    UnfinishedTls,
    /// Another protocol, which names no server.
    Other,
    /// A request of HTTP/1.
    Http,
    /// The preface of HTTP/2 without TLS. Its requests are compressed, so their host is not read.
    Http2,
    /// TLS, with the requested name in lower case; none if the hello has no name or is not valid.
    Tls(Option<String>),
}

/// Judges the first bytes that a client sent. Keeps no state: callers pass all bytes again when more arrive.
pub(super) fn greeting(bytes: &[u8]) -> Greeting {
    match bytes {
        [HANDSHAKE, ..] => tls(bytes),
        _ => plain(bytes),
    }
}

fn tls(bytes: &[u8]) -> Greeting {
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
    if bytes.len() >= MAX_GREETING_BYTES { Greeting::Tls(None) } else { Greeting::UnfinishedTls }
}

/// A request line is a word, a space, and somewhere behind it `HTTP/`. Servers skip empty lines before it.
fn plain(bytes: &[u8]) -> Greeting {
    let empty = bytes.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
    let text = &bytes[empty..];
    // A carriage return alone ends a line for some servers.
    let end = text.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
    let line = &text[..end.unwrap_or(text.len())];
    let method = line.iter().take_while(|byte| is_token(**byte)).count();
    let (is_whole, is_long) = (end.is_some(), bytes.len() >= MAX_GREETING_BYTES);
    match line.get(method) {
        None if is_whole => Greeting::Other,
        // However long the word is: a client that sends the rest of the line later must not get another verdict than one that
        // sends all at once.
        None if is_long => Greeting::Http,
        None => Greeting::Unfinished,
        Some(b' ' | b'\t') if method > 0 && !line.contains(&0) => match (is_whole, names_http(line)) {
            (true, true) if line.starts_with(b"PRI * HTTP/2") => Greeting::Http2,
            (true, true) => Greeting::Http,
            (true, false) => Greeting::Other,
            (false, _) if is_long => Greeting::Http,
            (false, _) => Greeting::Unfinished,
        },
        Some(_) => Greeting::Other,
    }
}

fn names_http(line: &[u8]) -> bool {
    line.windows(5).any(|part| part.eq_ignore_ascii_case(b"HTTP/"))
}

/// True for a byte of a method (RFC 9110, section 5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
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
            assert_eq!(greeting(&whole[..length]), Greeting::UnfinishedTls, "{length}");
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
        endless.resize(MAX_GREETING_BYTES - 1, 7);
        assert_eq!(greeting(&endless), Greeting::UnfinishedTls);
        endless.push(7);
        assert_eq!(greeting(&endless), Greeting::Tls(None));
    }

    #[test]
    fn n2_requests_of_http_are_recognized_in_any_spelling() {
        for text in [
            "GET / HTTP/1.1\r\n",
            "get / http/1.0\n",
            "GET / HTTP/1.1\rHost: evil.example\r\r",
            "\r\n\r\nPOST http://evil.example/ HTTP/1.1\r\n",
            "X-ODD\t/\tHTTP/1.1\r\n",
            "GET /\u{e9} HTTP/9.9\r\n",
        ] {
            assert_eq!(greeting(text.as_bytes()), Greeting::Http, "{text:?}");
            let line = text.len() - text.trim_start().len() + text.trim_start().find(['\r', '\n']).unwrap();
            for length in 0..line {
                assert_eq!(greeting(&text.as_bytes()[..length]), Greeting::Unfinished, "{text:?} {length}");
            }
        }
        assert_eq!(greeting(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), Greeting::Http2);
        assert_eq!(greeting(format!("GET /{}", "a".repeat(MAX_GREETING_BYTES)).as_bytes()), Greeting::Http);
    }

    #[test]
    fn other_protocols_are_not_held_back() {
        for bytes in [
            &b"SSH-2.0-client\r\n"[..],
            b"AMQP\0\0\x09\x01",
            b"\0\0\0\x08\x04\xd2\x16\x2f",
            b"*1\r\n",
            b"PING\r\n",
            b"EHLO me.example\r\n",
            b"0032git-upload-pack /x\0host=y",
            b"<stream:stream",
            b"{\"a\"",
            b"\x30\x0c\x02",
            b"a_word_that_is_longer_than_any_method_of_http\r\n",
        ] {
            assert_eq!(greeting(bytes), Greeting::Other, "{bytes:?}");
        }
        assert_eq!(greeting(b"hello"), Greeting::Unfinished);
        // A request with a long method, in two pieces.
        assert_eq!(greeting(&[b'x'; 100]), Greeting::Unfinished);
        assert_eq!(
            greeting([&[b'x'; 100], b" / HTTP/1.1\r\n".as_slice()].concat().as_slice()),
            Greeting::Http
        );
        assert_eq!(greeting(&[b'x'; MAX_GREETING_BYTES]), Greeting::Http);
    }

    /// A name that is compared with a rule is in lower case, and more bytes never turn TLS into another protocol.
    #[test]
    fn fuzz_greeting() {
        sandyard_fuzz::FuzzCorpus::of(env!("CARGO_MANIFEST_DIR"), "greeting").run(|bytes| {
            let whole = greeting(bytes);
            if let Greeting::Tls(Some(name)) = &whole {
                assert!(
                    !name.is_empty()
                        && name.bytes().all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase())
                );
            }
            let half = greeting(&bytes[..bytes.len() / 2]);
            match half {
                Greeting::UnfinishedTls => {
                    assert!(matches!(whole, Greeting::UnfinishedTls | Greeting::Tls(_)))
                }
                Greeting::Tls(Some(_)) | Greeting::Other | Greeting::Http2 => assert_eq!(half, whole),
                Greeting::Unfinished | Greeting::Http | Greeting::Tls(None) => {}
            }
        });
    }
}
