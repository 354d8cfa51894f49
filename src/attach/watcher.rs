//! Passes over a service. A pass reads a bounded number of keys, entries and rows, and remembers what the next one
//! compares.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    time::{Duration, Instant},
};

use redis::cmd;
use seckill_model::{
    ForeignKey, Millis, Phase, Reason, VoucherId, order_id::EPOCH_SECONDS, reason,
};
use seckill_redis::{Connection, Redis, keys::attach_dead};
use seckill_store::Settings;
use serde::Serialize;

use crate::{
    Alarm, ConsumerReport, Cost, LockReport, Locks, Poison, Profile, Report, Result, SaleReport,
    StreamReport,
    alarms::Since,
    buyers::{self, SaleKeys},
    check_single,
    database::{Database, Orders, SALES, SaleRow},
    locks::{self, KeyScan},
    marks::{MOVING, RETURNING, mark_of},
    stream::{self, InFlight, Waiting, added_at, entry_order},
};

/// Interval of the two passes that one report needs.
pub(crate) const SETTLE: Duration = Duration::from_secs(1);
/// The pause after a pass is this many times as long as the pass. Reading takes at most 2 % of the time, and as a pass
/// reads one thing at a time, at most 2 % of a core of each server.
const REST: u32 = 49;
/// Acknowledged entries from which on a stream must have been trimmed.
const UNTRIMMED: u64 = 100_000;
/// Consumers from which on silent ones pile up.
const PILE: usize = 6;
/// A consumer with nothing pending is dead if it has been silent for this many times the stuck time longer than another.
const DEAD: u64 = 10;
/// Age of entries that are compared with the dates of their sale, which may be changed for its next run.
const RECENT_MS: u64 = 600_000;
/// Difference of two clocks that is no fault.
const SKEW_MS: i64 = 60_000;
/// Zones differ by a multiple of this, and by at most 14 hours.
const ZONE_STEP_MS: i64 = 900_000;
const ZONE_STEPS: i64 = 56;
/// The part of an order ID that counts the orders of a day, and a count that no day reaches.
const COUNTER: i64 = 0xffff_ffff;
const MOST_OF_DAY: i64 = 1 << 24;

/// What one pass reads at most, and when something has lasted too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Limits {
    /// Orders, the newest ones, in pages of 5,000.
    pub orders: usize,
    /// Buyers of all sales, in pages of [`PAGE`](crate::PAGE).
    pub buyers: usize,
    /// Entries never delivered, and the same number of pending ones, in pages of [`PAGE`](crate::PAGE).
    pub in_flight: usize,
    /// SCAN calls for locks, each examining [`PAGE`](crate::PAGE) keys.
    pub scans: usize,
    /// Milliseconds after which an entry, a lock, or an order without a stream is stuck.
    pub stuck_ms: u64,
    /// Deliveries after which an entry is poison.
    pub deliveries: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            orders: 100_000,
            buyers: 100_000,
            in_flight: 10_000,
            scans: 250,
            stuck_ms: 60_000,
            deliveries: 5,
        }
    }
}

/// Reads a service pass by pass.
#[derive(Debug)]
pub struct Watcher {
    profile: Profile,
    limits: Limits,
    conn: Connection,
    database: Database,
    locks: KeyScan,
    stock_keys: KeyScan,
    last: Option<Counts>,
    /// Shortest pause before the next pass.
    rest: Duration,
    without_order: Since<(VoucherId, String)>,
    only_closed: Since<(VoucherId, String)>,
    without_buyer: Since<(VoucherId, String)>,
    stocks: Since<(VoucherId, i64, i64, u64)>,
    pieces: Since<(VoucherId, [i64; 4])>,
    without_sale: Since<String>,
    other_ids: Since<String>,
    counter: Since<String>,
    not_loaded: Since<VoucherId>,
    moved_loaded: Since<VoucherId>,
    between: Since<(VoucherId, String)>,
    poison: Since<String>,
    redelivered: Since<String>,
    no_lease: Since<String>,
    holders: Since<(String, String)>,
    /// What the last two passes have in common.
    pub(crate) lasting: Lasting,
    /// Buyers with neither an order nor an entry, as the last pass alone has seen them.
    pub(crate) lacking: Vec<(VoucherId, String)>,
}

/// Differences between Redis and SQL that the last two passes have seen.
#[derive(Debug, Default)]
pub(crate) struct Lasting {
    /// Buyers with neither an order nor an entry.
    pub(crate) without_order: Vec<(VoucherId, String)>,
    /// Buyers without an entry whose only orders are closed.
    pub(crate) only_closed: Vec<(VoucherId, String)>,
    /// Users with a live order who are no buyers.
    pub(crate) without_buyer: Vec<(VoucherId, String)>,
    /// Entries that may be the order of one of them.
    pub(crate) unreadable: u64,
}

