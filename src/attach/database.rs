//! The tables of the service, read along their primary keys. Values are read as text: their types differ from database to
//! database, and text has none.

use std::{
    collections::{HashMap, HashSet},
    mem,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use jiff::Timestamp;
use seckill_model::{Millis, Phase, Reason, VoucherId, reason};
use seckill_store::{
    Settings, StoreError,
    plain::{PlainConnection, PlainPool, SessionSettings},
};

use crate::{AttachError, Profile, Result};

/// Sales of one pass: those with the highest voucher IDs.
pub(crate) const SALES: usize = 100;
/// What the names of the channels between the members of a group of MySQL begin with.
const GROUP: &str = "group_replication_";
/// Orders of one statement.
const PAGE: usize = 5_000;
/// Timeout of one statement, with its connection.
const STATEMENT: Duration = Duration::from_secs(10);

/// The database of the service.
#[derive(Debug)]
pub(crate) struct Database {
    pool: PlainPool,
    name: String,
    rows: AtomicU64,
}

/// A row of the sales.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SaleRow {
    pub(crate) voucher: VoucherId,
    pub(crate) title: String,
    pub(crate) stock: i64,
    pub(crate) initial: Option<i64>,
    pub(crate) begin: Option<Millis>,
    pub(crate) end: Option<Millis>,
}

impl SaleRow {
    /// The phase by the dates; `None` if one is unreadable.
    pub(crate) fn phase(&self, now: Millis) -> Option<Phase> {
        self.begin.zip(self.end).map(|(begin, end)| match now {
            now if now < begin => Phase::Planned,
            now if now < end => Phase::Running,
            _ => Phase::Ended,
        })
    }
}

/// An order of one sale.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OrderOf {
    pub(crate) id: i64,
    pub(crate) user: String,
    pub(crate) status: Option<i64>,
    /// `None` without such a column, as the following.
    pub(crate) created: Option<Millis>,
    pub(crate) paid: Option<Millis>,
    pub(crate) pay_type: Option<i8>,
}

/// The newest orders.
#[derive(Debug, Default)]
pub(crate) struct Orders {
    /// Of each sale, the users with an order, and how many of these are live.
    pub(crate) of: HashMap<VoucherId, HashMap<String, u64>>,
    /// Orders of each sale, closed ones included.
    pub(crate) count: HashMap<VoucherId, u64>,
    /// The IDs of all orders that were read.
    pub(crate) ids: HashSet<i64>,
    /// Orders of each sale that are closed as not paid and have a time of payment: their number, and one of them.
    pub(crate) paid_closed: HashMap<VoucherId, (u64, i64)>,
    /// There are no older orders.
    pub(crate) complete: bool,
}

impl Database {
    /// Names a database, to read it. Does not connect.
    pub(crate) fn open(url: &str, settings: &Settings, profile: &Profile) -> Result<Self> {
        Self::with(url, PlainPool::read_only(url, settings, &session(profile)?)?)
    }

    /// Names a database, to write orders. Does not connect.
    pub(crate) fn writable(url: &str, settings: &Settings, profile: &Profile) -> Result<Self> {
        Self::with(url, PlainPool::existing(url, settings, &session(profile)?)?)
    }

    fn with(url: &str, pool: PlainPool) -> Result<Self> {
        // The scheme: a URL may contain a password.
        let name = url.split(':').next().unwrap_or_default().to_owned();
        // SQLite does not name the file that it cannot open.
        if let Some(path) = seckill_store::file_of(url).filter(|it| !it.exists()) {
            let missing = reason!("attach-no-file", path = path.as_path());
            return Err(StoreError::File(missing).into());
        }
        Ok(Self { pool, name, rows: AtomicU64::new(0) })
    }

    /// Takes a connection within the time limit.
    pub(crate) async fn connection(&self) -> Result<PlainConnection> {
        self.in_time(self.pool.probe()).await?;
        Ok(self.in_time(self.pool.connection()).await?)
    }

