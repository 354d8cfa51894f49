//! What a seed determines: the fault, its time, and all sizes.

use std::{collections::HashSet, mem, time::Duration};

use rand::rngs::ChaCha8Rng;
use rand::{Rng, RngExt as _, SeedableRng as _, seq::SliceRandom as _};
use seckill_engine::deployment::settings::Settings;
use seckill_model::{SaleId, ShardId, Spread, UserId, VoucherId, faults::Point};

use super::buyers::Log;

/// A request: a user and the index of a sale in the plan.
pub type Ask = (usize, u64);

/// A fault that the node survives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    KillRedis {
        away: Duration,
    },
    TruncateAof {
        away: Duration,
    },
    /// Redis hangs with open connections for this time.
    Frozen(Duration),
    /// The replica of Redis takes over, without what was written last.
    FailedOver {
        behind: Duration,
        /// How long Redis hangs before.
        hangs: Duration,
    },
    FlushAll,
    ScriptFlush,
    GroupDestroyed,
    DatabaseAway(Duration),
    DatabaseHangs(Duration),
    DatabaseSlow(Duration),
    CommitsUnsure(f64),
    Duplicates(usize),
    Poison(usize),
    /// Entries with good fields, of users who were never admitted.
    Forged(usize),
    ConsumerRemoved(usize),
    TrimmedPending(usize),
    TrimmedAll(usize),
    /// One key is deleted, replaced or set back.
    Key(Key, Harm),
    /// Redis restarts from a copy of its files of this age.
    OldRedis(Duration),
    /// The rows of SQL are set back by this time.
    OldRows(Duration),
    /// The table of orders rejects every row for this time.
    OrdersRejected(Duration),
    /// It rejects the orders of the first sale for this time.
    SaleRejected(Duration),
    /// SQL loses the first sale with its orders, and gets nothing back.
    SaleLost,
    /// A column is added that every order must have, and dropped again after this time.
    ColumnAdded(Duration),
    /// A unique index is added that the engine does not know, and dropped again after this time.
    UniqueIndex(Duration),
    /// Rows of another program, with negative IDs, lie in the place of buyers for this time.
    ForeignRows(Duration),
    /// The stock of the first sale in SQL is changed by this many pieces, and derived by the operator after a second.
    SqlStock(i64),
    /// The disk of Redis and SQLite is full for this time.
    DiskFull(Duration),
    /// A field of the first sale in Redis is changed.
    Field(Field, Change),
    /// For this time, no reply of Redis reaches a node, or those to its admissions come late.
    Replies {
        late: Option<Duration>,
        time: Duration,
    },
    /// Stock is removed and added while SQL is slow, by a process that gets no reply of Redis to its cuts, or gets it late,
    /// and by another one.
    Cuts {
        late: Option<Duration>,
        slow: Duration,
    },
}

/// The damaged key; of the first sale if there are several.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Key {
    Sale,
    Stock,
    Buyers,
    Tally,
    Orders,
    Dead,
    Watermark,
    DataLoss,
    Nodes,
    Instances,
    Gone,
    Sequence,
}

impl Key {
    pub const ALL: [Self; 12] = [
        Self::Sale,
        Self::Stock,
        Self::Buyers,
        Self::Tally,
        Self::Orders,
        Self::Dead,
        Self::Watermark,
        Self::DataLoss,
        Self::Nodes,
        Self::Instances,
        Self::Gone,
        Self::Sequence,
    ];
}

/// The changed field of a sale.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Field {
    State,
    Begin,
    End,
    Version,
    Limit,
    Initial,
    Seq,
    Created,
    Last,
    Run,
    Title,
    Shard,
}

impl Field {
    const ALL: [Self; 12] = [
        Self::State,
        Self::Begin,
        Self::End,
        Self::Version,
        Self::Limit,
        Self::Initial,
        Self::Seq,
        Self::Created,
        Self::Last,
        Self::Run,
        Self::Title,
        Self::Shard,
    ];
}

/// The change of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Change {
    Deleted,
    /// It holds a text that it never has.
    Text,
    /// It holds a value of another sale.
    Other,
}

/// The damage to a key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Harm {
    Deleted,
    /// It holds a value of another type.
    Replaced,
    /// It is set back by this time.
    SetBack(Duration),
}

