//! Users who log in, and the tokens of operators.

use seckill_model::{
    Millis, User, UserId,
    user::{Phone, Role, Token},
};

use crate::{Fault, Result, Store, params, read, transaction};

impl Store {
    /// The user with this phone; created under `nick_name` if there is none.
    pub async fn user_with_phone(
        &self,
        phone: &Phone,
        nick_name: &str,
        now: Millis,
    ) -> Result<User> {
        let phone = phone.digits();
        transaction!(self, |conn| {
            let query = "SELECT id, nick_name, icon FROM tb_user WHERE phone = $1";
            if let Some(user) = conn.row(query, params![phone]).await? {
                return Ok(user);
            }
            let insert = "INSERT INTO tb_user (phone, nick_name, create_time, update_time) \
                 VALUES ($1, $2, $3, $3)";
            conn.insert(insert, params![phone, nick_name, now]).await?;
            // A concurrent login may have been faster; the retry sees its row.
            conn.row(query, params![phone]).await?.ok_or(Fault::Again)
        })
    }

    /// Creates users without a phone, one for each name, in one transaction.
    pub async fn create_users(&self, nick_names: &[String], now: Millis) -> Result<Vec<User>> {
        transaction!(self, |conn| {
            let insert = "INSERT INTO tb_user (nick_name, create_time, update_time) \
                 VALUES ($1, $2, $2)";
            let mut users = Vec::with_capacity(nick_names.len());
            for nick_name in nick_names {
                let id = conn.insert_row(insert, params![nick_name, now]).await?;
                let id = UserId(id.ok_or(Fault::Again)? as u64);
                users.push(User { id, nick_name: nick_name.clone(), icon: String::new() });
            }
            Ok(users)
        })
    }

    /// Stores a new token by the digest of its secret; returns its number.
    pub async fn create_token(
        &self,
        digest: &str,
        role: Role,
        name: &str,
        now: Millis,
    ) -> Result<u64> {
        let role: &'static str = role.into();
        transaction!(self, |conn| {
            let insert = "INSERT INTO tb_token (digest, role, name, create_time) \
                 VALUES ($1, $2, $3, $4)";
            let id = conn.insert_row(insert, params![digest, role, name, now]).await?;
            Ok(id.ok_or(Fault::Again)? as u64)
        })
    }

    /// The valid token with this digest.
    pub async fn token(&self, digest: &str) -> Result<Option<Token>> {
        read!(self, |conn| {
            let query = "SELECT id, role, name, create_time, revoke_time FROM tb_token \
                 WHERE digest = $1 AND revoke_time IS NULL";
            conn.row(query, params![digest]).await
        })
    }

    /// All tokens, newest first, revoked ones included.
    pub async fn tokens(&self) -> Result<Vec<Token>> {
        read!(self, |conn| {
            let query = "SELECT id, role, name, create_time, revoke_time FROM tb_token \
                 ORDER BY id DESC";
            conn.rows(query, params![]).await
        })
    }

    /// Revokes a token; returns whether it was valid.
    pub async fn revoke_token(&self, id: u64, now: Millis) -> Result<bool> {
        transaction!(self, |conn| {
            let update = "UPDATE tb_token SET revoke_time = $2 \
                 WHERE id = $1 AND revoke_time IS NULL";
            Ok(conn.execute(update, params![id as i64, now]).await? == 1)
        })
    }
}
