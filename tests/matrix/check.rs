//! The checker: the eight invariants of the ledger, from Redis and SQL by raw commands. It shares no code with
//! the engine's own audit, which has to agree with it.
#![allow(dead_code, unreachable_pub, reason = "each program of tests uses its part")]

use std::collections::{BTreeMap, HashMap, HashSet};

use redis::{Connection, Value, cmd};
use seckill_model::VoucherId;
use sqlx::AnyConnection;

/// A reply with an order ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// Issuer and lane; a lane sends one request at a time, so its order IDs increase.
    pub lane: (usize, usize),
    pub voucher: VoucherId,
    pub user: u64,
    pub order: i64,
    /// Newly admitted; false for the ID of an existing order.
    pub admitted: bool,
    /// When the buyer received it, in milliseconds.
    pub at: i64,
}

/// The contents of SQL and Redis, read at rest.
#[derive(Debug, Default)]
pub struct Seen {
    /// By ID.
    orders: HashMap<i64, Order>,
    /// shard -> initial, stock, limit, version.
    sales: BTreeMap<Shard, (i64, i64, i64, i64)>,
    /// Sales over shards whose own row does not have their sum.
    not_the_sum: Vec<i64>,
    /// order -> since when Redis has it back.
    give_backs: HashMap<i64, Option<i64>>,
    /// Writes under a lower token than an earlier one of the same job.
    fallen: Vec<String>,
    /// shard -> its state in Redis.
    redis: BTreeMap<Shard, Held>,
    /// Undelivered and pending orders of the stream: order -> voucher.
    under_way: HashMap<i64, i64>,
    /// Orders among the dead letters.
    dead: HashSet<i64>,
}

/// A reply may name an order whose piece was returned this long ago: it was on the way.
const ON_THE_WAY_MS: i64 = 1_000;

/// User, voucher, place, status, paid, closed, shard.
type Order = (i64, i64, i64, i64, bool, bool, i64);

/// Voucher and number; 0 for a sale that is not spread.
type Shard = (i64, i64);

/// Id, user, voucher, place, status, paid, closed, shard.
type OrderRow = (i64, i64, i64, i64, i64, Option<i64>, Option<i64>, i64);

#[derive(Debug, Default)]
struct Held {
    stock: Option<i64>,
    initial: Option<i64>,
    version: i64,
    /// Place -> order.
    buyers: HashMap<String, i64>,
}

impl Seen {
    /// Reads Redis, which has this many partitions, then SQL.
    pub async fn read(redis: &mut Connection, partitions: u16, sql: &mut AnyConnection) -> Self {
        let mut seen = Self::default();
        seen.read_redis(redis, partitions);
        seen.read_sql(sql).await;
        seen
    }

    async fn read_sql(&mut self, sql: &mut AnyConnection) {
        // `+ 0`: a small integer in one database is a boolean in another.
        let rows: Vec<OrderRow> = sqlx::query_as(
            "SELECT id, user_id, voucher_id, buyer_place + 0, status + 0, pay_time, close_time, shard + 0 \
             FROM tb_voucher_order",
        )
        .fetch_all(&mut *sql)
        .await
        .unwrap();
        for (id, user, voucher, place, status, paid, closed, shard) in rows {
            let row = (user, voucher, place, status, paid.is_some(), closed.is_some(), shard);
            self.orders.insert(id, row);
        }
        let rows: Vec<(i64, i64, i64, i64, i64, i64)> = sqlx::query_as(
            "SELECT voucher_id, user_limit * 0, initial_stock, stock, user_limit + 0, version \
             FROM tb_seckill_voucher WHERE shards IS NULL \
             UNION ALL SELECT p.voucher_id, p.shard + 0, p.initial_stock, p.stock, s.user_limit + 0, p.version \
             FROM tb_shard_stock p JOIN tb_seckill_voucher s ON s.voucher_id = p.voucher_id",
        )
        .fetch_all(&mut *sql)
        .await
        .unwrap();
        let sale = |it: (i64, i64, i64, i64, i64, i64)| ((it.0, it.1), (it.2, it.3, it.4, it.5));
        self.sales = rows.into_iter().map(sale).collect();
        self.not_the_sum = sqlx::query_scalar(
            "SELECT voucher_id FROM tb_seckill_voucher s WHERE shards IS NOT NULL AND (stock IS NOT NULL \
             OR initial_stock <> (SELECT SUM(initial_stock) FROM tb_shard_stock p WHERE p.voucher_id = s.voucher_id))",
        )
        .fetch_all(&mut *sql)
        .await
        .unwrap();
        let rows: Vec<(i64, Option<i64>)> =
            sqlx::query_as("SELECT order_id, given FROM tb_give_back")
                .fetch_all(&mut *sql)
                .await
                .unwrap();
        self.give_backs = rows.into_iter().collect();
        self.fallen = sqlx::query_scalar(
            "SELECT job FROM tb_job_run r WHERE EXISTS (SELECT 1 FROM tb_job_run e \
             WHERE e.job = r.job AND e.id < r.id AND e.token > r.token)",
        )
        .fetch_all(&mut *sql)
        .await
        .unwrap();
    }

