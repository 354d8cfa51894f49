//! What SQL has of the orders of entries, and the transaction that writes one.

use std::collections::{HashMap, HashSet};

use redis::FromRedisValue;
use seckill_model::{
    OrderError, OrderId, UserId, Verdict, VoucherId,
    reason::reason,
    verdict::{Evidence, Limits, judge},
};
use seckill_redis::lossy_utf8::Text;
use seckill_store::{StoreError, plain::PlainConnection};

use crate::{
    AttachError, Poison, Profile, Result,
    database::{Database, is_live, number, text},
    stream,
};

/// The order that an entry asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Order {
    pub(crate) id: OrderId,
    pub(crate) user: UserId,
    pub(crate) voucher: VoucherId,
}

/// An order, or why the entry has none.
pub(crate) type Asked = Result<Order, OrderError>;

/// The order of an entry with these fields.
pub(crate) fn order_of(profile: &Profile, fields: Option<&[(Text, Text)]>) -> Asked {
    let fields = fields.ok_or(OrderError::Gone)?;
    if let Some(fault) = stream::fault_of(profile, fields) {
        return Err(OrderError::Fields(fault.reason()));
    }
    let number = |name: &str| {
        let value = stream::value(fields, name).and_then(|it| it.parse::<i64>().ok());
        // No ID is negative.
        let value = value.and_then(|it| u64::try_from(it).ok());
        let poison = Poison::NoNumber { name: name.to_owned() };
        value.ok_or_else(|| OrderError::Fields(poison.reason()))
    };
    let names = &profile.entry;
    let id = OrderId::from_i64(number(&names.order)? as i64).ok_or(OrderError::Gone)?;
    let (user, voucher) = (UserId(number(&names.user)?), VoucherId(number(&names.voucher)?));
    Ok(Order { id, user, voucher })
}

/// Whether it matters to an entry with this verdict that the service still promises the piece: it becomes an order, or a dead
/// letter that can be replayed once its cause is gone. What is in SQL, or was settled by another order, becomes neither.
pub(super) fn is_promise(verdict: Verdict, fault: Option<&OrderError>) -> bool {
    let is_settled = matches!(
        fault,
        Some(
            OrderError::Holds { .. }
                | OrderError::Closed { .. }
                | OrderError::BoughtAgain { .. }
                | OrderError::IdTaken(_)
        )
    );
    verdict == Verdict::Stuck || (verdict == Verdict::Refused && !is_settled)
}

/// What SQL has of some orders.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// User and sale of the orders with these IDs.
    rows: HashMap<i64, (i64, i64)>,
    /// A live order of these users in these sales.
    live: HashMap<(i64, i64), i64>,
    /// The newest closed order of these users in these sales.
    closed: HashMap<(i64, i64), i64>,
    /// The stock of these sales.
    stock: HashMap<i64, i64>,
}

impl Facts {
    /// Reads what decides about these orders.
    pub(super) async fn read(
        database: &Database,
        conn: &mut PlainConnection,
        profile: &Profile,
        orders: &[Order],
    ) -> Result<Self> {
        let mut facts = Self::default();
        if orders.is_empty() {
            return Ok(facts);
        }
        let names = database.names(profile);
        let Profile { tables, order, sale, .. } = &names;
        // Bound, so that the statements of single orders are prepared once.
        let all = |of: fn(&Order) -> i64| orders.iter().map(of).collect::<Vec<_>>();
        let (ids, users) = (all(|it| it.id.as_i64()), all(|it| it.user.0 as i64));
        let (vouchers, count) = (all(|it| it.voucher.0 as i64), orders.len());
        let first = places(1, count);
        let columns = [text(&order.id), text(&order.user), text(&order.voucher)].join(", ");
        let by_id =
            format!("SELECT {columns} FROM {} WHERE {} IN ({first})", tables.order, order.id);
        for row in database.in_time(conn.texts::<3>(&by_id, &ids)).await? {
            let (id, user, voucher) = order_row(profile, &row)?;
            facts.rows.insert(id, (user, voucher));
        }
        let by_user = format!(
            "SELECT {columns}, {} FROM {} WHERE {} IN ({first}) AND {} IN ({})",
            text(&is_live(&names)),
            tables.order,
            order.voucher,
            order.user,
            places(count + 1, count),
        );
        let both = [&vouchers[..], &users].concat();
        for [id, user, voucher, is_live] in
            database.in_time(conn.texts::<4>(&by_user, &both)).await?
        {
            let (id, user, voucher) = order_row(profile, &[id, user, voucher])?;
            if number(&profile.order.status, is_live.as_deref())? == 1 {
                facts.live.insert((user, voucher), id);
            } else {
                let newest = facts.closed.entry((user, voucher)).or_insert(id);
                *newest = id.max(*newest);
            }
        }
        let stocks = format!(
            "SELECT {}, {} FROM {} WHERE {} IN ({first})",
            text(&sale.voucher),
            text(&sale.stock),
            tables.sale,
            sale.voucher,
        );
        for [voucher, stock] in database.in_time(conn.texts::<2>(&stocks, &vouchers)).await? {
            let voucher = number(&profile.sale.voucher, voucher.as_deref())?;
            facts.stock.insert(voucher, number(&profile.sale.stock, stock.as_deref())?);
        }
        Ok(facts)
    }

