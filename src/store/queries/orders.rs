//! Orders of sales: a batch of new orders is one statement; otherwise conflicting rows are read first.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::atomic::{AtomicBool, Ordering},
};

use seckill_model::{
    Millis, Order, OrderCounts, OrderEntry, OrderFilter, OrderId, SaleOrder, ShardId, UserId,
    VoucherId, ledger::SqlLedger,
};

use crate::{
    Accepts, Conn, Dialect, Fault, OrderRow, Result, Store, StoreError, Value, Written,
    batch::{self, ExistingRows, ShardKey},
    connection::FromRow,
    params, read,
    rules::voucher_key,
    transaction,
};

const ORDER_COLUMNS: &str =
    "id, user_id, voucher_id, buyer_place AS place, status, create_time, pay_time, close_time";
/// Orders of ordinary vouchers have no place.
const ORDINARY_COLUMNS: &str =
    "id, user_id, voucher_id, NULL AS place, status, create_time, pay_time, close_time";

/// Other sales of which an order is tried before the database counts as accepting none.
const OTHER_SALES: u32 = 100;
/// Tries in a row that the database did not process, after which it counts as accepting none.
const OUTAGES: u32 = 2;

/// Why an order that was inserted for a trial was rejected.
enum TryFault {
    /// By a unique key.
    Duplicate(StoreError),
    Other(StoreError),
}

impl Store {
    /// Writes a batch of orders in one transaction: the stock of each shard is updated before its rows are inserted,
    /// except in a mixed batch on SQLite. The results are in the order of `entries`. Fails as a whole: then nothing was
    /// written.
    pub async fn write_orders(&self, entries: &[OrderEntry], now: Millis) -> Result<Vec<Written>> {
        if entries.is_empty() {
            return Ok(Vec::new());
        }
        let (rows, database) = (&batch::rows(entries)?, self.database()?);
        let (page, mixed) = (database.page(), &database.mixed);
        if !mixed.load(Ordering::Relaxed) && self.write_new(rows, now).await? {
            return Ok(vec![Written::New; rows.len()]);
        }
        let written = transaction!(self, |conn| match conn {
            Conn::Sqlite(_) => write_mixed_alone(conn, rows, now).await,
            _ => write_mixed(conn, rows, now, page).await,
        })?;
        mixed.store(written.iter().any(|one| *one != Written::New), Ordering::Relaxed);
        Ok(written)
    }

    /// Writes a batch of new orders; `false` if some exist or the stock is insufficient, and then nothing was written.
    ///
    /// The stock, and with it the row of the sale or shard, is updated before the orders are inserted: two batches that
    /// first took a shared lock on it, as a foreign key does, would deadlock.
    async fn write_new(&self, rows: &[OrderRow], now: Millis) -> Result<bool> {
        let database = self.database()?;
        let sessions = database.writer()?;
        let attempt = move |commit_sent| async move {
            let mut lease = sessions.begin(commit_sent).await?;
            let conn = lease.conn();
            let done = match take_stock(conn, rows, now).await {
                Ok(short) if short.is_empty() => insert(conn, rows, now, database.page()).await,
                taken => taken.map(|_| false),
            };
            if matches!(done, Ok(false)) {
                lease.roll_back().await?;
                return Ok(false);
            }
            database.commit(lease, done).await
        };
        self.inject(true, Box::pin(sessions.write(attempt))).await
    }

    /// Finds out which orders the database accepts, after it rejected `like`: with a row of the same sale and another
    /// buyer, which is rolled back. If that is rejected too, with rows of other sales, until one is accepted.
    ///
    /// # Errors
    /// The database accepts no order, for this reason.
    pub async fn accepts(&self, like: &OrderEntry, now: Millis) -> Result<Accepts> {
        // Its own values do not fit in a row, which is not the fault of the database.
        let Ok(like) = OrderRow::try_from(like) else { return Ok(Accepts::Sale) };
        let refused = match self.try_buyers(like, now).await {
            Ok(()) => return Ok(Accepts::Sale),
            Err(error) => error,
        };
        let mut outages = 0;
        for (voucher_id, shards) in self.other_sales(like.voucher_id).await.unwrap_or_default() {
            // They count from 1.
            let shard = i64::from(shards.is_some());
            match self.try_buyers(OrderRow { voucher_id, shard, ..like }, now).await {
                Ok(()) => return Ok(Accepts::OtherSales(refused)),
                Err(error) if error.is_outage() => outages += 1,
                Err(_) => outages = 0,
            }
            if outages == OUTAGES {
                break;
            }
        }
        self.database()?.sessions.note_failing(&refused);
        Err(refused)
    }

