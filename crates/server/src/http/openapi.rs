//! The OpenAPI document, made from the table of routes and the contract's types.

use axum::http::StatusCode;
use sandyard_api::{CodeEvent, ErrorCode, EventBody, JobEvent, ShellEvent};
use serde_json::Value;
use utoipa::OpenApi;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{OpenApi as Document, PathItem, RefOr, SecurityRequirement};

use super::openapi_shapes;
use super::routes::{DocumentedOperation, RouteDocument, table};

#[derive(OpenApi)]
#[openapi(
    info(title = "Sandyard", description = "A yard of sandboxes for coding agents."),
    components(schemas(CodeEvent, ErrorCode, EventBody, JobEvent, ShellEvent)),
    tags(
        (name = "jobs", description = "From a request to a result"),
        (name = "tools", description = "On a live sandbox"),
        (name = "files", description = "Of a live sandbox's workspace"),
        (name = "yard", description = "The server itself"),
    )
)]
struct Contract;

/// The document for a version of the program, as JSON.
pub fn document(version: &str) -> Value {
    let mut document = serde_json::to_value(described(version)).unwrap_or_default();
    openapi_shapes::make_plain(&mut document);
    document
}

fn described(version: &str) -> Document {
    let mut document = Contract::openapi();
    document.info.version = version.to_owned();
    add_keys(&mut document);
    for route in table::routes() {
        if let RouteDocument::Operation(operation) = route.document {
            add_operation(&mut document, operation());
        }
    }
    for (path, item) in &mut document.paths.paths {
        complete(path, item);
    }
    document
}

/// Either no key (loopback) or a bearer key.
fn add_keys(document: &mut Document) {
    let components = document.components.get_or_insert_default();
    components.add_security_scheme("key", SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer)));
    document.security =
        Some(vec![SecurityRequirement::default(), SecurityRequirement::new::<_, _, String>("key", [])]);
}

fn add_operation(document: &mut Document, documented: DocumentedOperation) {
    document.paths.add_path_operation(documented.path, documented.methods, documented.operation);
    document.components.get_or_insert_default().schemas.extend(documented.schemas);
}

/// Gives each operation a name of its own and each answer a description, both of which generators of clients need.
fn complete(path: &str, item: &mut PathItem) {
    let name: String =
        path.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' }).collect();
    let operations = [
        ("get", &mut item.get),
        ("post", &mut item.post),
        ("put", &mut item.put),
        ("patch", &mut item.patch),
        ("delete", &mut item.delete),
    ];
    for (method, operation) in operations {
        let Some(operation) = operation else { continue };
        operation.operation_id = Some(format!("{method}{name}"));
        for (status, response) in &mut operation.responses.responses {
            if let RefOr::T(response) = response
                && response.description.is_empty()
            {
                response.description = reason(status).to_owned();
            }
        }
    }
}

fn reason(status: &str) -> &'static str {
    let known = status.parse().ok().and_then(|number| StatusCode::from_u16(number).ok());
    known.and_then(|status| status.canonical_reason()).unwrap_or("An answer")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_is_the_one_that_was_reviewed() {
        insta::assert_json_snapshot!("openapi", document("0.0.0"));
    }

    #[test]
    fn every_reference_leads_somewhere() {
        let json = document("0");
        let text = json.to_string();
        for reference in text.split("\"$ref\":\"#").skip(1).filter_map(|rest| rest.split('"').next()) {
            assert!(json.pointer(reference).is_some(), "{reference}");
        }
    }
}
