//! The ledger: the invariants of a sale, checked against figures read by the caller.

use std::{fmt, slice};

use serde::{Deserialize, Serialize, Serializer};

use crate::{Label, Reason, ShardId, VoucherId, locale::in_english, reason};

/// Figures of one sale in Redis, read atomically.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RedisLedger {
    /// Total stock, sold or not, by Redis.
    pub initial: u64,
    /// Pieces left; a negative value is reported as it is.
    pub stock: i64,
    /// Number of changes by which Redis' copy of the sale is behind SQL.
    pub behind: u64,
    /// Number of changes of the sale in Redis that SQL lacks.
    pub ahead: u64,
}

/// Figures of one sale in SQL, read in one transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SqlLedger {
    /// Total stock, sold or not.
    pub initial: u64,
    /// Pieces not held by a live order, by the row of the sale.
    pub stock: i64,
    /// Number of live orders, counted.
    pub live: u64,
    /// Number of closed or cancelled orders, counted.
    pub closed: u64,
    /// Buyers with more live orders than the limit of the sale, or with two at one place.
    pub doubled: u64,
    /// Closed orders not yet returned in Redis.
    pub returning: u64,
}

/// What the findings of one sale follow from: its figures, and the result of comparing order IDs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaleLedger {
    /// `None` if the sale is not in Redis, or not completely.
    pub redis: Option<RedisLedger>,
    /// Admitted buyers in Redis that are not closed, also if other keys of the sale are lost.
    pub admitted: u64,
    /// Redis and SQL have different sales with this ID.
    pub other: bool,
    /// The key of the sale in Redis that is inconsistent with the others.
    pub damaged: Option<SaleKey>,
    /// Fields of the sale in Redis that differ from the same version in SQL.
    pub changed: Option<String>,
    /// SQL has the sale.
    pub in_sql: bool,
    /// The sale is over and no longer in Redis.
    pub archived: bool,
    /// State in SQL.
    pub sql: SqlLedger,
    /// Admitted orders that exist only as dead letters: their buyers wait.
    pub stranded: u64,
    /// Admitted orders that are neither in SQL nor in the stream nor dead letters.
    pub lost: u64,
    /// Live orders in SQL whose buyer is unknown to Redis.
    pub unknown: u64,
    /// Order IDs that belong to two buyers.
    pub repeated: u64,
    /// Closed orders still held by their buyer in Redis, except those about to be returned.
    pub kept: u64,
}

/// An inconsistency of a sale.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[derive(derive_more::Display)]
#[display("{}", self.reason())]
pub enum Finding {
    /// The sale is open but missing in Redis.
    NotLoaded,
    /// Keys of the sale were deleted, replaced or rolled back.
    Damaged(SaleKey),
    /// SQL was rolled back, or Redis is used with another database.
    NotInSql,
    /// SQL was rolled back.
    Ahead(u64),
    /// SQL was rolled back, and the ID was assigned again.
    OtherSale,
    /// Another program changed these fields of the sale in Redis.
    Fields(String),
    /// A row of the sale in SQL has a value that cannot be read, or keys in Redis that SQL does not know have one.
    Unreadable(String),
    /// An older copy of Redis restored an archived sale.
    StillHeld,
    /// Invariant 2: the order has a result, but not the promised one.
    Stranded(u64),
    /// Invariant 1.
    RedisStock {
        /// Total stock, sold or not.
        initial: u64,
        /// Pieces left.
        stock: i64,
        /// Buyers.
        admitted: u64,
    },
    /// Invariants 1 and 3: negative.
    Negative(Side, i64),
    /// A command did not reach Redis, or a repair was interrupted.
    Behind(u64),
    /// Redis and SQL have different initial stocks.
    Initial {
        /// By Redis.
        redis: u64,
        /// By SQL.
        sql: u64,
    },
    /// Invariant 2, Redis side.
    Lost(u64),
    /// Invariant 2, SQL side.
    Unknown(u64),
    /// Invariant 3.
    SqlStock {
        /// Pieces left.
        stock: i64,
        /// Total stock, sold or not.
        initial: u64,
        /// Live orders.
        live: u64,
    },
    /// Invariant 4.
    Doubled(u64),
    /// Invariant 7: a piece that is never returned.
    Kept(u64),
    /// Invariant 5.
    Repeated(u64),
}