impl Fault {
    pub fn name(self) -> String {
        match self {
            Self::Key(key, Harm::Deleted) => return format!("{key:?} deleted"),
            Self::Key(key, Harm::Replaced) => return format!("{key:?} replaced"),
            Self::Key(key, Harm::SetBack(_)) => return format!("{key:?} set back"),
            Self::Field(field, change) => return format!("field {field:?}: {change:?}"),
            Self::DiskFull(_) => "disk full",
            Self::ColumnAdded(_) => "a column added that orders must have",
            Self::UniqueIndex(_) => "an unknown unique index",
            Self::ForeignRows(_) => "foreign rows in the place of buyers",
            Self::SqlStock(_) => "stock changed in SQL",
            Self::Replies { late: None, .. } => "no replies to a node",
            Self::Replies { .. } => "late replies to admissions",
            Self::OldRedis(_) => "Redis restarted from an older copy",
            Self::OldRows(_) => "SQL rows set back",
            Self::OrdersRejected(_) => "each order rejected by SQL",
            Self::SaleRejected(_) => "orders of one sale rejected by SQL",
            Self::SaleLost => "a sale lost in SQL",
            Self::KillRedis { .. } => "Redis killed",
            Self::TruncateAof { .. } => "Redis killed, its file truncated",
            Self::Frozen(_) => "Redis suspended",
            Self::FailedOver { behind: Duration::ZERO, .. } => "Redis failed over",
            Self::FailedOver { .. } => "Redis failed over to an older replica",
            Self::FlushAll => "FLUSHALL",
            Self::ScriptFlush => "SCRIPT FLUSH",
            Self::GroupDestroyed => "group destroyed",
            Self::DatabaseAway(_) => "database away",
            Self::DatabaseHangs(_) => "database hangs",
            Self::DatabaseSlow(_) => "database slow",
            Self::CommitsUnsure(_) => "outcome of commits unknown",
            Self::Duplicates(_) => "duplicate entries",
            Self::Poison(_) => "poison entries",
            Self::Forged(_) => "forged entries",
            Self::ConsumerRemoved(_) => "consumer removed with its entries",
            Self::TrimmedPending(_) => "pending entries trimmed",
            Self::TrimmedAll(_) => "stream trimmed to nothing",
            Self::Cuts { late: None, .. } => "cuts without replies",
            Self::Cuts { .. } => "cuts with late replies",
        }
        .to_owned()
    }
}

/// What happens to a node in a separate process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fate {
    /// It dies when it reaches a fault point for the nth time.
    DiesAt(Point, u64),
    /// It is killed together with Redis and all other nodes after this many replies.
    WithRedis { after: usize, loses: Loses, nodes: usize },
    /// It is suspended after this many replies until it counts as dead; then it resumes.
    Suspended { after: usize },
    /// It is suspended in a transaction for longer than every timeout, beside a node that lives; then it resumes.
    Inside { after: usize },
}

/// What Redis has lost when it restarts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Loses {
    Nothing,
    /// A part of what was written last.
    Tail,
    /// Everything since then: it restarts from a copy of its files of this age.
    Since(Duration),
}

/// The fault of a seed.
#[derive(Clone, Debug, PartialEq)]
pub enum Scenario {
    /// The node survives; each fault occurs after this many admissions.
    Live(Vec<(usize, Fault)>),
    /// The node dies.
    Dies(Fate),
}

#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub partitions: u16,
    /// Pieces of each sale.
    pub stock: Vec<u64>,
    pub limit: u8,
    pub buyers: u64,
    /// Share of buyers that request twice.
    pub repeat: f64,
    pub lanes: usize,
    pub nodes: usize,
    pub always: bool,
    pub consumer_batch: usize,
    pub admission_batch: usize,
    /// Unpaid orders are closed meanwhile.
    pub closing: bool,
    /// Whether the node that takes over uses the name of the dead one.
    pub same_name: bool,
    /// Clock step of the dying node at half of its requests, in seconds.
    pub step: i64,
    /// Shards of each sale; most of its users belong to one.
    pub shards: u16,
    pub scenario: Scenario,
}

