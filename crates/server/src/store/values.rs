//! Values of columns that every database stores in the same form: by their names, and as JSON.

use super::StoreError;

/// A stored value, or the name of the column that is damaged.
pub(super) fn damaged<T>(value: Option<T>, what: &'static str) -> Result<T, StoreError> {
    value.ok_or(StoreError::Damaged { what })
}

/// A value as JSON text.
pub(super) fn text<T: serde::Serialize>(value: &T, what: &'static str) -> Result<String, StoreError> {
    damaged(serde_json::to_string(value).ok(), what)
}

/// A value that is stored by its name.
pub(super) trait NamedValue: Sized {
    fn name(&self) -> &str;
    fn of_name(name: &str) -> Option<Self>;
}

/// Implements [`NamedValue`] for types with `as_str` and a `parse` that returns an option.
macro_rules! named_values {
    ($($type:ty),*) => { $(
        impl NamedValue for $type {
            fn name(&self) -> &str {
                self.as_str()
            }

            fn of_name(name: &str) -> Option<Self> {
                Self::parse(name)
            }
        }
    )* };
}
named_values!(
    crate::job::JobId,
    crate::job::JobState,
    crate::job::SandboxState,
    crate::job::SandboxPhase,
    crate::job::LimitsBinding,
    sandyard_sandbox::driver::IsolationLevel,
    sandyard_sandbox::driver::ImageDigest,
    sandyard_sandbox::driver::SandboxId
);

impl NamedValue for crate::job::JobKind {
    fn name(&self) -> &str {
        self.as_str()
    }

    fn of_name(name: &str) -> Option<Self> {
        Self::parse(name).ok()
    }
}
