//! Every word of the console, in each of its languages; no view holds words of its own.

mod actions;
pub(crate) mod activity;
pub(crate) mod acts;
mod alarms;
pub(crate) mod books;
pub(crate) mod conventions;
pub(crate) mod director;
mod engine;
pub(crate) mod export;
mod faults;
pub(crate) mod figures;
pub(crate) mod forms;
pub(crate) mod lang;
pub(crate) mod ledger;
pub(crate) mod letters;
pub(crate) mod orders;
pub(crate) mod overview;
pub(crate) mod presenter;
pub(crate) mod recovery;
mod refusals;
mod replies;
pub(crate) mod sale;
pub mod settings;
mod starting;
pub(crate) mod stream;
mod system;
mod tables;
pub(crate) mod terminal;
pub(crate) mod time;
pub(crate) mod told;

use seckill_engine::telemetry::snapshot::{Funnel, Latency, SaleLine};
use seckill_model::{Cause, JobOutcome, Phase, VoucherId};

pub(crate) use self::{
    actions::{action, context, english_name},
    alarms::{Told, alarm},
    engine::{about, act_name},
    faults::{order_fault, query_fault, sale_fault, time_fault, to_fault},
    recovery::{act, judged, recovery, verdict, verdict_word},
    refusals::refusal,
    tables::{columns, details, tabs},
};
pub use self::{books::finding, refusals::broke_off};
use self::{
    figures::{counted, latency, signed, span, steady_span, thousands, within},
    lang::{Word, tell, word},
};
use super::{
    keymap::{Action, key_of},
    views::Marked,
    widgets::right,
};

pub(crate) const REDIS: &str = "redis";
pub(crate) const SQL: &str = "sql";
/// In the place of how long a server takes to answer, which is 7 cells.
pub(crate) const LOCKED: Word = word("locked", "锁定");
pub(crate) const SALE: Word = word("sale", "场秒杀");
pub(crate) const SALES: Word = word("sales", "场秒杀");
pub(crate) const PROGRAM: &str = "seckill";
pub(crate) const STOCK: Word = word("STOCK", "库存");
pub(crate) const ADMISSION: Word = word("ADMISSION", "准入");
pub(crate) const RATES: Word = word("ORDERS PER SECOND", "每秒订单");
pub(crate) const RUSH: Word = word("RUSH", "模拟抢购");
pub(crate) const STREAM: Word = word("STREAM", "消息流");
pub(crate) const PENDING: Word = word("PENDING", "待确认");
pub(crate) const DEAD: Word = word("DEAD", "死信");
pub(crate) const ATTENTION: Word = word("ATTENTION", "需关注");
pub(crate) const ADMITTED: Word = word("admitted", "准入");
pub(crate) const PERSISTED: Word = word("persisted", "落库");
pub(crate) const FROZEN: Word = word("FROZEN", "已冻结");
pub(crate) const READ_ONLY: Word = word("READ-ONLY", "只读");
pub(crate) const UNKNOWN: Word = word("unknown", "未知");
pub(crate) const NOTHING_WRONG: Word = word("Nothing needs you.", "一切正常，无需处理。");
pub(crate) const NO_DATA: Word =
    word("Waiting for the first picture of the engine.", "正在等待引擎的第一份数据。");
pub(crate) const READING: Word = word("reading", "读取中");
pub(crate) const DEAD_HOLDER: Word = word("dead", "失联");
pub(crate) const ALIVE: Word = word("alive", "在线");
pub(crate) const NO_GROUP: Word = word("no group", "无消费组");
pub(crate) const NEVER: Word = word("open end", "不限时间");
pub(crate) const NO_END: Word = word("no end", "无期限");
pub(crate) const HELP_TITLE: Word = word("Keys", "按键");
pub(crate) const PALETTE_TITLE: Word = word("Command", "命令");
pub(crate) const NO_COMMAND: Word =
    word("No command has that name here.", "这里没有叫这个名字的命令。");