    /// The other sales, newest first, and the number of shards of those that are spread.
    async fn other_sales(&self, voucher_id: i64) -> Result<Vec<(i64, Option<i64>)>> {
        read!(self, |conn| {
            let query = format!(
                "SELECT voucher_id, shards FROM tb_seckill_voucher \
                 WHERE voucher_id <> $1 AND archive_time IS NULL \
                 ORDER BY voucher_id DESC LIMIT {OTHER_SALES}"
            );
            conn.rows(query, params![voucher_id]).await
        })
    }

    /// Inserts an order like this one for a buyer who has none, and rolls back.
    async fn try_buyers(&self, like: OrderRow, now: Millis) -> Result<()> {
        let mut tried = Ok(());
        for user_id in batch::other_buyers(like.user_id) {
            let row = OrderRow { id: batch::unused_id(like.id), user_id, ..like };
            tried = self.try_order(row, now).await;
            // This buyer has an order, by an index of this program or of another one.
            if !matches!(tried, Err(TryFault::Duplicate(_))) {
                break;
            }
        }
        tried.map_err(|(TryFault::Duplicate(error) | TryFault::Other(error))| error)
    }

    /// Inserts one order, and rolls back.
    async fn try_order(&self, row: OrderRow, now: Millis) -> Result<(), TryFault> {
        let duplicate = &AtomicBool::new(false);
        let database = self.database().map_err(TryFault::Other)?;
        let sessions = database.writer().map_err(TryFault::Other)?;
        let attempt = move |commit_sent| async move {
            let mut lease = sessions.begin(commit_sent).await?;
            let conn = lease.conn();
            let done: Result<(), Fault> = async {
                take_stock(conn, &[row], now).await?;
                insert_strictly(conn, &row, now).await?;
                match conn.dialect().check_now {
                    Some(check) => conn.execute(check, params![]).await.map(drop),
                    None => Ok(()),
                }
            }
            .await;
            if let Err(fault) = done {
                duplicate.store(Conn::is_duplicate(&fault), Ordering::Relaxed);
                return lease.end(Err(fault)).await;
            }
            lease.roll_back().await
        };
        let done = self.inject(false, Box::pin(sessions.read(attempt))).await;
        let is_duplicate = duplicate.load(Ordering::Relaxed);
        done.map_err(if is_duplicate { TryFault::Duplicate } else { TryFault::Other })
    }

    /// Predicts the result of [`Store::write_orders`] for each entry alone, without writing; any number of entries.
    /// Takes no lock, so that no writer waits for it.
    pub async fn foresee(&self, entries: &[OrderEntry]) -> Result<Vec<Written>> {
        let mut answers = Vec::with_capacity(entries.len());
        for part in entries.chunks(self.database()?.page()) {
            let rows = &batch::rows(part)?;
            answers.extend(read!(self, |conn| {
                let shards = select_shards(conn, batch::shards(rows), "").await?;
                Ok(read_existing(conn, rows, rows.len(), shards).await?.foresee(rows))
            })?);
        }
        Ok(answers)
    }

    /// One order, of a sale or of an ordinary voucher.
    pub async fn order(&self, id: OrderId) -> Result<Option<Order>> {
        read!(self, |conn| {
            for (columns, table) in
                [(ORDER_COLUMNS, "tb_voucher_order"), (ORDINARY_COLUMNS, "tb_ordinary_order")]
            {
                let query = format!("SELECT {columns} FROM {table} WHERE id = $1");
                let order = conn.row(query, params![id]).await?;
                if order.is_some() {
                    return Ok(order);
                }
            }
            Ok(None)
        })
    }

    /// The existing ones among these orders of sales, live or closed, in any order; any number of IDs.
    pub async fn orders_among(&self, ids: &[OrderId]) -> Result<Vec<Order>> {
        let query = format!("SELECT {ORDER_COLUMNS} FROM tb_voucher_order WHERE id = ANY($1)");
        self.among(ids, &query).await
    }

