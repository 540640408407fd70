//! Whether the guest counts the time of its job.

/// The clocks of a job in its guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GuestClocks {
    /// Not set over this link.
    Unset,
    /// The guest counts the job's time and its idle time.
    Run,
    /// The guest counts neither, because the task waits for a person.
    Stand,
}