    /// Rows read so far.
    pub(crate) fn rows_read(&self) -> u64 {
        self.rows.load(Relaxed)
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// A name, with its schema if it has one, as an identifier; an empty one stays empty. The profile admits no sign that
    /// ends a quotation.
    pub(crate) fn quoted(&self, name: &str) -> String {
        // SQLite takes an unknown name in double quotes for a string.
        let quote = if self.name.starts_with("postgres") { '"' } else { '`' };
        let parts = name.split('.').filter(|it| !it.is_empty());
        parts.map(|it| format!("{quote}{it}{quote}")).collect::<Vec<_>>().join(".")
    }

    /// The profile with names as identifiers, to build statements.
    pub(crate) fn names(&self, profile: &Profile) -> Profile {
        profile.quoted(|name| self.quoted(name))
    }

    /// Selects texts within the time limit.
    pub(crate) async fn texts<const N: usize>(
        &self,
        sql: &str,
        values: &[i64],
    ) -> Result<Vec<[Option<String>; N]>> {
        self.texts_on(&mut self.connection().await?, sql, values).await
    }

    async fn texts_on<const N: usize>(
        &self,
        conn: &mut PlainConnection,
        sql: &str,
        values: &[i64],
    ) -> Result<Vec<[Option<String>; N]>> {
        let rows = self.in_time(conn.texts(sql, values)).await?;
        self.rows.fetch_add(rows.len() as u64, Relaxed);
        Ok(rows)
    }

    /// The newest sales and the newest orders, at most `most` of them, all of one moment.
    pub(crate) async fn snapshot(
        &self,
        profile: &Profile,
        most: usize,
    ) -> Result<(Vec<SaleRow>, Orders)> {
        let mut conn = self.connection().await?;
        // A read within a transaction sees what the first one has seen.
        let begin: &[&str] = match self.name.as_str() {
            "sqlite" => &["BEGIN"],
            "postgres" | "postgresql" => &["BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"],
            _ => &[
                "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
                "START TRANSACTION WITH CONSISTENT SNAPSHOT",
            ],
        };
        for command in begin {
            self.in_time(conn.command(command)).await?;
        }
        let sales = self.select_sales(&mut conn, profile, "", &[]).await;
        let orders = self.orders_on(&mut conn, profile, most).await;
        let ended = self.in_time(conn.command("ROLLBACK")).await;
        // What failed first says more.
        let read = (sales?, orders?);
        ended?;
        Ok(read)
    }

    /// Runs a statement within the time limit.
    pub(crate) async fn in_time<T>(
        &self,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let millis = STATEMENT.as_millis() as u64;
        let silent = |_| StoreError::Silent { name: self.name.clone(), millis };
        tokio::time::timeout(STATEMENT, work).await.unwrap_or_else(|late| Err(silent(late)))
    }

    /// Whether a table, or an expression of its columns, exists.
    pub(crate) async fn has(&self, expression: &str, table: &str) -> Result<bool> {
        let sql = format!("SELECT {expression} FROM {} WHERE 1 = 0", self.quoted(table));
        match self.texts::<1>(&sql, &[]).await {
            Ok(_) => Ok(true),
            Err(AttachError::Mismatch(_)) => Ok(false),
            Err(other) => Err(other),
        }
    }

    /// Whether this server receives the changes of another one, and may lag behind, whatever it takes itself; `None` if
    /// its user may not know.
    pub(crate) async fn is_replica(&self) -> Result<Option<bool>> {
        match self.name() {
            "sqlite" => return Ok(Some(false)),
            "postgres" | "postgresql" => {
                let sql = format!("SELECT {}", text("pg_is_in_recovery()"));
                let rows = self.texts::<1>(&sql, &[]).await?;
                let value = rows.into_iter().flatten().next().flatten().unwrap_or_default();
                return Ok(Some(value.starts_with('t')));
            }
            _ => {}
        }
        // MariaDB, MySQL, and MySQL before 8.0.22.
        for show in ["SHOW ALL SLAVES STATUS", "SHOW REPLICA STATUS", "SHOW SLAVE STATUS"] {
            let mut conn = self.connection().await?;
            match self.in_time(conn.channels(show)).await {
                // The members of a group receive each other's changes.
                Ok(all) => return Ok(Some(all.iter().any(|it| !it.starts_with(GROUP)))),
                Err(silent @ StoreError::Silent { .. }) => return Err(silent.into()),
                // Of another kind of server, or without the right to know.
                Err(_) => {}
            }
        }
        Ok(None)
    }

    /// A table of sales or orders that a rollback does not undo, because its storage engine has no transactions, and that
    /// engine.
    pub(crate) async fn without_transactions(
        &self,
        profile: &Profile,
    ) -> Result<Option<(String, String)>> {
        if matches!(self.name(), "sqlite" | "postgres" | "postgresql") {
            return Ok(None);
        }
        for table in [&profile.tables.sale, &profile.tables.order] {
            let (schema, name) = match table.rsplit_once('.') {
                Some((schema, name)) => (format!("'{schema}'"), name),
                None => ("DATABASE()".to_owned(), table.as_str()),
            };
            // A view has no engine.
            let sql = format!(
                "SELECT {} FROM information_schema.tables t JOIN information_schema.engines e \
                 ON e.engine = t.engine WHERE t.table_schema = {schema} AND t.table_name = '{name}' \
                 AND (e.transactions IS NULL OR e.transactions <> 'YES')",
                text("t.engine")
            );
            if let Some([engine]) = self.texts::<1>(&sql, &[]).await?.into_iter().next() {
                return Ok(Some((table.clone(), engine.unwrap_or_default())));
            }
        }
        Ok(None)
    }

    /// Why this database must not decide about a sale: it is a replica, which may lag behind, or takes no writes.
    pub(crate) async fn not_primary(&self) -> Result<Option<Reason>> {
        let setting = match self.name() {
            "sqlite" => return Ok(None),
            "postgres" | "postgresql" => "pg_is_in_recovery()",
            _ => "@@global.read_only",
        };
        let rows = self.texts::<1>(&format!("SELECT {}", text(setting)), &[]).await?;
        let value = rows.into_iter().flatten().next().flatten().unwrap_or_default();
        let takes_writes =
            matches!(value.to_ascii_lowercase().as_str(), "0" | "off" | "f" | "false");
        if !takes_writes {
            return Ok(Some(reason!("attach-move-read-only", setting, value)));
        }
        Ok(self.is_replica().await?.unwrap_or(false).then(|| reason!("attach-move-replica")))
    }

    /// Whether an engine has its tables here.
    pub(crate) async fn has_engine(&self) -> Result<bool> {
        self.has("NULL", "_sqlx_migrations").await
    }

    /// Removes the optional columns from a profile that the table of orders does not have; returns their names.
    pub(crate) async fn omit_missing(&self, profile: &mut Profile) -> Result<Vec<String>> {
        let mut missing = Vec::new();
        let (order, table) = (&mut profile.order, &profile.tables.order);
        for column in [&mut order.created, &mut order.paid, &mut order.pay_type] {
            if !column.is_empty() && !self.has(&text(&self.quoted(column)), table).await? {
                missing.push(mem::take(column));
            }
        }
        Ok(missing)
    }

    /// The newest sales.
    pub(crate) async fn sales(&self, profile: &Profile) -> Result<Vec<SaleRow>> {
        self.select_sales(&mut self.connection().await?, profile, "", &[]).await
    }

    /// Those of these sales that have a row.
    pub(crate) async fn known_sales(
        &self,
        profile: &Profile,
        asked: &[VoucherId],
    ) -> Result<HashSet<VoucherId>> {
        let names = self.names(profile);
        let (table, voucher) = (&names.tables.sale, &names.sale.voucher);
        let ids = list(&asked.iter().map(|it| it.0 as i64).collect::<Vec<_>>());
        let sql = format!("SELECT {} FROM {table} WHERE {voucher} IN ({ids})", text(voucher));
        let rows = self.texts::<1>(&sql, &[]).await?;
        let column = &profile.sale.voucher;
        rows.into_iter().flatten().map(|id| voucher_id(column, id.as_deref())).collect()
    }

    /// One sale.
    pub(crate) async fn sale(
        &self,
        profile: &Profile,
        voucher: VoucherId,
    ) -> Result<Option<SaleRow>> {
        let condition = format!(" WHERE s.{} = $1", self.quoted(&profile.sale.voucher));
        let conn = &mut self.connection().await?;
        Ok(self.select_sales(conn, profile, &condition, &[voucher.0 as i64]).await?.pop())
    }

    async fn select_sales(
        &self,
        conn: &mut PlainConnection,
        profile: &Profile,
        condition: &str,
        values: &[i64],
    ) -> Result<Vec<SaleRow>> {
        let Profile { tables, voucher, sale, .. } = &self.names(profile);
        // A sale without a voucher is shown, too.
        let columns = [
            text(&format!("s.{}", sale.voucher)),
            text(&format!("s.{}", sale.stock)),
            text(&format!("s.{}", sale.begin)),
            text(&format!("s.{}", sale.end)),
            text(&format!("v.{}", voucher.title)),
            if sale.initial.is_empty() {
                "NULL".to_owned()
            } else {
                text(&format!("s.{}", sale.initial))
            },
        ];
        let sql = format!(
            "SELECT {} FROM {} s LEFT JOIN {} v ON v.{} = s.{}{condition} ORDER BY s.{} DESC \
             LIMIT {SALES}",
            columns.join(", "),
            tables.sale,
            tables.voucher,
            voucher.id,
            sale.voucher,
            sale.voucher,
        );
        let rows = self.texts_on::<6>(conn, &sql, values).await?;
        rows.into_iter().map(|row| sale_row(profile, row)).collect()
    }

    /// Every order of a sale, closed ones included.
    pub(crate) async fn orders_of(
        &self,
        profile: &Profile,
        voucher: VoucherId,
    ) -> Result<Vec<OrderOf>> {
        let Profile { tables, order, .. } = &self.names(profile);
        let (id, table) = (&order.id, &tables.order);
        let columns =
            [id, &order.user, &order.status, &order.created, &order.paid, &order.pay_type];
        let columns = columns.map(|it| or_null(it)).join(", ");
        let sql = format!(
            "SELECT {columns} FROM {table} WHERE {} = $1 AND {id} <= $2 ORDER BY {id} DESC LIMIT {PAGE}",
            order.voucher
        );
        let every =
            format!("SELECT {} FROM {table} WHERE {} = $1", text("COUNT(*)"), order.voucher);
        let rows = self.texts::<1>(&every, &[voucher.0 as i64]).await?;
        let count = number("COUNT(*)", rows.into_iter().flatten().next().flatten().as_deref())?;
        let (mut found, mut below) = (Vec::new(), i64::MAX);
        loop {
            let rows = self.texts::<6>(&sql, &[voucher.0 as i64, below]).await?;
            let is_last = rows.len() < PAGE;
            for [id, user, status, created, paid, pay_type] in rows {
                let id = number(&profile.order.id, id.as_deref())?;
                let status =
                    status.map(|it| number(&profile.order.status, Some(&it))).transpose()?;
                found.push(OrderOf {
                    id,
                    user: user.unwrap_or_default().trim().to_owned(),
                    status,
                    created: created.and_then(|it| profile.time(&it)),
                    paid: paid.and_then(|it| profile.time(&it)),
                    pay_type: pay_type.and_then(|it| it.trim().parse().ok()),
                });
                below = id.saturating_sub(1);
            }
            if is_last {
                break;
            }
        }
        // An unsigned ID beyond 63 bits is not below any number that can be bound. Orders may be added meanwhile.
        if (found.len() as i64) < count {
            let table = &profile.tables.order;
            return Err(AttachError::Mismatch(reason!("attach-move-unread-orders", table)));
        }
        Ok(found)
    }

    /// The newest orders, at most `most` of them.
    pub(crate) async fn orders(&self, profile: &Profile, most: usize) -> Result<Orders> {
        self.orders_on(&mut self.connection().await?, profile, most).await
    }

    async fn orders_on(
        &self,
        conn: &mut PlainConnection,
        profile: &Profile,
        most: usize,
    ) -> Result<Orders> {
        let Profile { tables, order, .. } = &self.names(profile);
        let columns = [&order.id, &order.voucher, &order.user, &order.status, &order.paid]
            .map(|it| or_null(it));
        let mut orders = Orders::default();
        let (mut read, mut below) = (0, i64::MAX);
        while read < most {
            let page = PAGE.min(most - read);
            let sql = format!(
                "SELECT {} FROM {} WHERE {} < $1 ORDER BY {} DESC LIMIT {page}",
                columns.join(", "),
                tables.order,
                order.id,
                order.id,
            );
            let rows = self.texts_on::<5>(conn, &sql, &[below]).await?;
            orders.complete = rows.len() < page;
            read += rows.len();
            for [id, voucher, user, status, paid] in rows {
                below = number(&profile.order.id, id.as_deref())?;
                orders.ids.insert(below);
                let voucher = voucher_id(&profile.order.voucher, voucher.as_deref())?;
                let status = status.and_then(|it| it.trim().parse::<i64>().ok());
                let is_closed = status.is_some_and(|it| order.closed.contains(&it));
                // MySQL has a date of zeros.
                if is_closed
                    && status == order.closed.first().copied()
                    && paid.and_then(|it| profile.time(&it)).is_some()
                {
                    let found = orders.paid_closed.entry(voucher).or_insert((0, below));
                    found.0 += 1;
                }
                let user = user.unwrap_or_default().trim().to_owned();
                let live = orders.of.entry(voucher).or_default().entry(user).or_default();
                *live += u64::from(!is_closed);
                *orders.count.entry(voucher).or_default() += 1;
            }
            if orders.complete {
                break;
            }
        }
        Ok(orders)
    }
}

fn session(profile: &Profile) -> Result<SessionSettings> {
    let zone = profile.zone().ok_or(AttachError::Invalid(reason!("attach-time-zone")))?;
    Ok(SessionSettings {
        time_zone: profile.time_zone.clone(),
        offset_seconds: zone.to_offset(Timestamp::now()).seconds(),
        statement: STATEMENT,
    })
}

/// 1 for a live order and 0 for a closed one, with the names of a quoted profile.
pub(crate) fn is_live(profile: &Profile) -> String {
    let order = &profile.order;
    if order.status.is_empty() || order.closed.is_empty() {
        return "1".to_owned();
    }
    // A status that is NULL closes no order.
    format!("CASE WHEN {} IN ({}) THEN 0 ELSE 1 END", order.status, list(&order.closed))
}

/// Numbers for IN.
pub(crate) fn list(numbers: &[i64]) -> String {
    numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn sale_row(profile: &Profile, row: [Option<String>; 6]) -> Result<SaleRow> {
    let [voucher, stock, begin, end, title, initial] = row;
    let time = |at: Option<String>| profile.time(&at?);
    Ok(SaleRow {
        voucher: voucher_id(&profile.sale.voucher, voucher.as_deref())?,
        title: title.unwrap_or_default().trim().to_owned(),
        stock: number(&profile.sale.stock, stock.as_deref())?,
        initial: initial.and_then(|it| it.trim().parse().ok()),
        begin: time(begin),
        end: time(end),
    })
}

/// A column as text in every database. PostgreSQL would pad it.
pub(crate) fn text(column: &str) -> String {
    format!("TRIM(CAST({column} AS CHAR(100)))")
}

/// The same; NULL for a column that the profile does not have.
fn or_null(column: &str) -> String {
    if column.is_empty() { "NULL".to_owned() } else { text(column) }
}

pub(crate) fn number(column: &str, value: Option<&str>) -> Result<i64> {
    let value = value.unwrap_or("NULL").trim();
    value.parse().map_err(|_| AttachError::Mismatch(reason!("attach-not-a-number", column, value)))
}

fn voucher_id(column: &str, value: Option<&str>) -> Result<VoucherId> {
    number(column, value).map(|id| VoucherId(id as u64))
}
