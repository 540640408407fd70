//! Statements.

use sandyard_syntax::Node;

use crate::scan::code::builder::CodeBuilder;
use crate::scan::code::{BodyKind, CodeCall, CodeExpression, CodeStatement, CodeTarget, MethodFlavour};

impl CodeBuilder<'_, '_> {
    /// The statements of a block.
    pub(super) fn block(&mut self, node: Node<'_>) -> Vec<CodeStatement> {
        let mut statements = Vec::new();
        let mut cursor = node.walk();
        for child in node.named_children(&mut cursor) {
            self.deeper(|builder| builder.statement(child, &mut statements));
        }
        statements
    }

    fn field_block(&mut self, node: Node<'_>, field: &str) -> Vec<CodeStatement> {
        node.child_by_field_name(field).map(|block| self.block(block)).unwrap_or_default()
    }

    fn statement(&mut self, node: Node<'_>, out: &mut Vec<CodeStatement>) {
        match node.kind() {
            "expression_statement" => {
                let mut cursor = node.walk();
                for child in node.named_children(&mut cursor) {
                    self.simple(child, out);
                }
            }
            "function_definition" => self.function(node, Vec::new(), out),
            "class_definition" => self.class(node, Vec::new(), out),
            "decorated_definition" => self.decorated(node, out),
            "if_statement" => self.branch(node, out),
            "for_statement" => self.for_loop(node, out),
            "while_statement" => self.while_loop(node, out),
            "try_statement" => self.try_block(node, out),
            "with_statement" => self.with_block(node, out),
            "match_statement" => self.match_block(node, out),
            "return_statement" => {
                let value =
                    node.named_child(0).map_or(CodeExpression::Unknown, |value| self.expression(value));
                out.push(CodeStatement::Return(value));
            }
            "raise_statement" => {
                if let Some(value) = node.named_child(0) {
                    let evidence = self.evidence(value).filter(|_| value.kind() != "call");
                    let value = self.expression(value);
                    out.push(CodeStatement::Raise { value, evidence });
                }
            }
            "import_statement" | "import_from_statement" => self.imports(node, out),
            "global_statement" | "nonlocal_statement" => self.declare_outer(node),
            "comment" | "pass_statement" | "break_statement" | "continue_statement" => {}
            _ => {
                let value = self.expression(node);
                out.push(CodeStatement::Evaluate(value));
            }
        }
    }

    fn simple(&mut self, node: Node<'_>, out: &mut Vec<CodeStatement>) {
        match node.kind() {
            "assignment" => self.assignment(node, out),
            "augmented_assignment" => {
                let Some((left, right)) = sides(node) else { return };
                let value = self.expression(right);
                let target = self.target(left);
                out.push(CodeStatement::Extend { target, value });
            }
            "string" | "comment" => {}
            _ => {
                let value = self.expression(node);
                out.push(CodeStatement::Evaluate(value));
            }
        }
    }

    /// `a = b = value` assigns the value to both.
    fn assignment(&mut self, node: Node<'_>, out: &mut Vec<CodeStatement>) {
        let mut targets = Vec::new();
        let mut present = node;
        let value = loop {
            let Some((left, right)) = sides(present) else { return };
            targets.push(left);
            if right.kind() != "assignment" || targets.len() > 20 {
                break right;
            }
            present = right;
        };
        let value = self.expression(value);
        let targets = targets.into_iter().map(|target| self.target(target)).collect();
        out.push(CodeStatement::Assign { targets, value });
    }

    pub(super) fn target(&mut self, node: Node<'_>) -> CodeTarget {
        self.deeper(|builder| builder.any_target(node)).unwrap_or(CodeTarget::Ignored)
    }

