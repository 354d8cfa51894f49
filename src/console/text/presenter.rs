//! Words of the presenter's layout: few, without ids and without users, for people at the back of a hall.

use seckill_engine::telemetry::snapshot::AlarmKind;

use super::{
    actions::Told,
    alarms::Told as Alarm,
    figures::{span, steady_span, thousands},
    lang::{Word, tell, word},
};
use crate::keymap::{Action, key_of};

pub(crate) const CONTEXT: Word = word("Presenter", "演示");
pub(crate) const BUYERS: Word = word("buyers a second", "每秒买家");
pub(crate) const BUYERS_BRIEF: Word = word("buyers/s", "买家/秒");
pub(crate) const WRITTEN: Word = word("orders written", "已落库订单");
pub(crate) const WRITTEN_BRIEF: Word = word("written", "已落库");
pub(crate) const OVERSOLD: Word = word("oversold", "超卖");
pub(crate) const PIECES: Word = word("pieces", "件数");
pub(crate) const WAITING: Word = word("buyers wait", "等候买家");
pub(crate) const BALANCED: Word = word("books balance", "账目平衡");
pub(crate) const OPEN: Word = word("books open", "账目未结");
pub(crate) const ONLY_SALE: Word = word("there is no other sale to show", "没有其他秒杀可演示");
pub(crate) const FIRST_SALE: Word = word("this is the first sale", "已是第一场秒杀");
pub(crate) const LAST_SALE: Word = word("this is the last sale", "已是最后一场秒杀");
pub(crate) const IN_FLIGHT: Word = word("in flight", "在途");
pub(crate) const IN_FLIGHT_BRIEF: Word = word("moving", "在途");
pub(crate) const OFF: Word = word("books OFF", "账目不符");
pub(crate) const UNKNOWN: Word = word("books unknown", "账目未知");
pub(crate) const BOOKS_BRIEF: Word = word("books", "账目");
pub(crate) const NO_STOCK: Word = word("pieces left: unknown", "剩余件数：未知");
pub(crate) const OPENS: Word = word("until the sale opens", "距开抢");

pub(super) fn action() -> Told {
    (
        word("presenter", "演示"),
        word("large figures for a hall, and back", "切换大屏演示，再按返回"),
        Some(word("presenter", "大屏演示")),
    )
}

pub(crate) fn no_sale() -> String {
    let arm = key_of(Action::Arm);
    tell!("No sale yet. {arm} arms one.", "还没有秒杀，按 {arm} 预备一场。")
}

/// A key of the views, which must not end a demo by accident.
pub(crate) fn in_the_views(key: &str) -> String {
    let leave = key_of(Action::Present);
    tell!(
        "{key} works in the views; {leave} leaves the presenter",
        "{key} 用于普通页面，按 {leave} 退出演示"
    )
}

/// How many pieces there were in all.
pub(crate) fn left_of(initial: u64) -> String {
    let initial = thousands(initial);
    tell!("pieces left of {initial}", "剩余件数，共 {initial}")
}

/// What came of it: the large figure says how many were sold.
pub(crate) fn sold_of(initial: u64, took_ms: Option<u64>) -> String {
    let initial = thousands(initial);
    match took_ms {
        Some(ms) => {
            let seconds = ms as f64 / 1e3;
            tell!(
                "sold of {initial} in {seconds:.1} s",
                "已售件数，共 {initial}，用时 {seconds:.1} 秒"
            )
        }
        None => tell!("sold of {initial}", "已售件数，共 {initial}"),
    }
}

/// What share is left.
pub(crate) fn share_left(share: &str) -> String {
    tell!("{share} left", "剩余 {share}")
}

pub(crate) fn opens_at(time: &str) -> String {
    tell!("opens {time}", "{time} 开始")
}

/// Why a figure is faint.
pub(crate) fn old(age_ms: Option<u64>) -> String {
    match age_ms {
        Some(ms) => {
            let age = steady_span(ms);
            tell!("{age} old", "{age}前")
        }
        None => super::UNKNOWN.to_owned(),
    }
}

