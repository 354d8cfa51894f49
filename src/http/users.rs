//! The endpoints of users: a login by phone and code, as a demo.

use std::{fmt, time::Duration};

use axum::{extract::State, http::HeaderMap};
use redis::pipe;
use seckill_model::{Millis, user::Phone};
use serde::Deserialize;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};
use uuid::Uuid;

use crate::{
    Shared,
    answer::{Answer, Envelope, Refusal, Result},
    body::Body,
    sessions::{Session, token},
};

/// How long a code is valid.
const CODE_LASTS: Duration = Duration::from_mins(2);
/// Logins with one code; a further one is refused, so that a code cannot be guessed.
const MAX_TRIES: u64 = 5;

pub(crate) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(send_code))
        .routes(routes!(log_in))
        .routes(routes!(me))
        .routes(routes!(log_out))
}

/// The phone to log in.
#[derive(Debug, Deserialize, ToSchema)]
struct CodeRequest {
    #[schema(pattern = "^1[3-9][0-9]{9}$")]
    phone: String,
}

/// A phone, and the code that was created for it.
#[derive(Deserialize, ToSchema)]
struct Login {
    #[schema(pattern = "^1[3-9][0-9]{9}$")]
    phone: String,
    #[schema(pattern = "^[0-9]{6}$")]
    code: String,
}

/// A code that is never logged by accident.
impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").finish_non_exhaustive()
    }
}

fn parse(phone: &str) -> std::result::Result<Phone, Refusal> {
    phone.parse().map_err(Refusal::Invalid)
}

/// Creates a code for a phone. Nothing is sent to it: the code is in the log of the server, as in the tutorials.
#[utoipa::path(
    post, path = "/user/code", tag = "users",
    request_body = CodeRequest,
    responses((status = 200, description = "success", body = Envelope<Option<String>>))
)]
async fn send_code(
    State(shared): State<Shared>,
    Body(CodeRequest { phone }): Body<CodeRequest>,
) -> Result<()> {
    let phone = parse(&phone)?;
    let code = format!("{:06}", rand::random_range(0..1_000_000));
    let (key, tries) =
        (shared.keys.login_code(phone.digits()), shared.keys.login_tries(phone.digits()));
    let mut store = pipe();
    store.cmd("SET").arg(&key).arg(&code).arg("PX").arg(CODE_LASTS.as_millis() as u64).ignore();
    store.cmd("DEL").arg(tries).ignore();
    shared.redis.pipe::<()>(&key, &store).await?;
    tracing::info!(%phone, code, "login code");
    Ok(Answer(()))
}

/// Logs in with a code, which is used up; creates the user at the first login. Returns the token of the session.
#[utoipa::path(
    post, path = "/user/login", tag = "users",
    request_body = Login,
    responses((status = 200, description = "success", body = Envelope<String>))
)]
async fn log_in(
    State(shared): State<Shared>,
    Body(Login { phone, code }): Body<Login>,
) -> Result<String> {
    let phone = parse(&phone)?;
    let (key, tries) =
        (shared.keys.login_code(phone.digits()), shared.keys.login_tries(phone.digits()));
    let mut check = pipe();
    check.cmd("INCRBY").arg(&tries).arg(1);
    check.cmd("PEXPIRE").arg(&tries).arg(CODE_LASTS.as_millis() as u64).ignore();
    check.cmd("GET").arg(&key);
    let (tried, expected): (u64, Option<String>) = shared.redis.pipe(&key, &check).await?;
    if tried > MAX_TRIES || expected != Some(code) {
        return Err(Refusal::WrongCode);
    }
    let mut forget = pipe();
    forget.cmd("DEL").arg(&key).cmd("DEL").arg(&tries).ignore();
    let (deleted,): (u64,) = shared.redis.pipe(&key, &forget).await?;
    if deleted == 0 {
        // Another login was faster with the same code.
        return Err(Refusal::WrongCode);
    }
    let user = shared.store.user_with_phone(&phone, &new_nick_name(), Millis::now()).await?;
    let token = shared.sessions.open(&user.into()).await?;
    Ok(Answer(token.simple().to_string()))
}

/// A name for a new user, as the tutorials make it.
pub fn new_nick_name() -> String {
    let id = Uuid::new_v4().simple().to_string();
    format!("user_{}", id.get(..10).unwrap_or(&id))
}

/// The user of the session.
#[utoipa::path(
    get, path = "/user/me", tag = "users",
    security(("token" = [])),
    responses((status = 200, description = "success", body = Envelope<Session>))
)]
async fn me(State(shared): State<Shared>, headers: HeaderMap) -> Result<Session> {
    let token = token(&headers).ok_or(Refusal::NoSession)?;
    let session = shared.sessions.read(token).await?;
    session.map(Answer).ok_or(Refusal::NoSession)
}

/// Ends the session. Repeating it has no effect.
#[utoipa::path(
    post, path = "/user/logout", tag = "users",
    security(("token" = [])),
    responses((status = 200, description = "success", body = Envelope<Option<String>>))
)]
async fn log_out(State(shared): State<Shared>, headers: HeaderMap) -> Result<()> {
    let token = token(&headers).ok_or(Refusal::NoSession)?;
    shared.sessions.close(token).await?;
    Ok(Answer(()))
}
