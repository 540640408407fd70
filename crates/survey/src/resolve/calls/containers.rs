//! Elements of lists, tuples, sets and dictionaries, and what loops get.

use crate::resolve::calls::analysis::{BodyRun, CallPlace};
use crate::resolve::calls::cells::{CellKey, ElementKey};
use crate::resolve::calls::invoke::{CallArguments, PassedArgument};
use crate::resolve::calls::value::{AbstractValue, NameId, SiteId, ValueSet};
use crate::scan::code::CodeExpression;

/// Keys of one container that are told apart.
const MAX_KEYS: usize = 256;

impl<'tree> BodyRun<'_, 'tree> {
    pub(super) fn sequence(&mut self, elements: &'tree [CodeExpression], site: u32) -> ValueSet {
        let site = self.site(site);
        let mut spread = false;
        for (at, element) in elements.iter().enumerate() {
            let values = self.evaluate(element);
            if let CodeExpression::Spread(_) = element {
                spread = true;
                let inner = self.elements(&values);
                self.add_element(site, None, &inner);
            } else {
                // Behind a spread list the place of an element is not known.
                let key = (!spread).then_some(ElementKey::Number(at as i32));
                self.add_element(site, key, &values);
            }
        }
        ValueSet::one(AbstractValue::Container(site))
    }

    pub(super) fn dictionary(
        &mut self,
        pairs: &'tree [(CodeExpression, CodeExpression)],
        site: u32,
    ) -> ValueSet {
        let site = self.site(site);
        self.state.keyed.insert(site);
        for (key, value) in pairs {
            let keys = self.evaluate(key);
            let values = self.evaluate(value);
            if let CodeExpression::Spread(_) = value {
                self.copy_entries(&values, site);
                continue;
            }
            self.state.cells.join(CellKey::Keys(site), &keys);
            let keys = self.element_keys(&keys);
            self.write_element(site, &keys, &values);
        }
        ValueSet::one(AbstractValue::Container(site))
    }

    /// Adds to an element, or to any if the key is not known.
    pub(super) fn add_element(&mut self, site: SiteId, key: Option<ElementKey>, values: &ValueSet) {
        if values.is_empty() {
            return;
        }
        let known = self.state.keys.entry(site).or_default();
        let key = key.filter(|key| known.contains(key) || known.len() < MAX_KEYS);
        if let Some(key) = key
            && !known.contains(&key)
        {
            known.push(key);
        }
        let cell = key.map_or(CellKey::AnyElement(site), |key| CellKey::Element(site, key));
        self.state.cells.join(cell, values);
        self.state.cells.join(CellKey::AllElements(site), values);
    }

    /// Writes under any of some keys; `None` is a key that is not known.
    pub(super) fn write_element(&mut self, site: SiteId, keys: &[Option<ElementKey>], values: &ValueSet) {
        for key in keys {
            self.add_element(site, *key, values);
        }
    }

    /// Keys that values may mean; one that is not known if there are none.
    pub(super) fn element_keys(&self, values: &ValueSet) -> Vec<Option<ElementKey>> {
        let keys: Vec<Option<ElementKey>> = values
            .iter()
            .filter_map(|value| match value {
                AbstractValue::Text(text) => Some(Some(ElementKey::Text(text))),
                AbstractValue::Number(number) => Some(Some(ElementKey::Number(number))),
                _ => None,
            })
            .collect();
        if keys.is_empty() { vec![None] } else { keys }
    }

    fn element_of(&mut self, site: SiteId, key: Option<ElementKey>) -> ValueSet {
        let Some(key) = key else { return self.read(CellKey::AllElements(site)) };
        let mut values = self.read(CellKey::Element(site, key));
        values.join(&self.read(CellKey::AnyElement(site)));
        values
    }

    /// `values[keys]`.
    pub(super) fn element(&mut self, values: &ValueSet, keys: &ValueSet) -> ValueSet {
        let keys = self.element_keys(keys);
        let mut found = ValueSet::default();
        for value in values.iter() {
            match value {
                AbstractValue::Container(site) => {
                    for key in &keys {
                        found.join(&self.element_of(site, *key));
                    }
                }
                AbstractValue::Instance(_) => {
                    found.join(&self.call_member(value, "__getitem__", &CallArguments::default(), None));
                }
                _ => {}
            }
        }
        found
    }

    /// The element at a position, of a list or of whatever is unpacked.
    pub(super) fn element_at(&mut self, values: &ValueSet, at: usize) -> ValueSet {
        let mut found = ValueSet::default();
        for value in values.iter() {
            let elements = match value {
                AbstractValue::Container(site) if !self.state.keyed.contains(&site) => {
                    self.element_of(site, Some(ElementKey::Number(at as i32)))
                }
                _ => self.elements(&ValueSet::one(value)),
            };
            found.join(&elements);
        }
        found
    }

    /// The element at a position counted from behind: 1 is the last.
    pub(super) fn element_from_end(&mut self, values: &ValueSet, behind: usize) -> ValueSet {
        let mut found = ValueSet::default();
        for value in values.iter() {
            let AbstractValue::Container(site) = value else { continue };
            if let Some(at) = self.length(site).checked_sub(behind) {
                found.join(&self.element_of(site, Some(ElementKey::Number(at as i32))));
            }
        }
        found
    }

    /// Number of elements whose place is known.
    fn length(&mut self, site: SiteId) -> usize {
        self.read(CellKey::AllElements(site));
        let keys = self.state.keys.get(&site).map(Vec::as_slice).unwrap_or_default();
        let numbers = keys.iter().filter_map(|key| match key {
            ElementKey::Number(number) => usize::try_from(*number).ok(),
            ElementKey::Text(_) => None,
        });
        numbers.max().map_or(0, |last| last + 1)
    }

    /// Elements from `start` on but for some at the end, as a list of their own.
    pub(super) fn rest(&mut self, values: &ValueSet, start: usize, less: usize, site: SiteId) -> ValueSet {
        for value in values.iter() {
            let AbstractValue::Container(from) = value else { continue };
            for at in start..self.length(from).saturating_sub(less) {
                let moved = self.read(CellKey::Element(from, ElementKey::Number(at as i32)));
                self.add_element(site, Some(ElementKey::Number((at - start) as i32)), &moved);
            }
            let any = self.read(CellKey::AnyElement(from));
            self.add_element(site, None, &any);
        }
        ValueSet::one(AbstractValue::Container(site))
    }

    /// What unpacking a value gives, without calls.
    pub(super) fn elements(&mut self, values: &ValueSet) -> ValueSet {
        self.iterate(values, None)
    }

    /// What a loop over values gets.
    pub(super) fn iterate(&mut self, values: &ValueSet, place: Option<CallPlace>) -> ValueSet {
        let mut found = ValueSet::default();
        for value in values.iter() {
            let elements = match value {
                AbstractValue::Container(site) if self.state.keyed.contains(&site) => {
                    self.read(CellKey::Keys(site))
                }
                AbstractValue::Container(site) => self.read(CellKey::AllElements(site)),
                AbstractValue::Generator(function) => self.read(CellKey::Yield(function)),
                AbstractValue::Instance(_) => self.iterate_instance(value, place),
                _ => ValueSet::default(),
            };
            found.join(&elements);
        }
        found
    }

    fn iterate_instance(&mut self, value: AbstractValue, place: Option<CallPlace>) -> ValueSet {
        let none = CallArguments::default();
        let iterators = self.call_member(value, "__iter__", &none, place);
        let mut found = ValueSet::default();
        for iterator in iterators.iter() {
            let elements = match iterator {
                AbstractValue::Instance(_) => self.call_member(iterator, "__next__", &none, place),
                AbstractValue::Generator(function) => self.read(CellKey::Yield(function)),
                AbstractValue::Container(site) => self.read(CellKey::AllElements(site)),
                _ => ValueSet::default(),
            };
            found.join(&elements);
        }
        found
    }

    /// Entries of other containers, put into a dictionary.
    fn copy_entries(&mut self, values: &ValueSet, site: SiteId) {
        for value in values.iter() {
            let AbstractValue::Container(from) = value else { continue };
            self.read(CellKey::AllElements(from));
            for key in self.state.keys.get(&from).cloned().unwrap_or_default() {
                let moved = self.read(CellKey::Element(from, key));
                self.add_element(site, Some(key), &moved);
            }
            let any = self.read(CellKey::AnyElement(from));
            self.add_element(site, None, &any);
            let keys = self.read(CellKey::Keys(from));
            self.state.cells.join(CellKey::Keys(site), &keys);
        }
    }

    /// A method of a list or dictionary. What it makes is made at `made`.
    pub(super) fn container_method(
        &mut self,
        site: SiteId,
        name: NameId,
        arguments: &CallArguments,
        made: SiteId,
    ) -> ValueSet {
        let values: Vec<ValueSet> =
            arguments.positional.iter().map(PassedArgument::values).cloned().collect();
        let first = values.first().cloned().unwrap_or_default();
        match self.tree.spelling(name) {
            "append" | "add" | "appendleft" => self.add_element(site, None, &first),
            "insert" => self.add_element(site, None, &values.get(1).cloned().unwrap_or_default()),
            "extend" => {
                let elements = self.elements(&first);
                self.add_element(site, None, &elements);
            }
            "update" => {
                self.copy_entries(&first, site);
                for (name, values) in &arguments.keywords {
                    self.add_element(site, Some(ElementKey::Text(*name)), values);
                }
            }
            "setdefault" => {
                let keys = self.element_keys(&first);
                self.write_element(site, &keys, &values.get(1).cloned().unwrap_or_default());
                return self.element(&ValueSet::one(AbstractValue::Container(site)), &first);
            }
            "get" | "pop" => {
                let mut found = self.element(&ValueSet::one(AbstractValue::Container(site)), &first);
                found.join(&values.get(1).cloned().unwrap_or_default());
                return found;
            }
            "copy" => return ValueSet::one(AbstractValue::Container(site)),
            "values" => {
                let elements = self.read(CellKey::AllElements(site));
                self.add_element(made, None, &elements);
                return ValueSet::one(AbstractValue::Container(made));
            }
            "keys" => {
                let keys = self.read(CellKey::Keys(site));
                self.add_element(made, None, &keys);
                return ValueSet::one(AbstractValue::Container(made));
            }
            "items" => {
                let keys = self.read(CellKey::Keys(site));
                let elements = self.read(CellKey::AllElements(site));
                return self.pairs(made, vec![keys, elements]);
            }
            _ => {}
        }
        ValueSet::default()
    }
}