/// What the next pass computes rates from.
#[derive(Debug)]
struct Counts {
    at: Millis,
    added: Option<u64>,
    sales: HashMap<VoucherId, (Option<u64>, Option<u64>)>,
}

/// What is compared of one sale.
#[derive(Default)]
struct Compared {
    without_order: Vec<String>,
    only_closed: Vec<String>,
    without_buyer: Vec<String>,
}

impl Watcher {
    /// Reads the service of this profile in `redis` and in the database at this URL. Does not connect.
    pub fn new(
        profile: Profile,
        limits: Limits,
        redis: &Redis,
        database: &str,
        settings: &Settings,
    ) -> Result<Self> {
        check_single(redis)?;
        Ok(Self {
            database: Database::open(database, settings, &profile)?,
            conn: redis.connection(),
            profile,
            limits,
            locks: KeyScan::default(),
            stock_keys: KeyScan::default(),
            last: None,
            rest: Duration::ZERO,
            without_order: Since::default(),
            only_closed: Since::default(),
            without_buyer: Since::default(),
            stocks: Since::default(),
            pieces: Since::default(),
            without_sale: Since::default(),
            other_ids: Since::default(),
            counter: Since::default(),
            not_loaded: Since::default(),
            moved_loaded: Since::default(),
            between: Since::default(),
            poison: Since::default(),
            redelivered: Since::default(),
            no_lease: Since::default(),
            holders: Since::default(),
            lasting: Lasting::default(),
            lacking: Vec::new(),
        })
    }

    /// The report of a second pass, which has rates, and alarms that last: one pass alone cannot tell a difference from an
    /// order on its way.
    pub async fn settled(&mut self) -> Result<Report> {
        self.pass().await?;
        tokio::time::sleep(SETTLE).await;
        self.pass().await
    }

    /// The pause before the next pass: `interval`, or longer after an expensive pass.
    pub fn pause(&self, interval: Duration) -> Duration {
        interval.max(self.rest)
    }

    /// Reads once, and measures the cost.
    pub async fn pass(&mut self) -> Result<Report> {
        let begun = Instant::now();
        let (commands, rows) = (self.conn.commands_sent(), self.database.rows_read());
        let outcome = self.read().await;
        let took = begun.elapsed();
        // A pass that failed has mostly waited for a timeout, and the server may be back soon.
        self.rest = if outcome.is_ok() { took * REST } else { took };
        let cost = Cost {
            commands: self.conn.commands_sent() - commands,
            rows: self.database.rows_read() - rows,
            took_ms: took.as_millis() as u64,
        };
        outcome.map(|report| Report { cost, ..report })
    }

