//! Refusals that a node gives without asking Redis.
//!
//! Most requests of a flash sale come after its last piece is sold. Once a sale is sold out at some change number (`seq`,
//! which every script raises that changes the stock or the buyers of a sale), no buyer is added until the number rises.
//! The node then reads the set of buyers once and refuses all other users. Requests of buyers still go to Redis, which
//! knows their order IDs. A sale that is paused, ended or not started refuses its buyers as well.
//!
//! A refusal is given for at most [`TTL`] after Redis was asked to confirm it, also if Redis no longer answers: a change
//! by another process or a job takes effect within that time, a command of this process at once. Answers from SQL (there
//! is no such sale, or it stays closed) are given for [`SQL_TTL`].

use std::{
    collections::{HashMap, HashSet},
    mem,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use futures::{
    FutureExt as _, StreamExt as _,
    future::{BoxFuture, join_all},
    stream::FuturesUnordered,
};
use moka::sync::Cache;
use parking_lot::{Mutex, RwLock};
use redis::{Value, pipe};
use roaring::RoaringTreemap;
use seckill_model::{Outcome, SaleOrder, ShardId, UserId};
use seckill_redis::keys::Partition;
use tokio::{sync::Notify, time::timeout};
use tokio_util::sync::CancellationToken;

use super::{
    AdmissionError, admit_call,
    reply::{Decision, decision},
};
use crate::{
    Result, deployment::servers::Servers, ledger, node::context::NodeContext,
    recovery::sharded_sale::TTL,
};

/// How often Redis is asked while a refusal is in use: three consecutive answers may be lost before it expires.
const REVALIDATE_INTERVAL: Duration = Duration::from_millis(25);
/// How long an answer from SQL is given.
const SQL_TTL: Duration = Duration::from_secs(1);
/// Maximum number of answers from SQL: clients may invent voucher IDs.
const SQL_ENTRIES: u64 = 16_384;
/// An entry without requests for this long is evicted, with its buyers.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);
/// Number of refusals in one batch from which reading all buyers pays off.
const MIN_REFUSED: usize = 8;
/// The buyers of a sale are read again after this many times the duration of the last read, so that a sale that keeps
/// changing does not keep Redis busy.
const REST: u32 = 10;
/// The shortest such pause.
const SHORTEST_REST: Duration = Duration::from_millis(250);
/// Bound on counting the last refusals before the task ends.
const FINAL_COUNT_WITHIN: Duration = Duration::from_secs(1);

/// The refusal of one sale.
#[derive(Debug)]
struct Entry {
    outcome: Outcome,
    /// Creation time and change number of a sold-out sale; empty for other outcomes.
    seq: String,
    /// Users with an order, complete at that number. A million takes 0.2 MB if the IDs are consecutive, 3 MB if one in 50
    /// is there, and 250 MB if they are random 64-bit numbers.
    buyers: RoaringTreemap,
    /// Microseconds since the cache was created.
    expires_at: AtomicU64,
    /// Requests refused and not counted in Redis yet.
    hits: AtomicU64,
}

/// Requests refused without Redis, by sale and counter of its tally.
type Hits = HashMap<(ShardId, &'static str), u64>;

/// The refusals of one partition.
#[derive(Debug)]
pub(super) struct RefusalCache {
    created: Instant,
    entries: RwLock<HashMap<ShardId, Entry>>,
    of_sql: Cache<ShardId, Result<Outcome, AdmissionError>>,
    /// Sales that were refused and have no entry.
    candidates: Mutex<HashSet<ShardId>>,
    /// Wakes the task that revalidates.
    wake: Notify,
    /// Number of invalidations; an answer that was requested before the last one is discarded.
    generation: AtomicU64,
    /// Hits of entries that were dropped.
    hits: Mutex<Hits>,
}

impl RefusalCache {
    pub(super) fn new() -> Self {
        Self {
            created: Instant::now(),
            entries: RwLock::default(),
            of_sql: Cache::builder().max_capacity(SQL_ENTRIES).time_to_live(SQL_TTL).build(),
            candidates: Mutex::default(),
            wake: Notify::new(),
            generation: AtomicU64::new(0),
            hits: Mutex::default(),
        }
    }

    /// The refusal for `user`, unless Redis has to decide.
    pub(super) fn get(
        &self,
        shard: ShardId,
        user: UserId,
        now: Instant,
    ) -> Option<Result<Outcome, AdmissionError>> {
        let entries = self.entries.read();
        let Some(entry) = entries.get(&shard) else {
            drop(entries);
            return self.of_sql.get(&shard);
        };
        let is_valid = self.micros(now) < entry.expires_at.load(Ordering::Relaxed);
        if !is_valid || entry.buyers.contains(user.0) {
            return None;
        }
        entry.hits.fetch_add(1, Ordering::Relaxed);
        Some(Ok(entry.outcome))
    }

    /// Records that Redis refused this many requests of one batch.
    pub(super) fn note_refused(&self, shard: ShardId, requests: usize) {
        if requests >= MIN_REFUSED && self.candidates.lock().insert(shard) {
            self.wake.notify_one();
        }
    }

    /// The generation to pass on with an answer that is requested now.
    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }

    /// Caches an answer from SQL.
    pub(super) fn insert_of_sql(
        &self,
        shard: ShardId,
        answer: Result<Outcome, AdmissionError>,
        generation: u64,
    ) {
        self.of_sql.insert(shard, answer);
        if self.generation() != generation {
            self.of_sql.invalidate(&shard);
        }
    }

    /// Gives no refusal until Redis has confirmed it again: this process has changed a sale.
    pub(super) fn invalidate(&self) {
        let entries = self.entries.write();
        self.generation.fetch_add(1, Ordering::SeqCst);
        let now = self.micros(Instant::now());
        entries.values().for_each(|entry| entry.expires_at.store(now, Ordering::Relaxed));
        drop(entries);
        self.of_sql.invalidate_all();
    }

    /// Forgets the buyers of all sales: Redis may have lost its data, and change numbers may repeat.
    pub(super) fn clear(&self) {
        let mut entries = self.entries.write();
        self.generation.fetch_add(1, Ordering::SeqCst);
        let dropped = mem::take(&mut *entries);
        drop(entries);
        self.of_sql.invalidate_all();
        for (shard, entry) in dropped {
            self.keep_hits(shard, &entry);
        }
    }

    /// Forgets the buyers of a sale whose keys are inconsistent.
    pub(super) fn remove(&self, shard: ShardId) {
        let dropped = self.entries.write().remove(&shard);
        if let Some(entry) = dropped {
            self.keep_hits(shard, &entry);
        }
    }

    fn insert(&self, shard: ShardId, entry: Entry, generation: u64) {
        let mut entries = self.entries.write();
        if self.generation() != generation {
            return;
        }
        let dropped = entries.insert(shard, entry);
        drop(entries);
        if let Some(entry) = dropped {
            self.keep_hits(shard, &entry);
        }
    }

    /// Prolongs a refusal; `false` if there is none with this outcome and change number.
    fn renew(
        &self,
        shard: ShardId,
        outcome: Outcome,
        seq: &str,
        expires_at: Instant,
        generation: u64,
    ) -> bool {
        let entries = self.entries.read();
        let entry = entries.get(&shard).filter(|it| it.outcome == outcome && it.seq == seq);
        if let Some(entry) = entry
            && self.generation() == generation
        {
            entry.expires_at.store(self.micros(expires_at), Ordering::Relaxed);
        }
        entry.is_some()
    }

    fn micros(&self, at: Instant) -> u64 {
        at.saturating_duration_since(self.created).as_micros() as u64
    }

    /// The sales to ask Redis about; evicts idle entries.
    fn due(&self, now: Instant) -> HashSet<ShardId> {
        let mut due = mem::take(&mut *self.candidates.lock());
        let idle = now.checked_sub(IDLE_TIMEOUT).map_or(0, |since| self.micros(since));
        let mut evicted = Vec::new();
        for (shard, entry) in &*self.entries.read() {
            if entry.hits.load(Ordering::Relaxed) > 0 {
                due.insert(*shard);
            } else if entry.expires_at.load(Ordering::Relaxed) < idle && !due.contains(shard) {
                evicted.push(*shard);
            }
        }
        for shard in evicted {
            self.remove(shard);
        }
        due
    }

    fn is_empty(&self) -> bool {
        self.candidates.lock().is_empty() && self.entries.read().is_empty()
    }

    fn keep_hits(&self, shard: ShardId, entry: &Entry) {
        let hits = entry.hits.swap(0, Ordering::Relaxed);
        if hits > 0 {
            let counter = if entry.outcome == Outcome::SoldOut { "sold_out" } else { "rejected" };
            *self.hits.lock().entry((shard, counter)).or_default() += hits;
        }
    }

    /// Takes the hits since the last call.
    fn take_hits(&self) -> Hits {
        for (shard, entry) in &*self.entries.read() {
            self.keep_hits(*shard, entry);
        }
        mem::take(&mut *self.hits.lock())
    }
}

/// The buyers of a sale as an entry, unless Redis failed, with the generation of the cache at the beginning, and the
/// duration of the scan.
type Scanned = (ShardId, Option<Entry>, u64, Duration);

/// Keeps the refusals of a partition valid. It ends with the token that [`Revalidator::run`] is given.
#[derive(Debug)]
pub(super) struct Revalidator {
    context: NodeContext,
    partition: Partition,
    servers: Servers,
    cache: Arc<RefusalCache>,
    /// Reads of buyers in progress, one for each sale at most.
    scans: FuturesUnordered<BoxFuture<'static, Scanned>>,
    /// Sales whose buyers are being read or were read, and until when they are not read again.
    resting: HashMap<ShardId, Option<Instant>>,
}

impl Revalidator {
    pub(super) fn new(context: NodeContext, of: Partition, cache: Arc<RefusalCache>) -> Self {
        let servers = context.deployment.servers();
        let (scans, resting) = (FuturesUnordered::new(), HashMap::new());
        Self { context, partition: of, servers, cache, scans, resting }
    }

    /// Revalidates entries while there are any, until `stop` is cancelled.
    pub(super) async fn run(mut self, stop: CancellationToken) {
        loop {
            let cache = Arc::clone(&self.cache);
            let due = async {
                if cache.is_empty() {
                    cache.wake.notified().await;
                } else {
                    tokio::time::sleep(REVALIDATE_INTERVAL).await;
                }
            };
            tokio::select! {
                () = stop.cancelled() => break,
                Some(scan) = self.scans.next(), if !self.scans.is_empty() => self.scanned(scan),
                () = due => {
                    stop.run_until_cancelled(self.revalidate()).await;
                }
            }
        }
        let _ = timeout(FINAL_COUNT_WITHIN, self.count()).await;
    }

    /// Asks Redis whether the sales still refuse buyers. Without an answer, their entries expire.
    async fn revalidate(&mut self) {
        let now = Instant::now();
        self.resting.retain(|_, until| until.is_none_or(|until| until > now));
        let (due, generation) = (self.cache.due(now), self.cache.generation());
        if due.is_empty() {
            return;
        }
        let here = self.partition.reconciled();
        let Ok(run_id) = self.servers.conn.run_id(&here).await else { return };
        let Ok(connection) = self.servers.conn.multiplexed(&here).await else { return };
        let mut calls = Vec::new();
        for shard in due {
            let known = self.context.versions.get(shard).filter(|known| !known.archived);
            let Some(known) = known else {
                self.cache.remove(shard);
                continue;
            };
            let (keys, of, node) = (&self.servers.keys, &self.partition, &self.context.node);
            let mut call = admit_call(keys, of, shard, node, &run_id, known.version, 0);
            call.arg(0);
            let mut connection = connection.clone();
            calls.push(async move { (shard, call.invoke_async::<Value>(&mut connection).await) });
        }
        let sent = Instant::now();
        let replies = join_all(calls).await;
        for (shard, reply) in replies {
            let reply = match reply {
                Ok(reply) => reply,
                Err(error) => {
                    self.servers.conn.broke(&here, &error);
                    continue;
                }
            };
            let mut ttl = TTL;
            let (outcome, seq) = match decision(reply) {
                Some(Decision::WouldRefuse { seq }) => (Outcome::SoldOut, seq),
                Some(Decision::All(it @ (Outcome::Paused | Outcome::Ended))) => (it, String::new()),
                Some(Decision::All(it @ Outcome::NotStarted { begins })) => {
                    // Read after `sent`, and rounded down: the sale does not begin earlier.
                    let now = self.servers.conn.now_at(&here).await;
                    let left = now.map_or(0, |now| begins.since(now.plus(1)));
                    ttl = ttl.min(Duration::from_millis(left));
                    (it, String::new())
                }
                _ => {
                    self.cache.remove(shard);
                    continue;
                }
            };
            if !self.cache.renew(shard, outcome, &seq, sent + ttl, generation) {
                self.cache.remove(shard);
                let is_sold_out = outcome == Outcome::SoldOut;
                // Until the buyers have been read, and Redis has confirmed that they are those of this change number.
                let expires_at = if is_sold_out { sent } else { sent + ttl };
                let expires_at = AtomicU64::new(self.cache.micros(expires_at));
                let (buyers, hits) = (RoaringTreemap::new(), AtomicU64::new(0));
                let entry = Entry { outcome, seq, buyers, expires_at, hits };
                if is_sold_out {
                    self.scan(shard, entry, generation);
                } else {
                    self.cache.insert(shard, entry, generation);
                }
            }
        }
        self.count().await;
    }

    /// Starts to read the buyers of a sold-out sale.
    fn scan(&mut self, shard: ShardId, entry: Entry, generation: u64) {
        if self.resting.contains_key(&shard) {
            return;
        }
        self.resting.insert(shard, None);
        let mut servers = self.context.deployment.servers();
        self.scans.push(
            async move {
                let (began, mut buyers) = (Instant::now(), RoaringTreemap::new());
                let add = |order: SaleOrder| _ = buyers.insert(order.user_id.0);
                let read = ledger::for_each_buyer(&mut servers, shard, add).await;
                let entry = read.ok().map(|()| Entry { buyers, ..entry });
                (shard, entry, generation, began.elapsed())
            }
            .boxed(),
        );
    }

    fn scanned(&mut self, (shard, entry, generation, took): Scanned) {
        if generation == self.cache.generation() {
            let rest = (took * REST).max(SHORTEST_REST);
            self.resting.insert(shard, Some(Instant::now() + rest));
        } else {
            self.resting.remove(&shard);
        }
        if let Some(entry) = entry {
            self.cache.insert(shard, entry, generation);
            self.cache.candidates.lock().insert(shard);
        }
    }

    /// Adds the requests that were refused without Redis to the tallies. As in the script, these are informational: a
    /// failed write is ignored.
    async fn count(&mut self) {
        let hits = self.cache.take_hits();
        if hits.is_empty() {
            return;
        }
        let mut count = pipe();
        for ((shard, counter), hits) in hits {
            let tally = self.servers.keys.tally(shard);
            count.cmd("HINCRBY").arg(tally).arg(counter).arg(hits);
        }
        let _ = self.servers.conn.pipe::<Vec<i64>>(&count).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SALE: ShardId = ShardId { sale: seckill_model::SaleId(1), number: 0 };

    fn sold_out(cache: &RefusalCache, seq: &str, expires_at: Instant) {
        let entry = Entry {
            outcome: Outcome::SoldOut,
            seq: seq.to_owned(),
            buyers: RoaringTreemap::from_iter([7]),
            expires_at: AtomicU64::new(cache.micros(expires_at)),
            hits: AtomicU64::new(0),
        };
        cache.insert(SALE, entry, cache.generation());
    }

    #[test]
    fn users_without_an_order_are_refused_until_it_expires() {
        let (cache, now) = (RefusalCache::new(), Instant::now());
        let refused = Some(Ok(Outcome::SoldOut));
        let at = |after: Duration, user| cache.get(SALE, UserId(user), now + after);
        sold_out(&cache, "3", now + TTL);
        assert_eq!(at(Duration::ZERO, 8), refused);
        assert_eq!(at(Duration::ZERO, 7), None, "a buyer asks Redis");
        assert_eq!(at(TTL, 8), None);
        assert_eq!(cache.take_hits(), Hits::from([((SALE, "sold_out"), 1)]));
        let renew =
            |outcome, seq| cache.renew(SALE, outcome, seq, now + 2 * TTL, cache.generation());
        assert!(!renew(Outcome::SoldOut, "4"), "the buyers may be others");
        assert!(!renew(Outcome::Paused, "3"));
        assert_eq!(at(TTL, 8), None);
        assert!(renew(Outcome::SoldOut, "3"));
        assert_eq!(at(TTL, 8), refused);
    }

    #[test]
    fn an_answer_from_before_a_change_is_discarded() {
        let cache = RefusalCache::new();
        let later = Instant::now() + Duration::from_mins(1);
        let before = cache.generation();
        sold_out(&cache, "3", later);
        let asked = || cache.get(SALE, UserId(8), Instant::now());
        assert!(asked().is_some());
        cache.invalidate();
        assert_eq!(asked(), None);
        assert!(cache.renew(SALE, Outcome::SoldOut, "3", later, before));
        assert_eq!(asked(), None, "it was requested before");
        assert!(cache.renew(SALE, Outcome::SoldOut, "3", later, cache.generation()));
        assert!(asked().is_some(), "the buyers are still known");
        cache.clear();
        assert!(!cache.renew(SALE, Outcome::SoldOut, "3", later, cache.generation()));
        assert_eq!(asked(), None);
        assert_eq!(cache.take_hits(), Hits::from([((SALE, "sold_out"), 2)]), "none is lost");
    }

    #[test]
    fn an_answer_of_sql_is_discarded_too() {
        let cache = RefusalCache::new();
        let asked = || cache.get(SALE, UserId(8), Instant::now());
        cache.insert_of_sql(SALE, Ok(Outcome::NotLoaded), cache.generation());
        assert_eq!(asked(), Some(Ok(Outcome::NotLoaded)));
        let before = cache.generation();
        cache.invalidate();
        assert_eq!(asked(), None);
        cache.insert_of_sql(SALE, Ok(Outcome::NotLoaded), before);
        assert_eq!(asked(), None, "it was requested before");
    }

    #[test]
    fn what_is_in_use_is_revalidated_and_the_rest_evicted() {
        let (cache, now) = (RefusalCache::new(), Instant::now());
        cache.note_refused(SALE, MIN_REFUSED - 1);
        assert!(cache.is_empty(), "too few requests");
        cache.note_refused(SALE, MIN_REFUSED);
        assert_eq!(cache.due(now), HashSet::from([SALE]));
        sold_out(&cache, "3", now + TTL);
        assert!(cache.due(now).is_empty());
        assert!(cache.get(SALE, UserId(8), now).is_some());
        assert_eq!(cache.due(now), HashSet::from([SALE]));
        cache.take_hits();
        cache.due(now + TTL + 2 * IDLE_TIMEOUT);
        assert!(cache.is_empty());
    }
}
