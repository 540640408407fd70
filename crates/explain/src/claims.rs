//! What a model says about a project, checked against the facts.
//!
//! A claim cites places: a path and a name that the file defines, if it defines any. A claim without a citation, or with one
//! that no fact supports, can't be verified and is dropped. A model may name and narrate; it can't add what is not there.

use serde::{Deserialize, Serialize};

use crate::facts::ProjectFacts;

/// Claims that are looked at; more are not read by people either.
const MAX_CLAIMS: usize = 200;
/// Letters of one claim.
const MAX_CLAIM_LETTERS: usize = 600;

/// A place that a claim cites.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimCitation {
    /// Path of a file.
    pub path: String,
    /// Name of a definition in that file.
    #[serde(default)]
    pub symbol: Option<String>,
}

/// A sentence with the places that prove it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelClaim {
    /// The sentence.
    pub text: String,
    /// Where it can be seen.
    pub citations: Vec<ClaimCitation>,
}

/// A claim that was verified, with the present line of each citation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifiedClaim {
    /// The sentence.
    pub text: String,
    /// Path, line and name of each place.
    pub places: Vec<ClaimPlace>,
}

/// A place that exists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimPlace {
    /// Path of the file.
    pub path: String,
    /// Line of the definition, or 1.
    pub line: u32,
    /// Name of the definition.
    pub symbol: Option<String>,
}

/// Why a claim was dropped, in words that a model can act on when it is asked once more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DroppedClaim {
    /// Index of the claim.
    pub claim: usize,
    /// What is wrong with it.
    pub reason: String,
}

/// Claims, checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckedClaims {
    /// Those that hold.
    pub verified: Vec<VerifiedClaim>,
    /// The others.
    pub dropped: Vec<DroppedClaim>,
}

/// Checks claims. Every citation of a claim must be true.
pub fn check_claims(facts: &ProjectFacts, claims: &[ModelClaim]) -> CheckedClaims {
    let mut checked = CheckedClaims::default();
    for (index, claim) in claims.iter().enumerate() {
        match verify(facts, claim).filter(|_| index < MAX_CLAIMS) {
            Some(verified) => checked.verified.push(verified),
            None => checked.dropped.push(DroppedClaim { claim: index, reason: reason(facts, claim, index) }),
        }
    }
    checked
}

fn verify(facts: &ProjectFacts, claim: &ModelClaim) -> Option<VerifiedClaim> {
    let readable = !claim.text.trim().is_empty() && claim.text.chars().count() <= MAX_CLAIM_LETTERS;
    if claim.citations.is_empty() || !readable {
        return None;
    }
    let places: Option<Vec<ClaimPlace>> =
        claim.citations.iter().map(|citation| place(facts, citation)).collect();
    let text: String =
        claim.text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    // A name in backticks is a claim of its own: it must be a path or a symbol of the project.
    let named = text.split('`').skip(1).step_by(2).all(|name| is_known(facts, name));
    Some(VerifiedClaim { text, places: places? }).filter(|_| named)
}

fn place(facts: &ProjectFacts, citation: &ClaimCitation) -> Option<ClaimPlace> {
    let file = facts.files.iter().find(|file| file.path == citation.path)?;
    let line = match &citation.symbol {
        // A path alone proves little: where a file defines something, the claim says what of it is meant.
        None if !file.symbols.is_empty() => return None,
        None => 1,
        Some(name) => {
            file.symbols.iter().find(|symbol| symbol.name == *name || member(&symbol.name) == name)?.line
        }
    };
    Some(ClaimPlace { path: citation.path.clone(), line, symbol: citation.symbol.clone() })
}

/// The name of a method without its type.
fn member(name: &str) -> &str {
    name.rsplit_once('.').map_or(name, |(_, member)| member)
}