    /// Which of these orders exist, live or closed; any number of IDs.
    pub async fn existing(&self, ids: &[OrderId]) -> Result<Vec<OrderId>> {
        self.among(ids, "SELECT id FROM tb_voucher_order WHERE id = ANY($1)").await
    }

    /// Which of these orders are closed or cancelled and already returned in Redis; any number of IDs.
    pub async fn closed_among(&self, ids: &[OrderId]) -> Result<Vec<OrderId>> {
        // `+status` prevents SQLite from using the index of closed orders.
        const CLOSED: &str = "SELECT id FROM tb_voucher_order o \
            WHERE id = ANY($1) AND +status IN (4, 5) AND NOT EXISTS (\
                SELECT 1 FROM tb_give_back g WHERE g.order_id = o.id AND g.given IS NULL)";
        self.among(ids, CLOSED).await
    }

    async fn among<R: FromRow>(&self, ids: &[OrderId], query: &str) -> Result<Vec<R>> {
        let mut found = Vec::new();
        for part in ids.chunks(self.database()?.page()) {
            let rows: Result<Vec<R>, _> =
                read!(self, |conn| conn.rows(query.to_owned(), params![part]).await);
            found.extend(rows?);
        }
        Ok(found)
    }

    /// A page of orders of sales and of ordinary vouchers, newest first: those before `before` that match the filter.
    /// Merged from several parts, each read along one index from the last ID; the shards of a voucher are such parts.
    pub async fn orders(
        &self,
        filter: &OrderFilter,
        before: Option<OrderId>,
        limit: u32,
    ) -> Result<Vec<Order>> {
        read!(self, |conn| {
            // The index of the orders of a voucher begins with the shard; that of its user needs none.
            let mut shards: Vec<Option<i64>> = vec![None];
            if let (Some(voucher), None) = (filter.is.voucher, filter.is.user) {
                let query = "SELECT shard FROM tb_shard_stock WHERE voucher_id = $1";
                let found: Vec<i64> = conn.rows(query, params![voucher]).await?;
                shards = found.into_iter().chain([0]).map(Some).collect();
            }
            let mut page: Vec<Order> = Vec::new();
            for (at, shard) in shards.iter().enumerate() {
                for Part { mut query, has_shards } in order_parts(conn, filter) {
                    let mut values = Vec::new();
                    for (condition, value) in conditions(filter, before) {
                        if let Some(value) = value {
                            values.push(value);
                            query += &format!(" AND {condition} ${}", values.len());
                        }
                    }
                    match shard {
                        Some(shard) if has_shards => {
                            values.push((*shard).into());
                            query += &format!(" AND shard = ${}", values.len());
                        }
                        // Orders without a shard are read once.
                        _ if at > 0 => continue,
                        _ => {}
                    }
                    values.push(limit.into());
                    query += &format!(" ORDER BY id DESC LIMIT ${}", values.len());
                    page.extend(conn.rows::<Order>(query, &values).await?);
                }
            }
            page.sort_unstable_by_key(|order| Reverse(order.id));
            page.truncate(limit as usize);
            Ok(page)
        })
    }

    /// Live orders of a shard after `after`, by ID, at most `limit`.
    pub async fn live_orders(
        &self,
        shard: ShardId,
        after: Option<OrderId>,
        limit: u32,
    ) -> Result<Vec<SaleOrder>> {
        read!(self, |conn| {
            let dialect = conn.dialect();
            let query = format!(
                "SELECT id, user_id, voucher_id, shard, buyer_place AS place \
                 FROM tb_voucher_order {} WHERE voucher_id = $1 AND shard = $2 AND {} AND id > $3 \
                 ORDER BY id LIMIT $4",
                (dialect.index)("idx_live_order"),
                dialect.live
            );
            let (voucher, number) = (shard.voucher(), i64::from(shard.number));
            let after = after.map_or(-1, OrderId::as_i64);
            conn.rows(query, params![voucher, number, after, limit]).await
        })
    }

