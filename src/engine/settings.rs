//! Settings of the engine, and the reasons for their defaults.

use std::time::Duration;

use seckill_model::{NumericSetting, verdict::Limits};
pub use seckill_redis::keys::MAX_PARTITIONS;
use serde::Deserialize;

use super::schedule::Schedule;

/// Settings of one node's engine.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Buyers that may wait for admission at once; the next one gets `Busy`.
    pub queue: usize,
    /// Maximum number of buyers in one run of the admission script: 256 keep Redis busy for about 1 ms.
    pub admission_batch: usize,
    /// Maximum number of entries in one SQL transaction.
    pub consumer_batch: usize,
    /// Idle milliseconds after which an entry of another consumer is claimed.
    pub claim_idle_ms: u64,
    /// Maximum number of deliveries; an entry above it becomes a dead letter.
    pub max_deliveries: u64,
    /// Maximum number of replays of a dead letter; one that returns again is left to the operator.
    pub max_replays: u64,
    /// Milliseconds a request may wait for Redis during an outage.
    pub answer_within_ms: u64,
    /// Milliseconds without a heartbeat after which a node counts as dead.
    pub node_dead_ms: u64,
    /// Replicas that have to acknowledge an admission before its buyer gets the reply; 0 for none. With fewer, the
    /// buyer is asked to retry, and gets the order then.
    pub wait_replicas: u32,
    /// Milliseconds that Redis waits for them.
    pub wait_ms: u64,
    /// Hold a lock for each buyer while the order is written. The tutorial's guard; redundant, since admission and the
    /// unique index guarantee the same.
    pub order_lock: bool,
    /// Scheduled jobs.
    pub jobs: JobSettings,
}

/// Settings of the scheduled jobs.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct JobSettings {
    /// Maximum number of jobs that run on one node at once.
    pub pool: usize,
    /// When unpaid orders are closed.
    pub close_overdue: Schedule,
    /// Milliseconds that a buyer has to pay.
    pub unpaid_ms: u64,
    /// When the order ID counters of past days are deleted.
    pub drop_id_keys: Schedule,
    /// When the order stream is trimmed.
    pub trim_stream: Schedule,
    /// Milliseconds that acknowledged entries stay in the stream.
    pub keep_stream_ms: u64,
    /// Approximate maximum number of entries in the order stream, regardless of age: unacknowledged ones stay.
    pub keep_stream_entries: u64,
    /// Milliseconds that dead letters without a waiting buyer stay.
    pub keep_dead_ms: u64,
    /// Maximum number of dead letters; those with a waiting buyer stay.
    pub keep_dead_entries: u64,
    /// Milliseconds after which an empty consumer of a dead node is removed.
    pub keep_consumers_ms: u64,
    /// When ended sales are archived.
    pub archive_sales: Schedule,
    /// Milliseconds that a sale stays in Redis after its end.
    pub archive_after_ms: u64,
    /// When the audit by order ID runs.
    pub check_ledger: Schedule,
    /// Milliseconds that the history of jobs is kept.
    pub keep_runs_ms: u64,
}

const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 24 * HOUR_MS;
const YEAR_MS: u64 = 365 * DAY_MS;
/// Redis counts entries in a signed 64-bit integer.
const MOST_ENTRIES: u64 = i64::MAX as u64;

impl Default for JobSettings {
    fn default() -> Self {
        let every = |minutes| Schedule::Every(Duration::from_mins(minutes));
        Self {
            pool: 2,
            close_overdue: every(30),
            unpaid_ms: HOUR_MS,
            drop_id_keys: every(24 * 60),
            trim_stream: every(1),
            keep_stream_ms: DAY_MS,
            keep_stream_entries: 5_000_000,
            keep_dead_ms: 30 * DAY_MS,
            keep_dead_entries: 1_000_000,
            keep_consumers_ms: HOUR_MS,
            archive_sales: every(60),
            archive_after_ms: 7 * DAY_MS,
            check_ledger: every(10),
            keep_runs_ms: 30 * DAY_MS,
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            queue: 8_192,
            admission_batch: 256,
            consumer_batch: 2_000,
            claim_idle_ms: 30_000,
            max_deliveries: 16,
            max_replays: 3,
            answer_within_ms: 10_000,
            node_dead_ms: 5_000,
            wait_replicas: 0,
            wait_ms: 1_000,
            order_lock: false,
            jobs: JobSettings::default(),
        }
    }
}

impl Settings {
    /// The numbers.
    pub fn numbers(&self) -> [NumericSetting; 19] {
        let jobs = &self.jobs;
        [
            ("engine.queue", self.queue as u64, 1..=1_000_000),
            // Lua's unpack is limited to about 8,000 values, two for each buyer.
            ("engine.admission_batch", self.admission_batch as u64, 1..=2_000),
            ("engine.consumer_batch", self.consumer_batch as u64, 1..=5_000),
            ("engine.claim_idle_ms", self.claim_idle_ms, 1_000..=DAY_MS),
            ("engine.max_deliveries", self.max_deliveries, 1..=1_000_000),
            ("engine.max_replays", self.max_replays, 0..=1_000_000),
            ("engine.answer_within_ms", self.answer_within_ms, 100..=600_000),
            ("engine.node_dead_ms", self.node_dead_ms, 2_000..=600_000),
            ("engine.wait_replicas", u64::from(self.wait_replicas), 0..=100),
            ("engine.wait_ms", self.wait_ms, 10..=4_000),
            ("engine.jobs.pool", jobs.pool as u64, 1..=64),
            ("engine.jobs.unpaid_ms", jobs.unpaid_ms, 1_000..=YEAR_MS),
            ("engine.jobs.keep_stream_ms", jobs.keep_stream_ms, 0..=YEAR_MS),
            ("engine.jobs.keep_stream_entries", jobs.keep_stream_entries, 0..=MOST_ENTRIES),
            ("engine.jobs.keep_dead_ms", jobs.keep_dead_ms, 60_000..=10 * YEAR_MS),
            ("engine.jobs.keep_dead_entries", jobs.keep_dead_entries, 0..=MOST_ENTRIES),
            ("engine.jobs.keep_consumers_ms", jobs.keep_consumers_ms, 10_000..=YEAR_MS),
            ("engine.jobs.archive_after_ms", jobs.archive_after_ms, 0..=10 * YEAR_MS),
            ("engine.jobs.keep_runs_ms", jobs.keep_runs_ms, 60_000..=10 * YEAR_MS),
        ]
    }

    /// The limits by which pending entries are classified.
    pub fn limits(&self) -> Limits {
        Limits { claim_idle_ms: self.claim_idle_ms, max_deliveries: self.max_deliveries }
    }

    /// Idle time after which an entry of another consumer is claimed.
    pub fn claim_idle(&self) -> Duration {
        Duration::from_millis(self.claim_idle_ms)
    }
}