    fn read_redis(&mut self, redis: &mut Connection, partitions: u16) {
        for part in 0..partitions {
            let key = |what: &str| format!("seckill:{{p{part}}}:{what}");
            for (place, fields) in entries(redis, &key("dead"), "-") {
                match order_of(&fields, "body:") {
                    Some((_, id)) => drop(self.dead.insert(id)),
                    None => drop(place),
                }
            }
            self.read_stream(redis, &key("orders"));
            // Not KEYS, which many servers forbid.
            let mut scan = cmd("SCAN");
            scan.cursor_arg(0).arg("MATCH").arg(key("sale:*"));
            let sales: Vec<String> = scan.iter(redis).unwrap().map(Result::unwrap).collect();
            for sale in sales.into_iter().filter(|key| !key.ends_with(":replaced")) {
                let name = sale.rsplit(':').next().unwrap().to_owned();
                let (voucher, shard) = name.split_once('.').unwrap_or((&name, "0"));
                let number = (voucher.parse().unwrap(), shard.parse().unwrap());
                let sale: HashMap<String, String> = cmd("HGETALL").arg(&sale).query(redis).unwrap();
                let stock: Option<i64> =
                    cmd("GET").arg(key(&format!("stock:{name}"))).query(redis).unwrap();
                let mut buyers: HashMap<String, i64> =
                    cmd("HGETALL").arg(key(&format!("buyers:{name}"))).query(redis).unwrap();
                buyers.remove("seq");
                let of_sale = |name: &str| sale.get(name).and_then(|it| it.parse().ok());
                let (initial, version) = (of_sale("initial"), of_sale("version").unwrap_or(0));
                self.redis.insert(number, Held { stock, initial, version, buyers });
            }
        }
    }

    /// Entries after the last one that was delivered, and those that are pending.
    fn read_stream(&mut self, redis: &mut Connection, key: &str) {
        let last = last_delivered(redis, key);
        let all = entries(redis, key, "-");
        let pending: HashSet<String> = match &last {
            Some(_) => pending(redis, key).into_iter().collect(),
            None => HashSet::new(),
        };
        let undelivered: HashSet<String> = match &last {
            Some(last) => {
                entries(redis, key, &format!("({last}")).into_iter().map(|it| it.0).collect()
            }
            None => all.iter().map(|it| it.0.clone()).collect(),
        };
        for (id, fields) in &all {
            if (pending.contains(id) || undelivered.contains(id))
                && let Some((voucher, order)) = order_of(fields, "")
            {
                self.under_way.insert(order, voucher);
            }
        }
    }

    /// Every order of which SQL or Redis knows.
    pub fn known(&self) -> HashSet<i64> {
        let held = self.redis.values().flat_map(|it| it.buyers.values());
        let all = self.orders.keys().chain(held).chain(self.under_way.keys()).chain(&self.dead);
        all.copied().collect()
    }

    /// Whether only a dead letter holds this order: a node that could not keep a promise may have buried it before its
    /// entry was written.
    pub fn is_dead(&self, order: i64) -> bool {
        self.dead.contains(&order) && !self.orders.contains_key(&order)
    }

