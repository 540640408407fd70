//! Attributes of modules, classes and instances, and what imports bind.

use crate::resolve::bindings::BoundName;
use crate::resolve::calls::analysis::{BodyRun, CallPlace};
use crate::resolve::calls::cells::CellKey;
use crate::resolve::calls::invoke::CallArguments;
use crate::resolve::calls::value::{AbstractValue, BodyId, MethodReceiver, NameId, ValueSet};
use crate::resolve::index::folder;
use crate::resolve::python;
use crate::scan::code::MethodFlavour;

/// Modules that pass a name on to each other.
const MAX_HOPS: usize = 8;

impl BodyRun<'_, '_> {
    /// What `object.name` may be. A property runs at `place`.
    pub(super) fn attribute(
        &mut self,
        objects: &ValueSet,
        name: NameId,
        place: Option<CallPlace>,
    ) -> ValueSet {
        let mut found = ValueSet::default();
        for object in objects.iter() {
            let values = match object {
                AbstractValue::Module(file) => self.module_attribute(file as usize, name, MAX_HOPS),
                AbstractValue::Package { file, path } => self.package_attribute(file, path, name),
                AbstractValue::Instance(class) => self.instance_attribute(class, name, place),
                AbstractValue::Class(class) => self.class_attribute(class, name),
                AbstractValue::Parent { class, receiver } => self.parent_attribute(class, receiver, name),
                AbstractValue::Container(site) => {
                    ValueSet::one(AbstractValue::ContainerMethod { site, name })
                }
                _ => ValueSet::default(),
            };
            found.join(&values);
        }
        found
    }

    /// What an import gives a name of this file.
    pub(super) fn imported(&mut self, local: NameId) -> ValueSet {
        let tree = self.tree;
        let bindings = &tree.links[self.file].bindings;
        let spelling = tree.spelling(local);
        let mut found = match bindings.get(spelling) {
            Some(BoundName::File(file)) => ValueSet::one(AbstractValue::Module(*file as u32)),
            Some(BoundName::Symbol(file, symbol)) => match tree.known(symbol) {
                Some(symbol) => self.module_attribute(*file, symbol, MAX_HOPS),
                None => ValueSet::default(),
            },
            Some(BoundName::Package(_)) | None => ValueSet::default(),
        };
        let dotted = format!("{spelling}.");
        if bindings.range(dotted.clone()..).next().is_some_and(|(name, _)| name.starts_with(&dotted)) {
            found.add(AbstractValue::Package { file: self.file as u32, path: local });
        }
        found
    }

    fn package_attribute(&mut self, file: u32, path: NameId, name: NameId) -> ValueSet {
        let tree = self.tree;
        let bindings = &tree.links[file as usize].bindings;
        let whole = format!("{}.{}", tree.spelling(path), tree.spelling(name));
        let mut found = ValueSet::default();
        if let Some(BoundName::File(module)) = bindings.get(&whole) {
            found.add(AbstractValue::Module(*module as u32));
        }
        let dotted = format!("{whole}.");
        let longer =
            bindings.range(dotted.clone()..).next().is_some_and(|(name, _)| name.starts_with(&dotted));
        if let Some(path) = tree.known(&whole).filter(|_| longer) {
            found.add(AbstractValue::Package { file, path });
        }
        found
    }

    pub(super) fn module_attribute(&mut self, file: usize, name: NameId, hops: usize) -> ValueSet {
        let Some(hops) = hops.checked_sub(1) else { return ValueSet::default() };
        let tree = self.tree;
        if let Some(module) = tree.module(file).filter(|module| tree.body(*module).binds(name)) {
            return self.read(CellKey::Variable(module, name));
        }
        let path = &tree.index.paths[file];
        if path.ends_with("__init__.py")
            && let Some(inner) = python::module(tree.index, folder(path), tree.spelling(name))
        {
            return ValueSet::one(AbstractValue::Module(inner as u32));
        }
        self.wildcard(file, name, hops)
    }

    /// An attribute that was assigned to an instance, else a member of its class.
    fn instance_attribute(&mut self, class: BodyId, name: NameId, place: Option<CallPlace>) -> ValueSet {
        let order = self.state.classes.order(class);
        for base in &order {
            let assigned = self.read(CellKey::Attribute(*base, name));
            if !assigned.is_empty() {
                return assigned;
            }
        }
        self.member(&order, name, MethodReceiver::Instance(class), place)
    }

    fn class_attribute(&mut self, class: BodyId, name: NameId) -> ValueSet {
        let order = self.state.classes.order(class);
        self.member(&order, name, MethodReceiver::Class(class), None)
    }

    /// A member of the classes after `class` in the order of `receiver`.
    fn parent_attribute(&mut self, class: BodyId, receiver: BodyId, name: NameId) -> ValueSet {
        let order = self.state.classes.order(receiver);
        let after = order.iter().position(|base| *base == class).map_or(0, |at| at + 1);
        self.member(&order[after..], name, MethodReceiver::Instance(receiver), None)
    }

    /// The first member of that name, bound to its receiver.
    fn member(
        &mut self,
        order: &[BodyId],
        name: NameId,
        receiver: MethodReceiver,
        place: Option<CallPlace>,
    ) -> ValueSet {
        let tree = self.tree;
        let Some(owner) = order.iter().find(|base| tree.body(**base).binds(name)) else {
            return ValueSet::default();
        };
        let values = self.read(CellKey::Variable(*owner, name));
        let mut found = ValueSet::default();
        for value in values.iter() {
            let AbstractValue::Function(function) = value else {
                found.add(value);
                continue;
            };
            // A function that is only assigned in the class is bound like a method.
            let bound = |receiver| AbstractValue::Method { function, receiver };
            match (tree.body(function).code.flavour, receiver) {
                (MethodFlavour::Static, _) | (MethodFlavour::Plain, MethodReceiver::Class(_)) => {
                    found.add(value);
                }
                (MethodFlavour::OfClass, MethodReceiver::Class(class) | MethodReceiver::Instance(class)) => {
                    found.add(bound(MethodReceiver::Class(class)));
                }
                (MethodFlavour::Plain, instance @ MethodReceiver::Instance(_)) => {
                    found.add(bound(instance));
                }
                (MethodFlavour::Property, instance @ MethodReceiver::Instance(_)) => {
                    let results = self.invoke(bound(instance), &CallArguments::default(), 0, place);
                    found.join(&results);
                }
                (MethodFlavour::Property, MethodReceiver::Class(_)) => {}
            }
        }
        found
    }

    /// Calls a method of the language on a value.
    pub(super) fn call_member(
        &mut self,
        value: AbstractValue,
        name: &str,
        arguments: &CallArguments,
        place: Option<CallPlace>,
    ) -> ValueSet {
        let (AbstractValue::Instance(class), Some(name)) = (value, self.tree.known(name)) else {
            return ValueSet::default();
        };
        let order = self.state.classes.order(class);
        let methods = self.member(&order, name, MethodReceiver::Instance(class), None);
        let mut results = ValueSet::default();
        for method in methods.iter() {
            results.join(&self.invoke(method, arguments, 0, place));
        }
        results
    }
}
