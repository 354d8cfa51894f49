//! The envelope of every answer, and each refusal with its status, its code and its message.

use std::sync::Arc;

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header::RETRY_AFTER},
    response::{IntoResponse, Response},
};
use seckill_engine::{EngineError, admission::AdmissionError};
use seckill_model::{
    Label, OrderId, Outcome, Reason,
    locale::{Language, in_language},
    reason,
};
use seckill_redis::RedisError;
use seckill_store::StoreError;
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::limits::Wait;

/// What every answer contains. `code` is 0 for success; 1 to 4 are those of the flash-sale tutorials (no stock left,
/// duplicate order, sale not loaded, order stream missing); otherwise it is the HTTP status.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Envelope<T> {
    success: bool,
    error_msg: Option<String>,
    code: u16,
    data: T,
}

/// The envelope of a refusal: `data` depends on the reason, such as the order that a buyer holds already.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[allow(dead_code, reason = "describes the envelope to clients")]
pub(crate) struct Failure {
    success: bool,
    error_msg: String,
    code: u16,
    data: Option<Value>,
}

/// A successful answer with its data.
#[derive(Debug)]
pub(crate) struct Answer<T>(pub(crate) T);

impl<T: Serialize> IntoResponse for Answer<T> {
    fn into_response(self) -> Response {
        Json(Envelope { success: true, error_msg: None, code: 0, data: self.0 }).into_response()
    }
}

/// The result of a handler.
pub(crate) type Result<T, E = Refusal> = std::result::Result<Answer<T>, E>;

/// Why a request is not granted.
#[derive(Clone, Debug)]
pub(crate) enum Refusal {
    /// Admission decided against the buyer, or could not decide.
    Outcome(Outcome),
    /// The request is invalid.
    Invalid(Reason),
    /// The body is larger than allowed.
    TooLarge,
    /// The body did not arrive in time.
    SlowBody,
    /// There is no valid session.
    NoSession,
    /// Only operators may do this.
    NotAllowed,
    /// The login code is wrong, or has expired.
    WrongCode,
    /// No such path.
    NoPath,
    /// The path exists, the method does not.
    WrongMethod,
    /// No such voucher.
    NoVoucher,
    /// This user has no such order.
    NoOrder(OrderId),
    /// The state of the object does not allow this; its state as data.
    Conflict(Reason, Value),
    /// Too many requests of this user or address.
    Limited(Wait),
    /// Too many codes or wrong codes of this phone or address, or of all.
    LoginLimited(Wait),
    /// No login by code is set up.
    NoLogin,
    /// Too many requests are in progress.
    Overloaded,
    /// The server stops, a server behind it does not answer, or the sale is closed until it is repaired: nothing was
    /// changed, or repeating is safe.
    Unavailable(Label),
    /// A change was not confirmed, or not in time: repeating it may apply it twice.
    Uncertain,
    /// The server is not ready yet; its state as data.
    NotReady(Label, Value),
    /// A defect of the program.
    Defect,
}

/// Status, code, message and data of a refusal.
struct Parts {
    status: StatusCode,
    /// `None`: that of the status.
    code: Option<u16>,
    message: Reason,
    data: Value,
}

impl Parts {
    fn new(status: StatusCode, message: impl Into<Reason>) -> Self {
        Self { status, code: None, message: message.into(), data: Value::Null }
    }

    fn coded(self, code: u16) -> Self {
        Self { code: Some(code), ..self }
    }

    fn with(self, data: Value) -> Self {
        Self { data, ..self }
    }
}

