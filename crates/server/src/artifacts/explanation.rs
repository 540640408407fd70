//! The explanation of a result, as the blob that holds it.

use sandyard_explain::Explanation;
use sandyard_explain::page::PageDiagram;
use serde::{Deserialize, Serialize};

/// An explanation with its pictures. Texts and pictures come from a sandbox: they are sanitised whenever they are shown.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct StoredExplanation {
    pub(crate) explanation: Explanation,
    /// Pictures as Graphviz wrote them, that of all parts first; empty if the image has no Graphviz.
    pub(crate) diagrams: Vec<PageDiagram>,
}
