//! The audit log.

use super::super::{
    ActivityFilter, AuditEntry, LogPosition, Recorded, Store, StoreError,
    connection::params,
    fault::Fault,
    store::{read, transaction},
};

const SELECT: &str = "SELECT id, at, operator, node, act, subject, reason, result, \
     figures_before AS \"before\", figures_after AS \"after\", once FROM tb_audit_log";

impl Store {
    /// Adds a line to the audit log, unless one with the same `once` exists.
    pub async fn record(&self, act: &AuditEntry) -> Result<(), StoreError> {
        transaction!(self, |conn| {
            conn.insert(
                "INSERT INTO tb_audit_log (at, operator, node, act, subject, reason, result, \
                 figures_before, figures_after, once) \
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
                params![
                    act.at,
                    &act.operator,
                    &act.node,
                    &act.act,
                    act.subject.stored(),
                    &act.reason,
                    act.result.stored(),
                    &act.before,
                    &act.after,
                    &act.once
                ],
            )
            .await
            .map(drop)
        })
    }

    /// The newest lines of the audit log, newest first.
    pub async fn acts(&self, limit: u32) -> Result<Vec<AuditEntry>, StoreError> {
        read!(self, |conn| {
            let query = format!("{SELECT} ORDER BY id DESC LIMIT $1");
            conn.rows(query, params![limit]).await
        })
    }

    /// A page of the log in time order, newest first: lines before `before` that match the filter. Uses the index on
    /// time.
    pub async fn activity(
        &self,
        filter: &ActivityFilter,
        before: Option<LogPosition>,
        limit: u32,
    ) -> Result<Vec<Recorded>, StoreError> {
        let (last, below) = filter.last(before);
        read!(self, |conn| {
            let query = format!(
                "{SELECT} WHERE at >= $1 AND at <= $2 AND (at < $2 OR id < $3) \
                 AND ($4 = 0 OR ($4 = 2) = (operator IN ('', '-', 'engine'))) \
                 ORDER BY at DESC, id DESC LIMIT $5"
            );
            conn.rows(query, params![filter.first(), last, below, filter.code(), limit]).await
        })
    }
}
