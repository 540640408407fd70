//! The durable marker of each sandbox of a driver: `<data>/sandboxes/<id>/record.json`, made before anything else and deleted last.
//!
//! It is written by rename and not synced: everything it guards (processes, groups, mounts, sockets) lives in
//! the kernel's memory and can't outlive a marker lost to a power cut, while the death of a process loses neither.

use std::fs;
use std::io;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::driver::SandboxId;

/// What a driver must know to find, judge and remove a sandbox.
pub(crate) trait Marker: Serialize + DeserializeOwned {
    /// The sandbox.
    fn id(&self) -> &SandboxId;
}

/// All markers of a yard.
#[derive(Debug, Clone)]
pub(crate) struct Records<M> {
    directory: PathBuf,
    marker: PhantomData<fn() -> M>,
}

impl<M: Marker> Records<M> {
    /// Opens the directory of markers, making it if need be.
    pub(crate) fn open(data: &Path) -> io::Result<Self> {
        let directory = data.join("sandboxes");
        fs::create_dir_all(&directory)?;
        Ok(Self { directory, marker: PhantomData })
    }

    /// The directory of a marker, where its driver may keep what goes with the sandbox.
    pub(crate) fn directory(&self, id: &SandboxId) -> PathBuf {
        self.directory.join(id.as_str())
    }

    /// Writes or replaces a marker.
    pub(crate) fn write(&self, record: &M) -> io::Result<()> {
        let directory = self.directory(record.id());
        fs::create_dir_all(&directory)?;
        let temporary = directory.join("record.json.new");
        fs::write(&temporary, serde_json::to_vec(record).map_err(io::Error::other)?)?;
        fs::rename(temporary, directory.join("record.json"))
    }

    /// Reads a marker. One whose record was never finished has none.
    pub(crate) fn read(&self, id: &SandboxId) -> io::Result<Option<M>> {
        match fs::read(self.directory(id).join("record.json")) {
            Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(io::Error::other),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Deletes a marker; harmless if there is none.
    pub(crate) fn delete(&self, id: &SandboxId) -> io::Result<()> {
        match fs::remove_dir_all(self.directory(id)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Every sandbox that has a marker, finished or not.
    pub(crate) fn ids(&self) -> io::Result<Vec<SandboxId>> {
        let mut ids = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            ids.extend(entry?.file_name().to_str().and_then(SandboxId::parse));
        }
        ids.sort();
        Ok(ids)
    }

    /// Every finished marker.
    pub(crate) fn all(&self) -> io::Result<Vec<M>> {
        self.ids()?.iter().filter_map(|id| self.read(id).transpose()).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    struct Named {
        id: SandboxId,
    }

    impl Marker for Named {
        fn id(&self) -> &SandboxId {
            &self.id
        }
    }

    #[test]
    fn a_marker_is_found_until_it_is_deleted() {
        let data = tempfile::tempdir().unwrap();
        let records = Records::<Named>::open(data.path()).unwrap();
        let one = Named { id: SandboxId::parse("one").unwrap() };
        records.write(&one).unwrap();
        assert_eq!(records.read(&one.id).unwrap(), Some(one.clone()));
        assert_eq!(records.all().unwrap(), vec![one.clone()]);
        records.delete(&one.id).unwrap();
        records.delete(&one.id).unwrap();
        assert_eq!(records.ids().unwrap(), vec![]);
    }

    #[test]
    fn a_half_made_marker_is_listed_but_has_no_record() {
        let data = tempfile::tempdir().unwrap();
        let records = Records::<Named>::open(data.path()).unwrap();
        fs::create_dir(data.path().join("sandboxes/half")).unwrap();
        let half = SandboxId::parse("half").unwrap();
        assert_eq!(records.ids().unwrap(), vec![half.clone()]);
        assert_eq!(records.read(&half).unwrap(), None);
    }
}
