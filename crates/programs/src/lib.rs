//! The static programs that run inside every sandbox, carried as bytes by the host's binary.
//!
//! The build script compiles them for the static target. Only final programs and their tests depend on this crate, so that
//! drivers and server compile at the same time as the guest.

use sandyard_sandbox::guest_programs::GuestPrograms;

/// The programs of this build.
pub const PROGRAMS: GuestPrograms = GuestPrograms {
    guest: include_bytes!(env!("SANDYARD_GUEST_BINARY")),
    agent: include_bytes!(env!("SANDYARD_AGENT_BINARY")),
    reader: include_bytes!(env!("SANDYARD_READER_BINARY")),
};

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use sandyard_memory::messages::FolderMemory;
    use sandyard_sandbox::reader::{ReaderError, run_reader};

    use super::PROGRAMS;

    #[test]
    fn every_program_is_an_executable_of_its_own() {
        for program in [PROGRAMS.guest, PROGRAMS.agent, PROGRAMS.reader] {
            assert!(program.starts_with(b"\x7fELF"));
        }
        assert_ne!(PROGRAMS.guest, PROGRAMS.agent);
    }

    #[test]
    fn a_folder_is_explained_and_nothing_else_is_read() {
        let read = |arguments: &[&OsStr]| run_reader(PROGRAMS.reader, arguments, b"");
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("a.py"), "import b\nb.run()\n").unwrap();
        std::fs::write(home.path().join("b.py"), "def run(): pass\n").unwrap();
        let result = read(&["explain".as_ref(), home.path().as_os_str()]).unwrap();
        let text = String::from_utf8(result).unwrap();
        assert!(text.contains("\"from\":\"a\",\"to\":\"b\""), "{text}");
        let missing = read(&["explain".as_ref(), "/nonexistent".as_ref()]);
        assert!(matches!(missing, Err(ReaderError::Failed(message)) if message.contains("nonexistent")));
        assert!(matches!(read(&["nothing".as_ref()]), Err(ReaderError::Failed(_))));
    }

    #[test]
    fn a_folder_is_remembered_and_only_its_index_is_written() {
        let (home, index) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::write(home.path().join("shop.py"), "def price(cart):\n    return sum(cart)\n").unwrap();
        let ask = |question: &str| {
            let arguments = ["folder-memory".as_ref(), home.path().as_os_str(), index.path().as_os_str()];
            let result = run_reader(PROGRAMS.reader, &arguments, question.as_bytes()).unwrap();
            serde_json::from_slice::<FolderMemory>(&result).unwrap()
        };
        let memory = ask("what does the cart cost");
        assert_eq!(memory.passages[0].path, "shop.py");
        assert_eq!(memory.passages[0].text, "def price(cart):\n    return sum(cart)");
        assert_eq!(memory.sync.unwrap().added, 1);
        assert_eq!(ask("").sync.unwrap().added, 0, "the index was kept");
        assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 1);
    }
}
