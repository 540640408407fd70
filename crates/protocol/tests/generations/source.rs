//! Reads the shape of the protocol from its source: every type that derives `Serialize` or `Deserialize`, and every limit.
//!
//! An attribute or a type that this reader does not know is an error, so that nothing on the wire goes unnoticed.

use std::fs;
use std::path::Path;

use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, Fields, GenericArgument, Item, Lit, Meta, PathArguments, Token, Type};

use crate::shape::{Flag, Line, Shape};

/// The shape of today's source.
pub(crate) fn shape() -> Shape {
    let crate_root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut shape = Shape::new();
    let sources = fs::read_dir(crate_root.join("src")).expect("list the sources");
    for source in sources {
        let path = source.expect("list the sources").path();
        if !path.to_string_lossy().ends_with("_tests.rs") {
            read_types(&path, &mut shape);
        }
    }
    // The hello comes before every message and belongs to what old and new builds must agree on.
    read_types(&crate_root.join("../pipe/src/hello.rs"), &mut shape);
    read_limits(&crate_root.join("src/limits.rs"), &mut shape);
    shape
}

fn read_types(path: &Path, shape: &mut Shape) {
    let text = fs::read_to_string(path).expect("read a source");
    let file = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    for item in file.items {
        match item {
            Item::Struct(item) if is_message(&item.attrs) => {
                let attributes = Serde::of(&item.attrs);
                let name = item.ident.to_string();
                let form = match &item.fields {
                    Fields::Named(_) => "struct".to_owned(),
                    Fields::Unnamed(fields) if fields.unnamed.len() == 1 => type_name(&fields.unnamed[0].ty),
                    _ => panic!("{name}: a struct with several unnamed fields has no frozen form"),
                };
                add(shape, name.clone(), Line::new(form, attributes.container_flags()));
                read_members(&name, &item.fields, &attributes, shape);
            }
            Item::Enum(item) if is_message(&item.attrs) => {
                let attributes = Serde::of(&item.attrs);
                let name = item.ident.to_string();
                let form = match &attributes.tag {
                    Some(tag) => format!("enum tagged by {tag}"),
                    None => "enum".to_owned(),
                };
                add(shape, name.clone(), Line::new(form, attributes.container_flags()));
                for variant in &item.variants {
                    let own = Serde::of(&variant.attrs);
                    let wire_name = own
                        .rename
                        .clone()
                        .unwrap_or_else(|| attributes.apply_case(&variant.ident.to_string()));
                    let variant_name = format!("{name}::{wire_name}");
                    let form = match &variant.fields {
                        Fields::Unit => "unit".to_owned(),
                        Fields::Named(_) => "members".to_owned(),
                        Fields::Unnamed(fields) if fields.unnamed.len() == 1 => {
                            type_name(&fields.unnamed[0].ty)
                        }
                        Fields::Unnamed(_) => panic!("{variant_name}: several unnamed fields"),
                    };
                    add(shape, variant_name.clone(), Line::new(form, own.aliases()));
                    read_members(&variant_name, &variant.fields, &own, shape);
                }
            }
            _ => {}
        }
    }
}

fn read_members(owner: &str, fields: &Fields, container: &Serde, shape: &mut Shape) {
    let Fields::Named(fields) = fields else { return };
    for field in &fields.named {
        let attributes = Serde::of(&field.attrs);
        let own_name = field.ident.as_ref().expect("a named field").to_string();
        let name = attributes.rename.clone().unwrap_or_else(|| container.apply_case(&own_name));
        let form = type_name(&field.ty);
        let mut flags = attributes.aliases();
        // Derived readers take a missing `Option` for `None`, unless a function of its own reads the member.
        let missing_is_none = form.starts_with("Option<") && !attributes.has_reader;
        if attributes.has_default || container.has_default || missing_is_none {
            flags.push(Flag::Optional);
        }
        if attributes.is_omitted {
            flags.push(Flag::Omitted);
        }
        if attributes.is_flattened {
            flags.push(Flag::Flattened);
        }
        add(shape, format!("{owner}.{name}"), Line::new(form, flags));
    }
}

/// Limits are written one to a line: `pub const NAME: usize = VALUE;`.
fn read_limits(path: &Path, shape: &mut Shape) {
    let text = fs::read_to_string(path).expect("read the limits");
    for line in text.lines().filter_map(|line| line.strip_prefix("pub const ")) {
        let (name, value) = line.split_once(" = ").expect("a limit on one line");
        let name = name.split(':').next().expect("a name");
        let value = value.strip_suffix(';').expect("a limit on one line");
        add(shape, format!("limit {name}"), Line::new(value, Vec::new()));
    }
}

