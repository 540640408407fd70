//! Statements.

use crate::resolve::calls::analysis::{BodyRun, CallPlace};
use crate::resolve::calls::cells::CellKey;
use crate::resolve::calls::frames::PathStep;
use crate::resolve::calls::invoke::CallArguments;
use crate::resolve::calls::value::{AbstractValue, BodyId, ValueSet};
use crate::scan::code::{CallEvidence, CodeCall, CodeExpression, CodeStatement, CodeTarget};

impl<'tree> BodyRun<'_, 'tree> {
    pub(super) fn statements(&mut self, statements: &'tree [CodeStatement]) {
        for statement in statements {
            if self.state.exhausted() {
                return;
            }
            self.statement(statement);
        }
    }

    fn statement(&mut self, statement: &'tree CodeStatement) {
        match statement {
            CodeStatement::Evaluate(value) => {
                self.evaluate(value);
            }
            CodeStatement::Assign { targets, value } => {
                let values = self.evaluate(value);
                for target in targets {
                    self.assign(target, values.clone());
                }
            }
            CodeStatement::Extend { target, value } => self.extend(target, value),
            CodeStatement::Function { name, body, decorators, defaults } => {
                let function = self.tree.sibling(self.id, *body);
                self.defaults(function, defaults);
                let values = self.decorated(AbstractValue::Function(function), decorators);
                self.assign_name(self.tree.name(self.file, *name), values);
            }
            CodeStatement::Class { name, body, decorators, bases } => {
                let class = self.tree.sibling(self.id, *body);
                self.bases(class, bases);
                let values = self.decorated(AbstractValue::Class(class), decorators);
                self.assign_name(self.tree.name(self.file, *name), values);
            }
            CodeStatement::Import(name) => {
                let name = self.tree.name(self.file, *name);
                let values = self.imported(name);
                self.assign_name(name, values);
            }
            CodeStatement::Return(value) => {
                let values = self.evaluate(value);
                self.state.cells.join(CellKey::Return(self.id), &values);
                self.frames.end();
            }
            CodeStatement::Raise { value, evidence } => self.raise(value, *evidence),
            CodeStatement::Branch(ways) => {
                let mut ended = Vec::new();
                for way in ways {
                    self.frames.enter();
                    self.statements(way);
                    ended.push(self.frames.leave());
                }
                self.frames.unite(ended);
            }
            CodeStatement::Loop(body) => self.repeat(|run| run.statements(body)),
            CodeStatement::For { target, values, evidence, body } => {
                let values = self.evaluate(values);
                let elements = self.iterate(&values, self.place(*evidence, None));
                self.repeat(|run| {
                    run.assign(target, elements.clone());
                    run.statements(body);
                });
            }
            CodeStatement::With { value, evidence, target } => self.with(value, *evidence, target.as_ref()),
        }
    }

    /// A body that runs any number of times: twice shows what one pass hands to the next.
    fn repeat(&mut self, mut body: impl FnMut(&mut Self)) {
        for _ in 0..2 {
            self.frames.enter();
            body(self);
            let pass = self.frames.leave();
            self.frames.enter();
            let none = self.frames.leave();
            self.frames.unite(vec![pass, none]);
        }
    }

    /// The place of a call, if it has evidence.
    pub(super) fn place(&self, evidence: Option<CallEvidence>, site: Option<u32>) -> Option<CallPlace> {
        let evidence = evidence?;
        let name = self.tree.name(self.file, evidence.name);
        Some(CallPlace { line: evidence.line, name, site: site.unwrap_or(u32::MAX) })
    }

    pub(super) fn defaults(&mut self, function: BodyId, defaults: &'tree [(usize, CodeExpression)]) {
        for (at, value) in defaults {
            let values = self.evaluate(value);
            self.state.cells.join(CellKey::Parameter(function, *at as u32), &values);
        }
    }

    /// What a name stands for after its decorators ran.
    fn decorated(&mut self, value: AbstractValue, decorators: &'tree [CodeCall]) -> ValueSet {
        let mut values = ValueSet::one(value);
        for decorator in decorators {
            let callees = self.evaluate(&decorator.function);
            let known = callees.iter().any(|callee| {
                use AbstractValue::{Class, Function, Instance, Method};
                matches!(callee, Function(_) | Class(_) | Instance(_) | Method { .. })
            });
            let arguments = CallArguments::of(vec![values.clone()]);
            let place = self.place(decorator.evidence, Some(decorator.site));
            let results = self.invoke_all(&callees, &arguments, decorator.site, place);
            if !self.state.trusts_decorators {
                values = if known { results } else { ValueSet::default() };
            } else if known && !results.is_empty() {
                values = results;
            }
        }
        values
    }

    fn bases(&mut self, class: BodyId, bases: &'tree [CodeExpression]) {
        let mut found = Vec::new();
        for base in bases {
            let values = self.evaluate(base);
            let known = values.iter().find_map(|value| match value {
                AbstractValue::Class(base) if base != class => Some(base),
                _ => None,
            });
            found.extend(known.filter(|base| !found.contains(base)));
        }
        if self.state.classes.set(class, found) {
            self.state.cells.all_dirty();
        }
    }

    fn raise(&mut self, value: &'tree CodeExpression, evidence: Option<CallEvidence>) {
        let values = self.evaluate(value);
        let place = self.place(evidence, None);
        for value in values.iter().filter(|_| place.is_some()) {
            if let AbstractValue::Class(_) = value {
                self.invoke(value, &CallArguments::default(), 0, place);
            }
        }
        self.frames.end();
    }

    fn extend(&mut self, target: &'tree CodeTarget, value: &'tree CodeExpression) {
        let mut values = self.evaluate(value);
        if let CodeTarget::Name(name) = target {
            let name = self.tree.name(self.file, *name);
            let before = self.lookup(name);
            for container in before.iter() {
                if let AbstractValue::Container(site) = container {
                    let elements = self.elements(&values);
                    self.add_element(site, None, &elements);
                }
            }
            values.join(&before);
            self.assign_name(name, values);
        }
    }

    fn with(
        &mut self,
        value: &'tree CodeExpression,
        evidence: Option<CallEvidence>,
        target: Option<&'tree CodeTarget>,
    ) {
        let values = self.evaluate(value);
        let place = self.place(evidence, None);
        let mut entered = ValueSet::default();
        for value in values.iter() {
            match value {
                AbstractValue::Instance(_) => {
                    entered.join(&self.call_member(value, "__enter__", &CallArguments::default(), place));
                    self.call_member(value, "__exit__", &CallArguments::default(), place);
                }
                // A generator function that a library makes a context manager of.
                AbstractValue::Generator(function) => {
                    entered.join(&self.read(CellKey::Yield(function)));
                }
                _ => {}
            }
        }
        if let Some(target) = target {
            self.assign(target, entered);
        }
    }

    pub(super) fn assign(&mut self, target: &'tree CodeTarget, values: ValueSet) {
        match target {
            CodeTarget::Name(name) => self.assign_name(self.tree.name(self.file, *name), values),
            CodeTarget::Attribute(object, name) => {
                let name = self.tree.name(self.file, *name);
                for value in self.evaluate(object).iter() {
                    let owner = match value {
                        AbstractValue::Instance(class) => Some(CellKey::Attribute(class, name)),
                        AbstractValue::Class(class) => Some(CellKey::Variable(class, name)),
                        AbstractValue::Module(file) => {
                            self.tree.module(file as usize).map(|module| CellKey::Variable(module, name))
                        }
                        _ => None,
                    };
                    if let Some(owner) = owner {
                        self.state.cells.join(owner, &values);
                    }
                }
                if let Some(mut path) = self.path(object) {
                    path.1.push(PathStep::Attribute(name));
                    self.frames.set_path(path, values);
                }
            }
            CodeTarget::Element(object, key) => self.assign_element(object, key, values),
            CodeTarget::Sequence(targets, site) => self.assign_sequence(targets, *site, &values),
            CodeTarget::Starred(inner) => self.assign(inner, values),
            CodeTarget::Ignored => {}
        }
    }

    fn assign_element(
        &mut self,
        object: &'tree CodeExpression,
        key: &'tree CodeExpression,
        values: ValueSet,
    ) {
        let containers = self.evaluate(object);
        let keys = self.evaluate(key);
        let keys = self.element_keys(&keys);
        for value in containers.iter() {
            if let AbstractValue::Container(site) = value {
                self.write_element(site, &keys, &values);
            }
        }
        if let (Some(mut path), [Some(key)]) = (self.path(object), keys.as_slice()) {
            path.1.push(PathStep::Element(*key));
            self.frames.set_path(path, values);
        }
    }

    fn assign_sequence(&mut self, targets: &'tree [CodeTarget], site: u32, values: &ValueSet) {
        let star = targets.iter().position(|target| matches!(target, CodeTarget::Starred(_)));
        let from_end = |at: usize| targets.len() - at;
        for (at, target) in targets.iter().enumerate() {
            let found = match star {
                Some(star) if at == star => self.rest(values, at, targets.len() - 1 - at, self.site(site)),
                Some(star) if at > star => self.element_from_end(values, from_end(at)),
                _ => self.element_at(values, at),
            };
            self.assign(target, found);
        }
    }
}
