//! Operators: the holders of tokens that the database keeps as digests.

use std::{fmt, time::Duration};

use axum::{extract::FromRequestParts, http::request::Parts};
use moka::sync::Cache;
use seckill_model::user::Token;
use seckill_store::{SharedStore, StoreError};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::{Shared, answer::Refusal, sessions::token};

/// How long a look-up is reused: a token that is revoked is accepted this long.
const REUSED_FOR: Duration = Duration::from_secs(2);
/// Maximum number of look-ups that are kept.
const KEPT: u64 = 1_024;

/// The secret of a token. 122 random bits: a plain digest protects it, which would not protect a password.
#[derive(Clone, Copy)]
pub struct Secret(Uuid);

impl Default for Secret {
    fn default() -> Self {
        Self::new()
    }
}

impl Secret {
    /// A new secret.
    pub fn new() -> Self {
        Self(Uuid::new_v4())
    }

    /// What the database keeps.
    pub fn digest(&self) -> String {
        format!("{:x}", Sha256::digest(self.0.as_bytes()))
    }

    /// The token as its holder sends it.
    pub fn reveal(&self) -> String {
        self.0.simple().to_string()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Secret").finish_non_exhaustive()
    }
}

/// Looks up the tokens of operators.
#[derive(Clone, Debug)]
pub(crate) struct Operators {
    store: SharedStore,
    recent: Cache<Uuid, Token>,
}

impl Operators {
    pub(crate) fn new(store: SharedStore) -> Self {
        let recent = Cache::builder().max_capacity(KEPT).time_to_live(REUSED_FOR).build();
        Self { store, recent }
    }

    async fn find(&self, token: Uuid) -> Result<Option<Token>, StoreError> {
        if let Some(found) = self.recent.get(&token) {
            return Ok(Some(found));
        }
        let found = self.store.token(&Secret(token).digest()).await?;
        if let Some(found) = &found {
            self.recent.insert(token, found.clone());
        }
        Ok(found)
    }
}

/// The operator who sent a request. A user is refused with 403, a request without a session with 401.
#[derive(Clone, Debug)]
pub(crate) struct ByOperator(pub(crate) Token);

impl FromRequestParts<Shared> for ByOperator {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Self, Refusal> {
        let token = token(&parts.headers).ok_or(Refusal::NoSession)?;
        if let Some(operator) = shared.operators.find(token).await? {
            return Ok(Self(operator));
        }
        match shared.sessions.user(token).await? {
            Some(_) => Err(Refusal::NotAllowed),
            None => Err(Refusal::NoSession),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_neither_stored_nor_printed() {
        let secret = Secret::new();
        let token = secret.reveal();
        assert!(!secret.digest().contains(&token) && !format!("{secret:?}").contains(&token));
        assert_eq!(Secret(token.parse().unwrap()).digest(), secret.digest());
        assert_ne!(Secret::new().digest(), secret.digest());
    }
}
