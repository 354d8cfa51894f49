//! Refusals that a node repeats without asking Redis.
//!
//! Most requests of a flash sale come after its last piece is sold. Once a sale is sold out at some change number (`seq`
//! of the sale, which every script raises that changes its stock or its buyers), no buyer is added until the number
//! rises. The node then reads the buyers once and refuses everybody else; buyers still ask Redis, which knows their
//! order IDs. The same holds for a sale that is paused, ended or not started, where buyers are refused as well.
//!
//! A refusal is repeated for at most [`VALID_FOR`] after the question that Redis confirmed it for was sent, also if
//! Redis does not answer any more. A change by this node ends it at once.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::{Mutex, RwLock};
use redis::cmd;
use roaring::RoaringTreemap;
use seckill_model::{Outcome, SaleOrder, UserId, VoucherId};
use seckill_redis::keys::Partition;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{
    AdmissionError, admit_call,
    reply::{Decision, decision},
};
use crate::{context::NodeContext, ledger, servers::Servers};

/// How long a refusal is repeated after Redis was asked.
const VALID_FOR: Duration = Duration::from_millis(100);
/// How often Redis is asked while a refusal is in use: three answers may be late.
const CONFIRM_EVERY: Duration = Duration::from_millis(25);
/// A refusal that nobody needed for this long is dropped, with its buyers.
const UNUSED_FOR: Duration = Duration::from_secs(10);
/// Refusals in one batch that make the cache worth a look at all buyers.
const WORTHWHILE: usize = 8;

/// What Redis or SQL said of a sale.
#[derive(Debug)]
struct Refusal {
    answer: Result<Outcome, AdmissionError>,
    /// `None` if it is not for Redis to confirm: SQL has no such sale, or its keys cannot be reconciled.
    confirmed: Option<Confirmed>,
    /// Microseconds since the cache was made.
    valid_until: AtomicU64,
    /// Requests refused since Redis was last asked.
    told: AtomicU64,
}

/// What a refusal depends on.
#[derive(Debug, Default)]
struct Confirmed {
    /// Change number of a sold-out sale; empty for other refusals.
    seq: String,
    /// Users with an order, complete at that number.
    buyers: RoaringTreemap,
}

/// The refusals of one partition.
#[derive(Debug)]
pub(super) struct RefusalCache {
    made: Instant,
    refusals: RwLock<HashMap<VoucherId, Refusal>>,
    /// Sales that were refused and are not in the cache.
    candidates: Mutex<HashSet<VoucherId>>,
    noted: Notify,
    /// Counts the calls of [`RefusalCache::clear`]: an answer from before the last one says nothing.
    cleared: AtomicU64,
}

impl RefusalCache {
    pub(super) fn new() -> Self {
        Self {
            made: Instant::now(),
            refusals: RwLock::default(),
            candidates: Mutex::default(),
            noted: Notify::new(),
            cleared: AtomicU64::new(0),
        }
    }

    /// The refusal for `user`, unless Redis has to decide.
    pub(super) fn find(
        &self,
        voucher: VoucherId,
        user: UserId,
        now: Instant,
    ) -> Option<Result<Outcome, AdmissionError>> {
        let refusals = self.refusals.read();
        let refusal = refusals.get(&voucher)?;
        let is_valid = self.micros(now) < refusal.valid_until.load(Ordering::Relaxed);
        let may_hold = refusal.confirmed.as_ref().is_some_and(|it| it.buyers.contains(user.0));
        if !is_valid || may_hold {
            return None;
        }
        refusal.told.fetch_add(1, Ordering::Relaxed);
        Some(refusal.answer.clone())
    }

    /// Notes that Redis refused this many requests of one batch.
    pub(super) fn note_refused(&self, voucher: VoucherId, requests: usize) {
        if requests >= WORTHWHILE && self.candidates.lock().insert(voucher) {
            self.noted.notify_one();
        }
    }

    /// Repeats an answer for some time that Redis has no say in.
    pub(super) fn insert_for(
        &self,
        voucher: VoucherId,
        answer: Result<Outcome, AdmissionError>,
        lasts: Duration,
    ) {
        let now = Instant::now();
        let valid_until = AtomicU64::new(self.micros(now + lasts));
        let refusal = Refusal { answer, confirmed: None, valid_until, told: AtomicU64::new(0) };
        let mut refusals = self.refusals.write();
        refusals.retain(|_, it| it.confirmed.is_some() || !self.is_older(it, now));
        refusals.insert(voucher, refusal);
    }

    /// Adds a refusal, unless the cache was cleared since `cleared` was read.
    fn insert(
        &self,
        voucher: VoucherId,
        answer: Outcome,
        confirmed: Confirmed,
        valid_until: Instant,
        cleared: u64,
    ) {
        let refusal = Refusal {
            answer: Ok(answer),
            confirmed: Some(confirmed),
            valid_until: AtomicU64::new(self.micros(valid_until)),
            told: AtomicU64::new(0),
        };
        let mut refusals = self.refusals.write();
        if self.cleared.load(Ordering::SeqCst) == cleared {
            refusals.insert(voucher, refusal);
        }
    }

