//! The tree of an image as a tar of entries in the order of their names, with owners, modes, times and hard
//! links, and without names of users.
//!
//! The tree is our own and was verified: it holds only files, directories and links.

use std::collections::HashMap;
use std::fs::{self, File, Metadata};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use tar::{Builder, EntryType, Header};

/// Source of the bytes of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LayerContent {
    /// The bytes of the files in the tree.
    Files,
    /// As many zeros, to measure the layer.
    Zeros,
}

pub(super) fn write_layer(root: &Path, out: impl Write, content: LayerContent) -> io::Result<()> {
    let mut layer = Layer { root, out: Builder::new(out), content, linked: HashMap::new() };
    layer.directory(Path::new(""))?;
    layer.out.into_inner()?.flush()
}

struct Layer<'a, W: Write> {
    root: &'a Path,
    out: Builder<W>,
    content: LayerContent,
    /// First written name of each file with several names, by inode.
    linked: HashMap<u64, PathBuf>,
}

impl<W: Write> Layer<'_, W> {
    /// Writes the entries of a directory. The directory itself is written already.
    fn directory(&mut self, path: &Path) -> io::Result<()> {
        let entries = fs::read_dir(self.root.join(path))?;
        let mut names: Vec<_> =
            entries.map(|entry| entry.map(|entry| entry.file_name())).collect::<io::Result<_>>()?;
        // Sorted, because the order of a directory differs between hosts and the same tree must give the same
        // bytes.
        names.sort();
        for name in names {
            let path = path.join(name);
            let facts = self.root.join(&path).symlink_metadata()?;
            self.entry(&path, &facts)?;
            if facts.is_dir() {
                self.directory(&path)?;
            }
        }
        Ok(())
    }

    fn entry(&mut self, path: &Path, facts: &Metadata) -> io::Result<()> {
        let mut header = header(facts);
        if facts.is_dir() {
            header.set_entry_type(EntryType::Directory);
            return self.out.append_data(&mut header, path, io::empty());
        }
        if facts.is_symlink() {
            header.set_entry_type(EntryType::Symlink);
            let target = fs::read_link(self.root.join(path))?;
            return self.out.append_link(&mut header, path, target);
        }
        if !facts.is_file() {
            return Err(io::Error::other(format!("{} is no file, directory or link", path.display())));
        }
        if facts.nlink() > 1 {
            if let Some(first) = self.linked.get(&facts.ino()) {
                header.set_entry_type(EntryType::Link);
                return self.out.append_link(&mut header, path, first);
            }
            self.linked.insert(facts.ino(), path.to_owned());
        }
        header.set_entry_type(EntryType::Regular);
        header.set_size(facts.len());
        self.file(&mut header, path, facts.len())
    }

    fn file(&mut self, header: &mut Header, path: &Path, size: u64) -> io::Result<()> {
        use io::Read as _;
        match self.content {
            LayerContent::Zeros => self.out.append_data(header, path, io::repeat(0).take(size)),
            // `take`: a file that grew meanwhile would make a tar whose header and content differ, which
            // nobody can read.
            LayerContent::Files => {
                self.out.append_data(header, path, File::open(self.root.join(path))?.take(size))
            }
        }
    }
}

fn header(facts: &Metadata) -> Header {
    let mut header = Header::new_gnu();
    header.set_size(0);
    header.set_mode(facts.mode() & 0o7777);
    header.set_uid(facts.uid().into());
    header.set_gid(facts.gid().into());
    header.set_mtime(u64::try_from(facts.mtime()).unwrap_or(0));
    header
}