    /// Reads once, in the direction in which an order moves: a buyer who is read has an entry when entries are read after
    /// that, or an order when orders are read last.
    async fn read(&mut self) -> Result<Report> {
        if self.last.is_none() {
            self.database.omit_missing(&mut self.profile).await?;
        }
        let (conn, profile, limits) = (&mut self.conn, &self.profile, &self.limits);
        let now = conn.now().await?;
        let rows = self.database.sales(profile).await?;
        let vouchers: Vec<VoucherId> = rows.iter().map(|row| row.voucher).collect();
        let keys = buyers::keys(conn, profile, &vouchers).await?;
        let mut members = Vec::new();
        let mut room = limits.buyers;
        for (row, keys) in rows.iter().zip(&keys) {
            let key = profile.buyers(row.voucher);
            let is_running = row.phase(now) == Some(Phase::Running);
            // More than one pass reads: not compared.
            let fits = keys.is_readable(&key, is_running) && keys.buyers <= Some(room as u64);
            let read = if fits { buyers::members(conn, &key, room).await? } else { None };
            room -= read.as_ref().map_or(0, HashSet::len);
            members.push(read);
        }
        let (mut stream, in_flight, foreign) = stream::read(conn, profile, limits, now).await?;
        // Rows and stocks of one moment, so that an order is in both or in none.
        let (latest, orders) = self.database.snapshot(profile, limits.orders).await?;
        let mut latest: HashMap<VoucherId, SaleRow> =
            latest.into_iter().map(|row| (row.voucher, row)).collect();
        let latest = |row: SaleRow| latest.remove(&row.voucher).unwrap_or(row);
        let rows: Vec<SaleRow> = rows.into_iter().map(latest).collect();

        let mut alarms: Vec<Alarm> = foreign.into_iter().map(Alarm::ForeignKey).collect();
        alarms.extend(keys.iter().flat_map(|it| it.foreign.clone()).map(Alarm::ForeignKey));
        let mut unread_letters = None;
        if profile.has_stream() {
            let stream = attach_dead(&profile.stream.key);
            let count: u64 = match conn.query(cmd("XLEN").arg(&stream)).await {
                // A user for the keys of the service alone; another may have recovered it.
                Err(error) if error.code() == Some("NOPERM") => {
                    unread_letters = Some(reason!("attach-dead-letters-unread", stream = &stream));
                    0
                }
                read => read?,
            };
            alarms.extend((count > 0).then_some(Alarm::DeadLetters { stream, count }));
        }
        let last = self.last.take();
        alarms.extend(outside_dates(&rows, &in_flight, now));
        alarms.extend(id_alarm(profile, &in_flight.newest, &orders, now));
        alarms.extend(orders.paid_closed.iter().map(|(voucher, (count, order))| {
            let (voucher, orders, order) = (*voucher, *count, order.to_string());
            Alarm::PaidOrderClosed { voucher, orders, order }
        }));
        let differing = other_ids(&in_flight.newest, &orders);
        let lasting = self.other_ids.lasting(now, 0, differing.iter().map(|it| it.entry.clone()));
        let mut of_sale: BTreeMap<VoucherId, Vec<&Waiting>> = BTreeMap::new();
        for entry in differing.into_iter().filter(|it| lasting.contains(&it.entry)) {
            of_sale.entry(entry.voucher).or_default().push(entry);
        }
        alarms.extend(of_sale.into_iter().filter_map(|(voucher, found)| {
            let (users, first) = (found.len() as u64, *found.first()?);
            let (user, entry) = (first.user.clone(), first.entry.clone());
            Some(Alarm::OrderIdsDiffer { voucher, users, user, entry })
        }));
        let marks = vouchers.iter().map(|it| mark_of(profile, *it));
        let traces: Vec<(VoucherId, String)> = [MOVING, RETURNING]
            .iter()
            .flat_map(|end| vouchers.iter().map(move |it| (*it, profile.stock(*it) + end)))
            .collect();
        let names: Vec<String> = marks.chain(traces.iter().map(|it| it.1.clone())).collect();
        let mut marks = buyers::types(conn, names.iter()).await?;
        let found = traces.into_iter().zip(marks.split_off(vouchers.len()));
        // With its stock, the service has loaded it again.
        let found = found.zip(keys.iter().cycle());
        let found = found.filter(|((_, holds), keys)| holds != "none" && !keys.has_stock);
        let between = self.between.lasting(now, 0, found.map(|((trace, _), _)| trace));
        let between = between.into_iter().map(|(voucher, key)| Alarm::SaleBetween { voucher, key });
        alarms.extend(between);
        let (mut sales, mut compared) = (Vec::new(), Vec::new());
        let is_known = !profile.has_stream() || in_flight.complete;
        for (((row, keys), members), mark) in rows.into_iter().zip(&keys).zip(members).zip(marks) {
            let voucher = row.voucher;
            let differences = match members {
                // The set and the rows of a sale that has moved are its history.
                Some(members) if orders.complete && mark == "none" => {
                    let waiting = in_flight.users.get(&voucher);
                    let found = compare(&members, waiting, orders.of.get(&voucher));
                    let key = profile.buyers(voucher);
                    let without_buyer = buyers::absent(conn, &key, found.without_buyer).await?;
                    Some(Compared { without_buyer, ..found })
                }
                _ => None,
            };
            let waiting = stream.as_ref().and_then(|_| in_flight.of(voucher, &orders));
            let entries = stream.as_ref().and_then(|_| in_flight.count(voucher));
            let mut sale = sale_report(row, keys, &orders, differences.as_ref(), now);
            (sale.in_flight, sale.moved) = (waiting, mark != "none");
            sale.entries_in_flight = if profile.has_stream() { entries } else { Some(0) };
            // An entry that was not read may be that of a buyer.
            sale.buyers_without_order = sale.buyers_without_order.filter(|_| is_known);
            sale.buyers_with_closed_order = sale.buyers_with_closed_order.filter(|_| is_known);
            if let Some(last) = &last {
                sale.add_rates(last, now);
            }
            compared.extend(differences.map(|it| (voucher, it)));
            sales.push(sale);
        }
        if let (Some(stream), Some(last)) = (&mut stream, &last) {
            stream.added_per_second = rate(stream.added, last.added, now.since(last.at));
        }
        self.last = Some(Counts {
            at: now,
            added: stream.as_ref().and_then(|it| it.added),
            sales: sales.iter().map(|it| (it.voucher_id, (it.buyers, it.orders))).collect(),
        });

        let (mut locks, pattern) = (None, profile.locks());
        if let Some(pattern) = pattern {
            let (read, foreign) = self.locks.read(&mut self.conn, &pattern, &self.limits).await?;
            alarms.extend(foreign.into_iter().map(Alarm::ForeignKey));
            self.lock_alarms(now, &read.held, &mut alarms);
            locks = Some(read);
        }
        self.stock_key_alarms(now, &vouchers, &mut alarms).await?;
        self.counter_alarm(now, &mut alarms).await?;
        self.sale_alarms(now, &sales, compared, &in_flight, &mut alarms);
        let has_sold = sales.iter().any(|it| {
            let has_sold = it.buyers > Some(0) || it.orders > Some(0);
            it.phase == Some(Phase::Running) && !it.moved && has_sold
        });
        let mut not_compared =
            self.not_compared(&sales, &orders, stream.is_some(), &in_flight, locks.as_ref());
        not_compared.extend(unread_letters);
        if self.database.is_replica().await? == Some(true) {
            not_compared.insert(0, reason!("attach-replica-read"));
        }
        self.stream_alarms(now, stream.as_ref(), in_flight, has_sold, &mut alarms);
        alarms.sort();
        Ok(Report {
            taken: now,
            redis: self.conn.address().to_owned(),
            database: self.database.name().to_owned(),
            limits: self.limits,
            cost: Cost::default(),
            more_sales: sales.len() == SALES,
            has_stream: self.profile.has_stream(),
            stream,
            sales,
            locks,
            alarms,
            not_compared,
        })
    }

