//! Calls: arguments to parameters, results back, and the note of what was called.

use crate::resolve::calls::analysis::{BodyRun, CallPlace};
use crate::resolve::calls::cells::{CellKey, ElementKey};
use crate::resolve::calls::value::{AbstractValue, BodyId, BuiltinFunction, NameId, SiteId, ValueSet};
use crate::scan::code::ParameterKind;

/// An argument by position.
#[derive(Clone, Debug)]
pub(super) enum PassedArgument {
    One(ValueSet),
    /// `*value`.
    Spread(ValueSet),
}

impl PassedArgument {
    pub(super) fn values(&self) -> &ValueSet {
        match self {
            Self::One(values) | Self::Spread(values) => values,
        }
    }
}

/// The arguments of a call.
#[derive(Clone, Debug, Default)]
pub(super) struct CallArguments {
    pub(super) positional: Vec<PassedArgument>,
    pub(super) keywords: Vec<(NameId, ValueSet)>,
    /// `**value`.
    pub(super) spreads: Vec<ValueSet>,
}

impl CallArguments {
    pub(super) fn of(values: Vec<ValueSet>) -> Self {
        Self { positional: values.into_iter().map(PassedArgument::One).collect(), ..Self::default() }
    }
}

impl BodyRun<'_, '_> {
    pub(super) fn invoke_all(
        &mut self,
        callees: &ValueSet,
        arguments: &CallArguments,
        site: u32,
        place: Option<CallPlace>,
    ) -> ValueSet {
        let mut results = ValueSet::default();
        for callee in callees.iter() {
            results.join(&self.invoke(callee, arguments, site, place));
        }
        results
    }

    /// Calls a value. What the call makes by itself is made at `site`.
    pub(super) fn invoke(
        &mut self,
        callee: AbstractValue,
        arguments: &CallArguments,
        site: u32,
        place: Option<CallPlace>,
    ) -> ValueSet {
        self.state.steps += 1;
        match callee {
            AbstractValue::Function(function) => {
                self.record(place, function);
                self.bind(function, 0, arguments);
                self.result(function)
            }
            AbstractValue::Method { function, receiver } => {
                self.record(place, function);
                self.bind_receiver(function, receiver.value());
                self.bind(function, 1, arguments);
                self.result(function)
            }
            AbstractValue::Class(class) => self.instantiate(class, arguments, place),
            AbstractValue::Instance(_) => self.call_member(callee, "__call__", arguments, place),
            AbstractValue::ContainerMethod { site: container, name } => {
                self.container_method(container, name, arguments, self.site(site))
            }
            AbstractValue::Builtin(function) => self.builtin(function, arguments, self.site(site), place),
            _ => ValueSet::default(),
        }
    }

    fn record(&mut self, place: Option<CallPlace>, target: BodyId) {
        // It may write to anything that this body wrote before.
        self.frames.forget_paths();
        if let Some(place) = place {
            self.targets.entry(place).or_default().insert(target);
        }
    }

    fn instantiate(
        &mut self,
        class: BodyId,
        arguments: &CallArguments,
        place: Option<CallPlace>,
    ) -> ValueSet {
        self.record(place, class);
        let instance = AbstractValue::Instance(class);
        // The own `__init__` is what a call of the class means; one of a base is told by its name.
        let own = self.tree.known("__init__").is_some_and(|name| self.tree.body(class).binds(name));
        self.call_member(instance, "__init__", arguments, place.filter(|_| !own));
        ValueSet::one(instance)
    }

    fn result(&mut self, function: BodyId) -> ValueSet {
        if self.tree.body(function).code.yields {
            return ValueSet::one(AbstractValue::Generator(function));
        }
        self.read(CellKey::Return(function))
    }

    /// Hands arguments over to the parameters from a position on.
    fn bind(&mut self, function: BodyId, first: usize, arguments: &CallArguments) {
        let mut position = Some(first);
        for argument in &arguments.positional {
            match argument {
                PassedArgument::One(values) => {
                    if let Some(at) = position {
                        self.bind_position(function, at, values);
                    }
                    position = position.map(|at| at + 1);
                }
                PassedArgument::Spread(values) => {
                    let start = position.take();
                    for value in values.iter() {
                        let (AbstractValue::Container(site), Some(start)) = (value, start) else { continue };
                        self.spread(function, start, site);
                    }
                }
            }
        }
        for (name, values) in &arguments.keywords {
            self.bind_keyword(function, *name, values);
        }
        for values in &arguments.spreads {
            for value in values.iter() {
                let AbstractValue::Container(site) = value else { continue };
                for key in self.state.keys.get(&site).cloned().unwrap_or_default() {
                    if let ElementKey::Text(name) = key {
                        let passed = self.read(CellKey::Element(site, key));
                        self.bind_keyword(function, name, &passed);
                    }
                }
                // A key that is added later must be seen.
                self.read(CellKey::AllElements(site));
            }
        }
    }