    /// Tries the writes of an order without changing a row: a user may lack the right, or the server be read-only.
    ///
    /// # Errors
    /// Why one of them fails.
    pub async fn try_writes(&self) -> Result<()> {
        transaction!(self, |conn| {
            let columns = format!("{}, create_time, update_time", batch::names());
            let insert = format!(
                "INSERT INTO tb_voucher_order ({columns}) \
                 SELECT {columns} FROM tb_voucher_order WHERE 1 = 0"
            );
            conn.execute(insert, params![]).await?;
            for write in [
                "UPDATE tb_voucher_order SET status = status WHERE 1 = 0",
                "UPDATE tb_seckill_voucher SET stock = stock WHERE 1 = 0",
                "UPDATE tb_shard_stock SET stock = stock WHERE 1 = 0",
            ] {
                conn.execute(write, params![]).await?;
            }
            Ok(())
        })
    }

    /// The ledger of one shard, counted in one statement for a consistent view. Buyers with more than one order in the same
    /// place are those of the whole sale, and counted with its first shard.
    pub async fn ledger(&self, shard: ShardId) -> Result<SqlLedger> {
        read!(self, |conn| {
            let Dialect { live, closed, .. } = conn.dialect();
            // It never changes.
            let limit = "SELECT user_limit FROM tb_seckill_voucher WHERE voucher_id = $1";
            let voucher = shard.voucher();
            let limit: Option<i64> = conn.row(limit, params![voucher]).await?;
            let too_many = match limit.ok_or(StoreError::NoSale(voucher))? {
                1 => "COUNT(*) > 1".to_owned(),
                limit => format!("COUNT(*) > {limit} OR COUNT(*) > COUNT(DISTINCT buyer_place)"),
            };
            // Each figure uses an index. Duplicate orders are possible only if the unique index is missing, which this
            // must detect.
            let doubled = if shard.number > 1 {
                "(SELECT COUNT(*) FROM tb_voucher_order WHERE FALSE)".to_owned()
            } else {
                format!(
                    "(SELECT COUNT(*) FROM (SELECT 1 FROM tb_voucher_order \
                     WHERE voucher_id = $1 AND {live} \
                     GROUP BY user_id HAVING {too_many}) too_many)"
                )
            };
            let query = format!(
                "SELECT COALESCE(p.initial_stock, s.initial_stock) AS initial, \
                 COALESCE(p.stock, s.stock) AS stock, \
                 (SELECT COUNT(*) FROM tb_voucher_order \
                  WHERE voucher_id = $1 AND shard = $2 AND {live}) AS live, \
                 (SELECT COUNT(*) FROM tb_voucher_order \
                  WHERE voucher_id = $1 AND shard = $2 AND {closed}) AS closed, \
                 {doubled} AS doubled, \
                 (SELECT COUNT(*) FROM tb_give_back \
                  WHERE given IS NULL AND voucher_id = $1 AND shard = $2) AS \"returning\" \
                 FROM tb_seckill_voucher s \
                 LEFT JOIN tb_shard_stock p ON p.voucher_id = s.voucher_id \
                 WHERE s.voucher_id = $1 AND COALESCE(p.shard, 0) = $2",
            );
            let ledger = conn.row(query, params![voucher, i64::from(shard.number)]).await?;
            Ok(ledger.ok_or(StoreError::NoSale(voucher))?)
        })
    }

    /// The number of orders of one sale by status. Reads every order of the sale.
    pub async fn order_counts(&self, voucher: VoucherId) -> Result<OrderCounts> {
        read!(self, |conn| {
            let Dialect { live, closed, .. } = conn.dialect();
            let query = format!(
                "SELECT status, COUNT(*) FROM tb_voucher_order \
                 WHERE voucher_id = $1 AND {live} GROUP BY status \
                 UNION ALL SELECT status, COUNT(*) FROM tb_voucher_order \
                 WHERE voucher_id = $1 AND {closed} GROUP BY status"
            );
            Ok(conn.rows(query, params![voucher]).await?.into_iter().collect())
        })
    }