    /// Whether SQL has this order.
    pub(super) fn has(&self, order: &Order) -> bool {
        let row = self.rows.get(&order.id.as_i64());
        row == Some(&(order.user.0 as i64, order.voucher.0 as i64))
    }

    /// The verdict on a stuck entry.
    pub(super) fn judge(&self, asked: &Asked) -> (Verdict, Option<OrderError>) {
        let is_written = asked.as_ref().is_ok_and(|order| self.has(order));
        let fault = match asked {
            Err(fault) => Some(fault.clone()),
            Ok(_) if is_written => None,
            Ok(order) => self.fault(order),
        };
        let evidence = Evidence {
            is_written,
            fault: fault.clone(),
            sale_lost: false,
            holder_alive: false,
            idle_ms: 0,
            deliveries: 0,
        };
        // A valid entry is replayed however often it was delivered: it is not executed by a node that could crash.
        let limits = Limits { claim_idle_ms: 0, max_deliveries: u64::MAX };
        (judge(&evidence, limits), fault)
    }

    fn fault(&self, order: &Order) -> Option<OrderError> {
        let Order { id, user, voucher } = *order;
        if self.rows.contains_key(&id.as_i64()) {
            return Some(OrderError::IdTaken(id));
        }
        if let Some(holds) = self.live.get(&(user.0 as i64, voucher.0 as i64)) {
            let holds = OrderId::from_i64(*holds).unwrap_or(id);
            return Some(OrderError::Holds { user, holds, voucher });
        }
        // The service counts IDs up: a later one that it has closed is the end of what this entry began.
        if let Some(closed) = self.closed.get(&(user.0 as i64, voucher.0 as i64))
            && *closed > id.as_i64()
        {
            let closed = OrderId::from_i64(*closed).unwrap_or(id);
            return Some(OrderError::Closed { user, closed });
        }
        match self.stock.get(&(voucher.0 as i64)) {
            None => Some(OrderError::NoSale(voucher)),
            Some(stock) if *stock <= 0 => Some(OrderError::OutOfStock(voucher)),
            Some(_) => None,
        }
    }

    /// Continues with the facts of the next page, after the orders that the plan writes.
    pub(super) fn after(&mut self, planned: &Planned) {
        for ((user, voucher), id) in &planned.orders {
            self.live.entry((*user, *voucher)).or_insert(*id);
            self.rows.entry(*id).or_insert((*user, *voucher));
        }
        for (voucher, count) in &planned.pieces {
            if let Some(stock) = self.stock.get_mut(voucher) {
                *stock -= count;
            }
        }
    }

    /// Takes a planned order into account.
    pub(super) fn plan(&mut self, order: &Order, planned: &mut Planned) {
        let (id, user, voucher) = (order.id.as_i64(), order.user.0 as i64, order.voucher.0 as i64);
        self.live.insert((user, voucher), id);
        self.rows.insert(id, (user, voucher));
        if let Some(stock) = self.stock.get_mut(&voucher) {
            *stock -= 1;
        }
        planned.orders.insert((user, voucher), id);
        *planned.pieces.entry(voucher).or_default() += 1;
    }
}

/// Places of values for IN, from this number on.
fn places(from: usize, count: usize) -> String {
    (from..from + count).map(|at| format!("${at}")).collect::<Vec<_>>().join(", ")
}

/// The orders that entries in flight will become.
#[derive(Debug, Default)]
pub(super) struct Planned {
    orders: HashMap<(i64, i64), i64>,
    pieces: HashMap<i64, i64>,
}

fn order_row(profile: &Profile, row: &[Option<String>; 3]) -> Result<(i64, i64, i64)> {
    let [id, user, voucher] = row;
    let names = &profile.order;
    Ok((
        number(&names.id, id.as_deref())?,
        number(&names.user, user.as_deref())?,
        number(&names.voucher, voucher.as_deref())?,
    ))
}

