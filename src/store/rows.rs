//! Types of the model as columns and rows. This file accesses no database.

use seckill_model::{
    Cause, JobOutcome, JobRun, JobSwitch, Message, Millis, Order, OrderId, OrderStatus, Sale,
    SaleId, SaleOrder, SaleShard, SaleState, ShardId, Spread, User, UserId, Voucher,
    VoucherDetails, VoucherId, VoucherKind, VoucherStatus,
    ledger::SqlLedger,
    reason,
    user::{Role, Token},
};

use crate::{
    AuditEntry, Fault, OrderRow, StoreError,
    connection::{Column, FromRow, Index, Row},
};

/// Types that are stored as another one; `None` for an invalid value.
macro_rules! columns {
    ($raw:ty: $($column:ty => |$it:ident| $value:expr;)*) => {
        $(impl Column for $column {
            fn read(row: &Row<'_>, column: impl Index) -> Result<Option<Self>, Fault> {
                let Some(raw) = row.raw::<$raw>(column)? else { return Ok(None) };
                let $it = &raw;
                match $value {
                    Some(value) => Ok(Some(value)),
                    None => Err(invalid(column, &raw)),
                }
            }
        })*
    };
}

columns! {
    i64:
        i64 => |it| Some(*it);
        // Constraints of the tables keep these numbers in range.
        u64 => |it| Some(count(*it));
        u8 => |it| Some(u8::try_from(*it).unwrap_or(1));
        u16 => |it| u16::try_from(*it).ok();
        Millis => |it| Some(Millis(*it));
        OrderId => |it| OrderId::from_i64(*it);
        UserId => |it| Some(UserId(*it as u64));
        VoucherId => |it| Some(VoucherId(*it as u64));
        OrderStatus => |it| OrderStatus::from_repr(*it);
        VoucherKind => |it| VoucherKind::from_repr(*it);
        VoucherStatus => |it| VoucherStatus::from_repr(*it);
}

columns! {
    String:
        String => |it| Some(it.clone());
        Message => |it| Some(Message::from_stored(it.clone()));
        SaleState => |it| it.parse().ok();
        Role => |it| it.parse().ok();
        Cause => |it| it.parse().ok();
        JobOutcome => |it| it.parse().ok();
}

columns! {
    bool:
        bool => |it| Some(*it);
}

/// An invalid value concerns the request that reads it, not the database.
fn invalid(column: impl Index, value: &impl ToString) -> Fault {
    let (column, value) = (column.to_string(), value.to_string());
    StoreError::Rejected(reason!("store-reason-damaged", column, value)).into()
}

/// A number that constraints of the tables keep nonnegative.
pub(super) fn count(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// NULL is `None`.
impl<T: Column> Column for Option<T> {
    fn read(row: &Row<'_>, column: impl Index) -> Result<Option<Self>, Fault> {
        T::read(row, column).map(Some)
    }
}

/// The only column.
impl<T: Column> FromRow for T {
    fn from_row(row: &Row<'_>) -> Result<Self, Fault> {
        row.get(0)
    }
}

/// All columns, in their order.
macro_rules! tuples {
    ($(($($column:ident $index:literal),+))*) => {
        $(impl<$($column: Column),+> FromRow for ($($column,)+) {
            fn from_row(row: &Row<'_>) -> Result<Self, Fault> {
                Ok(($(row.get::<$column>($index)?,)+))
            }
        })*
    };
}

tuples! {
    (A 0, B 1)
    (A 0, B 1, C 2)
}

/// Structs whose fields are columns of the same name.
macro_rules! records {
    ($($record:ident { $($field:ident),+ })*) => {
        $(impl FromRow for $record {
            fn from_row(row: &Row<'_>) -> Result<Self, Fault> {
                Ok(Self { $($field: row.get(stringify!($field))?),+ })
            }
        })*
    };
}

records! {
    OrderRow { id, user_id, voucher_id, shard, buyer_place }
    Order { id, user_id, voucher_id, place, status, create_time, pay_time, close_time }
    SaleOrder { id, user_id, voucher_id, shard, place }
    VoucherDetails { title, shop_id, sub_title, rules, pay_value, actual_value, status }
    SqlLedger { initial, stock, live, closed, doubled, returning }
    JobRun { id, job, due, cause, node, started, took_ms, outcome, detail, rows }
    JobSwitch { name, paused, since }
    User { id, nick_name, icon }
    Token { id, role, name, create_time, revoke_time }
    AuditEntry { id, at, operator, node, action, subject, reason, result, before, after, once }
}

impl FromRow for (OrderRow, OrderStatus) {
    fn from_row(row: &Row<'_>) -> Result<Self, Fault> {
        Ok((OrderRow::from_row(row)?, row.get("status")?))
    }
}

impl FromRow for Voucher {
    fn from_row(row: &Row<'_>) -> Result<Self, Fault> {
        let details = VoucherDetails::from_row(row)?;
        Ok(Self { voucher_id: row.get("id")?, kind: row.get("type")?, details })
    }
}

/// A row that cannot be read, with its sale: it hides no other.
impl FromRow for Result<SaleShard, (VoucherId, Fault)> {
    fn from_row(row: &Row<'_>) -> Result<Self, Fault> {
        match SaleShard::from_row(row) {
            Ok(shard) => Ok(Ok(shard)),
            Err(why) => Ok(Err((row.get("voucher_id")?, why))),
        }
    }
}

impl FromRow for SaleShard {
    fn from_row(row: &Row<'_>) -> Result<Self, Fault> {
        let archived: Option<Millis> = row.get("archive_time")?;
        let (voucher_id, number): (VoucherId, u16) = (row.get("voucher_id")?, row.get("shard")?);
        let (count, id): (Option<u16>, SaleId) = (row.get("shards")?, voucher_id.into());
        let sale = Sale {
            voucher_id,
            title: row.get("title")?,
            initial: row.get("initial_stock")?,
            stock: row.get("stock")?,
            begin: row.get("begin_time")?,
            end: row.get("end_time")?,
            state: if archived.is_some() { SaleState::Archived } else { row.get("state")? },
            limit: row.get("user_limit")?,
            changed: row.get("update_time")?,
            version: row.get("version")?,
            delivered: row.get("delivered_version")?,
            created: row.get("create_time")?,
            spread: count.map(|count| Spread { sale: id, count }),
        };
        Ok(Self { id: ShardId { sale: id, number }, sale })
    }
}
