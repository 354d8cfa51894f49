//! The SQL of MySQL and MariaDB.
//!
//! The default isolation locks gaps between rows, so every connection uses READ COMMITTED. `INSERT IGNORE` hides
//! errors, so it is not used. There is no RETURNING, so rows are locked and read before they are changed.
//!
//! Rows are passed as one JSON array, so that one prepared statement serves every batch size. A list of IDs is padded
//! to the next power of two, so that a few prepared statements serve every length: MariaDB before 11.1 scans the whole
//! table for an UPDATE with IDs from a subquery.

use seckill_model::{Reason, reason};
use sqlx::{
    Arguments as _,
    error::{BoxDynError, DatabaseError},
    mysql::{MySqlArguments, MySqlDatabaseError},
};

use super::{Dialect, Value, json, schema_changed, substitute};
use crate::{StoreError, batch};

const DEADLOCK: u16 = 1213;
const LOCK_WAIT_TIMEOUT: u16 = 1205;
const RECORD_CHANGED: u16 = 1020;
/// About the values of a row: null, duplicates, range, type, length, foreign keys, checks.
const ABOUT_A_ROW: &[u16] =
    &[1048, 1062, 1216, 1217, 1264, 1292, 1364, 1366, 1406, 1451, 1452, 1586, 1690, 3819, 4025];

/// Most bytes per row of a batch: three 63-bit numbers, a slot, and separators.
const ROW: usize = 96;

pub(crate) const MYSQL: Dialect = Dialect {
    name: "MySQL",
    begin: "BEGIN",
    version: "SELECT VERSION()",
    // In UTC: an hour of the session's time zone may exist twice.
    clock: Some(
        "SELECT CAST(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000 AS SIGNED)",
    ),
    durability: &[
        ("innodb_flush_log_at_trx_commit", "SELECT CAST(@@innodb_flush_log_at_trx_commit AS CHAR)"),
        ("sync_binlog", "SELECT CAST(@@sync_binlog AS CHAR)"),
        ("log_bin", "SELECT CAST(@@log_bin AS CHAR)"),
        ("innodb_doublewrite", "SELECT CAST(@@innodb_doublewrite AS CHAR)"),
        ("innodb_lock_wait_timeout", "SELECT CAST(@@innodb_lock_wait_timeout AS CHAR)"),
    ],
    refresh: Some("ANALYZE TABLE tb_voucher_order"),
    packet: Some("SELECT CAST(@@GLOBAL.max_allowed_packet AS SIGNED)"),
    order_bytes: "SELECT CAST(data_length + index_length AS SIGNED) \
         FROM information_schema.tables \
         WHERE table_schema = DATABASE() AND table_name = 'tb_voucher_order'",
    live: "live = 1",
    closed: "live IS NULL",
    lock: "FOR UPDATE",
    check_now: None,
    primary: "FORCE INDEX (PRIMARY)",
    join: "STRAIGHT_JOIN",
    has_sequence: false,
    batch,
    index: |name| format!("FORCE INDEX ({name})"),
    upsert: on_duplicate_key,
    quotient: |dividend, divisor| format!("CAST(({dividend}) DIV {divisor} AS SIGNED)"),
    order_pages,
    classify,
    is_transient,
    is_rolled_back,
};

/// Maximum number of IDs or rows per statement of a server that accepts packets of this size.
pub(crate) fn page(packet: i64) -> usize {
    (usize::try_from(packet).unwrap_or(0) / 2 / ROW).clamp(1, batch::PAGE)
}

fn batch(number: usize) -> String {
    let columns = batch::columns(|at, name, kind| format!("{name} {kind} PATH '$[{at}]'"));
    format!("JSON_TABLE(CONVERT(${number} USING utf8mb4), '$[*]' COLUMNS ({columns})) AS batch")
}

fn on_duplicate_key(_: &str, columns: &str) -> String {
    let set: Vec<String> = columns.split(", ").map(|it| format!("{it} = VALUES({it})")).collect();
    format!("ON DUPLICATE KEY UPDATE {}", set.join(", "))
}

fn order_pages(_: &Dialect, user: bool, voucher: bool) -> Vec<String> {
    let parts: &[&str] = match (user, voucher) {
        // Vouchers are few, and each needs one lookup in the unique index.
        (true, _) => &["FORCE INDEX (uk_one_live_order) \
             WHERE voucher_id IN (SELECT voucher_id FROM tb_seckill_voucher)"],
        (false, true) => &[
            "FORCE INDEX (idx_live_order) WHERE live = 1",
            "FORCE INDEX (idx_live_order) WHERE live IS NULL",
        ],
        (false, false) => &["FORCE INDEX (PRIMARY) WHERE TRUE"],
    };
    parts.iter().map(ToString::to_string).collect()
}