    /// Ledger violations, which the engine's audit must find as well.
    pub fn findings(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut say = |what: String| wrong.push(what);
        for voucher in &self.not_the_sum {
            say(format!("3: #{voucher} is not the sum of its shards"));
        }
        let mut shards: HashMap<(i64, i64), i64> = HashMap::new();
        for (user, voucher, .., shard) in self.orders.values() {
            if *shards.entry((*voucher, *user)).or_insert(*shard) != *shard {
                say(format!("4: user {user} of #{voucher} was sold to by two shards"));
            }
        }
        for (&(of, number), (initial, stock, limit, version)) in &self.sales {
            let voucher = format!("{of}.{number}");
            let live_of = |is_mine: &dyn Fn(i64) -> bool| -> HashMap<i64, (i64, i64)> {
                let live = self
                    .orders
                    .iter()
                    .filter(|(_, it)| it.1 == of && is_mine(it.6) && !matches!(it.3, 4 | 5));
                live.map(|(id, it)| (*id, (it.0, it.2))).collect()
            };
            let live = live_of(&|shard| shard == number);
            if stock + live.len() as i64 != *initial || *stock < 0 {
                say(format!("3: #{voucher} SQL {initial} is not {stock} + {}", live.len()));
            }
            let mut seats: HashMap<(i64, i64), u64> = HashMap::new();
            // Whichever shard sold it.
            for seat in live_of(&|_| true).values() {
                *seats.entry(*seat).or_default() += 1;
            }
            if seats.values().any(|count| *count > 1) {
                say(format!("4: #{voucher} has buyers with two live orders at one place"));
            }
            let mut users: HashMap<i64, i64> = HashMap::new();
            for (user, _) in live_of(&|_| true).values() {
                *users.entry(*user).or_default() += 1;
            }
            if users.values().any(|count| count > limit) {
                say(format!("4: #{voucher} has buyers with more orders than its limit"));
            }
            let Some(held) = self.redis.get(&(of, number)) else {
                say(format!("1: #{voucher} is not in Redis"));
                continue;
            };
            let (Some(left), Some(result)) = (held.stock, held.initial) else {
                say(format!("1: #{voucher} has no stock in Redis"));
                continue;
            };
            if result != left + held.buyers.len() as i64 || left < 0 || result != *initial {
                say(format!(
                    "1: #{voucher} Redis {result} is not {left} + {}, SQL says {initial}",
                    held.buyers.len()
                ));
            }
            if held.version != *version {
                say(format!(
                    "1: #{voucher} is of version {} in Redis and {version} in SQL",
                    held.version
                ));
            }
            let lost: Vec<i64> = held
                .buyers
                .values()
                .filter(|id| {
                    !self.orders.contains_key(id)
                        && !self.under_way.contains_key(id)
                        && !self.dead.contains(id)
                })
                .copied()
                .collect();
            if !lost.is_empty() {
                say(format!("2: #{voucher} {} orders are nowhere: {:?}", lost.len(), first(&lost)));
            }
            let seat = |user: i64, place: i64| match place {
                1 => user.to_string(),
                _ => format!("{user}/{place}"),
            };
            let unknown: Vec<i64> = live
                .iter()
                .filter(|(id, (user, place))| held.buyers.get(&seat(*user, *place)) != Some(id))
                .map(|(id, _)| *id)
                .collect();
            if !unknown.is_empty() {
                say(format!(
                    "2: #{voucher} {} have no buyer: {:?}",
                    unknown.len(),
                    first(&unknown)
                ));
            }
            let ids: HashSet<i64> = held.buyers.values().copied().collect();
            if ids.len() != held.buyers.len() {
                say(format!("5: #{voucher} two buyers hold one order in Redis"));
            }
            let kept = ids.iter().filter(|id| {
                let closed = self.orders.get(id).is_some_and(|it| matches!(it.3, 4 | 5));
                closed && self.give_backs.get(id) != Some(&None)
            });
            let kept = kept.count();
            if kept > 0 {
                say(format!("7: #{voucher} {kept} closed orders hold their piece"));
            }
        }
        wrong
    }

    /// Violations that buyers would see and that no audit checks. The orders in `gone` are lost for good.
    pub fn promises(&self, receipts: &[Receipt], gone: &HashSet<i64>) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut owners: HashMap<i64, (i64, u64)> = HashMap::new();
        let mut last: HashMap<((usize, usize), Shard), i64> = HashMap::new();
        let mut admitted = HashSet::new();
        let returned = |id: i64| self.give_backs.get(&id).copied().flatten();
        for one in receipts {
            if one.admitted && !admitted.insert(one.order) {
                wrong.push(format!("5: {one:?} was admitted twice"));
            }
            let voucher = one.voucher.0 as i64;
            let owner = *owners.entry(one.order).or_insert((voucher, one.user));
            if owner != (voucher, one.user) {
                wrong.push(format!(
                    "5: order {} was issued to two buyers: {owner:?} and {one:?}",
                    one.order
                ));
            }
            // Each partition issues its own IDs, and a shard belongs to one.
            let shard = self.orders.get(&one.order).map(|row| row.6);
            if let Some(shard) = shard.filter(|_| one.admitted) {
                let before = last.insert((one.lane, (voucher, shard)), one.order);
                if before.is_some_and(|before| before >= one.order) {
                    wrong.push(format!("5: {one:?} came after {before:?}"));
                }
            }
            match self.orders.get(&one.order) {
                Some(row) if row.0 != one.user as i64 || row.1 != voucher => {
                    wrong.push(format!("6: {one:?} is another's in SQL: {row:?}"));
                }
                Some(_) if returned(one.order).is_some_and(|at| one.at > at + ON_THE_WAY_MS) => {
                    let at = returned(one.order);
                    wrong.push(format!("7: {one:?} is of an order that was returned at {at:?}"));
                }
                Some(_) => {}
                None if self.dead.contains(&one.order) || gone.contains(&one.order) => {}
                None => wrong.push(format!("6: {one:?} has no result")),
            }
        }
        for (id, row) in &self.orders {
            let (_, _, _, status, paid, closed, _) = *row;
            let fine = match status {
                1 => !paid && !closed,
                2 => paid && !closed,
                5 => !paid && closed && self.give_backs.contains_key(id),
                _ => false,
            };
            if !fine {
                wrong.push(format!("7: order {id} is neither paid nor closed nor open: {row:?}"));
            }
        }
        let open = self.give_backs.values().filter(|given| given.is_none()).count();
        if open > 0 {
            wrong.push(format!("7: {open} pieces wait to be given back"));
        }
        if !self.under_way.is_empty() {
            wrong.push(format!("2: {} entries are under way still", self.under_way.len()));
        }
        wrong.extend(self.fallen.iter().map(|what| format!("8: a token fell: {what}")));
        wrong
    }
}