    /// Stock keys without a row of their sale. One that is being loaded has its row after the transaction, which takes
    /// milliseconds.
    async fn stock_key_alarms(
        &mut self,
        now: Millis,
        sales: &[VoucherId],
        alarms: &mut Vec<Alarm>,
    ) -> Result<()> {
        let Some(pattern) = self.profile.stocks() else { return Ok(()) };
        self.stock_keys.advance(&mut self.conn, &pattern, &self.limits).await?;
        let types = buyers::types(&mut self.conn, self.stock_keys.known.iter()).await?;
        let known = std::mem::take(&mut self.stock_keys.known);
        let exist = known.into_iter().zip(types).filter(|(_, holds)| holds == "string");
        self.stock_keys.known = exist.map(|(key, _)| key).collect();
        let of = |key: &String| self.profile.voucher_of(key);
        let asked: Vec<VoucherId> =
            self.stock_keys.known.iter().filter_map(of).filter(|it| !sales.contains(it)).collect();
        let mut without: Vec<&VoucherId> = Vec::new();
        if !asked.is_empty() {
            let known = self.database.known_sales(&self.profile, &asked).await?;
            without.extend(asked.iter().filter(|it| !known.contains(*it)));
        }
        let keys = without.into_iter().map(|it| self.profile.stock(*it));
        let lasting = self.without_sale.lasting(now, 0, keys);
        let count = lasting.len() as u64;
        alarms.extend(lasting.into_iter().min().map(|key| Alarm::StockWithoutSale { count, key }));
        Ok(())
    }

    /// The counter of today. Its TTL may be set after its first increment.
    async fn counter_alarm(&mut self, now: Millis, alarms: &mut Vec<Alarm>) -> Result<()> {
        let Some(key) = self.profile.order_ids(now) else { return Ok(()) };
        let mut read = redis::pipe();
        read.cmd("TYPE").arg(&key).cmd("PTTL").arg(&key);
        let (holds, left): (String, i64) = self.conn.pipe(&read).await?;
        if !["none", "string"].contains(&holds.as_str()) {
            alarms.push(Alarm::ForeignKey(ForeignKey { key, holds }));
            return Ok(());
        }
        let stays = self.counter.lasting(now, 0, (left == -1).then_some(key));
        alarms.extend(stays.into_iter().map(|key| Alarm::CounterStays { key }));
        Ok(())
    }

    /// How long a difference must last: without a stream, orders wait where they cannot be seen.
    fn grace(&self) -> u64 {
        if self.profile.has_stream() { 0 } else { self.limits.stuck_ms }
    }

    fn not_compared(
        &self,
        sales: &[SaleReport],
        orders: &Orders,
        has_stream: bool,
        in_flight: &InFlight,
        locks: Option<&Locks>,
    ) -> Vec<Reason> {
        let (compared, entries) = (self.limits.orders, self.limits.in_flight);
        let mut why = Vec::new();
        if !orders.complete {
            why.push(reason!("attach-more-orders", compared));
        } else if let Some(sale) = sales
            .iter()
            .find(|it| it.buyers > Some(0) && it.orders_without_buyer.is_none() && !it.moved)
        {
            why.push(reason!("attach-more-buyers", voucher = sale.voucher_id, compared));
        }
        if self.profile.has_stream() && !has_stream {
            why.push(reason!("attach-stream-unread"));
        } else if self.profile.has_stream() && !in_flight.complete {
            why.push(reason!("attach-more-entries", entries));
        }
        why.extend(
            sales
                .iter()
                .filter(|it| it.phase.is_none())
                .map(|it| reason!("attach-phase-unknown", voucher = it.voucher_id)),
        );
        if locks.is_some_and(|it| !it.complete) {
            why.push(reason!("attach-more-keys"));
        }
        if locks.is_some_and(|it| it.held.len() >= locks::MOST) {
            why.push(reason!("attach-first-locks", count = locks::MOST));
        }
        why
    }

