//! Settings of the engine, and the reasons for their defaults.

use std::time::Duration;

use seckill_model::{settings, verdict::Limits};
pub use seckill_redis::keys::MAX_PARTITIONS;

use crate::{deployment::time_zone::Zone, jobs::Schedule};

const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 24 * HOUR_MS;
const YEAR_MS: u64 = 365 * DAY_MS;
/// Redis counts entries in a signed 64-bit integer.
const MOST_ENTRIES: u64 = i64::MAX as u64;

settings! {
    /// Settings of one node's engine.
    "engine" Settings {
        /// Buyers that may wait for admission at once; the next one gets `Busy`.
        pub queue: usize = 65_536, 1..=1_000_000;
        /// Maximum expected wait in the admission queue, in milliseconds. A request that would wait longer gets `Busy`.
        /// The wait is estimated from the measured rate.
        pub queue_wait_ms: u64 = 1_000, 1..=60_000;
        /// Maximum number of buyers in one run of the admission script: 256 keep Redis busy for about 1 ms. Lua's unpack
        /// is limited to about 8,000 values, two for each buyer.
        pub admission_batch: usize = 256, 1..=2_000;
        /// Maximum number of entries in one SQL transaction.
        pub consumer_batch: usize = 2_000, 1..=5_000;
        /// Idle milliseconds after which an entry of another consumer is claimed.
        pub claim_idle_ms: u64 = 30_000, 1_000..=DAY_MS;
        /// Maximum number of deliveries; an entry above it becomes a dead letter.
        pub max_deliveries: u64 = 16, 1..=1_000_000;
        /// Maximum number of replays of a dead letter; one that returns again is left to the operator.
        pub max_replays: u64 = 3, 0..=1_000_000;
        /// Milliseconds a request may wait for Redis during an outage.
        pub answer_within_ms: u64 = 10_000, 100..=600_000;
        /// Milliseconds without a heartbeat after which a node counts as dead.
        pub node_dead_ms: u64 = 5_000, 2_000..=600_000;
        /// Replicas that have to acknowledge an admission before its buyer gets the reply; 0 for none. With fewer,
        /// the buyer is asked to retry, and gets the order then.
        pub wait_replicas: u32 = 0, 0..=100;
        /// Milliseconds that Redis waits for them.
        pub wait_ms: u64 = 1_000, 10..=4_000;
        /// Hold a lock for each buyer while the order is written. The tutorial's guard; redundant, since admission
        /// and the unique index guarantee the same.
        pub order_lock: bool = false;
        /// Scheduled jobs.
        pub jobs: JobSettings = JobSettings::default();
    }
}

settings! {
    /// Settings of the scheduled jobs.
    "engine.jobs" JobSettings {
        /// Maximum number of jobs that run on one node at once.
        pub pool: usize = 2, 1..=64;
        /// Time zone of cron expressions, the same on every node; without one, that of the first node's host.
        pub time_zone: Option<Zone> = None;
        /// When unpaid orders are closed.
        pub close_overdue: Schedule = every(30);
        /// Milliseconds that a buyer has to pay.
        pub unpaid_ms: u64 = HOUR_MS, 1_000..=YEAR_MS;
        /// When the order ID counters of past days are deleted.
        pub drop_id_keys: Schedule = every(24 * 60);
        /// When the order stream is trimmed.
        pub trim_stream: Schedule = every(1);
        /// Milliseconds that acknowledged entries stay in the stream.
        pub keep_stream_ms: u64 = DAY_MS, 0..=YEAR_MS;
        /// Approximate maximum number of entries in the order stream, regardless of age: unacknowledged ones stay.
        pub keep_stream_entries: u64 = 5_000_000, 0..=MOST_ENTRIES;
        /// Milliseconds that dead letters without a waiting buyer stay.
        pub keep_dead_ms: u64 = 30 * DAY_MS, 60_000..=10 * YEAR_MS;
        /// Maximum number of dead letters; those with a waiting buyer stay.
        pub keep_dead_entries: u64 = 1_000_000, 0..=MOST_ENTRIES;
        /// Milliseconds after which an empty consumer of a dead node is removed.
        pub keep_consumers_ms: u64 = HOUR_MS, 10_000..=YEAR_MS;
        /// When ended sales are archived.
        pub archive_sales: Schedule = every(60);
        /// Milliseconds that a sale stays in Redis after its end.
        pub archive_after_ms: u64 = 7 * DAY_MS, 0..=10 * YEAR_MS;
        /// When the audit by order ID runs.
        pub check_ledger: Schedule = every(10);
        /// Milliseconds that the history of jobs is kept.
        pub keep_runs_ms: u64 = 30 * DAY_MS, 60_000..=10 * YEAR_MS;
    }
}

fn every(minutes: u64) -> Schedule {
    Schedule::Every(Duration::from_mins(minutes))
}

impl Settings {
    /// The limits by which pending entries are classified.
    pub fn limits(&self) -> Limits {
        Limits { claim_idle_ms: self.claim_idle_ms, max_deliveries: self.max_deliveries }
    }

    /// Idle time after which an entry of another consumer is claimed.
    pub fn claim_idle(&self) -> Duration {
        Duration::from_millis(self.claim_idle_ms)
    }
}
