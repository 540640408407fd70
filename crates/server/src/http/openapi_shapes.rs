//! Rewrites schemas of the OpenAPI document into shapes that generators of clients read.
//!
//! `utoipa` describes a body of bytes as an array of numbers, and a variant that holds a type of its own as two schemas at once, which
//! generators either refuse or make an empty type of. Nothing here changes what the document allows.

use serde_json::{Map, Value, json};

/// Place of the types in the document.
const COMPONENTS: &str = "/components/schemas";
/// Longest chain of references that is followed; the contract has two.
const DEPTH: u8 = 8;

/// Rewrites a whole document.
pub(super) fn make_plain(document: &mut Value) {
    let components = document.pointer(COMPONENTS).and_then(Value::as_object).cloned().unwrap_or_default();
    let mut plain = Map::new();
    for (name, schema) in &components {
        let is_union = schema.get("oneOf").is_some() || schema.get("allOf").is_some();
        let variants = is_union.then(|| variants(schema, &components, DEPTH)).flatten();
        match variants.and_then(|variants| named(name, variants)) {
            Some(named) => {
                let references: Vec<_> = named.keys().map(|name| reference(name)).collect();
                let mut union = json!({ "oneOf": references });
                if let Some(description) = schema.get("description") {
                    union["description"] = description.clone();
                }
                plain.insert(name.clone(), union);
                plain.extend(named);
            }
            None => {
                plain.insert(name.clone(), schema.clone());
            }
        }
    }
    if let Some(schemas) = document.pointer_mut(COMPONENTS) {
        *schemas = Value::Object(plain);
    }
    for operation in operations(document) {
        bodies_are_binary(operation);
    }
    drop_empty_defaults(document);
}

/// Drops defaults that say no more than absence does: generators of types take a member with a default for one that is always there.
fn drop_empty_defaults(value: &mut Value) {
    match value {
        Value::Object(members) => {
            let says_nothing = |default: &Value| {
                default.is_null() || *default == json!({}) || default.as_array().is_some_and(Vec::is_empty)
            };
            if members.get("default").is_some_and(says_nothing) {
                members.remove("default");
            }
            members.values_mut().for_each(drop_empty_defaults);
        }
        Value::Array(values) => values.iter_mut().for_each(drop_empty_defaults),
        _ => {}
    }
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#{COMPONENTS}/{name}") })
}

fn operations(document: &mut Value) -> impl Iterator<Item = &mut Value> {
    let paths = document.get_mut("paths").and_then(Value::as_object_mut).into_iter().flatten();
    paths.filter_map(|(_, path)| path.as_object_mut()).flatten().map(|(_, operation)| operation)
}

/// Describes bytes as bytes in the request and the responses of an operation.
fn bodies_are_binary(operation: &mut Value) {
    let mut carriers: Vec<&mut Value> = Vec::new();
    let Some(members) = operation.as_object_mut() else { return };
    for (name, member) in members {
        match name.as_str() {
            "requestBody" => carriers.push(member),
            "responses" => {
                carriers.extend(member.as_object_mut().into_iter().flatten().map(|(_, value)| value))
            }
            _ => {}
        }
    }
    for carrier in carriers {
        let contents = carrier.get_mut("content").and_then(Value::as_object_mut).into_iter().flatten();
        for (_, content) in contents.filter(|(kind, _)| !kind.starts_with("application/json")) {
            if content.pointer("/schema/items/format").is_some_and(|format| format == "int32") {
                content["schema"] = json!({"type": "string", "format": "binary"});
            }
        }
    }
}

/// Returns the variants of a union, each as one object; `None` if the schema is no union of objects.
fn variants(schema: &Value, components: &Map<String, Value>, depth: u8) -> Option<Vec<Value>> {
    let depth = depth.checked_sub(1)?;
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        return variants(components.get(reference.rsplit('/').next()?)?, components, depth);
    }
    if let Some(variants_of) = schema.get("oneOf").and_then(Value::as_array) {
        let each = variants_of.iter().map(|variant| {
            let described = variants(variant, components, depth).unwrap_or_default();
            (described.len() == 1).then(|| described.into_iter().next()).flatten()
        });
        return each.collect();
    }
    if let Some(parts) = schema.get("allOf").and_then(Value::as_array) {
        let mut merged = vec![json!({"type": "object"})];
        for part in parts {
            let additions = variants(part, components, depth)?;
            merged = merged.iter().flat_map(|one| additions.iter().map(|other| merge(one, other))).collect();
        }
        if let ([only], Some(description)) = (merged.as_mut_slice(), schema.get("description")) {
            only["description"] = description.clone();
        }
        return Some(merged);
    }
    (schema.get("type").is_some_and(|kind| kind == "object")).then(|| vec![schema.clone()])
}