impl Plan {
    pub fn of(seed: u64) -> Self {
        let some = if seed.is_multiple_of(4) { 8 } else { 1 };
        let shards = crate::number("SHARDS").map_or(some, |shards| shards as u16);
        let random = &mut ChaCha8Rng::seed_from_u64(seed);
        let buyers = random.random_range(50..=400);
        let sales = random.random_range(1..=2);
        let limit = if random.random_bool(0.2) { 2 } else { 1 };
        let stock: Vec<u64> =
            (0..sales).map(|_| random.random_range(buyers / 3..=buyers * 5 / 4)).collect();
        let partitions = random.random_range(1..=3);
        // This many are admitted in any case.
        let sure = stock.iter().map(|it| (*it).min(buyers)).sum::<u64>() as usize;
        let scenario = if random.random_bool(0.5) {
            Scenario::Dies(fate(random, sure / 3))
        } else {
            let most = if random.random_bool(0.3) { 2 } else { 1 };
            let mut times: Vec<usize> =
                (0..most).map(|_| random.random_range(0..sure * 3 / 4)).collect();
            times.sort_unstable();
            Scenario::Live(times.into_iter().map(|at| (at, fault(random))).collect())
        };
        let mut plan = Self {
            seed,
            partitions,
            stock,
            limit,
            buyers,
            repeat: random.random_range(0.0..0.5),
            lanes: random.random_range(4..=24),
            nodes: random.random_range(1..=3),
            always: random.random_bool(0.3),
            consumer_batch: random.random_range(3..=200),
            admission_batch: random.random_range(1..=64),
            closing: random.random_bool(0.3),
            same_name: random.random_bool(0.6),
            step: if random.random_bool(0.3) { random.random_range(-90_000..90_000) } else { 0 },
            shards: if shards > 1 { shards } else { 1 },
            scenario,
        };
        if plan.shards > 1 {
            plan.partitions = plan.shards;
        }
        plan.make_honest();
        plan
    }

    /// Removes what could not be distinguished from a fault of the engine.
    fn make_honest(&mut self) {
        match &mut self.scenario {
            Scenario::Live(faults) => {
                // What a higher limit allowed was sold: no buyer asks again meanwhile.
                let more =
                    |(_, it): &(usize, Fault)| *it == Fault::Field(Field::Limit, Change::Other);
                if let Some(first) = faults.iter().copied().find(more) {
                    (*faults, self.repeat) = (vec![first], 0.0);
                }
                // What both servers lose is nowhere: Redis loses nothing after SQL has lost the sale, and no field before,
                // which it may not have got back from SQL by then. No sale with another creation time is the one that SQL
                // had.
                let is_lost = |(_, it): &(usize, Fault)| {
                    matches!(
                        it,
                        Fault::Field(Field::Created, _)
                            | Fault::Field(_, Change::Deleted | Change::Text)
                    )
                };
                if faults.iter().any(|(_, it)| *it == Fault::SaleLost) {
                    faults.retain(|it| !is_lost(it));
                    if let [(_, first @ Fault::SaleLost), (_, second)] = &mut faults[..] {
                        mem::swap(first, second);
                    }
                }
                let replies = |(_, it): &(usize, Fault)| matches!(it, Fault::Replies { .. });
                if faults.iter().any(replies) {
                    self.nodes = self.nodes.max(2);
                    self.closing = true;
                }
                let old_rows =
                    |(_, it): &(usize, Fault)| matches!(it, Fault::OldRows(_) | Fault::SaleLost);
                // A returned and resold piece has two live orders in a database that lost the closing.
                self.closing &= !faults.iter().any(old_rows);
                // No pieces move before the operator has repaired it.
                let is_behind = |it: &(usize, Fault)| {
                    old_rows(it) || it.1 == Fault::Field(Field::Version, Change::Other)
                };
                if faults.iter().any(is_behind) {
                    self.shards = 1;
                }
                // A server with fsync=always does not lose the end of its file.
                self.always &=
                    !faults.iter().any(|(_, it)| matches!(it, Fault::TruncateAof { .. }));
            }
            Scenario::Dies(fate) => {
                if let Fate::WithRedis { loses: Loses::Tail | Loses::Since(_), .. } = fate {
                    self.always = false;
                }
                // No other process reaches its fault point.
                self.closing |=
                    matches!(fate, Fate::DiesAt(Point::AfterClosing | Point::AfterGiveBack, _));
                // A dead node with another name could not be distinguished from one that restarts slowly.
                self.same_name |= matches!(
                    fate,
                    Fate::WithRedis { .. } | Fate::DiesAt(Point::MidReconciliation, _)
                );
            }
        }
    }