/// A key of a sale in Redis that is inconsistent with the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[derive(strum::Display, strum::EnumString)]
#[strum(serialize_all = "snake_case")]
pub enum SaleKey {
    /// The hash of the sale.
    Sale,
    /// Its stock.
    Stock,
    /// Its buyers.
    Buyers,
    /// None of them: the sale is being reconciled.
    Restoring,
}

/// Source of figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[derive(strum::Display)]
pub enum Side {
    /// Redis.
    Redis,
    /// SQL.
    #[strum(serialize = "SQL")]
    Sql,
}

/// A finding and its sale; `None` if it concerns all sales together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, derive_more::Display)]
#[display("{}", self.reason())]
pub struct SaleFinding {
    /// The sale.
    pub sale: Option<VoucherId>,
    /// Number of its shard, if it is spread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<u16>,
    /// The inconsistency.
    pub what: Finding,
}

impl SaleFinding {
    /// A finding of a shard, or of a sale that is not spread.
    pub fn of(shard: ShardId, what: Finding) -> Self {
        Self { sale: Some(shard.voucher()), shard: shard.numbered(), what }
    }

    /// Its message.
    pub fn reason(&self) -> Reason {
        match (self.sale, self.shard, self.what.reason()) {
            (Some(sale), Some(shard), what) => {
                reason!("ledger-finding-of-shard", sale, shard, what)
            }
            (Some(sale), None, what) => reason!("ledger-finding-of-sale", sale, what),
            (None, _, what) => what,
        }
    }
}

/// An audit of one sale; the keys are a contract of `audit --json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SaleAudit {
    /// The sale.
    pub voucher_id: VoucherId,
    /// Number of the shard, if this is the audit of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shard: Option<u16>,
    /// Title.
    pub title: String,
    /// Total stock, sold or not, by SQL.
    pub initial: u64,
    /// Pieces left in Redis; `None` if the sale is not in Redis.
    pub stock: Option<i64>,
    /// Buyers with an order, by Redis.
    pub admitted: u64,
    /// Live orders, counted in SQL.
    pub persisted: u64,
    /// Closed orders, counted in SQL.
    pub closed: u64,
    /// Undelivered entries whose order is not in SQL.
    pub undelivered: u64,
    /// Entries that are pending, and whose order is not in SQL.
    pub pending: u64,
    /// Dead letters.
    pub dead: u64,
    /// Pieces left in SQL.
    pub db_stock: i64,
    /// Findings.
    #[serde(serialize_with = "sentences")]
    pub findings: Vec<Finding>,
    /// Some of its shards were not read, because their server did not reply or because they are archived: its figures are
    /// those of the others.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub incomplete: bool,
    /// The servers no longer answer: the audit was made before, and its result is unknown now.
    #[serde(skip)]
    pub is_outdated: bool,
    /// The shards over which it is spread, by number: its figures are their sums, its findings are all of theirs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shards: Vec<Self>,
}

impl SaleAudit {
    /// A sale of which nothing is known but that its rows, or its keys, cannot be read, and why.
    pub fn unreadable(voucher_id: VoucherId, why: String) -> Self {
        Self {
            voucher_id,
            shard: None,
            title: String::new(),
            initial: 0,
            stock: None,
            admitted: 0,
            persisted: 0,
            closed: 0,
            undelivered: 0,
            pending: 0,
            dead: 0,
            db_stock: 0,
            findings: vec![Finding::Unreadable(why)],
            incomplete: true,
            is_outdated: false,
            shards: Vec::new(),
        }
    }

    /// The audit of a sale: the sum of its shards. `None` without any.
    pub fn whole(mut parts: Vec<Self>) -> Option<Self> {
        parts.sort_unstable_by_key(|part| part.shard);
        let first = parts.first()?;
        if first.shard.is_none() {
            return parts.pop();
        }
        let mut whole = Self { shard: None, ..first.clone() };
        for part in parts.iter().skip(1) {
            whole.initial += part.initial;
            whole.stock = whole.stock.zip(part.stock).map(|(one, other)| one + other);
            whole.admitted += part.admitted;
            whole.persisted += part.persisted;
            whole.closed += part.closed;
            whole.undelivered += part.undelivered;
            whole.pending += part.pending;
            whole.dead += part.dead;
            whole.db_stock += part.db_stock;
            whole.findings.extend_from_slice(&part.findings);
        }
        whole.shards = parts;
        Some(whole)
    }

