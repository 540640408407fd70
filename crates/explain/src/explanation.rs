//! The explanation as one document, for files, pages and programs.

use serde::{Deserialize, Serialize};

use crate::changes::{ExplainedChanges, ProjectChanges, compare};
use crate::claims::VerifiedClaim;
use crate::diagram::{changes_dot, overview_dot, part_dot};
use crate::facts::{FileRole, JobNotes, LanguageShare, ProjectFacts, UseKind};
use crate::structure::{ProjectStructure, structure};
use crate::text;

/// Version of the serialized form.
pub const EXPLANATION_VERSION: u32 = 1;

/// A project, explained.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// [`EXPLANATION_VERSION`].
    pub version: u32,
    /// Name of the project.
    pub name: String,
    /// Numbers and one sentence.
    pub summary: ExplanationSummary,
    /// Parts, those that use others first.
    pub parts: Vec<ExplanationPart>,
    /// Uses between parts, each with evidence.
    pub edges: Vec<ExplanationEdge>,
    /// The page, in Markdown.
    pub markdown: String,
    /// The picture of all parts, for `dot`.
    pub dot: String,
    /// What is different from an earlier state, if there is one to compare with and something is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<ExplainedChanges>,
    /// What a model said, each sentence with places that were checked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prose: Vec<VerifiedClaim>,
}

/// An explanation with the facts that claims about it are checked against.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExplainedFacts {
    /// The explanation.
    pub explanation: Explanation,
    /// The facts, without uses: the explanation has those that matter.
    pub facts: ProjectFacts,
}

/// A project in numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplanationSummary {
    /// What the project is.
    pub sentence: String,
    /// Languages by lines, most first.
    pub languages: Vec<LanguageShare>,
    /// Files of the program.
    pub source_files: u32,
    /// Files of tests.
    pub test_files: u32,
    /// Lines of the program and its tests.
    pub lines: u64,
    /// Files that were left out.
    pub left_out: u32,
}

/// A part of the project.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplanationPart {
    /// Name for people.
    pub name: String,
    /// Name for links.
    pub slug: String,
    /// Paths, most important first.
    pub files: Vec<String>,
    /// Symbols that represent it.
    pub symbols: Vec<String>,
    /// Picture of its inside, if it has several files.
    pub dot: Option<String>,
}

/// A use of one part by another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplanationEdge {
    /// Slug of the part that uses.
    pub from: String,
    /// Slug of the part that is used.
    pub to: String,
    /// Number of uses.
    pub count: u32,
    /// Some of them.
    pub evidence: Vec<ExplanationEvidence>,
}

/// A line that proves a use: it contains the symbol.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplanationEvidence {
    /// File that uses.
    pub file: String,
    /// Line, counted from 1.
    pub line: u32,
    /// Text in that line.
    pub symbol: String,
    /// Kind of use.
    pub kind: UseKind,
    /// File that is used.
    pub used_file: String,
}

/// Explains a project from its facts.
pub fn explain(facts: &ProjectFacts, notes: &JobNotes) -> Explanation {
    explain_with(facts, notes, None)
}

/// Explains a project, and what is different from an earlier state of it.
pub fn explain_since(before: &ProjectFacts, facts: &ProjectFacts, notes: &JobNotes) -> Explanation {
    let changes = compare(before, facts);
    explain_with(facts, notes, Some(changes).filter(|changes| !changes.is_empty()))
}

fn explain_with(facts: &ProjectFacts, notes: &JobNotes, changes: Option<ProjectChanges>) -> Explanation {
    let structure = structure(facts);
    let parts = structure.parts.iter().enumerate().map(|(at, part)| ExplanationPart {
        name: part.name.clone(),
        slug: part.slug.clone(),
        files: part.files.iter().map(|file| facts.files[*file].path.clone()).collect(),
        symbols: part.key_symbols.iter().map(|symbol| symbol.name.clone()).collect(),
        dot: crate::diagram::has_page(part).then(|| part_dot(facts, &structure, at)),
    });
    Explanation {
        version: EXPLANATION_VERSION,
        name: facts.project_name().to_owned(),
        summary: summary(facts),
        parts: parts.collect(),
        edges: edges(facts, &structure),
        markdown: text::markdown(facts, &structure, notes, changes.as_ref()),
        dot: overview_dot(facts, &structure),
        changes: changes.map(|changes| ExplainedChanges {
            dot: changes_dot(facts, &structure, &changes),
            changes: changes.cut(),
        }),
        prose: Vec::new(),
    }
}

fn summary(facts: &ProjectFacts) -> ExplanationSummary {
    let count = |role: FileRole| facts.files.iter().filter(|file| file.role == role).count() as u32;
    let left = &facts.left_out;
    ExplanationSummary {
        sentence: text::sentence(facts),
        languages: facts.languages(),
        source_files: count(FileRole::Source),
        test_files: count(FileRole::Test),
        lines: facts.lines(FileRole::Source) + facts.lines(FileRole::Test),
        left_out: left.vendored
            + left.generated
            + left.binary
            + left.ignored
            + left.unreadable
            + left.beyond_bounds,
    }
}

fn edges(facts: &ProjectFacts, structure: &ProjectStructure) -> Vec<ExplanationEdge> {
    let evidence = |at: &usize| {
        let one = &facts.uses[*at];
        ExplanationEvidence {
            file: facts.files[one.from].path.clone(),
            line: one.line,
            symbol: one.symbol.clone(),
            kind: one.kind,
            used_file: facts.files[one.to].path.clone(),
        }
    };
    let edge = |one: &crate::structure::PartUse| ExplanationEdge {
        from: structure.parts[one.from].slug.clone(),
        to: structure.parts[one.to].slug.clone(),
        count: one.count,
        evidence: one.evidence.iter().map(evidence).collect(),
    };
    structure.uses.iter().map(edge).collect()
}
