//! The endpoints of users: a login by phone and code, as a demo.

use std::fmt;

use axum::{Extension, extract::State, http::HeaderMap};
use seckill_model::{Millis, user::Phone};
use serde::Deserialize;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};
use uuid::Uuid;

use crate::{
    Shared,
    answer::{Answer, Envelope, Refusal, Result},
    body::Body,
    client::Client,
    limits::Wait,
    login_limits::Checked,
    sessions::{Session, token},
};

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

/// The phone of a login by code, which is for demos.
fn demo_phone(shared: &Shared, phone: &str) -> std::result::Result<Phone, Refusal> {
    if !shared.settings.demo_login {
        return Err(Refusal::NoLogin);
    }
    phone.parse().map_err(Refusal::Invalid)
}

fn limited(shared: &Shared, wait: Wait) -> Refusal {
    shared.metrics.note_limited("login");
    Refusal::LoginLimited(wait)
}

/// Creates a code for a phone. Nothing is sent to it: the code is in the log of the server, as in the tutorials. Refused
/// (501) unless the server was started with `--demo-login`.
#[utoipa::path(
    post, path = "/user/code", tag = "users",
    request_body = CodeRequest,
    responses((status = 200, description = "success", body = Envelope<Option<String>>))
)]
async fn send_code(
    State(shared): State<Shared>,
    Extension(Client(from)): Extension<Client>,
    Body(CodeRequest { phone }): Body<CodeRequest>,
) -> Result<()> {
    let phone = demo_phone(&shared, &phone)?;
    let granting = {
        let shared = Shared::clone(&shared);
        async move {
            let granted = shared.login_codes.grant(&phone, from).await?;
            let code = granted.map_err(|wait| limited(&shared, wait))?;
            tracing::info!(%phone, code, "login code");
            Ok(Answer(()))
        }
    };
    shared.complete(granting).await?
}

/// Logs in with a code, which is used up; creates the user at the first login. Returns the token of the session.
#[utoipa::path(
    post, path = "/user/login", tag = "users",
    request_body = Login,
    responses((status = 200, description = "success", body = Envelope<String>))
)]
async fn log_in(
    State(shared): State<Shared>,
    Extension(Client(from)): Extension<Client>,
    Body(Login { phone, code }): Body<Login>,
) -> Result<String> {
    let phone = demo_phone(&shared, &phone)?;
    let opening = {
        let shared = Shared::clone(&shared);
        async move {
            match shared.login_codes.check(&phone, from, &code).await? {
                Checked::Right => {}
                Checked::Wrong => return Err(Refusal::WrongCode),
                Checked::Limited(wait) => return Err(limited(&shared, wait)),
            }
            let (name, now) = (new_nick_name(), Millis::now());
            let user = shared.store.user_with_phone(&phone, &name, now).await?;
            let token = shared.sessions.open(&user.into()).await?;
            Ok(Answer(token.simple().to_string()))
        }
    };
    shared.complete(opening).await?
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