pub(crate) const NOT_IN_REDIS: Word = word("not in Redis", "不在 Redis");
pub(crate) const NO_LOCKS: Word = word("No lock is held.", "当前没有锁被持有。");
pub(crate) const NO_JOBS: Word = word("The jobs have not been read yet.", "定时任务尚未读取。");
pub(crate) const NO_RUNS: Word = word("It has not run yet.", "还没有运行过。");
pub(crate) const HISTORY: Word = word("HISTORY", "运行历史");
pub(crate) const JOB: Word = word("job", "个任务");
pub(crate) const JOBS: Word = word("jobs", "个任务");
pub(crate) const PAUSED: Word = word("paused", "已暂停");
/// A holder that gives no signs of life because it is none of the nodes.
pub(crate) const STRANGER: Word = word("no node", "非节点");
pub(crate) const STRANGER_HOLDS: Word =
    word("held by a holder that is no node here", "持有者不是此处的节点");
pub(crate) const STRANGER_RENEWS: Word =
    word("renewed by a holder that is no node here", "持有者不是此处的节点，租约有续期");
pub(crate) const ORPHAN: Word = word("orphan", "无主");

pub(crate) const PENDING_UNKNOWN: Word = word(
    "Redis does not answer: what is pending is not known now.",
    "Redis 没有响应，当前的待确认消息未知。",
);
pub(crate) const LOCKS_UNKNOWN: Word = word(
    "Redis does not answer: which locks are held is not known now.",
    "Redis 没有响应，当前有哪些锁未知。",
);

pub(crate) fn phase(phase: Phase) -> &'static str {
    let told = match phase {
        Phase::Planned => word("planned", "未开始"),
        Phase::Running => word("running", "进行中"),
        Phase::Paused => word("paused", "已暂停"),
        Phase::SoldOut => word("sold out", "已售罄"),
        Phase::Ended => word("ended", "已结束"),
        Phase::Archived => word("archived", "已归档"),
    };
    told.read()
}

pub(crate) fn outcome(outcome: JobOutcome) -> &'static str {
    let told = match outcome {
        JobOutcome::Running => word("running", "运行中"),
        JobOutcome::Done => word("done", "成功"),
        JobOutcome::Failed => word("failed", "失败"),
        JobOutcome::Cancelled => word("cancelled", "已取消"),
        JobOutcome::Lost => word("lost", "中断"),
    };
    told.read()
}

pub(crate) fn cause(cause: Cause) -> &'static str {
    let told = match cause {
        Cause::Due => word("on time", "按时"),
        Cause::Missed => word("made up", "补跑"),
        Cause::Operator => word("by hand", "手动"),
    };
    told.read()
}

pub(crate) fn locks_shown(shown: usize, total: u64) -> String {
    let (part, whole) = (thousands(shown as u64), thousands(total));
    match total {
        0 => String::new(),
        total if shown as u64 >= total => {
            let locks = counted(total, "lock", "locks");
            tell!("{locks}", "{whole} 个锁")
        }
        _ => tell!("{part} of {whole} locks", "{part} / {whole} 个锁"),
    }
}

pub(crate) fn in_span(span: &str) -> String {
    tell!("in {span}", "{span}后")
}

/// A time, and how long it is until then.
pub(crate) fn at_in(time: &str, span: &str) -> String {
    tell!("{time}, in {span}", "{time}，{span}后")
}

pub(crate) fn ago(span: &str) -> String {
    tell!("{span} ago", "{span}前")
}

pub(crate) fn held(since: &str, span: &str, depth: u32) -> String {
    tell!("since {since}, for {span}, {depth} deep", "自 {since} 起，已 {span}，重入 {depth} 层")
}

pub(crate) fn lease(left: &str, waiting: u64) -> String {
    let waiting = thousands(waiting);
    tell!("{left} left, {waiting} waiting", "剩余 {left}，{waiting} 个在等")
}

pub(crate) fn next_run(schedule: &str, next: &str) -> String {
    tell!("{next}   ({schedule})", "{next}（{schedule}）")
}

pub(crate) fn sale_name(voucher: VoucherId, title: &str) -> String {
    format!("#{voucher} {title}")
}

pub(crate) fn too_small(width: u16, height: u16) -> String {
    tell!(
        "60x15 is needed, 80x24 shows all; this is {width}x{height}: make the window larger",
        "至少需要 60x15，80x24 可显示全部；当前 {width}x{height}，请放大窗口"
    )
}