fn of_outcome(outcome: &Outcome) -> Parts {
    match outcome {
        // Not a refusal; the handler answers it.
        Outcome::Admitted { order } => {
            Parts::new(StatusCode::OK, Label("http-admitted")).coded(0).with(json!(order))
        }
        Outcome::SoldOut => Parts::new(StatusCode::GONE, Label("http-sold-out")).coded(1),
        Outcome::Duplicate { order } => {
            Parts::new(StatusCode::CONFLICT, Label("http-duplicate")).coded(2).with(json!(order))
        }
        Outcome::NotLoaded => Parts::new(StatusCode::NOT_FOUND, Label("http-not-loaded")).coded(3),
        Outcome::NotReady => {
            Parts::new(StatusCode::SERVICE_UNAVAILABLE, Label("http-no-stream")).coded(4)
        }
        Outcome::NotStarted { begins } => {
            let begin = json!({ "begin": begins.to_string() });
            Parts::new(StatusCode::TOO_EARLY, Label("http-not-started")).with(begin)
        }
        Outcome::Ended => Parts::new(StatusCode::GONE, Label("http-ended")),
        Outcome::Paused => Parts::new(StatusCode::SERVICE_UNAVAILABLE, Label("http-paused")),
        // The queue is full, or other shards of the sale cannot be asked.
        Outcome::Busy => Parts::new(StatusCode::SERVICE_UNAVAILABLE, Label("http-undecided")),
    }
}

impl Refusal {
    fn parts(&self) -> Parts {
        match self {
            Self::Outcome(outcome) => of_outcome(outcome),
            Self::Invalid(reason) => Parts::new(StatusCode::BAD_REQUEST, reason.clone()),
            Self::TooLarge => Parts::new(StatusCode::PAYLOAD_TOO_LARGE, Label("http-too-large")),
            Self::SlowBody => Parts::new(StatusCode::REQUEST_TIMEOUT, Label("http-slow-body")),
            Self::NotAllowed => Parts::new(StatusCode::FORBIDDEN, Label("http-not-allowed")),
            Self::WrongCode => Parts::new(StatusCode::UNAUTHORIZED, Label("http-wrong-code")),
            Self::NoSession => Parts::new(StatusCode::UNAUTHORIZED, Label("http-no-session")),
            Self::NoPath => Parts::new(StatusCode::NOT_FOUND, Label("http-no-path")),
            Self::WrongMethod => {
                Parts::new(StatusCode::METHOD_NOT_ALLOWED, Label("http-wrong-method"))
            }
            Self::NoVoucher => Parts::new(StatusCode::NOT_FOUND, Label("http-no-voucher")),
            Self::NoOrder(id) => Parts::new(StatusCode::NOT_FOUND, Label("http-no-order"))
                .with(json!({ "orderId": id, "state": "unknown" })),
            Self::Conflict(message, state) => {
                Parts::new(StatusCode::CONFLICT, message.clone()).with(state.clone())
            }
            Self::Limited(_) => Parts::new(StatusCode::TOO_MANY_REQUESTS, Label("http-limited")),
            Self::LoginLimited(wait) => {
                let seconds = wait.seconds();
                Parts::new(StatusCode::TOO_MANY_REQUESTS, reason!("http-login-limited", seconds))
            }
            Self::NoLogin => Parts::new(StatusCode::NOT_IMPLEMENTED, Label("http-no-login")),
            Self::Overloaded => Parts::new(StatusCode::SERVICE_UNAVAILABLE, Label("http-busy")),
            Self::Unavailable(why) => Parts::new(StatusCode::SERVICE_UNAVAILABLE, *why),
            // Not 503, which invites a client to repeat the request.
            Self::Uncertain => Parts::new(StatusCode::GATEWAY_TIMEOUT, Label("http-uncertain")),
            Self::NotReady(why, state) => {
                Parts::new(StatusCode::SERVICE_UNAVAILABLE, *why).with(state.clone())
            }
            Self::Defect => Parts::new(StatusCode::INTERNAL_SERVER_ERROR, Label("http-defect")),
        }
    }

