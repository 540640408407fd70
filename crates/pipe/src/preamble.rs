//! The preamble marks the start of a link. Bytes that an earlier connection left in a serial line are skipped up to it.

use tokio::io::{AsyncRead, AsyncReadExt};

/// Random, so that leftovers of another link do not contain it by chance.
pub(crate) const PREAMBLE: [u8; 32] = [
    0x9e, 0x41, 0xd7, 0x0b, 0xc5, 0x68, 0xf2, 0x13, 0x7a, 0xb6, 0x2c, 0xe9, 0x54, 0x8f, 0x01, 0xdb, 0x36,
    0xa8, 0x77, 0xfc, 0x19, 0x60, 0xbe, 0x45, 0xe3, 0x0d, 0x92, 0x5a, 0xc7, 0x28, 0x84, 0xf1,
];

/// Most bytes that are skipped. Leftovers are at most a transport's buffers; virtio-serial's are much smaller.
const MAX_SKIPPED_BYTES: usize = 4 * 1024 * 1024;

/// Reads up to and including the preamble. Fails if it does not arrive within `MAX_SKIPPED_BYTES`.
pub(crate) async fn skip_to_preamble(stream: &mut (impl AsyncRead + Unpin)) -> std::io::Result<()> {
    let mut window = [0_u8; PREAMBLE.len()];
    stream.read_exact(&mut window).await?;
    for _ in 0..MAX_SKIPPED_BYTES {
        if window == PREAMBLE {
            return Ok(());
        }
        window.rotate_left(1);
        window[PREAMBLE.len() - 1] = stream.read_u8().await?;
    }
    Err(std::io::Error::new(std::io::ErrorKind::InvalidData, "no preamble"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn leftovers_and_a_broken_preamble_are_skipped() {
        let mut bytes = b"half a frame".to_vec();
        bytes.extend_from_slice(&PREAMBLE[..20]);
        bytes.extend_from_slice(&PREAMBLE);
        bytes.extend_from_slice(b"next");
        let mut stream = bytes.as_slice();
        skip_to_preamble(&mut stream).await.unwrap();
        assert_eq!(stream, b"next");
    }

    #[tokio::test]
    async fn endless_garbage_is_refused() {
        let garbage = vec![0x9e_u8; MAX_SKIPPED_BYTES + 64];
        assert!(skip_to_preamble(&mut garbage.as_slice()).await.is_err());
    }
}