/// Translates a statement and its values.
pub(crate) fn render(
    sql: &str,
    values: &[Value<'_>],
) -> Result<(String, MySqlArguments), BoxDynError> {
    let mut arguments = MySqlArguments::default();
    let sql = substitute(&sql.replace('"', "`"), |text, number, is_list| {
        text.push_str(if is_list { "IN (" } else { "?" });
        match number.checked_sub(1).and_then(|at| values.get(at)) {
            Some(Value::Int(it)) => arguments.add(it)?,
            Some(Value::Text(it)) => arguments.add(it.as_deref())?,
            Some(Value::Bool(it)) => arguments.add(it)?,
            Some(Value::Rows(rows)) => arguments.add(json(rows)?)?,
            Some(Value::Ids(ids)) => add_list(text, &mut arguments, ids)?,
            None => return Err(format!("value {number} is missing").into()),
        }
        if is_list {
            text.push(')');
        }
        Ok(())
    })?;
    Ok((sql, arguments))
}

/// Binds a list of IDs, repeating the last one up to a power of two.
fn add_list(
    text: &mut String,
    arguments: &mut MySqlArguments,
    ids: &[i64],
) -> Result<(), BoxDynError> {
    let Some(last) = ids.last() else {
        text.push_str("NULL");
        return Ok(());
    };
    let length = ids.len().next_power_of_two();
    text.push_str(&vec!["?"; length].join(","));
    for id in ids.iter().chain(std::iter::repeat(last)).take(length) {
        arguments.add(id)?;
    }
    Ok(())
}

fn is_transient(error: &dyn DatabaseError) -> bool {
    [DEADLOCK, LOCK_WAIT_TIMEOUT, RECORD_CHANGED].contains(&number_of(error))
}

fn is_rolled_back(error: &dyn DatabaseError) -> bool {
    // A cluster rejects a commit with this error; others may occur after the commit was written.
    number_of(error) == DEADLOCK
}

/// 0 is no error number.
fn number_of(error: &dyn DatabaseError) -> u16 {
    error.try_downcast_ref::<MySqlDatabaseError>().map_or(0, MySqlDatabaseError::number)
}

/// Classifies an error by its number, since SQLSTATE is too general.
fn classify(error: &dyn DatabaseError) -> StoreError {
    let message = error.message().to_owned();
    StoreError::Away(match number_of(error) {
        DEADLOCK | LOCK_WAIT_TIMEOUT | RECORD_CHANGED => reason!("store-reason-rows-locked"),
        // --read-only, a read-only transaction, --innodb-read-only.
        1290 | 1792 | 1836 => reason!("store-reason-replica"),
        // To a database, a login, a table, a column, by a missing privilege, by a plugin.
        1044 | 1045 | 1142 | 1143 | 1227 | 1698 => reason!("store-reason-denied", message),
        1049 => reason!("store-create-it-with-create-database", message),
        1046 => reason!("store-url-names-no-database"),
        // Of the server, of this user, by another limit of this user.
        1040 | 1203 | 1226 => reason!("store-reason-too-many-connections", message),
        // Of MariaDB, of MySQL.
        1969 | 3024 => reason!("store-reason-statement-timed-out"),
        // Disk full, error on write, table full.
        1021 | 1026 | 1114 => reason!("store-it-cannot-write-free-space", message),
        1153 => reason!("store-reason-packet-too-large", message),
        1665 => reason!("store-reason-statement-binlog"),
        // Unknown column, unknown table.
        1054 | 1146 => return schema_changed(message),
        other if ABOUT_A_ROW.contains(&other) => {
            return StoreError::Rejected(Reason::Quoted(message));
        }
        // Aborted connection, shutdown, interrupted, killed: a state of the server or of the connection.
        1047 | 1053 | 1077 | 1079 | 1152 | 1158..=1161 | 1184 | 1317 | 1927 | 4031 => {
            Reason::Quoted(message)
        }
        _ => return StoreError::Failed(Reason::Quoted(message)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_repeated_and_lists_padded() {
        let values = [Value::from(7_i64), Value::from(vec![1, 2, 3])];
        let sql = "SELECT \"rows\" FROM t WHERE a = $1 AND b = $1 AND c = ANY($2)";
        let (text, arguments) = render(sql, &values).unwrap();
        assert_eq!(text.as_str(), "SELECT `rows` FROM t WHERE a = ? AND b = ? AND c IN (?,?,?,?)");
        assert_eq!(arguments.len(), 6);
        let (text, arguments) = render("c = ANY($1)", &[Value::from(Vec::new())]).unwrap();
        assert_eq!((text.as_str(), arguments.len()), ("c IN (NULL)", 0));
    }
}