    fn in_language(&self, language: Language) -> Response {
        let Parts { status, code, message, data } = self.parts();
        let message = in_language(language, || message.to_string());
        let code = code.unwrap_or(status.as_u16());
        let envelope = Envelope { success: false, error_msg: Some(message), code, data };
        let mut response = (status, Json(envelope)).into_response();
        let seconds = match self {
            Self::Limited(wait) | Self::LoginLimited(wait) => Some(wait.seconds()),
            // By then, the requests that wait now are decided.
            _ => (status == StatusCode::SERVICE_UNAVAILABLE).then_some(1),
        };
        if let Some(seconds) = seconds {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// The refusal travels as an extension of the response, since only the router knows the language.
impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = StatusCode::INTERNAL_SERVER_ERROR.into_response();
        response.extensions_mut().insert(Arc::new(self));
        response
    }
}

/// Writes a refusal in the language of the client.
pub(crate) fn localized(mut response: Response, language: Language) -> Response {
    match response.extensions_mut().remove::<Arc<Refusal>>() {
        Some(refusal) => refusal.in_language(language),
        None => response,
    }
}

/// The server ends.
pub(crate) const STOPPING: Label = Label("http-unavailable-stopping");
/// Redis does not answer, or takes no writes.
pub(crate) const NO_REDIS: Label = Label("http-unavailable-redis");
/// The database does not answer, or takes no writes.
pub(crate) const NO_DATABASE: Label = Label("http-unavailable-database");
/// What Redis lost is being restored.
pub(crate) const RECONCILING: Label = Label("http-unavailable-reconciling");

/// What the client learns of an error: no address, no name of a key and no reply of a server.
fn public(error: &EngineError) -> Label {
    match error {
        EngineError::Stopping => STOPPING,
        EngineError::Redis(_) => NO_REDIS,
        EngineError::Store(_) => NO_DATABASE,
        EngineError::Reconciling(_) => RECONCILING,
        EngineError::OtherSale(_) | EngineError::SqlBehind(_) | EngineError::LostInSql(_) => CLOSED,
        _ => Label("http-unavailable"),
    }
}

/// The sale admits no buyers before an operator has repaired it.
const CLOSED: Label = Label("http-unavailable-closed");

/// Errors that the client caused are reported; others are logged, and reported as unavailable.
impl From<EngineError> for Refusal {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Rejected(reason)
            | EngineError::Failed(reason)
            | EngineError::Store(StoreError::Rejected(reason)) => Self::Invalid(reason),
            EngineError::Store(StoreError::Rule(reason)) => Self::Conflict(reason, Value::Null),
            EngineError::Store(StoreError::NoSale(_)) | EngineError::NotHeld(_) => {
                Self::Outcome(Outcome::NotLoaded)
            }
            EngineError::Store(StoreError::Ended(_)) => Self::Outcome(Outcome::Ended),
            EngineError::Store(StoreError::Changed(_)) => {
                Self::Conflict(Label("http-changed").into(), Value::Null)
            }
            EngineError::Stopping => Self::Unavailable(STOPPING),
            // Committed in SQL, or in part.
            EngineError::NotLoaded { .. }
            | EngineError::BrokeOff { .. }
            | EngineError::Store(StoreError::Unknown(_)) => {
                tracing::warn!(%error, "the outcome of a request is unknown");
                Self::Uncertain
            }
            error => {
                tracing::warn!(%error, "a request failed");
                Self::Unavailable(public(&error))
            }
        }
    }
}

impl From<Wait> for Refusal {
    fn from(wait: Wait) -> Self {
        Self::Limited(wait)
    }
}

impl From<AdmissionError> for Refusal {
    fn from(error: AdmissionError) -> Self {
        // The worker reports why; a line per request would only repeat it.
        tracing::debug!(%error, "no outcome of an admission");
        Self::Unavailable(match &error {
            AdmissionError::Stopping => STOPPING,
            AdmissionError::TooLate => Label("admission-too-late"),
            AdmissionError::NoAnswer(why) => match &**why {
                // Too few replicas have it, or the reply came too late to be sure.
                EngineError::Failed(_) => Label("http-unavailable-unconfirmed"),
                why => public(why),
            },
            AdmissionError::Rejected(why) => match &**why {
                // It has more buyers than pieces.
                EngineError::Failed(_) => CLOSED,
                why => public(why),
            },
        })
    }
}

impl From<RedisError> for Refusal {
    fn from(error: RedisError) -> Self {
        EngineError::from(error).into()
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        EngineError::from(error).into()
    }
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;
    use seckill_model::{Millis, VoucherId};

    use super::*;

    async fn shown(refusal: Refusal, tag: &str) -> (u16, Value, bool) {
        let response = refusal.in_language(Language::find(tag).unwrap());
        let (status, retry) =
            (response.status().as_u16(), response.headers().contains_key(RETRY_AFTER));
        let body = to_bytes(response.into_body(), 10_000).await.unwrap();
        (status, serde_json::from_slice(&body).unwrap(), retry)
    }

