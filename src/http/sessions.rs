//! Sessions of users: JSON in Redis under the token, as the tutorials keep them, with a time to live that slides.

use std::time::Duration;

use axum::{
    extract::FromRequestParts,
    http::{HeaderMap, header::AUTHORIZATION, request::Parts},
};
use moka::sync::Cache;
use redis::cmd;
use seckill_model::{User, UserId};
use seckill_redis::{Layout, RedisError, SharedConnection};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::{Shared, answer::Refusal};

/// How long a look-up is reused: a session that is closed on another node ends there within this time.
const REUSED_FOR: Duration = Duration::from_secs(1);
/// Maximum number of look-ups that are kept.
const KEPT: u64 = 65_536;

/// The user of a session, with the fields of the tutorials.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Session {
    /// Who is logged in.
    #[schema(value_type = u64)]
    pub id: UserId,
    /// Name shown to others.
    #[serde(default)]
    pub nick_name: String,
    /// Picture.
    #[serde(default)]
    pub icon: String,
}

impl From<User> for Session {
    fn from(User { id, nick_name, icon }: User) -> Self {
        Self { id, nick_name, icon }
    }
}

/// The sessions in Redis. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Sessions {
    redis: SharedConnection,
    keys: Layout,
    lasts: Duration,
    recent: Cache<Uuid, UserId>,
}

impl Sessions {
    /// Sessions that last this long after their last request.
    pub fn new(redis: SharedConnection, keys: Layout, lasts: Duration) -> Self {
        let recent = Cache::builder().max_capacity(KEPT).time_to_live(REUSED_FOR).build();
        Self { redis, keys, lasts, recent }
    }

    /// The user of a token, from the local cache or with one command.
    pub(crate) async fn user(&self, token: Uuid) -> Result<Option<UserId>, RedisError> {
        if let Some(user) = self.recent.get(&token) {
            return Ok(Some(user));
        }
        let user = self.read(token).await?.map(|session| session.id);
        if let Some(user) = user {
            self.recent.insert(token, user);
        }
        Ok(user)
    }

    /// Opens a session; returns its token.
    pub async fn open(&self, session: &Session) -> Result<Uuid, RedisError> {
        let token = Uuid::new_v4();
        let key = self.keys.session(token.simple());
        let text = serde_json::to_string(session).map_err(|_| RedisError::Reply(None))?;
        let mut store = cmd("SET");
        store.arg(&key).arg(text).arg("PX").arg(self.lasts.as_millis() as u64);
        self.redis.query::<()>(&key, &store).await?;
        Ok(token)
    }

    /// Ends a session, if there is one.
    pub(crate) async fn close(&self, token: Uuid) -> Result<(), RedisError> {
        let key = self.keys.session(token.simple());
        self.redis.query::<()>(&key, cmd("DEL").arg(&key)).await?;
        self.recent.invalidate(&token);
        Ok(())
    }

    /// The session of a token, whose time to live begins again.
    pub(crate) async fn read(&self, token: Uuid) -> Result<Option<Session>, RedisError> {
        let key = self.keys.session(token.simple());
        let mut read = cmd("GETEX");
        read.arg(&key).arg("PX").arg(self.lasts.as_millis() as u64);
        let text: Option<Vec<u8>> = self.redis.query(&key, &read).await?;
        Ok(text.and_then(|text| {
            let session = serde_json::from_slice(&text);
            session
                .inspect_err(|error| tracing::warn!(%error, "a session is no JSON of a user"))
                .ok()
        }))
    }
}

/// The token of a request: a UUID with or without hyphens, also after `Bearer`.
pub(crate) fn token(headers: &HeaderMap) -> Option<Uuid> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let token = match value.split_at_checked(7) {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer ") => token,
        _ => value,
    };
    Uuid::try_parse(token.trim()).ok()
}

/// The user who sent a request; refused without a session, and beyond the rate limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Buyer(pub(crate) UserId);

impl FromRequestParts<Shared> for Buyer {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Self, Refusal> {
        let token = token(&parts.headers).ok_or(Refusal::NoSession)?;
        let user = shared.sessions.user(token).await?.ok_or(Refusal::NoSession)?;
        shared.metrics.traffic.note_user(user);
        shared.limits.check_user(user).inspect_err(|_| shared.metrics.note_limited("user"))?;
        Ok(Self(user))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_a_uuid() {
        let uuid = Uuid::from_u128(0x5f00_0000_0000_4000_8000_0000_0000_0001);
        let of =
            |value: &str| token(&HeaderMap::from_iter([(AUTHORIZATION, value.parse().unwrap())]));
        for value in [
            uuid.simple().to_string(),
            uuid.hyphenated().to_string(),
            format!("Bearer {uuid}"),
            format!("bearer  {uuid} "),
        ] {
            assert_eq!(of(&value), Some(uuid), "{value}");
        }
        for value in ["", "x", "Bearer", "Bearer ", "7", "*", &"f".repeat(33)] {
            assert_eq!(of(value), None, "{value}");
        }
    }

    #[test]
    fn sessions_are_the_json_of_the_tutorials() {
        let text = r#"{"id":1010,"nickName":"user_1","icon":"","extra":true}"#;
        let session: Session = serde_json::from_str(text).unwrap();
        assert_eq!((session.id, session.nick_name.as_str()), (UserId(1010), "user_1"));
        assert!(serde_json::from_str::<Session>(r#"{"id":7}"#).is_ok());
        assert!(serde_json::from_str::<Session>(r#"{"id":"7"}"#).is_err());
    }
}
