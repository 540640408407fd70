use proptest::prelude::*;
use tokio::io::{AsyncWriteExt, duplex};

use super::*;

const LIMITS: FrameLimits = FrameLimits { message_bytes: 64, sent_message_bytes: 64, data_bytes: 128 };

#[tokio::test]
async fn messages_and_data_arrive_in_order() {
    let (left, right) = duplex(16);
    let (mut left, mut right) = (Framed::new(left, LIMITS), Framed::new(right, LIMITS));
    let send = async {
        left.send_message(&"hello").await.unwrap();
        left.send_data(&[9; 100]).await.unwrap();
        left.finish().await.unwrap();
    };
    let receive = async {
        assert_eq!(right.receive_message::<String>().await.unwrap(), "hello");
        assert_eq!(right.receive().await.unwrap(), Some(Frame::Data(vec![9; 100].into())));
        assert_eq!(right.receive().await.unwrap(), None);
    };
    tokio::join!(send, receive);
}

#[tokio::test]
async fn a_frame_over_its_limit_is_neither_sent_nor_taken() {
    let (left, mut right) = duplex(1024);
    let mut left = Framed::new(left, LIMITS);
    assert!(matches!(left.send_data(&[0; 129]).await, Err(FrameError::TooLong(129))));
    right.write_all(&[DATA, 0xff, 0xff, 0xff, 0xff]).await.unwrap();
    assert!(matches!(left.receive().await, Err(FrameError::TooLong(_))));
}

#[tokio::test]
async fn an_end_inside_a_frame_is_told() {
    let (left, mut right) = duplex(1024);
    right.write_all(&[DATA, 0, 0, 0, 9, 1, 2]).await.unwrap();
    drop(right);
    assert!(matches!(Framed::new(left, LIMITS).receive().await, Err(FrameError::Ended)));
}

#[tokio::test]
async fn what_was_read_ahead_comes_out_with_the_stream() {
    let (left, mut right) = duplex(1024);
    let mut left = Framed::new(left, LIMITS);
    right.write_all(&[MESSAGE, 0, 0, 0, 1, b'1', b'r', b'a', b'w']).await.unwrap();
    assert_eq!(left.receive_message::<u8>().await.unwrap(), 1);
    assert_eq!(left.into_inner().1, "raw");
}

proptest! {
    #[test]
    fn any_bytes_end_in_an_answer(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (left, mut right) = duplex(1024);
            right.write_all(&bytes).await.unwrap();
            drop(right);
            let mut framed = Framed::new(left, LIMITS);
            while let Ok(Some(_)) = framed.receive().await {}
        });
    }
}

/// Whatever arrives ends in frames within their limits or in an error.
#[test]
fn fuzz_frames() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    sandyard_fuzz::FuzzCorpus::of(env!("CARGO_MANIFEST_DIR"), "frames").run(|bytes| {
        runtime.block_on(async {
            let (left, mut right) = duplex(128 * 1024);
            right.write_all(bytes).await.unwrap();
            drop(right);
            let mut framed = Framed::new(left, LIMITS);
            while let Ok(Some(frame)) = framed.receive().await {
                let (length, most) = match &frame {
                    Frame::Message(message) => (message.len(), LIMITS.message_bytes),
                    Frame::Data(data) => (data.len(), LIMITS.data_bytes),
                };
                assert!(length <= most);
            }
        });
    });
}
