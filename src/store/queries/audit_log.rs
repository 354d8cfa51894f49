//! The audit log.

use crate::{
    ActivityFilter, AuditEntry, Fault, LogPosition, Result, Store, params, read, transaction,
};

impl Store {
    /// Adds a line to the audit log, unless one with the same `once` exists.
    pub async fn record(&self, entry: &AuditEntry) -> Result<()> {
        let insert = "INSERT INTO tb_audit_log (at, operator, node, act, subject, reason, result, \
             figures_before, figures_after, once) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
        transaction!(self, |conn| {
            let values = params![
                entry.at,
                &entry.operator,
                &entry.node,
                &entry.action,
                entry.subject.stored(),
                &entry.reason,
                entry.result.stored(),
                &entry.before,
                &entry.after,
                &entry.once
            ];
            if conn.insert(insert, values).await? == 0 {
                let there = "SELECT id FROM tb_audit_log WHERE once = $1";
                let there: Option<i64> = conn.row(there, params![&entry.once]).await?;
                // Otherwise it is the generated ID that another row has.
                there.ok_or(Fault::Again)?;
            }
            Ok(())
        })
    }

    /// A page of the log in time order, newest first: lines before `before` that match the filter. Uses the index on
    /// time.
    pub async fn activity(
        &self,
        filter: &ActivityFilter,
        before: Option<LogPosition>,
        limit: u32,
    ) -> Result<Vec<AuditEntry>> {
        let (last, below) = filter.last(before);
        let query = "SELECT id, at, operator, node, act AS action, subject, reason, result, \
             figures_before AS \"before\", figures_after AS \"after\", once \
             FROM tb_audit_log WHERE at >= $1 AND at <= $2 AND (at < $2 OR id < $3) \
             AND ($4 = 0 OR ($4 = 2) = (operator IN ('', '-', 'engine'))) \
             ORDER BY at DESC, id DESC LIMIT $5";
        read!(self, |conn| {
            conn.rows(query, params![filter.first(), last, below, filter.code(), limit]).await
        })
    }
}
