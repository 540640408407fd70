//! Which changes of the shape old and new builds survive (docs/protocol.md has the rules in prose).

use crate::shape::{Flag, Line, Shape};

/// What a change asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verdict {
    /// Builds on either side of the change understand each other.
    Compatible,
    /// Only a peer of the next generation may be sent this: raise `GENERATION`.
    NextGeneration,
    /// The neighbouring generation could not be served any more.
    Breaking,
}

/// One difference between two shapes.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) verdict: Verdict,
    pub(crate) text: String,
}

/// Every difference from the frozen shape to today's.
pub(crate) fn changes(frozen: &Shape, today: &Shape) -> Vec<Change> {
    let mut changes = Vec::new();
    for (subject, old) in frozen {
        match today.get(subject) {
            Some(new) if new == old => {}
            Some(new) => changes.push(Change {
                verdict: changed(subject, old, new),
                text: format!("{subject} changed from {old:?} to {new:?}"),
            }),
            None => {
                changes.push(Change { verdict: Verdict::Breaking, text: format!("{subject} was removed") });
            }
        }
    }
    for (subject, new) in today.iter().filter(|(subject, _)| !frozen.contains_key(*subject)) {
        changes.push(Change { verdict: added(subject, new, frozen), text: format!("{subject} was added") });
    }
    changes
}

fn changed(subject: &str, old: &Line, new: &Line) -> Verdict {
    if subject.starts_with("limit ") {
        // A peer of the same generation would reject what the other side may now send.
        return Verdict::NextGeneration;
    }
    if old.form != new.form {
        return Verdict::Breaking;
    }
    let lost = old.flags.iter().filter(|flag| !new.has(flag)).map(|flag| match flag {
        // An older writer may leave the member out, or use the alias.
        Flag::Optional | Flag::Alias(_) | Flag::Flattened => Verdict::Breaking,
        Flag::Omitted | Flag::Strict => Verdict::Compatible,
    });
    let gained = new.flags.iter().filter(|flag| !old.has(flag)).map(|flag| match flag {
        Flag::Optional | Flag::Alias(_) => Verdict::Compatible,
        // An older reader must be able to do without the member.
        Flag::Omitted if old.has(&Flag::Optional) => Verdict::Compatible,
        Flag::Omitted | Flag::Flattened | Flag::Strict => Verdict::Breaking,
    });
    lost.chain(gained).max().unwrap_or(Verdict::Compatible)
}

fn added(subject: &str, new: &Line, frozen: &Shape) -> Verdict {
    if let Some((owner, _)) = subject.rsplit_once('.') {
        let Some(_) = frozen.get(owner) else { return Verdict::Compatible };
        if !new.has(&Flag::Optional) {
            // An older writer never sends the member.
            return Verdict::Breaking;
        }
        let container = owner.split("::").next().unwrap_or(owner);
        let is_strict = frozen.get(container).is_some_and(|line| line.has(&Flag::Strict));
        // An older reader that rejects unknown members must not be sent this one.
        return if is_strict { Verdict::NextGeneration } else { Verdict::Compatible };
    }
    match subject.split_once("::") {
        Some((owner, _)) if frozen.contains_key(owner) => Verdict::NextGeneration,
        _ => Verdict::Compatible,
    }
}