    /// Unpaid orders are closed on the way, so a buyer may hold another order in the end.
    pub fn closes(&self) -> bool {
        self.closing || (matches!(self.scenario, Scenario::Dies(_)) && self.seed.is_multiple_of(2))
    }

    /// The limits of the store, shorter where a scenario lasts longer than they.
    pub fn limits(&self) -> seckill_store::Settings {
        let mut limits = seckill_store::Settings::default();
        if let Scenario::Dies(Fate::Inside { .. }) = self.scenario {
            limits.statement_ms = 1_000;
        }
        limits
    }

    pub fn settings(&self, settings: &mut Settings) {
        settings.consumer_batch = self.consumer_batch;
        settings.admission_batch = self.admission_batch;
        settings.claim_idle_ms = 300;
        settings.node_dead_ms = 2_000;
        if self.closing {
            settings.jobs.unpaid_ms = 1_000;
        }
    }

    /// The ID of a user: four of five belong to the same shard.
    fn user(&self, number: u64) -> u64 {
        let spread = Spread { sale: SaleId(0), count: self.shards };
        let first = |user: &u64| self.shards == 1 || spread.of_user(UserId(*user)).number == 1;
        let ids = number * 1_000..(number + 1) * 1_000;
        ids.clone().find(|user| number.is_multiple_of(5) || first(user)).unwrap_or(ids.start)
    }

    /// The shard that sells to a user.
    pub fn shard_of(&self, voucher: VoucherId, user: u64) -> ShardId {
        let spread = Spread { sale: voucher.into(), count: self.shards };
        if self.shards == 1 { ShardId::only(voucher) } else { spread.of_user(UserId(user)) }
    }

    /// The shard of most buyers.
    pub fn busy_shard(&self, voucher: VoucherId) -> ShardId {
        self.shard_of(voucher, self.user(1))
    }

    /// Some buyers of that shard who have no order yet.
    pub fn late_users(&self, voucher: VoucherId, log: &Log) -> Vec<u64> {
        let asked: HashSet<u64> = log.all().iter().map(|it| it.user).collect();
        let busy = self.busy_shard(voucher);
        let users = (1..=self.buyers).map(|number| self.user(number));
        let of = |user: &u64| self.shard_of(voucher, *user) == busy && !asked.contains(user);
        users.filter(of).take(5).collect()
    }

    /// The shards of a sale.
    pub fn shards_of(&self, voucher: VoucherId) -> Vec<ShardId> {
        let spread = Spread { sale: voucher.into(), count: self.shards };
        if self.shards == 1 { vec![ShardId::only(voucher)] } else { spread.all().collect() }
    }

    /// Part `part` of `of` of all requests, spread over the lanes; each lane sends them in sequence.
    pub fn lanes(&self, part: usize, of: usize) -> Vec<Vec<Ask>> {
        let random = &mut ChaCha8Rng::seed_from_u64(self.seed ^ 0x5eed);
        let mut asks: Vec<Ask> = Vec::new();
        for sale in 0..self.stock.len() {
            for user in 1..=self.buyers {
                let user = self.user(user);
                asks.push((sale, user));
                if random.random_bool(self.repeat) {
                    asks.push((sale, user));
                }
            }
        }
        asks.shuffle(random);
        let (from, to) = (asks.len() * part / of, asks.len() * (part + 1) / of);
        let mut lanes = vec![Vec::new(); self.lanes];
        for (at, ask) in asks[from..to].iter().enumerate() {
            lanes[at % self.lanes].push(*ask);
        }
        lanes
    }
}

