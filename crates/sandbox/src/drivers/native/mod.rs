//! The embedded default: our own launcher on kernel interfaces.
