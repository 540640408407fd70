//! The languages of kernels: their names in notebooks, and the backend that runs their code.

use sandyard_protocol::Language;

use super::backend::KernelBackend;
use super::{jupyter, shell};

/// A language, its names in notebooks and its backend.
#[derive(Debug, Clone, Copy)]
pub(super) struct KernelKind {
    /// Name of its specification in notebooks, for JupyterLab.
    pub(super) kernel_name: &'static str,
    /// Name that notebooks and clients show.
    pub(super) display_name: &'static str,
    /// Name of its language in notebooks.
    pub(super) language_name: &'static str,
    pub(super) backend: &'static dyn KernelBackend,
}

const PYTHON: KernelKind = KernelKind {
    kernel_name: "python3",
    display_name: "Python 3",
    language_name: "python",
    backend: &&jupyter::PYTHON,
};

const DENO: KernelKind = KernelKind {
    kernel_name: "deno",
    display_name: "TypeScript (Deno)",
    language_name: "typescript",
    backend: &&jupyter::DENO,
};

const JAVASCRIPT: KernelKind = KernelKind { language_name: "javascript", ..DENO };

/// Keeper's own shell. The name is that of the Jupyter kernel in the image, with which JupyterLab runs the notebook.
const BASH: KernelKind = KernelKind {
    kernel_name: "bash",
    display_name: "Bash",
    language_name: "bash",
    backend: &shell::ShellKernel,
};

impl KernelKind {
    /// The entry of a language.
    pub(super) fn of(language: Language) -> &'static Self {
        match language {
            Language::Python => &PYTHON,
            Language::Typescript => &DENO,
            Language::Javascript => &JAVASCRIPT,
            Language::Bash => &BASH,
        }
    }
}