    /// `*values` of a container whose elements have numbers.
    fn spread(&mut self, function: BodyId, start: usize, site: SiteId) {
        self.read(CellKey::AllElements(site));
        for key in self.state.keys.get(&site).cloned().unwrap_or_default() {
            if let ElementKey::Number(number) = key {
                let passed = self.read(CellKey::Element(site, key));
                self.bind_position(function, start + number.max(0) as usize, &passed);
            }
        }
    }

    fn bind_position(&mut self, function: BodyId, at: usize, values: &ValueSet) {
        let placed = self.tree.body(function);
        let parameters = &placed.code.parameters;
        let plain = parameters.iter().take_while(|one| one.kind == ParameterKind::Positional).count();
        if at < plain {
            return self.state.cells.join(CellKey::Parameter(function, at as u32), values);
        }
        if let Some(ParameterKind::Variadic(site)) = parameters.get(plain).map(|one| one.kind) {
            let site = self.tree.site(function, site);
            self.add_element(site, Some(ElementKey::Number((at - plain).min(1000) as i32)), values);
        }
    }

    fn bind_keyword(&mut self, function: BodyId, name: NameId, values: &ValueSet) {
        let placed = self.tree.body(function);
        for (at, parameter) in placed.code.parameters.iter().enumerate() {
            match parameter.kind {
                ParameterKind::Positional | ParameterKind::KeywordOnly
                    if self.tree.name(placed.file, parameter.name) == name =>
                {
                    return self.state.cells.join(CellKey::Parameter(function, at as u32), values);
                }
                ParameterKind::Keywords(site) => {
                    let site = self.tree.site(function, site);
                    self.add_element(site, Some(ElementKey::Text(name)), values);
                }
                _ => {}
            }
        }
    }

    fn builtin(
        &mut self,
        function: BuiltinFunction,
        arguments: &CallArguments,
        site: SiteId,
        place: Option<CallPlace>,
    ) -> ValueSet {
        let all: Vec<ValueSet> =
            arguments.positional.iter().map(|argument| argument.values().clone()).collect();
        let first = all.first().cloned().unwrap_or_default();
        match function {
            BuiltinFunction::Super => self.parent(),
            BuiltinFunction::Map => {
                let elements: Vec<ValueSet> =
                    all.iter().skip(1).map(|values| self.iterate(values, None)).collect();
                let results = self.invoke_all(&first, &CallArguments::of(elements), 0, place);
                self.add_element(site, None, &results);
                ValueSet::one(AbstractValue::Container(site))
            }
            BuiltinFunction::Copy => {
                let elements = self.iterate(&first, place);
                self.add_element(site, None, &elements);
                ValueSet::one(AbstractValue::Container(site))
            }
            BuiltinFunction::Enumerate => {
                let elements = self.iterate(&first, place);
                self.pairs(site, vec![ValueSet::default(), elements])
            }
            BuiltinFunction::Zip => {
                let elements = all.iter().map(|values| self.iterate(values, place)).collect();
                self.pairs(site, elements)
            }
            BuiltinFunction::Next => {
                let mut results = ValueSet::default();
                for value in first.iter() {
                    match value {
                        AbstractValue::Instance(_) => {
                            results.join(&self.call_member(
                                value,
                                "__next__",
                                &CallArguments::default(),
                                place,
                            ));
                        }
                        _ => {
                            results.join(&self.elements(&ValueSet::one(value)));
                        }
                    }
                }
                results
            }
            BuiltinFunction::Getattr => {
                let mut results = ValueSet::default();
                for name in all.get(1).cloned().unwrap_or_default().iter() {
                    if let AbstractValue::Text(name) = name {
                        results.join(&self.attribute(&first, name, place));
                    }
                }
                results
            }
        }
    }

    /// What `super()` is: for each receiver, the classes after the one around this method.
    fn parent(&mut self) -> ValueSet {
        let Some(class) = self.tree.class_around(self.id) else { return ValueSet::default() };
        let mut receivers = self.read(CellKey::Parameter(self.id, 0));
        if let Some(own) = self.own_receiver() {
            receivers.add(own.value());
        }
        let mut parents = ValueSet::default();
        for receiver in receivers.iter() {
            if let AbstractValue::Instance(receiver) | AbstractValue::Class(receiver) = receiver {
                parents.add(AbstractValue::Parent { class, receiver });
            }
        }
        parents
    }

    /// A container of tuples with these elements.
    pub(super) fn pairs(&mut self, site: SiteId, elements: Vec<ValueSet>) -> ValueSet {
        let inner = SiteId(site.0 + 1);
        for (at, values) in elements.iter().enumerate() {
            self.add_element(inner, Some(ElementKey::Number(at as i32)), values);
        }
        self.add_element(site, None, &ValueSet::one(AbstractValue::Container(inner)));
        ValueSet::one(AbstractValue::Container(site))
    }
}
