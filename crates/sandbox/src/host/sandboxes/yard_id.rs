//! The yard's id. It names the yard's control groups, so that one yard never takes another's for orphans.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use sha2::{Digest, Sha256};

/// Returns the id of the yard in `data`. It depends on a stored random number and on the directory itself: a
/// copied directory is another yard, a moved one is the same.
pub(crate) fn of(data: &Path) -> io::Result<String> {
    let seed = seed(&data.join("yard"))?;
    let directory = fs::metadata(data)?;
    let mut hash = Sha256::new();
    hash.update(seed);
    hash.update(directory.dev().to_le_bytes());
    hash.update(directory.ino().to_le_bytes());
    Ok(hex::encode(&hash.finalize()[..5]))
}

fn seed(path: &Path) -> io::Result<Vec<u8>> {
    // `create_new`: of two drivers that open the yard at once, only one may choose the seed.
    match OpenOptions::new().write(true).create_new(true).open(path) {
        Ok(mut file) => {
            let mut seed = [0; 16];
            getrandom::fill(&mut seed).map_err(io::Error::other)?;
            file.write_all(&seed)?;
            Ok(seed.to_vec())
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => fs::read(path),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_yard_keeps_its_id_and_a_copy_gets_another() {
        let one = tempfile::tempdir().unwrap();
        let two = tempfile::tempdir().unwrap();
        let id = super::of(one.path()).unwrap();
        std::fs::copy(one.path().join("yard"), two.path().join("yard")).unwrap();
        assert_eq!(super::of(one.path()).unwrap(), id);
        assert_ne!(super::of(two.path()).unwrap(), id);
    }
}
