//! The bytes of jobs: results, output, start trees and pictures.

mod layout;

pub(crate) use layout::Layout;