    /// Buyers with more than one order of a sale, in any status, each with the number: the most first, and at most
    /// `limit`. Reads every order of the sale.
    pub async fn repeat_buyers(
        &self,
        voucher: VoucherId,
        limit: u32,
    ) -> Result<Vec<(UserId, u64)>> {
        read!(self, |conn| {
            let Dialect { live, closed, .. } = conn.dialect();
            let query = format!(
                "SELECT user_id, COUNT(*) AS orders FROM (\
                 SELECT user_id FROM tb_voucher_order WHERE voucher_id = $1 AND {live} \
                 UNION ALL \
                 SELECT user_id FROM tb_voucher_order WHERE voucher_id = $1 AND {closed}\
                 ) AS parts \
                 GROUP BY user_id HAVING COUNT(*) > 1 ORDER BY orders DESC, user_id LIMIT $2"
            );
            conn.rows(query, params![voucher, limit]).await
        })
    }
}

/// Writes the new orders of a batch and returns the rows that conflict with the others, inside the caller's
/// transaction, which must be rolled back on an error.
async fn write_mixed(
    conn: &mut Conn,
    rows: &[OrderRow],
    now: Millis,
    page: usize,
) -> Result<Vec<Written>, Fault> {
    // Concurrent writers of these shards wait here, so the rows read below stay valid.
    let shards = lock_shards(conn, batch::shards(rows)).await?;
    let mut existing = read_existing(conn, rows, page, shards).await?;
    let new = existing.take_in(rows);
    if let Some(voucher) = take_stock(conn, &new, now).await?.first() {
        return Err(StoreError::OutOfStock(VoucherId(*voucher as u64)).into());
    }
    if insert(conn, &new, now, page).await? {
        return Ok(existing.answers(rows, new)?);
    }
    // An order of another sale has taken an ID meanwhile, or a unique index of another program rejects a row.
    Err(reject_skipped(conn, &new, now).await?.into())
}

/// Why an INSERT has skipped rows that have no known conflict. Of a single row, the database says it itself.
async fn reject_skipped(
    conn: &mut Conn,
    rows: &[OrderRow],
    now: Millis,
) -> Result<StoreError, Fault> {
    if let [only] = rows {
        insert_strictly(conn, only, now).await?;
    }
    // Its transaction is rolled back, so that the next attempt reads what changed meanwhile.
    rows.first().map(batch::unwritten).ok_or(Fault::Again)
}

/// As [`write_mixed`], in SQLite, where a transaction has exclusive access. Only rejected rows are read back: returning
/// the inserted rows, or reading each buyer's order first, would halve the speed of a batch with one bad entry.
async fn write_mixed_alone(
    conn: &mut Conn,
    rows: &[OrderRow],
    now: Millis,
) -> Result<Vec<Written>, Fault> {
    let shards = lock_shards(conn, batch::shards(rows)).await?;
    let known = by_id(conn, rows).await?;
    let taken: HashSet<i64> = known.iter().map(|row| row.id).collect();
    let possible: Vec<OrderRow> = rows
        .iter()
        .filter(|row| shards.contains(&row.sold_by()) && !taken.contains(&row.id))
        .copied()
        .collect();
    // One statement inserts all that it can. These IDs were unused, so each row that matches its entry is new.
    let new: HashSet<OrderRow> = if insert(conn, &possible, now, rows.len()).await? {
        possible.iter().copied().collect()
    } else {
        let refused = refused(conn, &possible).await?;
        possible.iter().filter(|row| !refused.contains(row)).copied().collect()
    };
    let inserted: Vec<OrderRow> = new.iter().copied().collect();
    if let Some(voucher) = take_stock(conn, &inserted, now).await?.first() {
        return Err(StoreError::OutOfStock(VoucherId(*voucher as u64)).into());
    }
    if inserted.is_empty()
        && possible == rows
        && rows.len() == 1
        && live_at(conn, rows).await?.is_empty()
    {
        return Err(reject_skipped(conn, rows, now).await?.into());
    }
    let rest: Vec<OrderRow> = rows.iter().filter(|row| !new.contains(row)).copied().collect();
    let existing = known.into_iter().chain(new);
    let live = live_at(conn, &rest).await?;
    Ok(ExistingRows::new(shards, existing, live).answers(rows, inserted)?)
}

/// The orders of a batch without a row. They are few, and each row read costs as much as a lookup.
async fn refused(conn: &mut Conn, rows: &[OrderRow]) -> Result<HashSet<OrderRow>, Fault> {
    let (columns, batch) = (batch::names(), (conn.dialect().batch)(1));
    let query = format!(
        "SELECT {columns} FROM {batch} WHERE NOT EXISTS (\
         SELECT 1 FROM tb_voucher_order o WHERE o.id = batch.id \
         AND o.user_id = batch.user_id AND o.voucher_id = batch.voucher_id \
         AND o.buyer_place = batch.buyer_place)"
    );
    let refused: Vec<OrderRow> = conn.rows(query, params![rows]).await?;
    Ok(refused.into_iter().collect())
}

