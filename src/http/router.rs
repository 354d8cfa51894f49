//! The endpoints with the guards before them.

use std::{any::Any, net::SocketAddr, time::Duration};

use axum::{
    BoxError, Router,
    error_handling::HandleErrorLayer,
    extract::{ConnectInfo, DefaultBodyLimit, Request, State},
    http::{
        self, HeaderName, HeaderValue, Method, StatusCode,
        header::{AUTHORIZATION, CONNECTION},
    },
    middleware::{self, Next},
    response::{IntoResponse as _, Response},
};
use seckill_model::Label;
use tower::{
    ServiceBuilder, limit::GlobalConcurrencyLimitLayer, load_shed::LoadShedLayer,
    timeout::TimeoutLayer,
};
use tower_http::{
    catch_panic::CatchPanicLayer,
    request_id::{MakeRequestUuid, PropagateRequestIdLayer, RequestId, SetRequestIdLayer},
    sensitive_headers::SetSensitiveRequestHeadersLayer,
    trace::TraceLayer,
};
use tracing::Span;
use utoipa::OpenApi as _;
use utoipa_axum::router::OpenApiRouter;

use crate::{
    Shared,
    answer::{Refusal, localized},
    client::{self, Client},
    health, language,
    limits::network,
    metrics,
    openapi::{self, Description},
    orders, users, vouchers,
};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The endpoints of each listener.
pub(crate) struct Routers {
    /// Those of buyers; also those of operators if they have no listener of their own.
    pub(crate) all: Router,
    pub(crate) of_operators: Option<Router>,
}

/// The endpoints of one listener, or of two if operators have their own.
pub(crate) fn routers(shared: &Shared, apart: bool) -> Routers {
    let buyers = orders::routes().merge(users::routes()).merge(vouchers::routes());
    let operators = vouchers::routes_of_operators();
    if !apart {
        let routes = guarded(shared, buyers.merge(operators)).merge(health::routes());
        return Routers { all: router(shared, routes, metrics::routes()), of_operators: None };
    }
    let operators = guarded(shared, operators).merge(health::routes());
    Routers {
        all: router(shared, guarded(shared, buyers), Router::new()),
        of_operators: Some(router(shared, operators, metrics::routes())),
    }
}

/// With the guards of endpoints that may take long, or be asked for too often. A supervisor asks others while the server
/// is overloaded, or while clients at its address are limited.
fn guarded(shared: &Shared, routes: OpenApiRouter<Shared>) -> OpenApiRouter<Shared> {
    let settings = &shared.settings;
    routes.layer(
        ServiceBuilder::new()
            .layer(middleware::from_fn_with_state(Shared::clone(shared), limit_address))
            .layer(HandleErrorLayer::new(unanswered))
            .layer(LoadShedLayer::new())
            .layer(GlobalConcurrencyLimitLayer::new(settings.requests))
            .layer(TimeoutLayer::new(shared.answers_within))
            .layer(DefaultBodyLimit::max(settings.body_bytes)),
    )
}

/// These endpoints and their description, and `more` that it does not mention.
fn router(shared: &Shared, routes: OpenApiRouter<Shared>, more: Router<Shared>) -> Router {
    let around = ServiceBuilder::new()
        // No log line or debug output contains a token.
        .layer(SetSensitiveRequestHeadersLayer::new([AUTHORIZATION]))
        .layer(SetRequestIdLayer::new(REQUEST_ID, MakeRequestUuid))
        .layer(
            TraceLayer::new_for_http()
                .make_span_with(span)
                .on_request(())
                .on_response(log)
                .on_body_chunk(())
                .on_eos(())
                .on_failure(()),
        )
        .layer(PropagateRequestIdLayer::new(REQUEST_ID))
        .layer(middleware::from_fn_with_state(Shared::clone(shared), observe))
        .layer(CatchPanicLayer::custom(panicked));
    let (router, mut description) =
        OpenApiRouter::with_openapi(Description::openapi()).merge(routes).split_for_parts();
    openapi::add_refusals(&mut description);
    router
        .merge(more)
        .route("/openapi.json", openapi::endpoint(&description))
        .fallback(async || Refusal::NoPath)
        .method_not_allowed_fallback(async || Refusal::WrongMethod)
        .layer(around)
        .with_state(Shared::clone(shared))
}

/// Finds the address of the client, counts a request, and localizes its answer.
///
/// Written here because no crate does the last: the language of a refusal is known only from its request.
async fn observe(State(shared): State<Shared>, mut request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|peer| peer.ip());
    let trusted = &shared.settings.trusted_proxies;
    let client = peer.map(|peer| client::address(trusted, peer, request.headers()));
    if let Some(client) = client {
        request.extensions_mut().insert(Client(client));
    }
    let _in_progress = shared.requests.token();
    let counted = shared.metrics.begin(&request, client.map(network));
    let language = language::preferred(request.headers());
    let mut response = localized(next.run(request).await, language);
    counted.end(response.status());
    // What a client beyond its limits has sent ahead would cost as much again. Others share the connection of a proxy.
    let is_shared = peer.is_some_and(|peer| client::is_trusted(trusted, peer.to_canonical()));
    if response.status() == StatusCode::TOO_MANY_REQUESTS && !is_shared {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Refuses a request beyond the limit of its address.
async fn limit_address(
    State(shared): State<Shared>,
    request: Request,
    next: Next,
) -> Result<Response, Refusal> {
    if let Some(Client(address)) = request.extensions().get() {
        let granted = shared.limits.check_address(*address);
        granted.inspect_err(|_| shared.metrics.note_limited("address"))?;
    }
    Ok(next.run(request).await)
}

/// A guard stopped the request, or it was not answered in time.
async fn unanswered(method: Method, error: BoxError) -> Refusal {
    if error.is::<tower::load_shed::error::Overloaded>() {
        return Refusal::Overloaded;
    }
    tracing::warn!(error, "a request was not answered in time");
    // A purchase or a command of an operator goes on.
    if method == Method::GET {
        Refusal::Unavailable(Label("http-unavailable-late"))
    } else {
        Refusal::Uncertain
    }
}

/// The panic hook has logged the cause; other requests are not affected.
#[allow(clippy::needless_pass_by_value, reason = "the signature that the layer calls")]
fn panicked(_: Box<dyn Any + Send>) -> Response {
    tracing::error!("a request ended in a panic");
    Refusal::Defect.into_response()
}

/// The access log: `SECKILL_LOG=info,seckill_http=debug`. Without it, a span costs nothing.
fn span<B>(request: &http::Request<B>) -> Span {
    let id = request.extensions().get::<RequestId>();
    let id = id.and_then(|id| id.header_value().to_str().ok()).unwrap_or_default();
    tracing::debug_span!("request", id, method = %request.method(), path = request.uri().path())
}

fn log<B>(response: &http::Response<B>, took: Duration, _: &Span) {
    let (status, took_us) = (response.status().as_u16(), took.as_micros() as u64);
    tracing::debug!(status, took_us, "answered");
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;

    #[tokio::test]
    async fn what_was_read_in_vain_may_be_repeated() {
        for (method, status) in [(Method::GET, 503), (Method::POST, 504), (Method::PUT, 504)] {
            let refusal = unanswered(method, "too slow".into()).await;
            let language = language::preferred(&HeaderMap::new());
            assert_eq!(localized(refusal.into_response(), language).status(), status);
        }
    }
}
