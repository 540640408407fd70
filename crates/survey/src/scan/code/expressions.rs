//! Expressions.

use sandyard_syntax::Node;

use crate::scan::code::builder::{CodeBuilder, MAX_ELEMENTS};
use crate::scan::code::{
    BodyKind, CallEvidence, CodeCall, CodeComprehension, CodeExpression, CodeStatement, CodeTarget,
    ComprehensionClause,
};
use crate::scan::state::line_of;

impl CodeBuilder<'_, '_> {
    pub(super) fn expression(&mut self, node: Node<'_>) -> CodeExpression {
        self.deeper(|builder| builder.any_expression(node)).unwrap_or(CodeExpression::Unknown)
    }

    fn any_expression(&mut self, node: Node<'_>) -> CodeExpression {
        match node.kind() {
            "identifier" => CodeExpression::Name(self.identifier(node)),
            "attribute" => self.attribute(node),
            "call" => self.call(node),
            "subscript" => self.subscript(node),
            "string" | "concatenated_string" => self.text(node),
            "integer" => self.number(node),
            "list" | "tuple" | "set" | "expression_list" | "pattern_list" => self.sequence(node),
            "dictionary" => self.dictionary(node),
            "list_comprehension"
            | "set_comprehension"
            | "generator_expression"
            | "dictionary_comprehension" => self.comprehension(node),
            "conditional_expression" => self.conditional(node),
            "boolean_operator" => CodeExpression::Either(self.children(node)),
            "parenthesized_expression" | "await" => self.first_child(node),
            "lambda" => self.lambda(node),
            "named_expression" => self.named(node),
            "yield" => self.yielded(node),
            "list_splat" => CodeExpression::Spread(Box::new(self.first_child(node))),
            "comment" | "true" | "false" | "none" | "float" | "ellipsis" => CodeExpression::Unknown,
            _ => self.parts(node),
        }
    }

    fn first_child(&mut self, node: Node<'_>) -> CodeExpression {
        node.named_child(0).map_or(CodeExpression::Unknown, |child| self.expression(child))
    }

    fn field(&mut self, node: Node<'_>, field: &str) -> CodeExpression {
        node.child_by_field_name(field).map_or(CodeExpression::Unknown, |child| self.expression(child))
    }

    fn children(&mut self, node: Node<'_>) -> Vec<CodeExpression> {
        let mut cursor = node.walk();
        let children = node.named_children(&mut cursor).filter(|child| child.kind() != "comment");
        children.take(MAX_ELEMENTS).map(|child| self.expression(child)).collect()
    }

    /// The calls inside an expression whose value is not known.
    fn parts(&mut self, node: Node<'_>) -> CodeExpression {
        let mut parts = self.children(node);
        parts.retain(|part| !matches!(part, CodeExpression::Unknown | CodeExpression::Name(_)));
        if parts.is_empty() { CodeExpression::Unknown } else { CodeExpression::Parts(parts) }
    }

    fn attribute(&mut self, node: Node<'_>) -> CodeExpression {
        let Some(name) = node.child_by_field_name("attribute") else { return CodeExpression::Unknown };
        let object = Box::new(self.field(node, "object"));
        CodeExpression::Attribute { object, name: self.identifier(name), line: line_of(name) }
    }

    fn text(&mut self, node: Node<'_>) -> CodeExpression {
        match self.state.literal(node) {
            Some(text) if node.kind() == "string" => CodeExpression::Text(self.intern(&text)),
            _ => self.parts(node),
        }
    }

    fn number(&mut self, node: Node<'_>) -> CodeExpression {
        self.state.name(node).parse().map_or(CodeExpression::Unknown, CodeExpression::Number)
    }

    fn sequence(&mut self, node: Node<'_>) -> CodeExpression {
        let elements = self.children(node);
        CodeExpression::Sequence { elements, site: self.site() }
    }

    fn dictionary(&mut self, node: Node<'_>) -> CodeExpression {
        let mut cursor = node.walk();
        let mut pairs = Vec::new();
        for pair in node.named_children(&mut cursor).take(MAX_ELEMENTS) {
            match pair.kind() {
                "pair" => pairs.push((self.field(pair, "key"), self.field(pair, "value"))),
                "dictionary_splat" => {
                    let value = CodeExpression::Spread(Box::new(self.first_child(pair)));
                    pairs.push((CodeExpression::Unknown, value));
                }
                _ => {}
            }
        }
        CodeExpression::Dictionary { pairs, site: self.site() }
    }

    fn conditional(&mut self, node: Node<'_>) -> CodeExpression {
        let mut children = self.children(node);
        if children.len() != 3 {
            return CodeExpression::Parts(children);
        }
        let condition = children.remove(1);
        // The condition is evaluated first; its value is none of the two.
        children.push(CodeExpression::Parts(vec![condition]));
        CodeExpression::Either(children)
    }