    /// Its shards; without any, itself.
    pub fn parts(&self) -> &[Self] {
        if self.shards.is_empty() { slice::from_ref(self) } else { &self.shards }
    }

    /// The shard, or the sale that is not spread.
    pub fn shard_id(&self) -> ShardId {
        ShardId { sale: self.voucher_id.into(), number: self.shard.unwrap_or(0) }
    }

    /// Each sale, followed by its shards.
    pub fn with_shards(sales: &[Self]) -> impl Iterator<Item = &Self> {
        sales.iter().flat_map(|sale| slice::from_ref(sale).iter().chain(&sale.shards))
    }

    /// Findings, each with its sale and shard.
    pub fn found(&self) -> impl Iterator<Item = SaleFinding> {
        self.parts().iter().flat_map(|part| {
            let of = |what: &Finding| SaleFinding::of(part.shard_id(), what.clone());
            part.findings.iter().map(of)
        })
    }

    /// Admitted orders on their way to SQL.
    pub fn in_flight(&self) -> u64 {
        self.undelivered + self.pending
    }

    /// The repairs, each once, in order of execution.
    pub fn cures(&self) -> Vec<Cure> {
        let mut cures: Vec<Cure> = self.findings.iter().filter_map(Finding::cure).collect();
        cures.sort_unstable();
        cures.dedup();
        cures
    }
}

/// Serializes findings as one English sentence each.
pub fn sentences<S: Serializer>(findings: &[impl fmt::Display], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(findings.iter().map(|finding| in_english(|| finding.to_string())))
}

/// A repair of findings, ordered by execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr, strum::EnumIter)]
#[strum(serialize_all = "kebab-case", prefix = "ledger-cure-")]
#[derive(derive_more::Display)]
#[display("{}", Label((*self).into()))]
pub enum Cure {
    /// Restore the sale in SQL from Redis.
    Adopt,
    /// Remove an archived sale from Redis.
    Remove,
    /// Derive the stock in SQL from the live orders.
    SqlStock,
    /// Update the fields of the sale in Redis from SQL.
    Update,
    /// Rename the keys of another sale with that ID in Redis, and load the one in SQL.
    Replace,
    /// Reconcile the sale in Redis with SQL, the stream and the dead letters.
    Reconcile,
    /// Return in Redis what is closed in SQL.
    GiveBack,
    /// Add promised orders that are missing everywhere to the stream again.
    Enqueue,
}

impl Finding {
    /// Its message.
    pub fn reason(&self) -> Reason {
        match *self {
            Self::Fields(ref fields) => reason!("ledger-finding-fields", fields),
            Self::NotLoaded => reason!("ledger-sale-is-not-in-redis"),
            Self::Damaged(SaleKey::Restoring) => reason!("ledger-finding-restoring"),
            Self::Damaged(key) => reason!("ledger-finding-damaged", key = key.to_string()),
            Self::NotInSql => reason!("ledger-sale-is-in-redis-but"),
            Self::Ahead(changes) => reason!("ledger-finding-ahead", changes),
            Self::OtherSale => reason!("ledger-finding-other-sale"),
            Self::Unreadable(ref why) => reason!("ledger-finding-unreadable", why),
            Self::StillHeld => reason!("ledger-finding-still-held"),
            Self::Stranded(orders) => reason!("ledger-finding-stranded", orders),
            Self::RedisStock { initial, stock, admitted } => {
                reason!("ledger-finding-redis-stock", initial, stock, admitted)
            }
            Self::Negative(side, stock) => {
                reason!("ledger-finding-negative", side = side.to_string(), stock)
            }
            Self::Behind(changes) => reason!("ledger-finding-behind", changes),
            Self::Initial { redis, sql } => reason!("ledger-finding-initial", redis, sql),
            Self::Lost(orders) => reason!("ledger-finding-lost", orders),
            Self::Unknown(orders) => reason!("ledger-finding-unknown", orders),
            Self::SqlStock { stock, initial, live } => {
                reason!("ledger-finding-sql-stock", stock, initial, live)
            }
            Self::Doubled(buyers) => reason!("ledger-finding-doubled", buyers),
            Self::Kept(orders) => reason!("ledger-finding-kept", orders),
            Self::Repeated(ids) => reason!("ledger-finding-repeated", ids),
        }
    }

