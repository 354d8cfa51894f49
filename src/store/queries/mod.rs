//! The statements of the store, shared by all dialects. Those that write run inside the caller's transaction.

pub(super) mod audit_log;
pub(super) mod bench_baseline;
pub(super) mod jobs;
pub(super) mod order_rate;
pub(super) mod orders;
pub(super) mod ordinary;
pub(super) mod payment;
pub(super) mod sales;

use sqlx::pool::PoolConnection;

use super::{dialect::Dialect, session::Fault};

/// Most IDs or rows per statement: pages keep one call from occupying a connection for seconds.
pub(super) const PAGE: usize = 10_000;

/// The connection that a statement runs on.
pub(super) type Conn<D> = PoolConnection<D>;

/// Settings of the server or file that affect durability.
pub(super) async fn durability<D: Dialect>(
    conn: &mut Conn<D>,
) -> Result<Vec<(String, String)>, Fault> {
    let mut settings = Vec::new();
    for (name, query) in D::DURABILITY {
        let value = D::sql(*query).row(conn).await?.map(|(value,)| value).unwrap_or_default();
        settings.push(((*name).to_owned(), value));
    }
    Ok(settings)
}

/// The version of the server.
pub(super) async fn version<D: Dialect>(conn: &mut Conn<D>) -> Result<String, Fault> {
    let version = D::sql(D::VERSION).row(conn).await?;
    Ok(version.map(|(version,)| version).ok_or(sqlx::Error::RowNotFound)?)
}