    fn sale_alarms(
        &mut self,
        now: Millis,
        sales: &[SaleReport],
        compared: Vec<(VoucherId, Compared)>,
        in_flight: &InFlight,
        alarms: &mut Vec<Alarm>,
    ) {
        let grace = self.grace();
        let is_known = !self.profile.has_stream() || in_flight.complete;
        let not_loaded = sales
            .iter()
            // The stock of a sale that has moved must not be loaded.
            .filter(|it| it.phase == Some(Phase::Running) && !it.loaded && !it.moved)
            .map(|it| it.voucher_id);
        let not_loaded = self.not_loaded.lasting(now, 0, not_loaded);
        // A migration writes the mark before it renames the stock. The script of the service does not know the dates.
        let moved_loaded = sales.iter().filter(|it| it.moved && it.loaded).map(|it| it.voucher_id);
        let moved_loaded = self.moved_loaded.lasting(now, 0, moved_loaded);
        // Each is read at another time: they are compared while nothing moves. An unreadable entry may be an order.
        let stocks = sales.iter().filter(|_| is_known).filter_map(|it| {
            let (redis, in_flight) = (it.redis_stock?, it.in_flight.unwrap_or(0));
            Some((it.voucher_id, redis, it.sql_stock, in_flight))
        });
        let stocks = stocks.filter(|(_, redis, sql, moving)| {
            (sql - redis).abs_diff(*moving as i64) > in_flight.unreadable
        });
        let stocks = self.stocks.lasting(now, grace, stocks);
        let pieces = sales.iter().filter(|_| is_known && in_flight.unreadable == 0);
        let pieces = pieces.filter_map(|it| pieces_of(it).map(|pieces| (it.voucher_id, pieces)));
        let pieces = self.pieces.lasting(now, grace, pieces);
        let (mut without_order, mut without_buyer) = (Vec::new(), Vec::new());
        let mut only_closed = Vec::new();
        for (voucher, compared) in compared {
            if is_known {
                without_order.extend(compared.without_order.into_iter().map(|it| (voucher, it)));
                only_closed.extend(compared.only_closed.into_iter().map(|it| (voucher, it)));
            }
            without_buyer.extend(compared.without_buyer.into_iter().map(|it| (voucher, it)));
        }
        // After its end, no user can buy again, and the set may expire.
        without_buyer.retain(|(voucher, _)| {
            sales.iter().any(|it| it.voucher_id == *voucher && it.phase != Some(Phase::Ended))
        });
        self.lacking.clone_from(&without_order);
        let without_order = self.without_order.lasting(now, grace, without_order);
        let only_closed = self.only_closed.lasting(now, grace, only_closed);
        let without_buyer = self.without_buyer.lasting(now, 0, without_buyer);
        let of = |found: &[(VoucherId, String)], voucher| {
            let mut users: Vec<String> =
                found.iter().filter(|it| it.0 == voucher).map(|it| it.1.clone()).collect();
            users.sort_unstable();
            Some((users.len() as u64, users.into_iter().next()?))
        };
        for sale in sales {
            let SaleReport { redis_stock, sql_stock, live_orders, initial, .. } = *sale;
            let voucher = sale.voucher_id;
            let sold_more = |(orders, initial): (u64, i64)| orders > initial.max(0) as u64;
            if sql_stock < 0
                || redis_stock.is_some_and(|it| it < 0)
                || live_orders.zip(initial).is_some_and(sold_more)
            {
                alarms.push(Alarm::Oversold {
                    voucher,
                    redis_stock,
                    sql_stock,
                    live_orders,
                    initial,
                });
            }
            if sale.duplicate_buyers > 0 {
                alarms.push(Alarm::DuplicateOrders { voucher, users: sale.duplicate_buyers });
            }
            // An unreadable entry may be the order of one of them.
            if let Some((users, user)) = of(&without_order, voucher)
                && users > in_flight.unreadable
            {
                alarms.push(Alarm::BuyersWithoutOrder { voucher, users, user });
            }
            // The set of a sale that is over is its history.
            if sale.phase != Some(Phase::Ended)
                && let Some((users, user)) = of(&only_closed, voucher)
                && users > in_flight.unreadable
            {
                alarms.push(Alarm::BuyersWithClosedOrder { voucher, users, user });
            }
            if let Some((users, user)) = of(&without_buyer, voucher) {
                alarms.push(Alarm::OrdersWithoutBuyer { voucher, users, user });
            }
            if let Some((_, redis_stock, sql_stock, in_flight)) =
                stocks.iter().find(|it| it.0 == voucher).copied()
            {
                alarms.push(Alarm::StockMismatch { voucher, redis_stock, sql_stock, in_flight });
            } else if let Some((_, [stock, buyers, sql_stock, live])) =
                pieces.iter().find(|it| it.0 == voucher)
            {
                let in_redis = stock.saturating_add(*buyers);
                let in_sql = sql_stock.saturating_add(*live);
                alarms.push(Alarm::PiecesDiffer { voucher, in_redis, in_sql, initial });
            }
            if not_loaded.contains(&voucher) {
                let key = self.profile.stock(voucher);
                alarms.push(Alarm::SaleNotLoaded { voucher, key });
            }
            if moved_loaded.contains(&voucher) {
                let key = self.profile.stock(voucher);
                alarms.push(Alarm::MovedSaleLoaded { voucher, key });
            }
        }
        let unreadable = in_flight.unreadable;
        self.lasting = Lasting { without_order, only_closed, without_buyer, unreadable };
    }