    /// How many pieces a sale lacks that has more live orders than pieces: no repair cancels orders.
    pub fn missing_pieces(&self) -> Option<u64> {
        match self {
            Self::SqlStock { initial, live, .. } => live.checked_sub(*initial).filter(|it| *it > 0),
            _ => None,
        }
    }

    /// The repair; `None` if the operator must decide.
    pub fn cure(&self) -> Option<Cure> {
        match self {
            // Of a version that both have. Of an older one in Redis, another finding reconciles it.
            Self::NotInSql | Self::Ahead(_) | Self::Initial { .. } => Some(Cure::Adopt),
            Self::StillHeld => Some(Cure::Remove),
            Self::OtherSale => Some(Cure::Replace),
            Self::NotLoaded
            | Self::Damaged(_)
            | Self::RedisStock { .. }
            | Self::Behind(_)
            | Self::Unknown(_) => Some(Cure::Reconcile),
            Self::Fields(_) => Some(Cure::Update),
            Self::Kept(_) => Some(Cure::GiveBack),
            Self::Lost(_) => Some(Cure::Enqueue),
            Self::SqlStock { initial, live, .. } if live <= initial => Some(Cure::SqlStock),
            Self::Unreadable(_)
            | Self::Negative(..)
            | Self::SqlStock { .. }
            | Self::Doubled(_)
            | Self::Repeated(_)
            | Self::Stranded(_) => None,
        }
    }
}

impl SaleLedger {
    /// All inconsistencies. Orders in flight (undelivered, pending) are not among them.
    pub fn findings(&self) -> Vec<Finding> {
        let mut found = Vec::new();
        let sql = &self.sql;
        let shown = self.damaged.filter(|key| match key {
            // The checks below report the mismatch.
            SaleKey::Stock => self.redis.is_none(),
            // Another sale is closed by the same mark as one being reconciled.
            SaleKey::Restoring => !self.other,
            _ => true,
        });
        found.extend(shown.map(Finding::Damaged));
        match &self.redis {
            redis if self.archived && (redis.is_some() || self.other) => {
                found.push(Finding::StillHeld);
            }
            Some(_) if !self.in_sql => found.push(Finding::NotInSql),
            _ if self.other => found.push(Finding::OtherSale),
            Some(redis) => {
                if redis.stock < 0 {
                    found.push(Finding::Negative(Side::Redis, redis.stock));
                }
                if redis.initial as i64 != redis.stock.saturating_add(self.admitted as i64) {
                    found.push(Finding::RedisStock {
                        initial: redis.initial,
                        stock: redis.stock,
                        admitted: self.admitted,
                    });
                }
                found.extend(self.changed.clone().map(Finding::Fields));
                if redis.behind > 0 {
                    found.push(Finding::Behind(redis.behind));
                }
                if redis.ahead > 0 {
                    found.push(Finding::Ahead(redis.ahead));
                } else if redis.initial != sql.initial {
                    found.push(Finding::Initial { redis: redis.initial, sql: sql.initial });
                }
            }
            None if self.archived || self.damaged.is_some() => {}
            None => found.push(Finding::NotLoaded),
        }
        if sql.stock < 0 {
            found.push(Finding::Negative(Side::Sql, sql.stock));
        }
        if sql.stock.saturating_add(sql.live as i64) != sql.initial as i64 {
            found.push(Finding::SqlStock {
                stock: sql.stock,
                initial: sql.initial,
                live: sql.live,
            });
        }
        let counted = [
            (self.lost, Finding::Lost as fn(u64) -> Finding),
            (self.stranded, Finding::Stranded),
            (self.unknown, Finding::Unknown),
            (sql.doubled, Finding::Doubled),
            (self.repeated, Finding::Repeated),
            (self.kept, Finding::Kept),
        ];
        found.extend(counted.into_iter().filter(|(n, _)| *n > 0).map(|(n, make)| make(n)));
        found
    }
}