    fn subscript(&mut self, node: Node<'_>) -> CodeExpression {
        let value = self.field(node, "value");
        let Some(key) = node.child_by_field_name("subscript") else { return value };
        if key.kind() != "slice" {
            let key = self.expression(key);
            return CodeExpression::Element(Box::new((value, key)));
        }
        let start = key.child(0).filter(|first| first.kind() == "integer");
        let whole = key.child(0).is_some_and(|first| first.kind() == ":");
        let known = start.and_then(|start| self.state.name(start).parse().ok()).filter(|start| *start >= 0);
        match known.or(whole.then_some(0)) {
            Some(start) => CodeExpression::Slice { value: Box::new(value), start, site: self.site() },
            None => CodeExpression::Parts(vec![value]),
        }
    }

    fn call(&mut self, node: Node<'_>) -> CodeExpression {
        let Some(function) = node.child_by_field_name("function") else { return CodeExpression::Unknown };
        let evidence = self.call_evidence(function);
        let mut call = CodeCall {
            function: self.expression(function),
            arguments: Vec::new(),
            keywords: Vec::new(),
            spreads: Vec::new(),
            evidence,
            site: self.site(),
        };
        self.site();
        let arguments = node.child_by_field_name("arguments");
        match arguments {
            Some(list) if list.kind() == "argument_list" => self.arguments(list, &mut call),
            Some(generator) => call.arguments.push(self.expression(generator)),
            None => {}
        }
        CodeExpression::Call(Box::new(call))
    }

    fn arguments(&mut self, list: Node<'_>, call: &mut CodeCall) {
        let mut cursor = list.walk();
        for child in list.named_children(&mut cursor).take(MAX_ELEMENTS) {
            match child.kind() {
                "comment" => {}
                "keyword_argument" => {
                    let Some(name) = child.child_by_field_name("name") else { continue };
                    let name = self.identifier(name);
                    let value = self.field(child, "value");
                    call.keywords.push((name, value));
                }
                "dictionary_splat" => {
                    let value = self.first_child(child);
                    call.spreads.push(value);
                }
                _ => {
                    let value = self.expression(child);
                    call.arguments.push(value);
                }
            }
        }
    }

    /// Evidence of a call. What a function without a name does with its own parameters has no caller with a name.
    fn call_evidence(&mut self, function: Node<'_>) -> Option<CallEvidence> {
        let evidence = self.evidence(function)?;
        let open = self.open.last()?;
        let body = &self.code.bodies[open.index];
        let own = body.kind == BodyKind::Lambda
            && function.kind() == "identifier"
            && body.parameters.iter().any(|parameter| parameter.name == evidence.name);
        (!own).then_some(evidence)
    }

    fn lambda(&mut self, node: Node<'_>) -> CodeExpression {
        let parameters = node.child_by_field_name("parameters");
        let defaults = self.defaults(parameters);
        let symbol = self.state.code_around(node);
        let body = self.body(BodyKind::Lambda, symbol, parameters, |builder| {
            vec![CodeStatement::Return(builder.field(node, "body"))]
        });
        CodeExpression::Lambda { body, defaults }
    }

    fn named(&mut self, node: Node<'_>) -> CodeExpression {
        let Some(name) = node.child_by_field_name("name") else { return CodeExpression::Unknown };
        let name = self.identifier(name);
        self.bind(name);
        CodeExpression::Named(name, Box::new(self.field(node, "value")))
    }

    fn yielded(&mut self, node: Node<'_>) -> CodeExpression {
        if let Some(open) = self.open.last_mut() {
            open.yields = true;
        }
        let from = node.child(1).is_some_and(|word| word.kind() == "from");
        let value = Box::new(self.first_child(node));
        if from { CodeExpression::YieldFrom(value) } else { CodeExpression::Yield(value) }
    }

    fn comprehension(&mut self, node: Node<'_>) -> CodeExpression {
        self.comprehensions(1);
        let mut clauses = Vec::new();
        let mut cursor = node.walk();
        let children: Vec<Node<'_>> = node.named_children(&mut cursor).collect();
        for clause in children.iter().filter(|child| child.kind() == "for_in_clause") {
            let Some(values) = clause.child_by_field_name("right") else { continue };
            let evidence = self.evidence(values);
            let values = self.expression(values);
            let target =
                clause.child_by_field_name("left").map_or(CodeTarget::Ignored, |left| self.target(left));
            clauses.push(ComprehensionClause::For { target, values, evidence });
        }
        for clause in children.iter().filter(|child| child.kind() == "if_clause") {
            clauses.push(ComprehensionClause::If(self.first_child(*clause)));
        }
        let body = node.child_by_field_name("body");
        let (key, value) = match body {
            Some(pair) if pair.kind() == "pair" => (Some(self.field(pair, "key")), self.field(pair, "value")),
            Some(value) => (None, self.expression(value)),
            None => (None, CodeExpression::Unknown),
        };
        self.comprehensions(-1);
        CodeExpression::Comprehension(Box::new(CodeComprehension { clauses, key, value, site: self.site() }))
    }

    /// Enters or leaves a comprehension.
    fn comprehensions(&mut self, step: isize) {
        if let Some(open) = self.open.last_mut() {
            open.comprehensions = open.comprehensions.saturating_add_signed(step);
        }
    }
}