/// Rejects a table of orders with a column that must have a value, and that is not `filled`; and tables without
/// transactions, in which a tried or refused order would stay.
pub(crate) async fn check_tables(
    database: &Database,
    profile: &Profile,
    filled: &[&str],
) -> Result<()> {
    if let Some((table, engine)) = database.without_transactions(profile).await? {
        let found = reason!("attach-storage-engine", table = table.as_str(), engine);
        let refused = reason!("attach-storage-engine-refused", found, table);
        return Err(AttachError::Mismatch(refused));
    }
    let table = profile.tables.order.as_str();
    let (schema, name) = table.rsplit_once('.').unwrap_or(("", table));
    let of_schema = |current: &str| match schema {
        "" => current.to_owned(),
        schema => format!("table_schema = '{schema}'"),
    };
    let information = format!(
        "SELECT {} FROM information_schema.columns WHERE is_nullable = 'NO' AND column_default IS NULL",
        text("column_name")
    );
    let sql = match database.name() {
        // The primary key of a table is its row ID, which SQLite fills; the profile names it anyway.
        "sqlite" => format!(
            "SELECT name FROM pragma_table_info('{name}') WHERE \"notnull\" = 1 AND dflt_value IS NULL"
        ),
        "postgres" | "postgresql" => format!(
            "{information} AND table_name = '{name}' AND {} AND is_identity = 'NO'",
            of_schema("table_schema = ANY(current_schemas(false))")
        ),
        _ => format!(
            "{information} AND table_name = '{name}' AND {} AND extra NOT LIKE '%auto_increment%'",
            of_schema("table_schema = DATABASE()")
        ),
    };
    let mut missing = Vec::new();
    for [column] in database.texts::<1>(&sql, &[]).await? {
        // PostgreSQL pads it.
        let column = column.unwrap_or_default().trim().to_owned();
        if !filled.iter().any(|it| it.eq_ignore_ascii_case(&column)) {
            missing.push(column);
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let columns = missing.join(", ");
    Err(AttachError::Mismatch(reason!("attach-recover-columns", table, columns)))
}

/// Whether the database did not process a statement, so that the error says nothing about it. The connection may be in the
/// middle of it: another one has to replace it.
pub(super) fn is_outage(error: &AttachError) -> bool {
    matches!(error, AttachError::Store(error) if error.is_outage())
}

/// Tries to write an order and rolls it back, so that a database that takes no writes is found before an entry is taken.
/// Returns whether it may be written.
pub(super) async fn try_write(
    database: &Database,
    conn: &mut PlainConnection,
    profile: &Profile,
    order: Order,
) -> Result<bool> {
    database.in_time(conn.command("BEGIN")).await?;
    let tried = match attempt(database, conn, profile, order).await {
        Err(error) if is_outage(&error) => return Err(error),
        tried => tried,
    };
    let ended = database.in_time(conn.command("ROLLBACK")).await;
    let tried = tried?;
    ended?;
    Ok(tried.is_some_and(|(verdict, _)| verdict == Verdict::Stuck))
}

/// Whether an order may be committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Confirmed {
    Yes,
    /// The lock of its user is lost: a consumer may be writing another order of this user.
    LockLost,
    /// Its sale moves or has moved to an engine.
    Moved,
    /// The service has given the piece back.
    NotPromised,
}

/// What came of the transaction of an order.
#[derive(Debug)]
pub(super) enum Placed {
    /// Written if `Stuck`; otherwise rolled back, with what SQL has.
    Judged(Verdict, Option<OrderError>),
    /// Rolled back, because it was not confirmed.
    NotConfirmed(Confirmed),
}

/// Writes the order of an entry in one transaction with the stock, unless SQL does not allow it, or it is not `confirmed`:
/// the last step before the commit.
///
/// # Errors
/// The database has rejected or not processed a statement: nothing is written, except if the outcome of the commit is
/// unknown.
pub(super) async fn place(
    database: &Database,
    conn: &mut PlainConnection,
    profile: &Profile,
    order: Order,
    confirmed: impl Future<Output = Result<Confirmed>>,
) -> Result<Placed> {
    database.in_time(conn.command("BEGIN")).await?;
    let judged = match attempt(database, conn, profile, order).await {
        Err(error) if is_outage(&error) => return Err(error),
        judged => judged,
    };
    let confirmed = match &judged {
        Ok(Some((Verdict::Stuck, _))) => Some(confirmed.await),
        _ => None,
    };
    let end = if let Some(Ok(Confirmed::Yes)) = confirmed { "COMMIT" } else { "ROLLBACK" };
    let ended = database.in_time(conn.command(end)).await;
    let judged = judged?;
    if let Some(other) = confirmed.transpose()?.filter(|it| *it != Confirmed::Yes) {
        ended?;
        return Ok(Placed::NotConfirmed(other));
    }
    ended.map_err(|error| match end {
        "COMMIT" => StoreError::Unknown(error.reason()),
        _ => error,
    })?;
    if let Some((verdict, fault)) = judged {
        return Ok(Placed::Judged(verdict, fault));
    }
    // Another writer has inserted it meanwhile; what it has committed is visible after the transaction.
    Ok(match Facts::read(database, conn, profile, &[order]).await?.judge(&Ok(order)) {
        // Another unique key than that of the order ID, for example of an order that is closed.
        (Verdict::Stuck, _) => {
            let why = reason!("attach-recover-unique").to_string();
            Placed::Judged(Verdict::Refused, Some(OrderError::Rejected(why)))
        }
        (verdict, fault) => Placed::Judged(verdict, fault),
    })
}

/// Those of these users who have a live order in this sale.
pub(super) async fn live_users(
    database: &Database,
    conn: &mut PlainConnection,
    profile: &Profile,
    voucher: VoucherId,
    users: &[String],
) -> Result<HashSet<String>> {
    let names = database.names(profile);
    let Profile { tables, order, .. } = &names;
    let ids: Vec<i64> = users.iter().filter_map(|it| it.parse().ok()).collect();
    if ids.is_empty() {
        return Ok(HashSet::new());
    }
    let sql = format!(
        "SELECT {} FROM {} WHERE {} = $1 AND {} IN ({}) AND {} = 1",
        text(&order.user),
        tables.order,
        order.voucher,
        order.user,
        places(2, ids.len()),
        is_live(&names),
    );
    let values = [&[voucher.0 as i64], &ids[..]].concat();
    let rows = database.in_time(conn.texts::<1>(&sql, &values)).await?;
    Ok(rows.into_iter().flatten().flatten().map(|it| it.trim().to_owned()).collect())
}

/// The statements of the transaction; the verdict is `Stuck` if it may commit, and `None` if a unique key rejects the
/// order. It fails with whatever the database says.
async fn attempt(
    database: &Database,
    conn: &mut PlainConnection,
    profile: &Profile,
    order: Order,
) -> Result<Option<(Verdict, Option<OrderError>)>> {
    let Profile { tables, order: names, sale, .. } = &database.names(profile);
    let Order { id, user, voucher } = order;
    let [id, user, voucher] = [id.as_i64(), user.0 as i64, voucher.0 as i64];
    // First of all: the lock of this row is the one that every writer of the sale takes, so that what is read after it
    // stays true.
    let take = format!(
        "UPDATE {} SET {} = {} - 1 WHERE {} = $1 AND {} > 0",
        tables.sale, sale.stock, sale.stock, sale.voucher, sale.stock
    );
    let taken = database.in_time(conn.execute(take, &[voucher])).await?;
    let mut facts = Facts::read(database, conn, profile, &[order]).await?;
    // A piece that came back since cannot be this order's: no statement has taken it.
    if let Some(stock) = facts.stock.get_mut(&voucher) {
        *stock = taken as i64;
    }
    let judged = facts.judge(&Ok(order));
    if judged.0 != Verdict::Stuck {
        return Ok(Some(judged));
    }
    let insert = format!(
        "INSERT INTO {} ({}, {}, {}) VALUES ($1, $2, $3)",
        tables.order, names.id, names.user, names.voucher
    );
    if database.in_time(conn.insert(insert, &[id, user, voucher])).await? != 1 {
        return Ok(None);
    }
    if matches!(database.name(), "postgres" | "postgresql") {
        // What would fail at the commit, which is tried as well.
        database.in_time(conn.command("SET CONSTRAINTS ALL IMMEDIATE")).await?;
    }
    Ok(Some(judged))
}

/// The reply of the script that takes an entry.
#[derive(Debug, PartialEq)]
pub(super) enum Taken {
    /// It is no longer pending.
    Gone,
    /// Its consumer has received it again.
    Held,
    /// Done; the fields if it was claimed.
    Done(Vec<(Text, Text)>),
    /// It has no body.
    BodyGone,
    /// The lock of its user is held.
    Locked,
    /// Its sale moves or has moved to an engine.
    Moved,
    /// The service has given the piece back.
    NotPromised,
}

/// The reply as it arrives; `None` if more entries were added than the script reads.
#[derive(Debug)]
pub(super) struct TakeReply(pub(super) Option<Taken>);

impl FromRedisValue for TakeReply {
    fn from_redis_value(value: redis::Value) -> Result<Self, redis::ParsingError> {
        let parts: Vec<redis::Value> = redis::from_redis_value(value)?;
        let mut parts = parts.into_iter();
        let state: u8 = parts.next().map_or(Ok(0), redis::from_redis_value)?;
        Ok(Self(Some(match state {
            0 => Taken::Gone,
            1 => Taken::Held,
            2 => Taken::Done(parts.next().map_or(Ok(Vec::new()), redis::from_redis_value)?),
            4 => Taken::Locked,
            5 => Taken::Moved,
            6 => Taken::NotPromised,
            7 => return Ok(Self(None)),
            _ => Taken::BodyGone,
        })))
    }
}