/// One object with the members of both.
fn merge(one: &Value, other: &Value) -> Value {
    let mut merged = one.clone();
    for (name, value) in other.as_object().into_iter().flatten() {
        match (merged.get_mut(name), value) {
            (Some(Value::Object(known)), Value::Object(more)) => known.extend(more.clone()),
            (Some(Value::Array(known)), Value::Array(more)) => known.extend(more.iter().cloned()),
            (Some(_), _) if name == "description" => {}
            _ => merged[name.as_str()] = value.clone(),
        }
    }
    merged
}

/// Makes a type of each variant, with the name of the union and that of the variant. `None` if they can't be told apart.
fn named(union: &str, variants: Vec<Value>) -> Option<Map<String, Value>> {
    let count = variants.len();
    let name = |variant: &Value| {
        let kind = variant.pointer("/properties/type/enum/0").and_then(Value::as_str)?;
        Some(format!("{union}{}", capitalized(kind)))
    };
    let named: Map<_, _> =
        variants.into_iter().filter_map(|variant| Some((name(&variant)?, variant))).collect();
    (named.len() == count).then_some(named)
}

fn capitalized(name: &str) -> String {
    let word = |word: &str| {
        let mut letters = word.chars();
        letters.next().map(|first| first.to_ascii_uppercase().to_string() + letters.as_str())
    };
    name.split('_').filter_map(word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document() -> Value {
        json!({
            "components": {"schemas": {
                "Click": {"type": "object", "required": ["x"], "properties": {"x": {"type": "integer"}}},
                "Act": {"oneOf": [
                    {"allOf": [{"$ref": "#/components/schemas/Click"}, {"type": "object", "required": ["type"], "properties": {"type": {"type": "string", "enum": ["double_click"]}}}], "description": "Twice."},
                    {"type": "object", "properties": {"type": {"type": "string", "enum": ["wait"]}}},
                ]},
                "Timed": {"description": "With a time.", "allOf": [{"$ref": "#/components/schemas/Act"}, {"type": "object", "required": ["at"], "properties": {"at": {"type": "string"}}}]},
                "Word": {"oneOf": [{"type": "string"}, {"type": "null"}]},
            }},
            "paths": {"/f": {"put": {
                "requestBody": {"content": {"application/octet-stream": {"schema": {"type": "array", "items": {"type": "integer", "format": "int32"}}}}},
                "responses": {"200": {"content": {"application/json": {"schema": {"type": "array", "items": {"type": "integer", "format": "int32"}}}}}},
            }}},
        })
    }

    #[test]
    fn each_variant_of_a_union_is_a_type_of_its_own() {
        let mut document = document();
        make_plain(&mut document);
        let schemas = &document["components"]["schemas"];
        let names = ["#/components/schemas/ActDoubleClick", "#/components/schemas/ActWait"];
        assert_eq!(schemas["Act"], json!({"oneOf": names.map(|name| json!({"$ref": name}))}));
        let click = &schemas["ActDoubleClick"];
        assert_eq!((&click["required"], &click["description"]), (&json!(["x", "type"]), &json!("Twice.")));
        let timed = &schemas["Timed"];
        assert_eq!(
            (timed["oneOf"].as_array().unwrap().len(), &timed["description"]),
            (2, &json!("With a time."))
        );
        assert_eq!(schemas["TimedDoubleClick"]["required"], json!(["x", "type", "at"]));
        assert_eq!(schemas["Word"]["oneOf"][1], json!({"type": "null"}), "no union of objects");
        assert!(schemas["Click"].get("oneOf").is_none(), "an object stays as it is");
    }

    #[test]
    fn defaults_that_say_nothing_are_dropped() {
        let mut schema =
            json!({"a": {"default": null}, "b": [{"default": {}}, {"default": []}], "c": {"default": 3}});
        drop_empty_defaults(&mut schema);
        assert_eq!(schema, json!({"a": {}, "b": [{}, {}], "c": {"default": 3}}));
    }

    #[test]
    fn bytes_are_bytes_and_numbers_stay_numbers() {
        let mut document = document();
        make_plain(&mut document);
        let put = &document["paths"]["/f"]["put"];
        let sent = &put["requestBody"]["content"]["application/octet-stream"]["schema"];
        assert_eq!(sent, &json!({"type": "string", "format": "binary"}));
        let answered = &put["responses"]["200"]["content"]["application/json"]["schema"];
        assert_eq!(answered["type"], "array");
    }
}