    /// Prolongs a refusal; `false` if the cache holds none with this answer and change number.
    fn extend(
        &self,
        voucher: VoucherId,
        answer: &Outcome,
        seq: Option<&str>,
        valid_until: Instant,
    ) -> bool {
        let refusals = self.refusals.read();
        let same = refusals.get(&voucher).filter(|it| {
            let confirmed = it.confirmed.as_ref();
            it.answer.as_ref() == Ok(answer)
                && confirmed.is_some_and(|it| it.seq == seq.unwrap_or_default())
        });
        if let Some(refusal) = same {
            refusal.valid_until.store(self.micros(valid_until), Ordering::Relaxed);
        }
        same.is_some()
    }

    fn remove(&self, voucher: VoucherId) {
        self.refusals.write().remove(&voucher);
    }

    /// Takes the number of requests that were refused without Redis, and the counter of the tally for them.
    fn take_told(&self, voucher: VoucherId) -> Option<(usize, &'static str)> {
        let refusals = self.refusals.read();
        let refusal = refusals.get(&voucher)?;
        let is_sold_out = refusal.answer == Ok(Outcome::SoldOut);
        let told = refusal.told.swap(0, Ordering::Relaxed) as usize;
        (told > 0).then_some((told, if is_sold_out { "sold_out" } else { "rejected" }))
    }

    /// Forgets everything: something has changed that the answers depend on.
    pub(super) fn clear(&self) {
        self.cleared.fetch_add(1, Ordering::SeqCst);
        self.refusals.write().clear();
    }

    fn micros(&self, at: Instant) -> u64 {
        at.saturating_duration_since(self.made).as_micros() as u64
    }

    /// Whether a refusal was valid until before `than`.
    fn is_older(&self, refusal: &Refusal, than: Instant) -> bool {
        refusal.valid_until.load(Ordering::Relaxed) < self.micros(than)
    }

    /// The sales to ask Redis about; drops what was not needed for a while.
    fn due(&self, now: Instant) -> HashSet<VoucherId> {
        let mut due = std::mem::take(&mut *self.candidates.lock());
        let in_use = |it: &Refusal| it.confirmed.is_some() && it.told.load(Ordering::Relaxed) > 0;
        let refusals = self.refusals.read();
        due.extend(refusals.iter().filter(|(_, it)| in_use(it)).map(|(voucher, _)| *voucher));
        drop(refusals);
        if let Some(unused) = now.checked_sub(UNUSED_FOR) {
            self.refusals.write().retain(|_, it| !self.is_older(it, unused));
        }
        due
    }

    fn is_empty(&self) -> bool {
        self.candidates.lock().is_empty() && self.refusals.read().is_empty()
    }
}

/// Keeps the refusals of a partition confirmed. It ends with the token that [`Confirmer::run`] is given.
#[derive(Debug)]
pub(super) struct Confirmer {
    pub(super) context: NodeContext,
    pub(super) partition: Partition,
    pub(super) servers: Servers,
    pub(super) cache: Arc<RefusalCache>,
}

impl Confirmer {
    /// Works while there are refusals, until `stop`.
    pub(super) async fn run(mut self, stop: CancellationToken) {
        loop {
            let wait = async {
                if self.cache.is_empty() {
                    self.cache.noted.notified().await;
                } else {
                    tokio::time::sleep(CONFIRM_EVERY).await;
                }
            };
            if stop.run_until_cancelled(wait).await.is_none() {
                break;
            }
            for voucher in self.cache.due(Instant::now()) {
                stop.run_until_cancelled(self.confirm(voucher)).await;
            }
        }
        for voucher in self.cache.due(Instant::now()) {
            self.count(voucher).await;
        }
    }

    /// Asks Redis whether a sale still refuses buyers, and why.
    async fn confirm(&mut self, voucher: VoucherId) {
        let cleared = self.cache.cleared.load(Ordering::SeqCst);
        self.count(voucher).await;
        let sent = Instant::now();
        let mut lasts = VALID_FOR;
        let (answer, seq) = match self.ask(voucher).await {
            Some(Decision::SoldOut { seq }) => (Outcome::SoldOut, Some(seq)),
            Some(Decision::All(answer @ (Outcome::Paused | Outcome::Ended))) => (answer, None),
            Some(Decision::All(answer @ Outcome::NotStarted { begins })) => {
                // Read after `sent`, and rounded down: the sale does not begin earlier.
                let now = self.servers.conn.now_at(&self.partition.reconciled()).await;
                let left = now.map_or(0, |now| begins.since(now.plus(1)));
                lasts = lasts.min(Duration::from_millis(left));
                (answer, None)
            }
            _ => return self.cache.remove(voucher),
        };
        if self.cache.extend(voucher, &answer, seq.as_deref(), sent + lasts) {
            return;
        }
        self.cache.remove(voucher);
        let Some(seq) = seq else {
            let confirmed = Confirmed::default();
            return self.cache.insert(voucher, answer, confirmed, sent + lasts, cleared);
        };
        let mut buyers = RoaringTreemap::new();
        let note = |order: SaleOrder| _ = buyers.insert(order.user_id.0);
        if ledger::for_each_buyer(&mut self.servers, voucher, note).await.is_ok() {
            // Valid once Redis confirms that the buyers are those of this change number.
            let confirmed = Confirmed { seq, buyers };
            self.cache.insert(voucher, answer, confirmed, sent, cleared);
            self.cache.candidates.lock().insert(voucher);
        }
    }