    fn stream_alarms(
        &mut self,
        now: Millis,
        stream: Option<&StreamReport>,
        in_flight: InFlight,
        has_sold: bool,
        alarms: &mut Vec<Alarm>,
    ) {
        let mut poison: HashMap<String, Poison> = in_flight.poison;
        let mut lasting = self.poison.lasting(now, 0, poison.keys().cloned());
        lasting.sort_by_key(|id| entry_order(id));
        // A consumer repeats an entry quickly while the database is away.
        let (of, repeated) = (&in_flight.redelivered, in_flight.redelivered.keys().cloned());
        let mut repeated = self.redelivered.lasting(now, self.limits.stuck_ms, repeated);
        repeated.sort_by_key(|id| entry_order(id));
        let Some(report) = stream else { return };
        let StreamReport { key, group, has_group, length, lag, pending, added, .. } = report;
        alarms.extend(idle_consumers(&report.consumers, self.limits.stuck_ms * DEAD));
        let waiting = lag.map(|lag| lag + pending);
        let acknowledged = waiting.map_or(0, |waiting| length.saturating_sub(waiting));
        if *has_group && *added == Some(*length) && acknowledged >= UNTRIMMED {
            alarms.push(Alarm::StreamNotTrimmed { stream: key.clone(), acknowledged });
        }
        if !report.exists && has_sold {
            alarms.push(Alarm::NoStream { stream: key.clone() });
        }
        if let Some(entry) = repeated.first()
            && let Some(deliveries) = of.get(entry).copied()
        {
            let (count, entry) = (repeated.len() as u64, entry.clone());
            alarms.push(Alarm::Redelivered { count, entry, deliveries });
        }
        if !has_group && *length > 0 {
            let (stream, group) = (key.clone(), group.clone());
            alarms.push(Alarm::NoGroup { stream, group, length: *length });
        }
        if let Some(entry) = lasting.first().cloned()
            && let Some(why) = poison.remove(&entry)
        {
            alarms.push(Alarm::PoisonEntries { count: lasting.len() as u64, entry, why });
        }
        let mut stuck: Vec<_> = in_flight.stuck.into_iter().collect();
        stuck.sort_unstable();
        let is_read = *pending <= self.limits.in_flight as u64;
        alarms.extend(stuck.into_iter().map(|(consumer, (read, idle_ms))| {
            let holds = report.consumers.iter().find(|it| it.name == consumer).map(|it| it.pending);
            let count = if is_read { read } else { holds.unwrap_or(read) };
            Alarm::StuckPending { consumer, count, idle_ms }
        }));
        // Without a group, the alarm above is the cause.
        if let Some(oldest_ms) = in_flight.oldest_ms.filter(|it| *it >= self.limits.stuck_ms)
            && *has_group
        {
            alarms.push(Alarm::LagHigh { lag: *lag, oldest_ms });
        }
    }

