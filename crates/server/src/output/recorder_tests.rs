use super::*;

fn stream(cap: u64) -> StreamRecorder {
    StreamRecorder {
        kind: OutputStream::Stdout,
        pending: BytesMut::new(),
        offset: 0,
        next_chunk: 0,
        cap,
        tail: VecDeque::new(),
        tail_bytes: 0,
    }
}

fn chunk(offset: u64, text: &str) -> OutputChunk {
    OutputChunk { stream: OutputStream::Stdout, offset, bytes: Bytes::copy_from_slice(text.as_bytes()) }
}

#[test]
fn repeats_are_skipped_and_gaps_refused() {
    let mut stream = stream(1024);
    stream.push(chunk(0, "hello")).unwrap();
    stream.push(chunk(3, "lo wor")).unwrap();
    stream.push(chunk(0, "he")).unwrap();
    assert_eq!(&stream.pending[..], b"hello wor");
    assert!(stream.push(chunk(10, "x")).is_err());
}

#[test]
fn r10_a_chunk_never_ends_in_half_a_character_unless_it_is_the_last() {
    let mut stream = stream(1024);
    let text = "a€".as_bytes();
    stream
        .push(OutputChunk {
            stream: OutputStream::Stdout,
            offset: 0,
            bytes: Bytes::copy_from_slice(&text[..3]),
        })
        .unwrap();
    assert_eq!(&stream.take(Take::WholeCharacters).unwrap().1[..], b"a");
    assert!(stream.take(Take::WholeCharacters).is_none());
    assert_eq!(&stream.take(Take::AllOfIt).unwrap().1[..], &text[1..3]);
}

#[test]
fn bytes_that_are_no_utf8_are_not_held_back() {
    for bytes in [&b"\xff\xfe"[..], b"a\x80\x80\x80\x80", b"\x80", b"\xc0"] {
        assert_eq!(half_character(bytes), 0, "{bytes:?}");
    }
    assert_eq!(half_character("é".as_bytes()), 0);
    assert_eq!(half_character(&"é".as_bytes()[..1]), 1);
    assert_eq!(half_character(&"😀".as_bytes()[..3]), 3);
}

#[test]
fn r9_head_and_tail_stay_and_the_middle_goes() {
    let mut stream = stream(100);
    let mut dropped = 0;
    for number in 0..100 {
        if let Some((first, end, bytes)) = stream.keep(number, number * 10, 10) {
            assert!(first >= 5, "the head stays");
            assert_eq!((end - first) * 10, bytes);
            dropped += bytes;
        }
    }
    assert_eq!(dropped, 1000 - 100);
    assert_eq!(stream.tail.front(), Some(&(95, 10)));
    assert_eq!(stream.tail.back(), Some(&(99, 10)));
}
