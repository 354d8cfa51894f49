//! A sale as a snapshot shows it: what SQL has, what Redis has, and the replies of its admission.

use seckill_model::{Millis, Phase, Sale, SaleShard, SaleState, ShardId, VoucherId};
use seckill_redis::stream_stats::SaleStats;
use serde::Serialize;

use super::data_loss::is_default;

/// How the sale in SQL compares with the one in Redis, which gets each change from SQL: Redis is ahead only if SQL was
/// restored from a backup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SqlCopy {
    /// SQL has what Redis has.
    #[default]
    Current,
    /// SQL lacks changes of the sale.
    Behind,
    /// SQL lacks the sale.
    Lost,
}

/// One sale on the screen.
#[derive(Clone, Debug, Serialize)]
pub struct SaleLine {
    /// The voucher.
    pub voucher_id: VoucherId,
    /// Number of the shard, if this is the line of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shard: Option<u16>,
    /// Its title for buyers; may contain wide characters.
    pub title: String,
    /// Its phase, by the clock of Redis.
    pub phase: Phase,
    /// The operator's setting.
    pub state: SaleState,
    /// Whether SQL lacks it or its last changes; phase, state, window and initial stock are those of Redis then.
    #[serde(skip_serializing_if = "is_default")]
    pub sql: SqlCopy,
    /// Maximum number of orders per user.
    pub limit: u8,
    /// When it was last changed in SQL, by an operator or by an order.
    pub changed: Millis,
    /// Total stock, sold or not.
    pub initial: u64,
    /// Pieces left in Redis; `None` if the sale is not in Redis, or was not read yet.
    pub stock: Option<i64>,
    /// Pieces left in SQL.
    pub db_stock: u64,
    /// Opening of the window.
    pub begin: Option<Millis>,
    /// End of the window.
    pub end: Option<Millis>,
    /// Buyers admitted; `None` before the first read of Redis.
    pub admitted: Option<u64>,
    /// Live orders in SQL.
    pub persisted: u64,
    /// Admission replies of this sale.
    pub funnel: Funnel,
    /// The shards over which it is spread, by number.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shards: Vec<Self>,
}

impl SaleLine {
    /// Builds the line of a sale as stored in SQL at `now`, with its facts in Redis; rates are unknown.
    pub fn of(sale: &Sale, now: Millis, facts: Option<&SaleStats>) -> Self {
        let stock = facts.and_then(|facts| facts.initial.and(facts.stock));
        let left = match facts {
            Some(_) => stock.and_then(|stock| u64::try_from(stock).ok()),
            // What SQL has sold is sold in Redis as well.
            None => Some(sale.stock),
        };
        Self {
            voucher_id: sale.voucher_id,
            shard: None,
            title: sale.title.clone(),
            phase: sale.phase(now, left),
            state: sale.state,
            sql: SqlCopy::Current,
            limit: sale.limit,
            changed: sale.changed,
            initial: sale.initial,
            stock,
            db_stock: sale.stock,
            begin: sale.begin,
            end: sale.end,
            admitted: facts.map(|facts| facts.buyers),
            persisted: sale.live_orders(),
            funnel: facts.map(|facts| Funnel::of(facts, |_| 0.0)).unwrap_or_default(),
            shards: Vec::new(),
        }
    }

    /// The same of a shard.
    pub fn of_shard(shard: &SaleShard, now: Millis, facts: Option<&SaleStats>) -> Self {
        Self { shard: shard.id.numbered(), ..Self::of(shard, now, facts) }
    }

    /// Builds the line of a shard that SQL lacks from the copy in Redis.
    pub fn of_lost(held: &SaleShard, now: Millis, facts: Option<&SaleStats>) -> Self {
        Self { sql: SqlCopy::Lost, db_stock: 0, persisted: 0, ..Self::of_shard(held, now, facts) }
    }

    /// Replaces what SQL has in an older version by the copy in Redis.
    pub fn held_in_redis(&mut self, held: &Sale, now: Millis) {
        let left = self.stock.and_then(|stock| u64::try_from(stock).ok());
        self.sql = SqlCopy::Behind;
        self.title.clone_from(&held.title);
        (self.phase, self.state, self.limit) = (held.phase(now, left), held.state, held.limit);
        (self.initial, self.begin, self.end) = (held.initial, held.begin, held.end);
    }

