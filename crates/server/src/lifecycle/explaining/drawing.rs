//! Pictures, drawn by Graphviz in the guest.

use sandyard_explain::Explanation;
use sandyard_explain::page::{CHANGES_SLUG, PageDiagram};
use sandyard_sandbox::machine::Machine;

use super::budget::FactsBudget;
use crate::lifecycle::guest_scripts::GuestScript;

/// Longest output of Graphviz: up to ten diagrams of at most 25 nodes.
const MAX_DRAWING_BYTES: u64 = 4 * 1024 * 1024;
/// The first bytes of a PNG.
const PNG_MAGIC: &[u8] = b"\x89PNG\r\n\x1a\n";

/// Draws the picture of all parts, that of the changes and one of each part, by one start of Graphviz. Empty without Graphviz,
/// or if it fails.
pub(super) async fn draw(
    machine: &Machine,
    explanation: &Explanation,
    budget: FactsBudget,
) -> Vec<PageDiagram> {
    let mut graphs = explanation.dot.clone();
    let mut names = vec![(String::new(), explanation.name.clone())];
    if let Some(changes) = &explanation.changes {
        graphs.push_str(&changes.dot);
        names.push((CHANGES_SLUG.to_owned(), "Changes".to_owned()));
    }
    for part in &explanation.parts {
        if let Some(dot) = &part.dot {
            graphs.push_str(dot);
            names.push((part.slug.clone(), part.name.clone()));
        }
    }
    let Some(drawn) = run_graphviz(machine, "svg", graphs, budget).await else { return Vec::new() };
    let drawn = String::from_utf8_lossy(&drawn);
    let documents: Vec<&str> = drawn.split_inclusive("</svg>").filter(|text| text.contains("<svg")).collect();
    // A document more or less means that a picture would stand under the name of another part.
    if documents.len() != names.len() {
        return Vec::new();
    }
    let diagram =
        |((slug, name), svg): ((String, String), &str)| PageDiagram { slug, name, svg: svg.to_owned() };
    names.into_iter().zip(documents).map(diagram).collect()
}

/// The same as PNG, for programs that show nothing else.
#[derive(Debug, Default)]
pub(super) struct DrawnDiagrams {
    pub(super) overview: Option<Vec<u8>>,
    pub(super) changes: Option<Vec<u8>>,
}

/// Draws the picture of all parts and that of the changes as PNG, by one start of Graphviz.
pub(super) async fn draw_pictures(
    machine: &Machine,
    explanation: &Explanation,
    budget: FactsBudget,
) -> DrawnDiagrams {
    let changes = explanation.changes.as_ref().map(|changes| changes.dot.as_str());
    let graphs = [explanation.dot.as_str(), changes.unwrap_or_default()].concat();
    let Some(drawn) = run_graphviz(machine, "png", graphs, budget).await else {
        return DrawnDiagrams::default();
    };
    let mut pictures = documents(&drawn).into_iter();
    DrawnDiagrams { overview: pictures.next(), changes: pictures.next().filter(|_| changes.is_some()) }
}

/// Takes apart what Graphviz wrote one behind the other.
fn documents(drawn: &[u8]) -> Vec<Vec<u8>> {
    let magic = |at: &usize| drawn[*at..].starts_with(PNG_MAGIC);
    let starts: Vec<usize> = (0..drawn.len()).filter(magic).collect();
    let ends = starts.iter().skip(1).copied().chain([drawn.len()]);
    starts.iter().copied().zip(ends).map(|(start, end)| drawn[start..end].to_vec()).collect()
}

async fn run_graphviz(
    machine: &Machine,
    format: &str,
    graphs: String,
    budget: FactsBudget,
) -> Option<Vec<u8>> {
    let script = GuestScript {
        text: include_str!("../scripts/draw.sh"),
        arguments: &[format],
        time: budget.left()?,
        most_output: MAX_DRAWING_BYTES,
    };
    let mut drawn = Vec::new();
    let ran = budget.within(script.run(machine, graphs.as_bytes(), &mut drawn)).await?.ok()?;
    ran.succeeded().then_some(drawn)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_are_taken_apart() {
        let drawn = [PNG_MAGIC, b"one", PNG_MAGIC, b"two"].concat();
        assert_eq!(documents(&drawn), [[PNG_MAGIC, b"one"].concat(), [PNG_MAGIC, b"two"].concat()]);
        assert_eq!(documents(b"no picture"), Vec::<Vec<u8>>::new());
    }
}