    #[tokio::test]
    async fn outcomes_have_the_words_and_codes_of_the_tutorials() {
        let order: OrderId = "9007199254740993".parse().unwrap();
        let begins = Millis(1_795_000_000_000);
        let began = json!({ "begin": begins.to_string() });
        for (outcome, status, code, zh, data) in [
            (Outcome::SoldOut, 410, 1, "库存不足", Value::Null),
            // A string: JavaScript would round the number.
            (Outcome::Duplicate { order }, 409, 2, "不能重复下单", json!("9007199254740993")),
            (Outcome::NotLoaded, 404, 3, "库存数据不存在", Value::Null),
            (Outcome::NotReady, 503, 4, "消息队列不存在", Value::Null),
            (Outcome::NotStarted { begins }, 425, 425, "秒杀尚未开始", began),
            (Outcome::Ended, 410, 410, "秒杀已经结束", Value::Null),
        ] {
            let (got, body, retry) = shown(Refusal::Outcome(outcome), "zh").await;
            assert_eq!(
                body,
                json!({ "success": false, "errorMsg": zh, "code": code, "data": data })
            );
            assert_eq!((got, retry), (status, status == 503), "{outcome:?}");
            let (_, english, _) = shown(Refusal::Outcome(outcome), "en").await;
            assert!(english["errorMsg"].as_str().unwrap().is_ascii(), "{english}");
        }
    }

    /// A client that repeats a request after 503 would apply the change twice.
    #[tokio::test]
    async fn an_uncertain_change_does_not_invite_a_retry() {
        let unknown = StoreError::Unknown(Label("http-uncertain").into());
        let (voucher, why) = (VoucherId(7), RedisError::NoGroup);
        let committed = EngineError::NotLoaded { voucher, shards: Vec::new(), why };
        for refusal in [unknown.into(), committed.into()] {
            let (status, _, retry) = shown(refusal, "en").await;
            assert_eq!((status, retry), (504, false));
        }
    }

    /// A client learns what to wait for.
    #[tokio::test]
    async fn each_503_states_its_reason() {
        let failed = || Arc::new(EngineError::Failed(Label("http-busy").into()));
        let away = || StoreError::Away(Label("http-busy").into());
        let refusals: [(Refusal, &str); 13] = [
            (EngineError::Stopping.into(), "this server is stopping"),
            (AdmissionError::Stopping.into(), "this server is stopping"),
            (AdmissionError::TooLate.into(), "the attempt was too late"),
            (AdmissionError::NoAnswer(failed()).into(), "not confirmed"),
            (AdmissionError::NoAnswer(Arc::new(away().into())).into(), "the database is"),
            (AdmissionError::NoAnswer(Arc::new(RedisError::NoGroup.into())).into(), "Redis is"),
            (AdmissionError::Rejected(failed()).into(), "closed until an operator has repaired"),
            (EngineError::OtherSale(VoucherId(7)).into(), "closed until an operator has repaired"),
            (EngineError::Reconciling("key".into()).into(), "being reconciled"),
            (RedisError::NoGroup.into(), "Redis is unavailable"),
            (away().into(), "the database is unavailable"),
            (Refusal::Overloaded, "too many requests"),
            (Refusal::Outcome(Outcome::Paused), "the sale is paused"),
        ];
        for (refusal, reason) in refusals {
            let (status, body, retry) = shown(refusal, "en").await;
            assert!(status == 503 && retry, "{body}");
            assert!(body["errorMsg"].as_str().unwrap().contains(reason), "{reason}: {body}");
        }
    }

    #[tokio::test]
    async fn details_of_server_errors_are_not_disclosed() {
        let away = RedisError::Away {
            address: "10.0.0.7:6379".to_owned(),
            detail: Reason::Quoted("refused".to_owned()),
        };
        let (status, body, retry) = shown(away.into(), "en").await;
        assert!(status == 503 && retry && !body.to_string().contains("10.0.0.7"), "{body}");
    }
}
