//! The description of the endpoints for clients, as `OpenAPI` 3.1. It is made of the same attributes as the routes.

use axum::{
    body::Bytes,
    http::header::CONTENT_TYPE,
    routing::{MethodRouter, get},
};
use utoipa::{
    Modify, OpenApi,
    openapi::{
        self, ContentBuilder, Ref, ResponseBuilder,
        security::{ApiKey, ApiKeyValue, SecurityScheme},
    },
};

use crate::{Shared, answer::Failure};

/// What no route says: the title, and how a client authenticates.
#[derive(OpenApi)]
#[openapi(info(title = "seckill"), components(schemas(Failure)), modifiers(&Token))]
pub(crate) struct Description;

/// The token of a user or an operator.
struct Token;

impl Modify for Token {
    fn modify(&self, openapi: &mut openapi::OpenApi) {
        let token = SecurityScheme::ApiKey(ApiKey::Header(ApiKeyValue::new("authorization")));
        openapi.components.get_or_insert_default().add_security_scheme("token", token);
    }
}

/// Adds the refusal, which every operation may return.
pub(crate) fn add_refusals(description: &mut openapi::OpenApi) {
    let schema = Some(Ref::from_schema_name("Failure"));
    let content = ContentBuilder::new().schema(schema).build();
    let refusal = ResponseBuilder::new().description("refusal");
    let refusal = refusal.content("application/json", content).build();
    for path in description.paths.paths.values_mut() {
        let operations = [&mut path.get, &mut path.post, &mut path.put];
        for operation in operations.into_iter().flatten() {
            operation.responses.responses.insert("default".to_owned(), refusal.clone().into());
        }
    }
}

/// The endpoint of a finished description.
pub(crate) fn endpoint(description: &openapi::OpenApi) -> MethodRouter<Shared> {
    let text = serde_json::to_vec(description).map(Bytes::from).unwrap_or_default();
    get(async || ([(CONTENT_TYPE, "application/json")], text))
}
