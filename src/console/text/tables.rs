//! Names of the views, heads of the tables and labels of the details. What stands in them is not known here.

/// Names of the views.
pub(crate) mod tabs {
    use crate::text::lang::{Word, word};

    pub(crate) const OVERVIEW: Word = word("Overview", "总览");
    pub(crate) const SALES: Word = word("Sales", "秒杀");
    pub(crate) const PENDING: Word = word("Pending", "待确认");
    pub(crate) const LETTERS: Word = word("Dead", "死信");
    pub(crate) const LOCKS: Word = word("Locks", "锁");
    pub(crate) const JOBS: Word = word("Jobs", "定时任务");
}

/// Heads of the tables.
pub(crate) mod columns {
    use crate::text::lang::{Word, word};

    pub(crate) const ID: Word = word("ID", "ID");
    pub(crate) const TITLE: Word = word("TITLE", "标题");
    pub(crate) const PHASE: Word = word("PHASE", "状态");
    pub(crate) const STOCK: Word = word("STOCK LEFT", "剩余库存");
    pub(crate) const LEFT: Word = word("LEFT", "剩余");
    pub(crate) const OF: Word = word("OF", "总量");
    pub(crate) const ADMITTED: Word = word("ADMITTED", "准入");
    pub(crate) const PERSISTED: Word = word("PERSISTED", "落库");
    pub(crate) const WINDOW: Word = word("WINDOW", "起止时间");
    pub(crate) const MARK: Word = word("", "");
    pub(crate) const ENTRY: Word = word("ENTRY", "消息");
    pub(crate) const AGE: Word = word("AGE", "时长");
    pub(crate) const IDLE: Word = word("IDLE", "闲置");
    pub(crate) const TRIES: Word = word("TRIES", "投递");
    pub(crate) const HOLDER: Word = word("HOLDER", "持有者");
    pub(crate) const ORDER: Word = word("ORDER", "订单");
    pub(crate) const USER: Word = word("USER", "用户");
    pub(crate) const VOUCHER: Word = word("SALE", "秒杀");
    pub(crate) const VERDICT: Word = word("VERDICT", "判定");
    pub(crate) const LETTER: Word = word("LETTER", "死信");
    pub(crate) const REPLAYS: Word = word("REPLAYS", "重放");
    pub(crate) const REASON: Word = word("REASON", "原因");
    pub(crate) const LOCK: Word = word("LOCK", "锁");
    pub(crate) const NODE: Word = word("NODE", "节点");
    pub(crate) const TASK: Word = word("TASK", "任务");
    pub(crate) const DEPTH: Word = word("DEPTH", "层数");
    pub(crate) const LEASE: Word = word("LEASE", "租约");
    pub(crate) const HELD: Word = word("HELD", "已持有");
    pub(crate) const WAITING: Word = word("WAITING", "等待");
    pub(crate) const TOKEN: Word = word("TOKEN", "栅栏令牌");
    pub(crate) const OWNER: Word = word("OWNER", "持有标识");
    pub(crate) const JOB: Word = word("JOB", "定时任务");
    pub(crate) const SCHEDULE: Word = word("SCHEDULE", "计划");
    pub(crate) const NEXT: Word = word("NEXT", "下次");
    pub(crate) const LAST: Word = word("LAST", "上次");
    pub(crate) const OUTCOME: Word = word("OUTCOME", "结果");
    pub(crate) const TOOK: Word = word("TOOK", "耗时");
    pub(crate) const INITIAL: Word = word("INITIAL", "总库存");
    pub(crate) const REDIS_LEFT: Word = word("REDIS LEFT", "Redis 剩余");
    pub(crate) const BUYERS: Word = word("BUYERS", "买家");
    pub(crate) const SQL_ORDERS: Word = word("SQL ORDERS", "SQL 订单");
    pub(crate) const SQL_LEFT: Word = word("SQL LEFT", "SQL 剩余");
    pub(crate) const IN_FLIGHT: Word = word("IN FLIGHT", "在途");
    pub(crate) const DEAD: Word = word("DEAD", "死信");
    pub(crate) const STATE: Word = word("STATE", "状态");
    pub(crate) const ROWS: Word = word("ROWS", "行数");
}

/// Labels of a detail pane.
pub(crate) mod details {
    use crate::text::lang::{Word, word};

    pub(crate) const LEFT_REDIS: Word = word("left in Redis", "Redis 剩余");
    pub(crate) const LEFT_SQL: Word = word("left in SQL", "SQL 剩余");
    pub(crate) const PERSISTED: Word = word("persisted", "已落库");
    pub(crate) const UNDER_WAY: Word = word("under way", "在途");
    pub(crate) const WINDOW: Word = word("window", "起止时间");
    pub(crate) const INITIAL: Word = word("on sale", "投放总量");
    pub(crate) const ENTRY: Word = word("entry", "消息");
    pub(crate) const HOLDER: Word = word("holder", "持有者");
    pub(crate) const ORDER: Word = word("order", "订单");
    pub(crate) const USER: Word = word("user", "用户");
    pub(crate) const VOUCHER: Word = word("sale", "秒杀");
    pub(crate) const FAULT: Word = word("fault", "问题");
    pub(crate) const VERDICT: Word = word("verdict", "判定");
    pub(crate) const LOCK: Word = word("lock", "锁");
    pub(crate) const NODE: Word = word("node", "节点");
    pub(crate) const TASK: Word = word("task", "任务");
    pub(crate) const HELD: Word = word("held", "持有");
    pub(crate) const LEASE: Word = word("lease", "租约");
    pub(crate) const TOKEN: Word = word("token", "栅栏令牌");
    pub(crate) const OWNER: Word = word("owner", "持有标识");
    pub(crate) const NEXT: Word = word("next", "下次");
    pub(crate) const NO_FAULT: Word = word("none; its fields are good", "无，字段完好");
}