    fn lock_alarms(&mut self, now: Millis, locks: &[LockReport], alarms: &mut Vec<Alarm>) {
        let no_lease = locks.iter().filter(|it| it.left_ms.is_none()).map(|it| it.key.clone());
        let mut no_lease = self.no_lease.lasting(now, 0, no_lease);
        no_lease.sort_unstable();
        let count = no_lease.len() as u64;
        alarms
            .extend(no_lease.into_iter().next().map(|key| Alarm::LockWithoutLease { count, key }));
        let leased = locks.iter().filter(|it| it.left_ms.is_some());
        let holders = leased.map(|it| (it.key.clone(), it.owner.clone()));
        let mut held = self.holders.lasting(now, self.limits.stuck_ms, holders);
        held.sort_unstable();
        let count = held.len() as u64;
        alarms.extend(held.into_iter().next().map(|(key, _)| {
            let left_ms = locks.iter().find(|it| it.key == key).and_then(|it| it.left_ms);
            Alarm::LockNotReleased { count, key, left_ms: left_ms.unwrap_or(0) }
        }));
    }
}

/// Stock and buyers in Redis, stock and live orders in SQL, if a piece went back twice or never. Buyers and orders that
/// differ have alarms of their own, and the set of a sale that is over may expire.
fn pieces_of(sale: &SaleReport) -> Option<[i64; 4]> {
    let no_user_differs = sale.buyers_without_order == Some(0)
        && sale.orders_without_buyer == Some(0)
        && sale.duplicate_buyers == 0;
    if !no_user_differs || sale.moved || matches!(sale.phase, None | Some(Phase::Ended)) {
        return None;
    }
    let (stock, live) = (sale.redis_stock?, sale.live_orders? as i64);
    let buyers = sale.buyers? as i64;
    let in_sql = sale.sql_stock.saturating_add(live);
    let is_oversold = stock < 0 || sale.sql_stock < 0 || sale.initial.is_some_and(|it| live > it);
    let differs =
        stock.saturating_add(buyers) != in_sql || sale.initial.is_some_and(|it| it != in_sql);
    (differs && !is_oversold).then_some([stock, buyers, sale.sql_stock, live])
}

/// Recent entries that were added before their sale began or after it had ended.
fn outside_dates<'a>(
    sales: &'a [SaleRow],
    in_flight: &'a InFlight,
    now: Millis,
) -> impl Iterator<Item = Alarm> + 'a {
    sales.iter().filter_map(move |sale| {
        let (begin, end) = sale.begin.zip(sale.end)?;
        let outside = in_flight.newest.iter().filter(|it| {
            let added = added_at(it);
            it.voucher == sale.voucher
                && now.since(added) <= RECENT_MS
                && (added < begin.plus(-SKEW_MS) || added > end.plus(SKEW_MS))
        });
        let count = outside.clone().count() as u64;
        let entry = outside.map(|it| it.entry.clone()).next()?;
        Some(Alarm::OrdersOutsideDates { voucher: sale.voucher, count, entry })
    })
}

/// Consumers with nothing pending that have been silent for `millis` longer than another: after a sale, all are silent.
fn idle_consumers(consumers: &[ConsumerReport], millis: u64) -> Option<Alarm> {
    let least = consumers.iter().map(|it| it.idle_ms).min()?;
    let is_dead = |it: &&ConsumerReport| it.pending == 0 && it.idle_ms - least >= millis;
    let dead = consumers.iter().filter(is_dead);
    let (count, longest) = (dead.clone().count(), dead.max_by_key(|it| it.idle_ms)?);
    (count >= PILE).then(|| Alarm::IdleConsumers {
        count: count as u64,
        consumer: longest.name.clone(),
        idle_ms: longest.idle_ms,
    })
}

/// The newest entries of users with a live order, under another ID than that of the entry.
fn other_ids<'a>(newest: &'a [Waiting], orders: &Orders) -> Vec<&'a Waiting> {
    let mut users = HashSet::new();
    let mut found: Vec<&Waiting> =
        newest.iter().filter(|it| users.insert((it.voucher, &it.user))).collect();
    found.retain(|it| {
        let live = orders.of.get(&it.voucher).and_then(|users| users.get(&it.user));
        let is_known = it.order.parse().map_or(true, |id| orders.ids.contains(&id));
        orders.complete && live.is_some_and(|live| *live > 0) && !is_known
    });
    found
}

/// The time in an order ID of the form that the tutorials use.
fn time_in(id: i64) -> Millis {
    Millis(((id >> 32) + EPOCH_SECONDS) * 1_000)
}