fn add(shape: &mut Shape, subject: String, line: Line) {
    let previous = shape.insert(subject.clone(), line);
    assert!(previous.is_none(), "{subject} is declared twice");
}

fn is_message(attributes: &[Attribute]) -> bool {
    attributes.iter().filter(|attribute| attribute.path().is_ident("derive")).any(|attribute| {
        let derived = attribute
            .parse_args_with(Punctuated::<syn::Path, Token![,]>::parse_terminated)
            .expect("a list of traits");
        derived.iter().any(|path| path.is_ident("Serialize") || path.is_ident("Deserialize"))
    })
}

/// The attributes of serde on one type, variant or field.
#[derive(Default)]
struct Serde {
    tag: Option<String>,
    rename: Option<String>,
    alias: Vec<String>,
    has_snake_case: bool,
    has_default: bool,
    has_reader: bool,
    is_omitted: bool,
    is_flattened: bool,
    is_strict: bool,
}

impl Serde {
    fn of(attributes: &[Attribute]) -> Self {
        let mut serde = Self::default();
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("serde")) {
            let metas = attribute
                .parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated)
                .expect("a list of attributes");
            metas.iter().for_each(|meta| serde.take(meta));
        }
        serde
    }

    fn take(&mut self, meta: &Meta) {
        let name = meta.path().get_ident().expect("a plain name").to_string();
        match (name.as_str(), text_of(meta)) {
            ("tag", Some(tag)) => self.tag = Some(tag),
            ("rename", Some(rename)) => self.rename = Some(rename),
            ("alias", Some(alias)) => self.alias.push(alias),
            ("rename_all", Some(case)) if case == "snake_case" => self.has_snake_case = true,
            ("default", _) => self.has_default = true,
            ("deserialize_with", Some(_)) => self.has_reader = true,
            ("skip_serializing_if", Some(_)) => self.is_omitted = true,
            ("flatten", None) => self.is_flattened = true,
            ("deny_unknown_fields", None) => self.is_strict = true,
            // A newtype is written as its content either way.
            ("transparent", None) => {}
            (other, _) => panic!("teach tests/generations/source.rs what `{other}` does on the wire"),
        }
    }

    fn container_flags(&self) -> Vec<Flag> {
        if self.is_strict { vec![Flag::Strict] } else { Vec::new() }
    }

    fn aliases(&self) -> Vec<Flag> {
        self.alias.iter().cloned().map(Flag::Alias).collect()
    }

    fn apply_case(&self, name: &str) -> String {
        if !self.has_snake_case {
            return name.to_owned();
        }
        let mut snake = String::new();
        for letter in name.chars() {
            if letter.is_uppercase() && !snake.is_empty() {
                snake.push('_');
            }
            snake.extend(letter.to_lowercase());
        }
        snake
    }
}

fn text_of(meta: &Meta) -> Option<String> {
    let Meta::NameValue(pair) = meta else { return None };
    match &pair.value {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Str(text) => Some(text.value()),
            _ => None,
        },
        _ => None,
    }
}

/// A type without the path that leads to it. A box does not show on the wire.
fn type_name(kind: &Type) -> String {
    match kind {
        Type::Path(path) => {
            let last = path.path.segments.last().expect("a path has a last segment");
            let arguments: Vec<String> = match &last.arguments {
                PathArguments::AngleBracketed(arguments) => arguments
                    .args
                    .iter()
                    .map(|argument| match argument {
                        GenericArgument::Type(kind) => type_name(kind),
                        _ => panic!("a generic argument that is no type"),
                    })
                    .collect(),
                _ => Vec::new(),
            };
            match (last.ident.to_string().as_str(), arguments.as_slice()) {
                ("Box", [boxed]) => boxed.clone(),
                (name, []) => name.to_owned(),
                (name, arguments) => format!("{name}<{}>", arguments.join(", ")),
            }
        }
        Type::Array(array) => match &array.len {
            Expr::Lit(literal) => match &literal.lit {
                Lit::Int(length) => format!("[{}; {}]", type_name(&array.elem), length.base10_digits()),
                _ => panic!("an array with a length that is no number"),
            },
            _ => panic!("an array with a length that is no number"),
        },
        _ => panic!("a type that this reader does not know"),
    }
}
