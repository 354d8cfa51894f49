//! The endpoints of vouchers and sales.

use axum::{Router, extract::State, routing::put};
use redis::cmd;
use seckill_engine::{Command, EngineError, Operator, Reply};
use seckill_model::{VoucherId, user::Token};
use serde::{Deserialize, Serialize};

use crate::{
    Shared,
    answer::{Answer, Refusal, Result},
    body::Body,
    operators::ByOperator,
    path::PathId,
};

pub(crate) fn routes() -> Router<Shared> {
    Router::new().route("/voucher/{id}/stock", put(restock))
}

/// Executes a command in the name of the holder of a token. It runs to its end although the client may leave: a change
/// that was begun in SQL is delivered to Redis.
async fn execute(
    shared: &Shared,
    by: Token,
    command: Command,
) -> std::result::Result<Reply, EngineError> {
    let operator = Operator { login: by.name, ..shared.operator.clone() };
    let stop = shared.stopping.clone();
    let done = shared.commands.spawn(async move { operator.execute(command, &stop).await });
    done.await.unwrap_or(Err(EngineError::Stopping))
}

#[derive(Debug, Deserialize)]
struct Restock {
    /// Pieces to add, or to remove if negative.
    by: i64,
}

/// The stock of a sale.
#[derive(Debug, Serialize)]
struct Stock {
    /// All pieces, sold or not.
    initial: u64,
    /// Pieces left; absent while Redis has not confirmed the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    stock: Option<i64>,
}

/// Adds pieces to a sale, or removes unsold ones.
async fn restock(
    State(shared): State<Shared>,
    ByOperator(token): ByOperator,
    PathId(voucher): PathId<VoucherId>,
    Body(Restock { by }): Body<Restock>,
) -> Result<Stock> {
    match execute(&shared, token, Command::Restock { voucher, by }).await {
        Ok(Reply::Restocked { initial, .. }) => {
            let key = shared.keys.stock(voucher);
            let stock = shared.redis.query(&key, cmd("GET").arg(&key)).await.ok().flatten();
            Ok(Answer(Stock { initial, stock }))
        }
        // It is in SQL, and nodes deliver it: a retry would add the pieces twice.
        Err(EngineError::NotLoaded { .. }) => {
            let initial = shared.store.sale(voucher).await?.initial;
            Ok(Answer(Stock { initial, stock: None }))
        }
        Ok(_) => Err(Refusal::Defect),
        Err(error) => Err(error.into()),
    }
}