pub(crate) fn ends_in(clock: &str) -> String {
    tell!("ends in {clock}", "距结束 {clock}")
}

pub(crate) fn starts_in(clock: &str) -> String {
    tell!("starts in {clock}", "距开始 {clock}")
}

pub(crate) fn starts_at(time: &str) -> String {
    tell!("starts {time}", "{time} 开始")
}

pub(crate) fn left_of(left: &str, initial: &str) -> String {
    format!("{left} / {initial}")
}

pub(crate) fn ended_with(left: &str) -> String {
    tell!("ended, {left} left", "已结束，剩 {left}")
}

/// What Redis has left of a sale. Until Redis was asked about it nobody can tell whether it is there.
pub(crate) fn left_in_redis(sale: &SaleLine) -> String {
    match (sale.stock, sale.admitted) {
        (Some(left), _) => signed(left),
        (None, None) => UNKNOWN.to_owned(),
        (None, Some(_)) => NOT_IN_REDIS.to_string(),
    }
}

pub(crate) fn more_sales(count: usize) -> String {
    let (count, key) = (thousands(count as u64), key_of(Action::Sales));
    tell!("and {count} more; {key} shows all", "另有 {count} 场，按 {key} 看全部")
}

pub(crate) fn no_sales() -> String {
    let key = key_of(Action::NewSale);
    tell!("There is no sale yet. {key} makes one.", "还没有秒杀，按 {key} 新建一场。")
}

/// What was typed, as far as a sentence repeats it.
pub(crate) fn echo(text: &str) -> String {
    const CELLS: usize = 20;
    crate::widgets::fit(text, CELLS, "…")
}

pub(crate) fn no_match(text: &str) -> String {
    let (text, key) = (echo(text), key_of(Action::Back));
    tell!(
        "No row holds '{text}'. {key} ends the filter.",
        "没有行包含“{text}”，按 {key} 取消筛选。"
    )
}

/// How old figures are; other words may follow.
pub(crate) fn old(age: u64) -> String {
    let age = steady_span(age);
    tell!("{age} old", "{age}前")
}

/// An age where there is room for nothing else.
pub(crate) fn age(age: Option<u64>) -> String {
    age.map_or_else(|| UNKNOWN.to_owned(), span)
}

pub(crate) const BALANCED: Word = word("books balanced", "对账一致");
pub(crate) const BOOKS: Word = word("books", "对账");
pub(crate) const BOOKS_OFF: Word = word("books OFF", "对账不符");
pub(crate) const BOOKS_UNKNOWN: Word = word("books unknown", "对账未知");

pub(crate) fn in_flight(orders: u64) -> String {
    let orders = right(&within(orders, 6), 6, "");
    tell!("{orders} in flight", "{orders} 单在途")
}

pub(crate) fn window(begin: Option<&str>, end: Option<&str>) -> String {
    match (begin, end) {
        (None, None) => NEVER.to_owned(),
        (Some(begin), None) => tell!("from {begin}", "{begin} 起"),
        (None, Some(end)) => tell!("until {end}", "至 {end}"),
        (Some(begin), Some(end)) => tell!("{begin} to {end}", "{begin} 至 {end}"),
    }
}