/// A shard as stored in SQL.
pub(super) fn shard_key(shard: ShardId) -> Result<ShardKey> {
    Ok((voucher_key(shard.voucher())?, shard.number.into()))
}

/// Locks shards, and returns the existing ones. The order is the same everywhere: sales that are not spread, then shards,
/// each by ID.
pub(super) async fn lock_shards(
    conn: &mut Conn,
    shards: BTreeSet<ShardKey>,
) -> Result<BTreeSet<ShardKey>, Fault> {
    let lock = conn.dialect().lock;
    select_shards(conn, shards, lock).await
}

async fn select_shards(
    conn: &mut Conn,
    shards: BTreeSet<ShardKey>,
    lock: &str,
) -> Result<BTreeSet<ShardKey>, Fault> {
    let (whole, parts): (Vec<ShardKey>, Vec<ShardKey>) =
        shards.into_iter().partition(|(_, shard)| *shard == 0);
    let mut found = BTreeSet::new();
    if !whole.is_empty() {
        let query = format!(
            "SELECT voucher_id FROM tb_seckill_voucher \
             WHERE voucher_id = ANY($1) AND shards IS NULL ORDER BY voucher_id {lock}"
        );
        let whole: Vec<i64> = whole.into_iter().map(|(voucher, _)| voucher).collect();
        let sales: Vec<i64> = conn.rows(query, params![whole]).await?;
        found.extend(sales.into_iter().map(|voucher| (voucher, 0)));
    }
    // A row each: the others of a sale are written by other consumers.
    for (voucher, shard) in parts {
        let query =
            format!("SELECT shard FROM tb_shard_stock WHERE voucher_id = $1 AND shard = $2 {lock}");
        let is_there: Option<i64> = conn.row(query, params![voucher, shard]).await?;
        found.extend(is_there.map(|_| (voucher, shard)));
    }
    Ok(found)
}

/// Takes a piece for each row, and returns the vouchers of shards with insufficient stock.
async fn take_stock(conn: &mut Conn, rows: &[OrderRow], now: Millis) -> Result<Vec<i64>, Fault> {
    let mut short = Vec::new();
    for (shard, pieces) in in_order(batch::pieces(rows)) {
        // The stock of a sale that is spread is NULL.
        if !change_stock(conn, shard, -pieces, now).await? {
            short.push(shard.0);
        }
    }
    Ok(short)
}

/// Shards in the order in which they are locked.
pub(super) fn in_order<T>(of_shards: BTreeMap<ShardKey, T>) -> impl Iterator<Item = (ShardKey, T)> {
    let (whole, parts): (Vec<_>, Vec<_>) =
        of_shards.into_iter().partition(|((_, shard), _)| *shard == 0);
    whole.into_iter().chain(parts)
}

/// Adds pieces to the stock of a shard, or takes them if the number is negative; `false` if there are too few.
pub(super) async fn change_stock(
    conn: &mut Conn,
    (voucher, shard): ShardKey,
    by: i64,
    now: Millis,
) -> Result<bool, Fault> {
    let changed = if shard == 0 {
        let update = "UPDATE tb_seckill_voucher SET stock = stock + $2, update_time = $3 \
             WHERE voucher_id = $1 AND stock + $2 >= 0";
        conn.execute(update, params![voucher, by, now]).await?
    } else {
        let update = "UPDATE tb_shard_stock SET stock = stock + $2, update_time = $3 \
             WHERE voucher_id = $1 AND shard = $4 AND stock + $2 >= 0";
        conn.execute(update, params![voucher, by, now, shard]).await?
    };
    Ok(changed == 1)
}

