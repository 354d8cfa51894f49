//! Column headings and detail labels.

/// Column headings.
pub(crate) mod columns {
    use seckill_model::message::Label;

    pub(crate) const ID: Label = Label("tables-id");
    pub(crate) const TITLE: Label = Label("tables-title");
    pub(crate) const PHASE: Label = Label("tables-phase");
    pub(crate) const STOCK: Label = Label("tables-stock-left");
    pub(crate) const LEFT: Label = Label("tables-left");
    pub(crate) const OF: Label = Label("tables-of");
    pub(crate) const ADMITTED: Label = Label("tables-admitted");
    pub(crate) const PERSISTED: Label = Label("tables-persisted");
    pub(crate) const WINDOW: Label = Label("tables-window");
    pub(crate) const ENTRY: Label = Label("tables-entry");
    pub(crate) const AGE: Label = Label("tables-age");
    pub(crate) const IDLE: Label = Label("tables-idle");
    pub(crate) const TRIES: Label = Label("tables-tries");
    pub(crate) const HOLDER: Label = Label("tables-holder");
    pub(crate) const ORDER: Label = Label("common-order-2");
    pub(crate) const USER: Label = Label("common-user");
    pub(crate) const VOUCHER: Label = Label("common-sale-2");
    pub(crate) const VERDICT: Label = Label("tables-verdict");
    pub(crate) const LETTER: Label = Label("tables-letter");
    pub(crate) const REPLAYS: Label = Label("tables-replays");
    pub(crate) const REASON: Label = Label("tables-reason");
    pub(crate) const LOCK: Label = Label("tables-lock");
    pub(crate) const NODE: Label = Label("common-node");
    pub(crate) const TASK: Label = Label("tables-task");
    pub(crate) const DEPTH: Label = Label("tables-depth");
    pub(crate) const LEASE: Label = Label("tables-lease");
    pub(crate) const HELD: Label = Label("tables-held");
    pub(crate) const WAITING: Label = Label("tables-waiting");
    pub(crate) const TOKEN: Label = Label("tables-token");
    pub(crate) const OWNER: Label = Label("tables-owner");
    pub(crate) const JOB: Label = Label("tables-job");
    pub(crate) const SCHEDULE: Label = Label("tables-schedule");
    pub(crate) const NEXT: Label = Label("tables-next");
    pub(crate) const LAST: Label = Label("tables-last");
    pub(crate) const OUTCOME: Label = Label("tables-outcome");
    pub(crate) const TOOK: Label = Label("tables-took");
    pub(crate) const INITIAL: Label = Label("tables-initial");
    pub(crate) const REDIS_LEFT: Label = Label("tables-redis-left");
    pub(crate) const BUYERS: Label = Label("tables-buyers");
    pub(crate) const SQL_ORDERS: Label = Label("tables-sql-orders");
    pub(crate) const SQL_LEFT: Label = Label("tables-sql-left");
    pub(crate) const IN_FLIGHT: Label = Label("tables-in-flight");
    pub(crate) const DEAD: Label = Label("common-dead");
    pub(crate) const STATE: Label = Label("common-state");
    pub(crate) const ROWS: Label = Label("tables-rows");
}

/// Labels of a detail pane.
pub(crate) mod details {
    use seckill_model::message::Label;

    pub(crate) const LEFT_REDIS: Label = Label("tables-left-in-redis");
    pub(crate) const LEFT_SQL: Label = Label("tables-left-in-sql");
    pub(crate) const PERSISTED: Label = Label("tables-persisted-2");
    pub(crate) const UNDER_WAY: Label = Label("tables-under-way");
    pub(crate) const WINDOW: Label = Label("tables-window-2");
    pub(crate) const INITIAL: Label = Label("tables-on-sale");
    pub(crate) const ENTRY: Label = Label("tables-entry-2");
    pub(crate) const HOLDER: Label = Label("tables-holder-2");
    pub(crate) const ORDER: Label = Label("common-order");
    pub(crate) const USER: Label = Label("tables-user");
    pub(crate) const VOUCHER: Label = Label("common-sale");
    pub(crate) const FAULT: Label = Label("tables-fault");
    pub(crate) const VERDICT: Label = Label("common-verdict");
    pub(crate) const LOCK: Label = Label("tables-lock-2");
    pub(crate) const NODE: Label = Label("tables-node");
    pub(crate) const TASK: Label = Label("tables-task-2");
    pub(crate) const HELD: Label = Label("tables-held-2");
    pub(crate) const LEASE: Label = Label("tables-lease-2");
    pub(crate) const TOKEN: Label = Label("tables-token-2");
    pub(crate) const OWNER: Label = Label("tables-owner-2");
    pub(crate) const NEXT: Label = Label("tables-next-2");
    pub(crate) const NO_FAULT: Label = Label("tables-none-its-fields-are-good");
}