    /// Returns whether SQL lacks the sale, or one of its shards.
    pub fn is_lost(&self) -> bool {
        self.sql == SqlCopy::Lost || self.shards.iter().any(Self::is_lost)
    }

    /// Returns at most how many of its admitted orders are not in SQL; `None` if Redis was not read.
    pub fn unwritten(&self) -> Option<u64> {
        Some(self.admitted?.saturating_sub(self.persisted))
    }

    /// The shard, or the sale that is not spread.
    pub fn shard_id(&self) -> ShardId {
        ShardId { sale: self.voucher_id.into(), number: self.shard.unwrap_or(0) }
    }

    /// What is left in those of its shards that Redis has, and how many it lacks; `None` if it has all, or none, or one of
    /// them is unknown.
    pub fn partly_loaded(&self) -> Option<(i64, usize)> {
        self.admitted.filter(|_| self.stock.is_none())?;
        let loaded: Vec<i64> = self.shards.iter().filter_map(|shard| shard.stock).collect();
        let lacking = self.shards.len() - loaded.len();
        (!loaded.is_empty()).then(|| (loaded.iter().sum(), lacking))
    }

    /// One line for each voucher: the shards of a sale become one, at the place of the first.
    pub fn of_vouchers(lines: impl IntoIterator<Item = Self>) -> Vec<Self> {
        let mut whole: Vec<Self> = Vec::new();
        for line in lines {
            if line.shard.is_none() {
                whole.push(line);
            } else if let Some(of) = whole.iter_mut().find(|it| it.voucher_id == line.voucher_id) {
                of.add(line);
            } else {
                let shards = vec![line.clone()];
                whole.push(Self { shard: None, shards, ..line });
            }
        }
        for line in &mut whole {
            line.shards.sort_unstable_by_key(|it| it.shard);
        }
        whole
    }

    fn add(&mut self, shard: Self) {
        // Their windows are the same, and pieces move: it is sold out once all are.
        if self.phase == Phase::SoldOut {
            self.phase = shard.phase;
        }
        if self.sql != shard.sql {
            self.sql = SqlCopy::Behind;
        }
        self.changed = self.changed.max(shard.changed);
        self.initial += shard.initial;
        self.db_stock += shard.db_stock;
        self.persisted += shard.persisted;
        self.stock = self.stock.zip(shard.stock).map(|(one, other)| one + other);
        self.admitted = self.admitted.zip(shard.admitted).map(|(one, other)| one + other);
        self.funnel += shard.funnel;
        self.shards.push(shard);
    }
}

/// Admission replies, with recent rates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, derive_more::AddAssign)]
pub struct Funnel {
    /// All requests with a reply.
    pub attempts: Count,
    /// Admitted.
    pub admitted: Count,
    /// Sold out.
    pub sold_out: Count,
    /// Already holding an order.
    pub duplicate: Count,
    /// Too early, too late, paused or not loaded.
    pub rejected: Count,
    /// Rejected because this node's queue was full.
    pub busy: Count,
}

impl Funnel {
    /// Builds them from the counters of one sale in Redis; `rate` returns the rate of a counter.
    pub(super) fn of(facts: &SaleStats, rate: impl Fn(fn(&SaleStats) -> u64) -> f64) -> Self {
        let count =
            |pick: fn(&SaleStats) -> u64| Count { total: pick(facts), per_second: rate(pick) };
        Self {
            attempts: count(|f| f.admitted + f.refused()),
            admitted: count(|f| f.admitted),
            sold_out: count(|f| f.sold_out),
            duplicate: count(|f| f.duplicate),
            rejected: count(|f| f.rejected),
            busy: Count::default(),
        }
    }
}

/// A counter and its rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, derive_more::AddAssign)]
pub struct Count {
    /// Since the sale was created; rejections by this node since it was started.
    pub total: u64,
    /// Per second, over the last seconds; 0 if unknown.
    pub per_second: f64,
}