/// Summary of the ledger for display.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Balance {
    /// Nothing was read yet, or a server is unavailable.
    #[default]
    Unknown,
    /// All figures agree.
    Balanced {
        /// Whether order IDs were compared, not only counts.
        by_id: bool,
    },
    /// Orders are in flight, without inconsistency.
    InFlight {
        /// Number of orders in flight.
        orders: u64,
    },
    /// The audit failed.
    Off {
        /// The findings.
        #[serde(serialize_with = "sentences")]
        findings: Vec<SaleFinding>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger() -> SaleLedger {
        SaleLedger {
            redis: Some(RedisLedger { initial: 100, stock: 40, behind: 0, ahead: 0 }),
            admitted: 60,
            archived: false,
            other: false,
            damaged: None,
            changed: None,
            in_sql: true,
            sql: SqlLedger {
                initial: 100,
                stock: 50,
                live: 50,
                closed: 3,
                doubled: 0,
                returning: 0,
            },
            stranded: 0,
            lost: 0,
            unknown: 0,
            repeated: 0,
            kept: 0,
        }
    }

    #[test]
    fn one_is_singular() {
        for (finding, sentence) in [
            (Finding::Behind(1), "Redis lacks the last change of the sale"),
            (
                Finding::Lost(1),
                "1 admitted order is neither in SQL nor in the stream nor a dead letter",
            ),
            (
                Finding::Unknown(1),
                "1 order in SQL has no buyer in Redis; its stock may be sold again",
            ),
            (Finding::Doubled(2), "2 buyers have more live orders than the sale allows"),
            (Finding::Repeated(1), "1 order ID belongs to two buyers"),
        ] {
            assert_eq!(finding.to_string(), sentence);
        }
    }

    #[test]
    fn orders_in_flight_are_no_imbalance() {
        assert_eq!(ledger().findings(), []);
    }

    #[test]
    fn each_violation_is_detected() {
        type Spoil = fn(&mut SaleLedger);
        let cases: [(Spoil, Finding); 17] = [
            (|b| b.changed = Some("limit 5".into()), Finding::Fields("limit 5".into())),
            (|b| b.redis = None, Finding::NotLoaded),
            (
                |b| (b.redis, b.damaged) = (None, Some(SaleKey::Buyers)),
                Finding::Damaged(SaleKey::Buyers),
            ),
            (|b| b.in_sql = false, Finding::NotInSql),
            (|b| b.archived = true, Finding::StillHeld),
            (|b| b.other = true, Finding::OtherSale),
            (|b| b.redis.as_mut().unwrap().ahead = 2, Finding::Ahead(2)),
            (|b| b.stranded = 3, Finding::Stranded(3)),
            (
                |b| {
                    b.redis = Some(RedisLedger { initial: 100, stock: 41, behind: 0, ahead: 0 });
                },
                Finding::RedisStock { initial: 100, stock: 41, admitted: 60 },
            ),
            (
                |b| {
                    b.admitted = 101;
                    b.redis = Some(RedisLedger { initial: 100, stock: -1, behind: 0, ahead: 0 });
                },
                Finding::Negative(Side::Redis, -1),
            ),
            (
                |b| {
                    b.redis = Some(RedisLedger { initial: 110, stock: 50, behind: 0, ahead: 0 });
                },
                Finding::Initial { redis: 110, sql: 100 },
            ),
            (
                |b| {
                    b.redis = Some(RedisLedger { initial: 100, stock: 40, behind: 1, ahead: 0 });
                },
                Finding::Behind(1),
            ),
            (|b| b.lost = 2, Finding::Lost(2)),
            (|b| b.unknown = 2, Finding::Unknown(2)),
            (|b| b.sql.stock = 49, Finding::SqlStock { stock: 49, initial: 100, live: 50 }),
            (|b| b.sql.doubled = 1, Finding::Doubled(1)),
            (|b| b.kept = 2, Finding::Kept(2)),
        ];
        for (spoil, finding) in cases {
            let mut ledger = ledger();
            spoil(&mut ledger);
            assert_eq!(ledger.findings(), [finding]);
        }
    }
}