    fn any_target(&mut self, node: Node<'_>) -> CodeTarget {
        match node.kind() {
            "identifier" => {
                let name = self.identifier(node);
                self.bind(name);
                CodeTarget::Name(name)
            }
            "attribute" => match self.expression(node) {
                CodeExpression::Attribute { object, name, .. } => CodeTarget::Attribute(*object, name),
                _ => CodeTarget::Ignored,
            },
            "subscript" => match self.expression(node) {
                CodeExpression::Element(pair) => CodeTarget::Element(pair.0, pair.1),
                _ => CodeTarget::Ignored,
            },
            "pattern_list" | "tuple_pattern" | "list_pattern" | "expression_list" | "tuple" | "list" => {
                let mut cursor = node.walk();
                let children: Vec<Node<'_>> = node.named_children(&mut cursor).collect();
                let targets = children.into_iter().map(|child| self.target(child)).collect();
                CodeTarget::Sequence(targets, self.site())
            }
            "list_splat_pattern" | "list_splat" => {
                let inner = node.named_child(0).map_or(CodeTarget::Ignored, |inner| self.target(inner));
                CodeTarget::Starred(Box::new(inner))
            }
            "as_pattern_target" | "parenthesized_expression" => {
                node.named_child(0).map_or(CodeTarget::Ignored, |inner| self.target(inner))
            }
            _ => CodeTarget::Ignored,
        }
    }

    fn decorated(&mut self, node: Node<'_>, out: &mut Vec<CodeStatement>) {
        let mut cursor = node.walk();
        let decorators: Vec<Node<'_>> = node
            .named_children(&mut cursor)
            .filter(|child| child.kind() == "decorator")
            .filter_map(|decorator| decorator.named_child(0))
            .collect();
        let Some(definition) = node.child_by_field_name("definition") else { return };
        match definition.kind() {
            "class_definition" => self.class(definition, decorators, out),
            _ => self.function(definition, decorators, out),
        }
    }

    fn function(&mut self, node: Node<'_>, decorators: Vec<Node<'_>>, out: &mut Vec<CodeStatement>) {
        let Some(name_node) = node.child_by_field_name("name") else { return };
        let words: Vec<String> = decorators.iter().map(|decorator| self.state.name(*decorator)).collect();
        // `@value.setter` replaces the property by itself.
        let accessor = words.iter().any(|word| word.ends_with(".setter") || word.ends_with(".deleter"));
        let flavour = words.iter().find_map(|word| flavour(word));
        let decorators: Vec<CodeCall> = if flavour.is_some() || accessor {
            Vec::new()
        } else {
            // As calls: the innermost decorator is called first.
            decorators.iter().rev().map(|decorator| self.decorator(*decorator)).collect()
        };
        let parameters = node.child_by_field_name("parameters");
        let defaults = self.defaults(parameters);
        let name = self.identifier(name_node);
        let symbol = self.state.code_around(name_node);
        let body =
            self.body(BodyKind::Function, symbol, parameters, |builder| builder.field_block(node, "body"));
        self.code.bodies[body].flavour = flavour.unwrap_or(MethodFlavour::Plain);
        if !accessor {
            self.bind(name);
            out.push(CodeStatement::Function { name, body, decorators, defaults });
        }
    }

    /// A decorator as a call without arguments, with its evidence.
    fn decorator(&mut self, node: Node<'_>) -> CodeCall {
        let evidence = self.evidence(node);
        let function = self.expression(node);
        let site = self.site();
        self.site();
        let (arguments, keywords, spreads) = (Vec::new(), Vec::new(), Vec::new());
        CodeCall { function, arguments, keywords, spreads, evidence, site }
    }

