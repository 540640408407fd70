//! One suite that every driver must pass.