/// Orders of which the streams hold two entries.
pub fn added_twice(redis: &mut Connection, partitions: u16) -> Vec<i64> {
    let key = |part: u16| format!("seckill:{{p{part}}}:orders");
    let all = (0..partitions).flat_map(|part| entries(redis, &key(part), "-"));
    let mut seen = HashSet::new();
    let ids = all.filter_map(|(_, fields)| order_of(&fields, "")).map(|it| it.1);
    ids.filter(|id| !seen.insert(*id)).collect()
}

fn first(ids: &[i64]) -> &[i64] {
    &ids[..ids.len().min(5)]
}

type Fields = Vec<(Vec<u8>, Vec<u8>)>;

fn entries(redis: &mut Connection, key: &str, from: &str) -> Vec<(String, Fields)> {
    cmd("XRANGE").arg(key).arg(from).arg("+").query(redis).unwrap()
}

/// The dead letters of all partitions, for a report.
pub fn letters(redis: &mut Connection, partitions: u16) -> Vec<String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let all =
        (0..partitions).flat_map(|part| entries(redis, &format!("seckill:{{p{part}}}:dead"), "-"));
    let line = |(_, fields): (String, Fields)| {
        let fields = fields.iter().map(|(name, value)| format!("{}={}", text(name), text(value)));
        fields.collect::<Vec<_>>().join(" ")
    };
    all.map(line).collect()
}

fn pending(redis: &mut Connection, key: &str) -> Vec<String> {
    let rows: Vec<(String, Value, Value, Value)> =
        cmd("XPENDING").arg(key).arg("g1").arg("-").arg("+").arg(100_000).query(redis).unwrap();
    rows.into_iter().map(|row| row.0).collect()
}

/// `None` where there is no stream or no group.
pub fn last_delivered(redis: &mut Connection, key: &str) -> Option<String> {
    let groups: Vec<HashMap<String, Value>> =
        cmd("XINFO").arg("GROUPS").arg(key).query(redis).ok()?;
    match groups.first()?.get("last-delivered-id")? {
        Value::BulkString(id) => String::from_utf8(id.clone()).ok(),
        _ => None,
    }
}

/// Whether nothing of a partition is undelivered or pending; how many are pending.
pub fn at_rest(redis: &mut Connection, part: u16) -> (bool, u64) {
    let key = format!("seckill:{{p{part}}}:orders");
    let Some(last) = last_delivered(redis, &key) else { return (false, 0) };
    let next: Vec<(String, Fields)> = cmd("XRANGE")
        .arg(&key)
        .arg(format!("({last}"))
        .arg("+")
        .arg("COUNT")
        .arg(1)
        .query(redis)
        .unwrap();
    let (pending, _, _, _): (u64, Value, Value, Value) =
        cmd("XPENDING").arg(&key).arg("g1").query(redis).unwrap();
    (next.is_empty() && pending == 0, pending)
}

/// Voucher and order.
fn order_of(fields: &Fields, prefix: &str) -> Option<(i64, i64)> {
    let field = |name: &str| {
        let name = format!("{prefix}{name}");
        let (_, value) = fields.iter().find(|(it, _)| it == name.as_bytes())?;
        std::str::from_utf8(value).ok()?.parse().ok()
    };
    Some((field("voucherId")?, field("id")?))
}