    fn class(&mut self, node: Node<'_>, decorators: Vec<Node<'_>>, out: &mut Vec<CodeStatement>) {
        let Some(name_node) = node.child_by_field_name("name") else { return };
        let mut bases = Vec::new();
        if let Some(list) = node.child_by_field_name("superclasses") {
            let mut cursor = list.walk();
            let children: Vec<Node<'_>> = list
                .named_children(&mut cursor)
                .filter(|child| !matches!(child.kind(), "comment" | "keyword_argument"))
                .collect();
            bases = children.into_iter().map(|base| self.base(base)).collect();
        }
        let decorators = decorators.iter().rev().map(|decorator| self.decorator(*decorator)).collect();
        let name = self.identifier(name_node);
        let symbol = self.state.code_around(name_node);
        let body = self.body(BodyKind::Class, symbol, None, |builder| builder.field_block(node, "body"));
        self.bind(name);
        out.push(CodeStatement::Class { name, body, decorators, bases });
    }

    /// A base of a class; `Base[int]` is `Base`.
    fn base(&mut self, node: Node<'_>) -> CodeExpression {
        let plain = match node.kind() {
            "subscript" => node.child_by_field_name("value").unwrap_or(node),
            _ => node,
        };
        self.expression(plain)
    }

    fn branch(&mut self, node: Node<'_>, out: &mut Vec<CodeStatement>) {
        self.condition(node, out);
        let mut ways = vec![self.field_block(node, "consequence")];
        let mut has_else = false;
        let mut cursor = node.walk();
        let alternatives: Vec<Node<'_>> = node.children_by_field_name("alternative", &mut cursor).collect();
        for alternative in alternatives {
            match alternative.kind() {
                "elif_clause" => {
                    self.condition(alternative, out);
                    ways.push(self.field_block(alternative, "consequence"));
                }
                _ => {
                    has_else = true;
                    ways.push(self.field_block(alternative, "body"));
                }
            }
        }
        if !has_else {
            ways.push(Vec::new());
        }
        out.push(CodeStatement::Branch(ways));
    }

    fn condition(&mut self, node: Node<'_>, out: &mut Vec<CodeStatement>) {
        if let Some(condition) = node.child_by_field_name("condition") {
            let condition = self.expression(condition);
            out.push(CodeStatement::Evaluate(condition));
        }
    }

    fn for_loop(&mut self, node: Node<'_>, out: &mut Vec<CodeStatement>) {
        let Some((left, right)) = sides(node) else { return };
        let evidence = self.evidence(right);
        let values = self.expression(right);
        let target = self.target(left);
        let body = self.field_block(node, "body");
        out.push(CodeStatement::For { target, values, evidence, body });
        self.else_block(node, out);
    }

    fn while_loop(&mut self, node: Node<'_>, out: &mut Vec<CodeStatement>) {
        let mut body = Vec::new();
        self.condition(node, &mut body);
        body.extend(self.field_block(node, "body"));
        out.push(CodeStatement::Loop(body));
        self.else_block(node, out);
    }

    /// The `else` of a loop.
    fn else_block(&mut self, node: Node<'_>, out: &mut Vec<CodeStatement>) {
        if let Some(alternative) = node.child_by_field_name("alternative") {
            let way = self.field_block(alternative, "body");
            out.push(CodeStatement::Branch(vec![way, Vec::new()]));
        }
    }

    /// A handler may run after any part of the body.
    fn try_block(&mut self, node: Node<'_>, out: &mut Vec<CodeStatement>) {
        let body = self.field_block(node, "body");
        out.push(CodeStatement::Branch(vec![body, Vec::new()]));
        let mut ways = vec![Vec::new()];
        let mut last = Vec::new();
        let mut cursor = node.walk();
        let children: Vec<Node<'_>> = node.named_children(&mut cursor).collect();
        for child in children {
            match child.kind() {
                "except_clause" | "except_group_clause" => ways.push(self.handler(child)),
                "else_clause" => ways.push(self.field_block(child, "body")),
                "finally_clause" => {
                    last = child.named_child(0).map(|block| self.block(block)).unwrap_or_default()
                }
                _ => {}
            }
        }
        out.push(CodeStatement::Branch(ways));
        out.extend(last);
    }

