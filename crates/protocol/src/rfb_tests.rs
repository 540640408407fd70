use proptest::prelude::*;

use super::*;

const HELLO: &[u8] = b"RFB 003.008\n\x01\x00";

fn pass(rights: ClientRights, bytes: &[u8]) -> Result<Vec<u8>, RfbError> {
    let mut passed = Vec::new();
    ClientFilter::new(rights).take(bytes, &mut passed)?;
    Ok(passed)
}

fn after_hello(rights: ClientRights, message: &[u8]) -> Result<Vec<u8>, RfbError> {
    let passed = pass(rights, &[HELLO, message].concat())?;
    Ok(passed[HELLO.len()..].to_vec())
}

const KEY: &[u8] = &[4, 1, 0, 0, 0, 0, 0, 0x61];
const POINTER: &[u8] = &[5, 1, 0, 10, 0, 20];
const CUT: &[u8] = &[6, 0, 0, 0, 0, 0, 0, 2, b'h', b'i'];
const EXTENDED_CUT: &[u8] = &[6, 0, 0, 0, 0xff, 0xff, 0xff, 0xfc, 1, 2, 3, 4];
const QEMU_KEY: &[u8] = &[255, 0, 0, 1, 0, 0, 0, 0x61, 0, 0, 0, 30];
const RESIZE: &[u8] = &[251, 0, 4, 0, 3, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 4, 0, 3, 0, 0, 0, 0, 0];
const UPDATE: &[u8] = &[3, 1, 0, 0, 0, 0, 4, 0, 3, 0];
const ENCODINGS_2: &[u8] = &[2, 0, 0, 2, 0, 0, 0, 7, 0, 0, 0, 16];
const FENCE: &[u8] = &[248, 0, 0, 0, 0, 0, 0, 1, 2, 9, 9];

#[test]
fn a_viewer_sends_no_input() {
    for message in [KEY, POINTER, CUT, EXTENDED_CUT, QEMU_KEY, RESIZE] {
        let passed = after_hello(ClientRights::View, &[message, UPDATE].concat()).unwrap();
        assert_eq!(passed, UPDATE, "{message:?}");
    }
    for message in [UPDATE, ENCODINGS_2, FENCE] {
        assert_eq!(after_hello(ClientRights::View, message).unwrap(), message);
    }
}

#[test]
fn a_controller_sends_input_but_never_another_size() {
    for message in [KEY, POINTER, CUT, EXTENDED_CUT, QEMU_KEY, UPDATE] {
        assert_eq!(after_hello(ClientRights::Control, message).unwrap(), message);
    }
    assert_eq!(after_hello(ClientRights::Control, &[RESIZE, KEY].concat()).unwrap(), KEY);
}

#[test]
fn every_client_is_shared_and_of_version_3_8() {
    assert_eq!(pass(ClientRights::View, HELLO).unwrap(), b"RFB 003.008\n\x01\x01");
    assert_eq!(pass(ClientRights::View, b"RFB 003.889\n").unwrap(), b"RFB 003.008\n");
    for line in [b"RFB 003.003\n", b"RFB 004.000\n", b"GET / HTTP/1", b"RFB 003.+08\n"] {
        assert_eq!(pass(ClientRights::Control, line), Err(RfbError::Version), "{line:?}");
    }
    assert_eq!(pass(ClientRights::Control, b"RFB 003.008\n\x02"), Err(RfbError::Security));
}

#[test]
fn what_is_too_long_or_unknown_ends_the_connection() {
    for message in [
        &[6, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff][..],
        &[6, 0, 0, 0, 0x80, 0, 0, 0],
        &[2, 0, 0xff, 0xff],
        &[248, 0, 0, 0, 0, 0, 0, 1, 65],
    ] {
        assert_eq!(after_hello(ClientRights::Control, message), Err(RfbError::TooLong), "{message:?}");
    }
    for message in [&[1][..], &[7], &[252], &[255, 1]] {
        assert!(
            matches!(after_hello(ClientRights::Control, message), Err(RfbError::Unknown(_))),
            "{message:?}"
        );
    }
}

proptest! {
    #[test]
    fn how_the_bytes_are_cut_changes_nothing(cuts in prop::collection::vec(1_usize..9, 1..40), control: bool) {
        let rights = if control { ClientRights::Control } else { ClientRights::View };
        let whole = [HELLO, KEY, UPDATE, CUT, ENCODINGS_2, POINTER, RESIZE, FENCE, EXTENDED_CUT, UPDATE].concat();
        let (mut filter, mut passed, mut at) = (ClientFilter::new(rights), Vec::new(), 0);
        for cut in cuts.iter().cycle() {
            let end = (at + cut).min(whole.len());
            filter.take(&whole[at..end], &mut passed).unwrap();
            at = end;
            if at == whole.len() {
                break;
            }
        }
        prop_assert_eq!(passed, pass(rights, &whole).unwrap());
    }

    #[test]
    fn any_bytes_are_taken_without_panic_and_never_grow(bytes in prop::collection::vec(any::<u8>(), 0..512)) {
        let mut passed = Vec::new();
        let mut filter = ClientFilter::new(ClientRights::Control);
        let _ = filter.take(HELLO, &mut passed).and_then(|()| filter.take(&bytes, &mut passed));
        prop_assert!(passed.len() <= HELLO.len() + bytes.len());
        prop_assert!(filter.pending.len() < 16);
    }
}

/// A viewer passes no input, and the pieces in which bytes arrive change nothing.
#[test]
fn fuzz_rfb() {
    sandyard_fuzz::FuzzCorpus::of(env!("CARGO_MANIFEST_DIR"), "rfb").run(|bytes| {
        for rights in [ClientRights::View, ClientRights::Control] {
            let whole = pass(rights, bytes);
            let (first, rest) = bytes.split_at(bytes.len() / 2);
            let (mut filter, mut passed) = (ClientFilter::new(rights), Vec::new());
            let pieces = filter.take(first, &mut passed).and_then(|()| filter.take(rest, &mut passed));
            assert_eq!(whole.is_ok(), pieces.is_ok());
            if let Ok(whole) = whole {
                assert!(whole.len() <= bytes.len() && whole == passed);
            }
        }
    });
}