/// Order IDs from local time: those of all entries, or one from the future. More than a zone ahead, the clock or the epoch
/// of the service is wrong, unless IDs have another form: then not all of them end in a count of orders.
fn id_alarm(profile: &Profile, newest: &[Waiting], orders: &Orders, now: Millis) -> Option<Alarm> {
    if profile.keys.order_ids.is_empty() {
        return None;
    }
    let ahead = |id: &i64| time_in(*id).0.saturating_sub(now.0);
    let entries = newest.iter().filter_map(|it| it.order.parse().ok());
    let all = orders.ids.iter().copied().chain(entries);
    let (near, far): (Vec<i64>, Vec<i64>) = all
        .filter(|id| ahead(id) >= SKEW_MS)
        .partition(|id| ahead(id) <= ZONE_STEPS * ZONE_STEP_MS + SKEW_MS);
    let are_counted = far.iter().all(|id| id & COUNTER < MOST_OF_DAY);
    let of_future = near.into_iter().chain(far.into_iter().filter(|_| are_counted)).max();
    local_ids(newest).or_else(|| {
        let order = of_future?;
        let minutes = (time_in(order).0 - now.0) / 60_000;
        Some(Alarm::FutureIds { order: order.to_string(), minutes })
    })
}

/// Order IDs whose time is the same whole number of zone steps away from the time of their entries. IDs of another form
/// are years away, or each at another distance.
fn local_ids(entries: &[Waiting]) -> Option<Alarm> {
    let steps = |entry: &Waiting| {
        let away = time_in(entry.order.parse().ok()?).0.saturating_sub(added_at(entry).0);
        let steps = (away as f64 / ZONE_STEP_MS as f64).round() as i64;
        let is_zone = steps != 0 && steps.abs() <= ZONE_STEPS;
        (is_zone && (away - steps * ZONE_STEP_MS).abs() <= SKEW_MS).then_some(steps)
    };
    let first = entries.first()?;
    let found = steps(first)?;
    let order = first.order.clone();
    let minutes = found * ZONE_STEP_MS / 60_000;
    let is_local = entries.iter().all(|it| steps(it) == Some(found));
    is_local.then_some(Alarm::LocalTimeIds { order, minutes })
}

/// Buyers without an order and an entry, those whose only orders are closed, and users with a live order who are no buyers.
fn compare(
    members: &HashSet<String>,
    waiting: Option<&HashSet<String>>,
    orders: Option<&HashMap<String, u64>>,
) -> Compared {
    let live = |user: &str| orders.and_then(|it| it.get(user)).copied();
    let waits = |user: &str| waiting.is_some_and(|it| it.contains(user));
    let lacking = members.iter().filter(|it| !waits(it));
    let without_order = lacking.clone().filter(|it| live(it).is_none()).cloned();
    let only_closed = lacking.filter(|it| live(it) == Some(0)).cloned();
    // A closed order has returned its piece, and its user may buy again.
    let users = orders.into_iter().flatten().filter(|(_, live)| **live > 0);
    let without_buyer = users.map(|(user, _)| user).filter(|it| !members.contains(*it)).cloned();
    Compared {
        without_order: without_order.collect(),
        only_closed: only_closed.collect(),
        without_buyer: without_buyer.collect(),
    }
}

/// How many of these users have several live orders.
fn doubled(users: &HashMap<String, u64>) -> u64 {
    users.values().filter(|live| **live > 1).count() as u64
}

fn sale_report(
    row: SaleRow,
    keys: &SaleKeys,
    orders: &Orders,
    compared: Option<&Compared>,
    now: Millis,
) -> SaleReport {
    let phase = row.phase(now);
    let SaleRow { voucher, title, stock, initial, .. } = row;
    let count = orders.count.get(&voucher).copied().unwrap_or(0);
    let live = || orders.of.get(&voucher).map_or(0, |users| users.values().sum());
    SaleReport {
        voucher_id: voucher,
        title,
        phase,
        loaded: keys.has_stock,
        moved: false,
        redis_stock: keys.stock,
        sql_stock: stock,
        initial,
        buyers: keys.buyers,
        orders: orders.complete.then_some(count),
        live_orders: orders.complete.then(live),
        in_flight: None,
        entries_in_flight: None,
        buyers_with_closed_order: compared.map(|it| it.only_closed.len() as u64),
        buyers_without_order: compared.map(|it| it.without_order.len() as u64),
        orders_without_buyer: compared.map(|it| it.without_buyer.len() as u64),
        duplicate_buyers: orders.of.get(&voucher).map_or(0, doubled),
        admitted_per_second: None,
        orders_per_second: None,
    }
}

impl SaleReport {
    fn add_rates(&mut self, last: &Counts, now: Millis) {
        let Some((buyers, orders)) = last.sales.get(&self.voucher_id) else { return };
        let millis = now.since(last.at);
        self.admitted_per_second = rate(self.buyers, *buyers, millis);
        self.orders_per_second = rate(self.orders, *orders, millis);
    }
}

/// Increase per second, with one decimal; `None` if a count is unknown or has decreased.
fn rate(now: Option<u64>, last: Option<u64>, millis: u64) -> Option<f64> {
    let more = now?.checked_sub(last?)?;
    (millis > 0).then(|| (more as f64 * 10_000.0 / millis as f64).round() / 10.0)
}
