//! The static programs that run inside every sandbox, carried as bytes by the host's binary.
//!
//! The build script compiles them for the static target. Only final programs and their tests depend on this crate, so that
//! drivers and server compile at the same time as the guest.

use sandyard_sandbox::guest_programs::GuestPrograms;

/// The programs of this build.
pub const PROGRAMS: GuestPrograms = GuestPrograms {
    guest: include_bytes!(env!("SANDYARD_GUEST_BINARY")),
    agent: include_bytes!(env!("SANDYARD_AGENT_BINARY")),
};

#[cfg(test)]
mod tests {
    use super::PROGRAMS;

    #[test]
    fn every_program_is_an_executable_of_its_own() {
        for program in [PROGRAMS.guest, PROGRAMS.agent] {
            assert!(program.starts_with(b"\x7fELF"));
        }
        assert_ne!(PROGRAMS.guest, PROGRAMS.agent);
    }
}