/// An alarm in a line, without names; the keys are those of the views, which are beneath.
pub(crate) fn alarm(kind: &AlarmKind) -> Alarm {
    let keys = |view: Action| (key_of(Action::Present), key_of(view));
    let words = match kind {
        AlarmKind::RedisAway { .. } => {
            tell!("Redis does not answer: what you see is old.", "Redis 无应答，画面为旧数据。")
        }
        AlarmKind::RedisReadOnly { .. } => {
            tell!("Redis takes no writes: buyers wait.", "Redis 不能写入：买家在等待。")
        }
        AlarmKind::ForeignKey(_) => tell!(
            "Another program has overwritten a key of the sale in Redis.",
            "其他程序覆盖了 Redis 中的键。"
        ),
        AlarmKind::SqlLocked { .. } => tell!(
            "The database is locked by another program: orders wait, none is lost.",
            "数据库被其他程序锁定：订单在等待，不会丢失。"
        ),
        AlarmKind::SqlReadOnly { .. } => tell!(
            "The database takes no writes: orders wait, none is lost.",
            "数据库不能写入：订单在等待，不会丢失。"
        ),
        AlarmKind::SqlAway { .. } => tell!(
            "The database does not answer: orders wait, none is lost.",
            "数据库无应答：订单在等待，不会丢失。"
        ),
        AlarmKind::BooksOff { .. } => {
            let (leave, key) = keys(Action::Ledger);
            tell!(
                "The books are off; {leave} then {key} shows why.",
                "账目不符，按 {leave} 再按 {key} 查看原因。"
            )
        }
        AlarmKind::LagStands { lag, .. } => {
            let (leave, key) = keys(Action::Stream);
            let wait = if *lag == 1 { "order waits" } else { "orders wait" };
            let words = tell!(
                "{wait} for SQL; {leave} then {key} shows who reads.",
                "笔订单等待落库，按 {leave} 再按 {key} 查看。"
            );
            return Alarm::about(*lag, words);
        }
        AlarmKind::JobFailed { .. } => {
            let (leave, key) = keys(Action::Jobs);
            tell!(
                "A job failed; {leave} then {key} shows why.",
                "有定时任务失败，按 {leave} 再按 {key} 查看原因。"
            )
        }
        AlarmKind::DeadConsumer { pending, known, .. } => {
            let (leave, key) = keys(Action::Pending);
            let orders = if *pending == 1 { "order" } else { "orders" };
            let words = if *known {
                tell!(
                    "{orders} of a dead node; {leave} then {key} tells more.",
                    "笔订单在失联节点手中，按 {leave} 再按 {key} 查看。"
                )
            } else {
                tell!(
                    "{orders} of no known node; {leave} then {key} tells more.",
                    "笔订单的持有者不是已知节点，按 {leave} 再按 {key} 查看。"
                )
            };
            return Alarm::about(*pending, words);
        }
        AlarmKind::SilentConsumer { pending, .. } => {
            let (leave, key) = keys(Action::Pending);
            let orders = if *pending == 1 { "order" } else { "orders" };
            let words = tell!(
                "{orders} of a silent node; {leave} then {key} tells more.",
                "笔订单在没有动静的节点手中，按 {leave} 再按 {key} 查看。"
            );
            return Alarm::about(*pending, words);
        }
        AlarmKind::DeadLetters { count } => {
            let (leave, key) = keys(Action::Letters);
            let letters = if *count == 1 { "dead letter" } else { "dead letters" };
            let words = tell!(
                "{letters}; {leave} then {key} tells more.",
                "条死信，按 {leave} 再按 {key} 查看。"
            );
            return Alarm::about(*count, words);
        }
        AlarmKind::Undelivered { .. } => {
            tell!("A change of a sale has not reached Redis.", "一项秒杀更改尚未到达 Redis。")
        }
        AlarmKind::NoGroup => {
            tell!("The stream has no consumer group.", "消息流没有消费组。")
        }
        AlarmKind::RedisForgot { refused: 0, .. } => {
            tell!("Redis had lost data; all of it is put back.", "Redis 曾丢失数据，已全部补回。")
        }
        AlarmKind::RedisForgot { refused, .. } => {
            let refused = thousands(*refused);
            tell!(
                "Redis had lost data; promises that can't be kept: {refused}.",
                "Redis 曾丢失数据，{refused} 份承诺无法兑现。"
            )
        }
        AlarmKind::ServerBack { away_ms, .. } => {
            let away = span(*away_ms);
            tell!("A server is back after {away}.", "服务器已恢复，中断了 {away}。")
        }
    };
    words.into()
}

/// Alarms beside the one that is told.
pub(crate) fn more(count: usize) -> String {
    let count = thousands(count as u64);
    tell!("+{count}", "另 {count} 条")
}