/// Inserts orders; returns whether all were inserted.
pub(super) async fn insert(
    conn: &mut Conn,
    rows: &[OrderRow],
    now: Millis,
    page: usize,
) -> Result<bool, Fault> {
    let (columns, batch) = (batch::names(), (conn.dialect().batch)(2));
    for part in rows.chunks(page) {
        let statement = format!(
            "INSERT INTO tb_voucher_order ({columns}, create_time, update_time) \
             SELECT {columns}, $1, $1 FROM {batch} WHERE TRUE"
        );
        let inserted = conn.insert(statement, params![now, part]).await?;
        if inserted != part.len() as u64 {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Inserts one order; unlike [`insert`], a unique key that rejects it is an error.
async fn insert_strictly(conn: &mut Conn, row: &OrderRow, now: Millis) -> Result<(), Fault> {
    let (columns, batch) = (batch::names(), (conn.dialect().batch)(2));
    let statement = format!(
        "INSERT INTO tb_voucher_order ({columns}, create_time, update_time) \
         SELECT {columns}, $1, $1 FROM {batch} WHERE TRUE"
    );
    let row = std::slice::from_ref(row);
    conn.execute(statement, params![now, row]).await.map(drop)
}

async fn read_existing(
    conn: &mut Conn,
    rows: &[OrderRow],
    page: usize,
    shards: BTreeSet<ShardKey>,
) -> Result<ExistingRows, Fault> {
    let (mut orders, mut live) = (Vec::new(), Vec::new());
    for part in rows.chunks(page) {
        orders.extend(by_id(conn, part).await?);
        live.extend(live_at(conn, part).await?);
    }
    Ok(ExistingRows::new(shards, orders, live))
}

/// The rows with the IDs of a batch.
async fn by_id(conn: &mut Conn, rows: &[OrderRow]) -> Result<Vec<OrderRow>, Fault> {
    let query = format!("SELECT {} FROM tb_voucher_order WHERE id = ANY($1)", batch::names());
    conn.rows(query, params![batch::ids(rows)]).await
}

/// The live rows at the places of a batch.
async fn live_at(conn: &mut Conn, rows: &[OrderRow]) -> Result<Vec<OrderRow>, Fault> {
    let Dialect { join, live, .. } = conn.dialect();
    let columns = batch::columns(|_, name, _| format!("o.{name}"));
    let batch = (conn.dialect().batch)(1);
    let query = format!(
        "SELECT {columns} FROM {batch} {join} tb_voucher_order o \
         ON o.voucher_id = batch.voucher_id AND o.user_id = batch.user_id \
         AND o.buyer_place = batch.buyer_place \
         WHERE {live}"
    );
    conn.rows(query, params![rows]).await
}

/// A query of [`Store::orders`], without its conditions.
struct Part {
    query: String,
    /// Its orders have a shard.
    has_shards: bool,
}

fn order_parts(conn: &Conn, filter: &OrderFilter) -> Vec<Part> {
    let dialect = conn.dialect();
    let (of_user, of_voucher) = (filter.is.user.is_some(), filter.is.voucher.is_some());
    let index = match (of_user, of_voucher) {
        (true, _) => (dialect.index)("idx_ordinary_user"),
        (false, true) => (dialect.index)("idx_ordinary_voucher"),
        (false, false) => dialect.primary.to_owned(),
    };
    let query = format!("SELECT {ORDINARY_COLUMNS} FROM tb_ordinary_order {index} WHERE TRUE");
    let mut parts = vec![Part { query, has_shards: false }];
    for part in (dialect.order_pages)(dialect, of_user, of_voucher) {
        let query = format!("SELECT {ORDER_COLUMNS} FROM tb_voucher_order {part}");
        parts.push(Part { query, has_shards: true });
    }
    parts
}

/// The conditions of a filter: column and operator, and the value, if it is set.
fn conditions(
    filter: &OrderFilter,
    before: Option<OrderId>,
) -> [(&'static str, Option<Value<'static>>); 8] {
    let OrderFilter { is, not, .. } = filter;
    [
        ("user_id =", is.user.map(Value::from)),
        ("voucher_id =", is.voucher.map(Value::from)),
        ("status =", is.status.map(Value::from)),
        ("user_id <>", not.user.map(Value::from)),
        ("voucher_id <>", not.voucher.map(Value::from)),
        ("status <>", not.status.map(Value::from)),
        ("id >=", Some(Value::from(filter.from.map_or(0, OrderId::as_i64)))),
        ("id <", [before, filter.to].into_iter().flatten().min().map(Value::from)),
    ]
}
