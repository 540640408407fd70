//! The output of processes: taken from their pipes (`pump`), kept on disk (`segments`), followed by readers (`capture`).

pub(super) mod capture;
pub(super) mod pump;
pub(super) mod segments;