    /// Calls the admission script without buyers; `None` if Redis does not answer.
    async fn ask(&mut self, voucher: VoucherId) -> Option<Decision> {
        let known = self.context.versions.get(voucher).filter(|known| !known.archived)?;
        let run = self.servers.conn.run_id(&self.partition.reconciled()).await.ok()?;
        let (node, keys) = (&self.context.node, &self.servers.keys);
        let call = admit_call(keys, &self.partition, voucher, node, &run, known.version);
        decision(self.servers.conn.invoke(&call).await.ok()?)
    }

    /// Counts the requests that were refused since the last time.
    async fn count(&mut self, voucher: VoucherId) {
        let Some((told, result)) = self.cache.take_told(voucher) else { return };
        // Nobody waited: less than the smallest latency that is recorded.
        let took = std::iter::repeat_n(Duration::ZERO, told);
        self.context.meters.note_latencies(took);
        let mut count = cmd("HINCRBY");
        count.arg(self.servers.keys.tally(voucher)).arg(result).arg(told);
        // As in the script: the tally is informational.
        let _ = self.servers.conn.query::<i64>(&count).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SALE: VoucherId = VoucherId(1);

    fn sold_out(cache: &RefusalCache, valid_until: Instant) {
        let buyers = RoaringTreemap::from_iter([7]);
        let cleared = cache.cleared.load(Ordering::SeqCst);
        let confirmed = Confirmed { seq: "3".to_owned(), buyers };
        cache.insert(SALE, Outcome::SoldOut, confirmed, valid_until, cleared);
    }

    #[test]
    fn strangers_are_refused_while_it_is_confirmed() {
        let (cache, now) = (RefusalCache::new(), Instant::now());
        let refused = Some(Ok(Outcome::SoldOut));
        let at = |after: Duration, user| cache.find(SALE, UserId(user), now + after);
        sold_out(&cache, now + VALID_FOR);
        assert_eq!(at(Duration::ZERO, 8), refused);
        assert_eq!(at(Duration::ZERO, 7), None, "a buyer asks Redis");
        assert_eq!(at(VALID_FOR, 8), None);
        assert_eq!(cache.take_told(SALE), Some((1, "sold_out")));
        assert_eq!(cache.take_told(SALE), None);
        let extend = |answer, seq| cache.extend(SALE, answer, seq, now + 2 * VALID_FOR);
        assert!(!extend(&Outcome::SoldOut, Some("4")), "the buyers may be others");
        assert!(!extend(&Outcome::Paused, None));
        assert_eq!(at(VALID_FOR, 8), None);
        assert!(extend(&Outcome::SoldOut, Some("3")));
        assert_eq!(at(VALID_FOR, 8), refused);
    }

    #[test]
    fn an_answer_from_before_a_change_is_not_kept() {
        let (cache, now) = (RefusalCache::new(), Instant::now());
        let before = cache.cleared.load(Ordering::SeqCst);
        sold_out(&cache, now + VALID_FOR);
        cache.clear();
        assert_eq!(cache.find(SALE, UserId(8), now), None);
        cache.insert(SALE, Outcome::Ended, Confirmed::default(), now + VALID_FOR, before);
        assert!(!cache.extend(SALE, &Outcome::SoldOut, Some("3"), now + VALID_FOR));
        assert_eq!(cache.find(SALE, UserId(8), now), None);
    }

    #[test]
    fn what_is_in_use_is_confirmed_and_the_rest_dropped() {
        let (cache, now) = (RefusalCache::new(), Instant::now());
        cache.note_refused(SALE, WORTHWHILE - 1);
        assert!(cache.is_empty(), "too few requests");
        cache.note_refused(SALE, WORTHWHILE);
        assert_eq!(cache.due(now), HashSet::from([SALE]));
        sold_out(&cache, now + VALID_FOR);
        assert!(cache.due(now).is_empty());
        assert!(cache.find(SALE, UserId(8), now).is_some());
        assert_eq!(cache.due(now), HashSet::from([SALE]));
        let error = Err(AdmissionError::Stopping);
        cache.insert_for(VoucherId(2), error.clone(), VALID_FOR);
        assert_eq!(cache.find(VoucherId(2), UserId(7), now), Some(error));
        assert_eq!(cache.due(now), HashSet::from([SALE]), "Redis has no say in the other");
        cache.due(now + VALID_FOR + 2 * UNUSED_FOR);
        assert!(cache.is_empty());
    }
}