fn is_known(facts: &ProjectFacts, name: &str) -> bool {
    let name = name.trim().trim_end_matches("()").replace("::", ".");
    let symbol = |known: &str| known == name || member(known) == member(&name);
    facts.files.iter().any(|file| file.path == name || file.symbols.iter().any(|one| symbol(&one.name)))
        || facts.manifests.iter().any(|manifest| {
            manifest.path == name
                || manifest.name.as_deref() == Some(&name)
                || manifest.commands.iter().any(|command| command.command == name)
        })
        || facts.libraries.iter().any(|library| library.name == name)
        || facts.routes.iter().any(|route| route.path == name)
}

fn reason(facts: &ProjectFacts, claim: &ModelClaim, index: usize) -> String {
    if index >= MAX_CLAIMS {
        return format!("there are more than {MAX_CLAIMS} claims");
    }
    if claim.citations.is_empty() {
        return "it cites no place".to_owned();
    }
    for citation in &claim.citations {
        if place(facts, citation).is_none() {
            let file = facts.files.iter().any(|file| file.path == citation.path);
            return match &citation.symbol {
                Some(symbol) if file => format!("{} defines no {symbol}", citation.path),
                None if file => format!("it cites {} without a symbol that the file defines", citation.path),
                _ => format!("there is no file {}", citation.path),
            };
        }
    }
    let unknown = claim.text.split('`').skip(1).step_by(2).find(|name| !is_known(facts, name));
    unknown.map_or_else(|| "it is empty or too long".to_owned(), |name| format!("nothing is called {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{FileDepth, FileFacts, FileRole, SymbolFact};

    fn facts() -> ProjectFacts {
        let symbol = |name: &str, line| SymbolFact {
            name: name.to_owned(),
            kind: "function".to_owned(),
            line,
            last_line: line,
            public: true,
            doc: None,
        };
        let file = FileFacts {
            path: "a/store.py".to_owned(),
            language: "Python".to_owned(),
            lines: 9,
            role: FileRole::Source,
            depth: FileDepth::Deep,
            doc: None,
            symbols: vec![symbol("load", 3), symbol("Store.put", 5)],
            hash: 0,
        };
        let style = FileFacts { path: "a/style.css".to_owned(), symbols: Vec::new(), ..file.clone() };
        ProjectFacts { files: vec![file, style], ..ProjectFacts::default() }
    }

    fn claim(text: &str, citations: &[(&str, Option<&str>)]) -> ModelClaim {
        let citations = citations.iter().map(|(path, symbol)| ClaimCitation {
            path: (*path).to_owned(),
            symbol: symbol.map(str::to_owned),
        });
        ModelClaim { text: text.to_owned(), citations: citations.collect() }
    }

    #[test]
    fn only_what_can_be_seen_stays() {
        let claims = [
            claim("`load()` reads the file.", &[("a/store.py", Some("load"))]),
            claim("`Store::put` writes.", &[("a/store.py", Some("put"))]),
            claim("It is fast.", &[]),
            claim("It saves.", &[("a/store.py", Some("save"))]),
            claim("It talks.", &[("b.py", None)]),
            claim("It stores.", &[("a/store.py", None)]),
            claim("It calls `Kafka`.", &[("a/store.py", Some("load"))]),
            claim("   ", &[("a/store.py", Some("load"))]),
            claim("It is styled.", &[("a/style.css", None)]),
        ];
        let checked = check_claims(&facts(), &claims);
        let lines: Vec<u32> = checked.verified.iter().map(|claim| claim.places[0].line).collect();
        assert_eq!(lines, [3, 5, 1]);
        let reasons: Vec<&str> = checked.dropped.iter().map(|dropped| dropped.reason.as_str()).collect();
        assert_eq!(
            reasons,
            [
                "it cites no place",
                "a/store.py defines no save",
                "there is no file b.py",
                "it cites a/store.py without a symbol that the file defines",
                "nothing is called Kafka",
                "it is empty or too long"
            ]
        );
    }
}