/// Lines of the admission funnel: a label and its counter.
pub(crate) fn funnel(
    funnel: &Funnel,
) -> [(&'static str, seckill_engine::telemetry::snapshot::Count); 6] {
    [
        (word("attempts", "请求").read(), funnel.attempts),
        (word("admitted", "准入").read(), funnel.admitted),
        (word("sold out", "售罄").read(), funnel.sold_out),
        (word("duplicate", "重复").read(), funnel.duplicate),
        (word("rejected", "拒绝").read(), funnel.rejected),
        (word("busy", "繁忙").read(), funnel.busy),
    ]
}

/// Admission latency, as label and figure.
pub(crate) fn latencies(seen: &Latency) -> [(&'static str, String); 4] {
    [
        ("p50", latency(seen.p50)),
        ("p99", latency(seen.p99)),
        (word("max", "最大").read(), latency(seen.max)),
        ("n", within(seen.samples, 6)),
    ]
}

pub(crate) const NO_LATENCY: Word =
    word("no request through this process lately", "本进程近来没有请求");

/// What could be replayed, in a field of its own.
pub(crate) fn kept(entries: u64, oldest_ms: Option<u64>) -> String {
    let entries = right(&within(entries, 9), 9, "");
    match oldest_ms {
        None => tell!("{entries} kept", "保留 {entries}"),
        Some(oldest) => {
            let oldest = steady_span(oldest);
            tell!("{entries} kept, oldest {oldest}", "保留 {entries}，最早 {oldest}前")
        }
    }
}

pub(crate) fn lag(lag: Option<u64>) -> String {
    let lag = lag.map_or_else(|| UNKNOWN.to_owned(), |lag| within(lag, 9));
    tell!("lag {lag}", "积压 {lag}")
}

pub(crate) fn drains_in(millis: u64) -> String {
    let (span, steady) = (span(millis), steady_span(millis));
    tell!("drains in {span}", "约 {steady}后清空")
}

pub(crate) fn oldest(millis: u64) -> String {
    let (span, steady) = (span(millis), steady_span(millis));
    tell!("oldest {span}", "最早 {steady}前")
}

pub(crate) fn more_holders(count: usize) -> String {
    let count = thousands(count as u64);
    tell!("and {count} more", "另有 {count} 个")
}

pub(crate) fn more_alarms(count: usize) -> String {
    let count = thousands(count as u64);
    tell!("and {count} more", "另有 {count} 个")
}

pub(crate) fn rows(first: u64, last: u64, total: u64) -> String {
    let (first, last, total) = (thousands(first), thousands(last), thousands(total));
    tell!("{first}–{last} of {total}", "第 {first}–{last} 条，共 {total} 条")
}

pub(crate) fn rows_filtered(shown: usize, of: usize) -> String {
    let (shown, of) = (thousands(shown as u64), thousands(of as u64));
    tell!("{shown} of {of} on this page", "本页 {shown} / {of}")
}

pub(crate) fn sales_filtered(shown: usize, of: usize) -> String {
    let (shown, of) = (thousands(shown as u64), thousands(of as u64));
    tell!("{shown} of {of}", "{shown} / {of}")
}

pub(crate) fn marked(marked: Marked) -> String {
    let count = thousands(marked.count as u64);
    let mut told = tell!("{count} marked", "已标记 {count}");
    if marked.filtered > 0 {
        let hidden = thousands(marked.filtered as u64);
        told += &tell!(", {hidden} hidden", "，隐藏 {hidden}");
    }
    told
}

pub(crate) fn all_marked(count: u64) -> String {
    let count = thousands(count);
    tell!("all {count} marked", "全部 {count} 已标记")
}

pub(crate) fn marks_gone(count: usize) -> String {
    let (count, gone) =
        (thousands(count as u64), counted(count as u64, "marked entry is", "marked entries are"));
    tell!(
        "{gone} no longer pending; the mark is dropped",
        "{count} 条已标记的消息不再待确认，标记已取消"
    )
}

pub(crate) fn sale_gone(voucher: VoucherId) -> String {
    tell!("#{voucher} is no longer listed", "#{voucher} 已不在列表中")
}

/// What became of a holder; one of no node is not dead, for it never lived here.
pub(crate) fn holder(alive: bool, known: bool) -> Word {
    match (alive, known) {
        (true, _) => ALIVE,
        (false, true) => DEAD_HOLDER,
        (false, false) => STRANGER,
    }
}

/// A failure, with the key that takes it away.
pub(crate) fn failure(said: &str, more: usize) -> String {
    let dismiss = failures_more(more);
    tell!("{said} ({dismiss})", "{said}（{dismiss}）")
}

pub(crate) const PRESS: Word = word("press", "请按");

fn failures_more(count: usize) -> String {
    let dismiss = key_of(Action::Back);
    let more = thousands(count as u64);
    match count {
        0 => tell!("{dismiss} dismisses", "{dismiss} 关闭"),
        _ => tell!("{dismiss} dismisses, {more} more", "{dismiss} 关闭，另有 {more} 条"),
    }
}