fn fate(random: &mut impl Rng, most: usize) -> Fate {
    let after = random.random_range(0..most.max(1));
    match random.random_range(0..20) {
        0..=3 => {
            let since = Duration::from_millis(random.random_range(50..2_000));
            let all = [Loses::Nothing, Loses::Tail, Loses::Since(since)];
            let loses = all[random.random_range(0..3)];
            Fate::WithRedis { after, loses, nodes: random.random_range(1..=2) }
        }
        4 if random.random_bool(0.5) => Fate::Inside { after },
        4 => Fate::Suspended { after },
        _ => {
            let point = Point::ALL[random.random_range(0..Point::ALL.len())];
            let most = match point {
                Point::AfterAdmission => 25,
                Point::BeforeCommit | Point::BeforeAck | Point::AfterAck | Point::AfterRead => 8,
                Point::BeforeBurial | Point::AfterBurial => 3,
                Point::AfterChangeCommit => 4,
                _ => 1,
            };
            Fate::DiesAt(point, random.random_range(1..=most))
        }
    }
}

/// A change of SQL under the running nodes.
fn sql_change(random: &mut impl Rng) -> Fault {
    let time = Duration::from_millis(random.random_range(100..1_500));
    match random.random_range(0..7) {
        0 => Fault::OrdersRejected(time),
        1 => Fault::SaleRejected(time),
        2 => Fault::ColumnAdded(time),
        3 => Fault::UniqueIndex(time),
        4 => Fault::ForeignRows(time),
        5 => Fault::SqlStock([-20, -5, -1, 1, 10][random.random_range(0..5)]),
        _ => Fault::SaleLost,
    }
}

/// A change of a field in Redis, or of the replies of Redis.
fn redis_change(random: &mut impl Rng) -> Fault {
    if random.random_bool(0.15) {
        return Fault::DiskFull(Duration::from_millis(random.random_range(300..2_500)));
    }
    if random.random_bool(0.3) {
        let mut ms = |from, to| Duration::from_millis(random.random_range(from..to));
        let (late, time) = (ms(1_200, 4_000), ms(1_000, 4_000));
        return Fault::Replies { late: random.random_bool(0.5).then_some(late), time };
    }
    let field = Field::ALL[random.random_range(0..Field::ALL.len())];
    let change = [Change::Deleted, Change::Text, Change::Other][random.random_range(0..3)];
    Fault::Field(field, change)
}

fn fault(random: &mut impl Rng) -> Fault {
    match random.random_range(0..20) {
        0..=2 => return sql_change(random),
        3 | 4 => return redis_change(random),
        _ => {}
    }
    let mut ms = |from, to| Duration::from_millis(random.random_range(from..to));
    let (away, hang, slow) = (ms(0, 300), ms(300, 1_500), ms(5, 60));
    let some = random.random_range(1..60);
    let key = Key::ALL[random.random_range(0..Key::ALL.len())];
    let back = Duration::from_millis(random.random_range(50..2_000));
    let harm = match random.random_range(0..3) {
        0 => Harm::Deleted,
        1 => Harm::Replaced,
        _ => Harm::SetBack(back),
    };
    match random.random_range(0..42) {
        14..=26 => Fault::Key(key, harm),
        27 => Fault::OldRedis(back),
        28 | 29 => Fault::OldRows(back),
        30 | 31 => Fault::Forged(some % 15 + 1),
        32 | 33 => Fault::Frozen(hang * 2),
        34 => Fault::FailedOver { behind: Duration::ZERO, hangs: away },
        35 => Fault::FailedOver { behind: away, hangs: Duration::ZERO },
        36 | 37 => Fault::FailedOver { behind: back, hangs: hang },
        38 | 39 => Fault::Cuts { late: None, slow },
        40 | 41 => Fault::Cuts { late: Some(hang * 4), slow },
        0 => Fault::KillRedis { away },
        1 => Fault::TruncateAof { away },
        2 => Fault::FlushAll,
        3 => Fault::ScriptFlush,
        4 => Fault::GroupDestroyed,
        5 => Fault::DatabaseAway(hang),
        6 => Fault::DatabaseHangs(hang),
        7 => Fault::DatabaseSlow(slow),
        8 => Fault::CommitsUnsure(random.random_range(0.1..0.9)),
        9 => Fault::Duplicates(some),
        10 => Fault::Poison(some % 15 + 1),
        11 => Fault::ConsumerRemoved(some),
        12 => Fault::TrimmedPending(some),
        _ => Fault::TrimmedAll(some),
    }
}