    fn handler(&mut self, node: Node<'_>) -> Vec<CodeStatement> {
        let mut statements = Vec::new();
        let mut cursor = node.walk();
        let children: Vec<Node<'_>> = node.named_children(&mut cursor).collect();
        for child in children {
            match child.kind() {
                "block" => statements.extend(self.block(child)),
                "as_pattern" => {
                    if let Some(alias) = child.child_by_field_name("alias") {
                        let target = self.target(alias);
                        statements.push(CodeStatement::Assign {
                            targets: vec![target],
                            value: CodeExpression::Unknown,
                        });
                    }
                }
                _ => {}
            }
        }
        statements
    }

    fn with_block(&mut self, node: Node<'_>, out: &mut Vec<CodeStatement>) {
        let mut cursor = node.walk();
        let clauses: Vec<Node<'_>> =
            node.named_children(&mut cursor).filter(|child| child.kind() == "with_clause").collect();
        for clause in clauses {
            let mut cursor = clause.walk();
            let items: Vec<Node<'_>> = clause
                .named_children(&mut cursor)
                .filter_map(|item| item.child_by_field_name("value"))
                .collect();
            for item in items {
                let alias = item.child_by_field_name("alias").filter(|_| item.kind() == "as_pattern");
                let value = if item.kind() == "as_pattern" { item.named_child(0) } else { Some(item) };
                let Some(value) = value else { continue };
                let evidence = self.evidence(value);
                let value = self.expression(value);
                let target = alias.map(|alias| self.target(alias));
                out.push(CodeStatement::With { value, evidence, target });
            }
        }
        out.extend(self.field_block(node, "body"));
    }

    fn match_block(&mut self, node: Node<'_>, out: &mut Vec<CodeStatement>) {
        if let Some(subject) = node.child_by_field_name("subject") {
            let subject = self.expression(subject);
            out.push(CodeStatement::Evaluate(subject));
        }
        let Some(body) = node.child_by_field_name("body") else { return };
        let mut ways = vec![Vec::new()];
        let mut cursor = body.walk();
        let cases: Vec<Node<'_>> =
            body.named_children(&mut cursor).filter(|child| child.kind() == "case_clause").collect();
        for case in cases {
            ways.push(self.field_block(case, "consequence"));
        }
        out.push(CodeStatement::Branch(ways));
    }

    fn imports(&mut self, node: Node<'_>, out: &mut Vec<CodeStatement>) {
        let whole_modules = node.kind() == "import_statement";
        let mut cursor = node.walk();
        let names: Vec<Node<'_>> = node.children_by_field_name("name", &mut cursor).collect();
        for child in names {
            let local = child.child_by_field_name("alias").unwrap_or(child);
            let text = self.state.name(local);
            // `import a.b` binds `a`.
            let text = if whole_modules { text.split('.').next().unwrap_or_default() } else { &text };
            let name = self.intern(text);
            self.bind(name);
            out.push(CodeStatement::Import(name));
        }
    }

    fn declare_outer(&mut self, node: Node<'_>) {
        let mut cursor = node.walk();
        let names: Vec<Node<'_>> = node.named_children(&mut cursor).collect();
        for name in names {
            let name = self.identifier(name);
            if let Some(open) = self.open.last_mut() {
                open.outer.insert(name);
            }
        }
    }
}

/// Left and right side of an assignment or a loop.
fn sides(node: Node<'_>) -> Option<(Node<'_>, Node<'_>)> {
    Some((node.child_by_field_name("left")?, node.child_by_field_name("right")?))
}

/// What a decorator of the language makes of a method.
fn flavour(decorator: &str) -> Option<MethodFlavour> {
    match decorator.rsplit('.').next().unwrap_or_default() {
        "staticmethod" => Some(MethodFlavour::Static),
        "classmethod" => Some(MethodFlavour::OfClass),
        "property" | "cached_property" | "abstractproperty" => Some(MethodFlavour::Property),
        _ => None,
    }
}
