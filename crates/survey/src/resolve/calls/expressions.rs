//! Expressions.

use crate::resolve::calls::analysis::{BodyRun, CallPlace};
use crate::resolve::calls::cells::{CellKey, ElementKey};
use crate::resolve::calls::frames::{PathStep, WrittenPath};
use crate::resolve::calls::invoke::{CallArguments, PassedArgument};
use crate::resolve::calls::value::{AbstractValue, BuiltinFunction, NameId, ValueSet};
use crate::scan::code::{BodyKind, CodeCall, CodeComprehension, CodeExpression, ComprehensionClause};

/// Files that pass a name on to each other by importing all names. A longer chain is a circle.
const MAX_WILDCARDS: usize = 8;
/// Steps of a path from a name.
const MAX_PATH_STEPS: usize = 4;

impl<'tree> BodyRun<'_, 'tree> {
    pub(super) fn evaluate(&mut self, expression: &'tree CodeExpression) -> ValueSet {
        self.state.steps += 1;
        match expression {
            CodeExpression::Unknown => ValueSet::default(),
            CodeExpression::Text(text) => {
                ValueSet::one(AbstractValue::Text(self.tree.name(self.file, *text)))
            }
            CodeExpression::Number(number) => ValueSet::one(AbstractValue::Number(*number)),
            CodeExpression::Name(name) => self.lookup(self.tree.name(self.file, *name)),
            CodeExpression::Attribute { object, name, line } => {
                let objects = self.evaluate(object);
                if let Some(written) = self.written(expression) {
                    return written;
                }
                let name = self.tree.name(self.file, *name);
                self.attribute(&objects, name, Some(CallPlace { line: *line, name, site: u32::MAX }))
            }
            CodeExpression::Call(call) => self.call(call),
            CodeExpression::Element(pair) => {
                let values = self.evaluate(&pair.0);
                let keys = self.evaluate(&pair.1);
                if let Some(written) = self.written(expression) {
                    return written;
                }
                self.element(&values, &keys)
            }
            CodeExpression::Slice { value, start, site } => {
                let values = self.evaluate(value);
                self.rest(&values, (*start).max(0) as usize, 0, self.site(*site))
            }
            CodeExpression::Sequence { elements, site } => self.sequence(elements, *site),
            CodeExpression::Dictionary { pairs, site } => self.dictionary(pairs, *site),
            CodeExpression::Comprehension(comprehension) => self.comprehension(comprehension),
            CodeExpression::Either(values) => {
                let mut all = ValueSet::default();
                for value in values {
                    all.join(&self.evaluate(value));
                }
                all
            }
            CodeExpression::Parts(parts) => {
                for part in parts {
                    self.evaluate(part);
                }
                ValueSet::default()
            }
            CodeExpression::Lambda { body, defaults } => {
                let function = self.tree.sibling(self.id, *body);
                self.defaults(function, defaults);
                ValueSet::one(AbstractValue::Function(function))
            }
            CodeExpression::Named(name, value) => {
                let values = self.evaluate(value);
                self.assign_name(self.tree.name(self.file, *name), values.clone());
                values
            }
            CodeExpression::Yield(value) => {
                let values = self.evaluate(value);
                self.state.cells.join(CellKey::Yield(self.id), &values);
                ValueSet::default()
            }
            CodeExpression::YieldFrom(value) => {
                let values = self.evaluate(value);
                let elements = self.elements(&values);
                self.state.cells.join(CellKey::Yield(self.id), &elements);
                ValueSet::default()
            }
            CodeExpression::Spread(value) => self.evaluate(value),
        }
    }

    /// What a name means here.
    pub(super) fn lookup(&mut self, name: NameId) -> ValueSet {
        if let Some(known) = self.frames.get(name) {
            return known.clone();
        }
        let placed = self.tree.body(self.id);
        // A name that this body binds later has no value yet; in a class it may be that of the module.
        if placed.binds(name) && placed.code.kind != BodyKind::Class {
            return ValueSet::default();
        }
        let mut present = placed.around;
        while let Some(body) = present {
            let around = self.tree.body(body);
            if around.code.kind != BodyKind::Class && around.binds(name) {
                return self.read(CellKey::Variable(body, name));
            }
            present = around.around;
        }
        let imported = self.wildcard(self.file, name, MAX_WILDCARDS);
        if !imported.is_empty() {
            return imported;
        }
        BuiltinFunction::named(self.tree.spelling(name))
            .map_or_else(ValueSet::default, |builtin| ValueSet::one(AbstractValue::Builtin(builtin)))
    }

    /// A name that comes from a file of which all names are imported.
    pub(super) fn wildcard(&mut self, file: usize, name: NameId, hops: usize) -> ValueSet {
        let Some(hops) = hops.checked_sub(1) else { return ValueSet::default() };
        let tree = self.tree;
        for next in &tree.links[file].wildcards {
            let found = match tree.module(*next) {
                Some(module) if tree.body(module).binds(name) => self.read(CellKey::Variable(module, name)),
                _ => self.wildcard(*next, name, hops),
            };
            if !found.is_empty() {
                return found;
            }
        }
        ValueSet::default()
    }

    /// Names and steps of an expression that can be written to, such as `self.handlers["get"]`.
    pub(super) fn path(&mut self, expression: &'tree CodeExpression) -> Option<WrittenPath> {
        let mut steps = Vec::new();
        let mut present = expression;
        while steps.len() <= MAX_PATH_STEPS {
            match present {
                CodeExpression::Name(name) => {
                    steps.reverse();
                    return Some((self.tree.name(self.file, *name), steps));
                }
                CodeExpression::Attribute { object, name, .. } => {
                    steps.push(PathStep::Attribute(self.tree.name(self.file, *name)));
                    present = object;
                }
                CodeExpression::Element(pair) => {
                    let key = match &pair.1 {
                        CodeExpression::Text(text) => ElementKey::Text(self.tree.name(self.file, *text)),
                        CodeExpression::Number(number) => ElementKey::Number(*number),
                        _ => return None,
                    };
                    steps.push(PathStep::Element(key));
                    present = &pair.0;
                }
                _ => return None,
            }
        }
        None
    }

    /// What was written to a path a moment ago.
    fn written(&mut self, expression: &'tree CodeExpression) -> Option<ValueSet> {
        let path = self.path(expression)?;
        self.frames.path(&path).cloned()
    }

    fn call(&mut self, call: &'tree CodeCall) -> ValueSet {
        let callees = self.evaluate(&call.function);
        let arguments = self.arguments(call);
        let place = self.place(call.evidence, Some(call.site));
        let results = self.invoke_all(&callees, &arguments, call.site, place);
        self.remember_update(call, &callees, &arguments);
        results
    }

    fn arguments(&mut self, call: &'tree CodeCall) -> CallArguments {
        let mut arguments = CallArguments::default();
        for argument in &call.arguments {
            let values = self.evaluate(argument);
            arguments.positional.push(match argument {
                CodeExpression::Spread(_) => PassedArgument::Spread(values),
                _ => PassedArgument::One(values),
            });
        }
        for (name, value) in &call.keywords {
            let values = self.evaluate(value);
            arguments.keywords.push((self.tree.name(self.file, *name), values));
        }
        for value in &call.spreads {
            let values = self.evaluate(value);
            arguments.spreads.push(values);
        }
        arguments
    }

    /// `place.update({"key": value})` writes to a path.
    fn remember_update(&mut self, call: &'tree CodeCall, callees: &ValueSet, arguments: &CallArguments) {
        let CodeExpression::Attribute { object, name, .. } = &call.function else { return };
        let updates = callees.iter().any(|callee| matches!(callee, AbstractValue::ContainerMethod { .. }));
        if !updates || self.tree.spelling(self.tree.name(self.file, *name)) != "update" {
            return;
        }
        let (Some(path), [PassedArgument::One(added)]) = (self.path(object), arguments.positional.as_slice())
        else {
            return;
        };
        for value in added.iter() {
            let AbstractValue::Container(site) = value else { continue };
            for key in self.state.keys.get(&site).cloned().unwrap_or_default() {
                let mut path = path.clone();
                path.1.push(PathStep::Element(key));
                let values = self.read(CellKey::Element(site, key));
                self.frames.set_path(path, values);
            }
        }
    }

    fn comprehension(&mut self, comprehension: &'tree CodeComprehension) -> ValueSet {
        self.frames.enter();
        for clause in &comprehension.clauses {
            match clause {
                ComprehensionClause::For { target, values, evidence } => {
                    let values = self.evaluate(values);
                    let elements = self.iterate(&values, self.place(*evidence, None));
                    self.assign(target, elements);
                }
                ComprehensionClause::If(condition) => {
                    self.evaluate(condition);
                }
            }
        }
        let site = self.site(comprehension.site);
        if let Some(key) = &comprehension.key {
            self.state.keyed.insert(site);
            let keys = self.evaluate(key);
            self.state.cells.join(CellKey::Keys(site), &keys);
        }
        let values = self.evaluate(&comprehension.value);
        self.frames.leave();
        self.add_element(site, None, &values);
        ValueSet::one(AbstractValue::Container(site))
    }
}
