//! Names of one body in the order of its statements: a later assignment replaces an earlier one, and ways that meet again are
//! united.

use std::collections::BTreeMap;

use crate::resolve::calls::cells::ElementKey;
use crate::resolve::calls::value::{NameId, ValueSet};

/// Paths that are remembered at a time.
const MAX_PATHS: usize = 64;

/// A step from a name to an attribute or an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PathStep {
    Attribute(NameId),
    Element(ElementKey),
}

/// What was written to a path such as `self.handlers["get"]`.
pub(super) type WrittenPath = (NameId, Vec<PathStep>);

/// What one way through a body wrote.
#[derive(Debug, Default)]
pub(super) struct LocalFrame {
    names: BTreeMap<NameId, ValueSet>,
    /// The way left the body.
    ended: bool,
}

/// The present state of a body's names.
#[derive(Debug)]
pub(super) struct LocalFrames {
    /// Ways inside of ways, outermost first.
    frames: Vec<LocalFrame>,
    /// Written since the last statement that could have changed it in another way.
    paths: BTreeMap<WrittenPath, ValueSet>,
}

impl LocalFrames {
    pub(super) fn new() -> Self {
        Self { frames: vec![LocalFrame::default()], paths: BTreeMap::new() }
    }

    pub(super) fn get(&self, name: NameId) -> Option<&ValueSet> {
        self.frames.iter().rev().find_map(|frame| frame.names.get(&name))
    }

    pub(super) fn set(&mut self, name: NameId, values: ValueSet) {
        self.paths.retain(|(root, _), _| *root != name);
        if let Some(frame) = self.frames.last_mut() {
            frame.names.insert(name, values);
        }
    }

    pub(super) fn path(&self, path: &WrittenPath) -> Option<&ValueSet> {
        self.paths.get(path)
    }

    pub(super) fn set_path(&mut self, path: WrittenPath, values: ValueSet) {
        if self.paths.len() < MAX_PATHS {
            self.paths.insert(path, values);
        } else {
            self.paths.remove(&path);
        }
    }

    /// After something ran that may have written anywhere.
    pub(super) fn forget_paths(&mut self) {
        self.paths.clear();
    }

    /// The rest of the present way is not executed.
    pub(super) fn end(&mut self) {
        if let Some(frame) = self.frames.last_mut() {
            frame.ended = true;
        }
    }

    /// Begins a way of its own.
    pub(super) fn enter(&mut self) {
        self.paths.clear();
        self.frames.push(LocalFrame::default());
    }

    /// Ends the way that was entered last.
    pub(super) fn leave(&mut self) -> LocalFrame {
        self.paths.clear();
        self.frames.pop().unwrap_or_default()
    }

    /// Unites ways that began at the present state.
    pub(super) fn unite(&mut self, ways: Vec<LocalFrame>) {
        let live: Vec<LocalFrame> = ways.into_iter().filter(|way| !way.ended).collect();
        if live.is_empty() {
            return self.end();
        }
        let mut united: BTreeMap<NameId, ValueSet> = BTreeMap::new();
        for name in live.iter().flat_map(|way| way.names.keys()) {
            if united.contains_key(name) {
                continue;
            }
            let mut values = ValueSet::default();
            for way in &live {
                if let Some(found) = way.names.get(name).or_else(|| self.get(*name)) {
                    values.join(found);
                }
            }
            united.insert(*name, values);
        }
        if let Some(frame) = self.frames.last_mut() {
            frame.names.extend(united);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resolve::calls::value::{AbstractValue, BodyId};

    fn function(number: u32) -> ValueSet {
        ValueSet::one(AbstractValue::Function(BodyId(number)))
    }

    #[test]
    fn ways_are_united_and_those_that_left_are_not() {
        let (name, mut frames) = (NameId(0), LocalFrames::new());
        frames.set(name, function(1));
        frames.enter();
        frames.set(name, function(2));
        let two = frames.leave();
        frames.enter();
        frames.set(name, function(3));
        frames.end();
        let three = frames.leave();
        frames.enter();
        let same = frames.leave();
        frames.unite(vec![two, three, same]);
        let mut expected = function(1);
        expected.join(&function(2));
        assert_eq!(frames.get(name), Some(&expected));
    }
}
