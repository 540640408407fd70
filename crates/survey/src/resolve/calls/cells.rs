//! What is known about variables, attributes, parameters and elements, whatever the order of execution.
//!
//! Values are only ever added, so the analysis ends. Each cell knows the bodies that read it, which are looked at again
//! when it grows.

use std::collections::HashMap;

use crate::resolve::calls::value::{BodyId, NameId, SiteId, ValueSet};

/// Something that holds values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum CellKey {
    /// A name of a module, of a class, or of a function with functions inside.
    Variable(BodyId, NameId),
    /// What callers pass.
    Parameter(BodyId, u32),
    Return(BodyId),
    Yield(BodyId),
    /// An attribute of the instances of a class.
    Attribute(BodyId, NameId),
    Element(SiteId, ElementKey),
    /// Elements whose key is not known.
    AnyElement(SiteId),
    /// All elements of a container.
    AllElements(SiteId),
    /// Keys of a dictionary.
    Keys(SiteId),
}

/// A key that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum ElementKey {
    Text(NameId),
    Number(i32),
}

/// All cells of a tree.
#[derive(Debug)]
pub(super) struct CellStore {
    places: HashMap<CellKey, usize>,
    values: Vec<ValueSet>,
    /// Bodies that read each cell, sorted.
    readers: Vec<Vec<BodyId>>,
    /// Bodies that have to be looked at (again).
    dirty: Vec<bool>,
    most: usize,
}

impl CellStore {
    pub(super) fn new(bodies: usize, most: usize) -> Self {
        let (places, values, readers) = (HashMap::new(), Vec::new(), Vec::new());
        Self { places, values, readers, dirty: vec![true; bodies], most }
    }

    fn place(&mut self, key: CellKey) -> Option<usize> {
        if let Some(place) = self.places.get(&key) {
            return Some(*place);
        }
        let place = self.values.len();
        if place >= self.most {
            return None;
        }
        self.places.insert(key, place);
        self.values.push(ValueSet::default());
        self.readers.push(Vec::new());
        Some(place)
    }

    pub(super) fn read(&mut self, key: CellKey, reader: BodyId) -> ValueSet {
        let Some(place) = self.place(key) else { return ValueSet::default() };
        if let Err(at) = self.readers[place].binary_search(&reader) {
            self.readers[place].insert(at, reader);
        }
        self.values[place].clone()
    }

    pub(super) fn join(&mut self, key: CellKey, values: &ValueSet) {
        if *values == ValueSet::default() {
            return;
        }
        let Some(place) = self.place(key) else { return };
        if self.values[place].join(values) {
            for reader in &self.readers[place] {
                self.dirty[reader.0 as usize] = true;
            }
        }
    }

    /// True once after a body became dirty.
    pub(super) fn take_dirty(&mut self, body: BodyId) -> bool {
        std::mem::take(&mut self.dirty[body.0 as usize])
    }

    pub(super) fn all_dirty(&mut self) {
        self.dirty.fill(true);
    }
}
