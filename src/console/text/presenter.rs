//! Words of the presenter's layout: few, without ids and without users, for people at the back of a hall.

use super::{
    actions::Told,
    figures::{span, thousands},
    lang::{Word, tell, word},
};
use crate::{
    console::keymap::{Action, key_of},
    telemetry::snapshot::AlarmKind,
};

pub(crate) const CONTEXT: Word = word("Presenter", "演示");
pub(crate) const BUYERS: Word = word("buyers a second", "每秒买家");
pub(crate) const BUYERS_BRIEF: Word = word("buyers/s", "买家/秒");
pub(crate) const WRITTEN: Word = word("orders written", "已落库订单");
pub(crate) const WRITTEN_BRIEF: Word = word("written", "已落库");
pub(crate) const OVERSOLD: Word = word("oversold", "超卖");
pub(crate) const PIECES: Word = word("pieces", "件数");
pub(crate) const WAITING: Word = word("buyers wait", "等候买家");
pub(crate) const BALANCED: Word = word("books balance", "账目平衡");
pub(crate) const IN_FLIGHT: Word = word("in flight", "在途");
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
            let age = span(ms);
            tell!("{age} old", "{age}前")
        }
        None => super::UNKNOWN.to_owned(),
    }
}

/// An alarm in a line, without names.
pub(crate) fn alarm(kind: &AlarmKind) -> String {
    match kind {
        AlarmKind::RedisAway { .. } => {
            tell!("Redis does not answer: what you see is old.", "Redis 无应答，画面为旧数据。")
        }
        AlarmKind::SqlAway { .. } => tell!(
            "The database does not answer: orders wait, none is lost.",
            "数据库无应答：订单在等待，不会丢失。"
        ),
        AlarmKind::BooksOff { .. } => {
            let key = key_of(Action::Activity);
            tell!(
                "The books are off; {key} shows what was done.",
                "账目不符，按 {key} 查看操作记录。"
            )
        }
        AlarmKind::DeadConsumer { pending, .. } => {
            let (held, key) = (thousands(*pending), key_of(Action::Pending));
            tell!(
                "A node died with {held} orders in its hands; {key} opens them.",
                "一个节点失联，手中有 {held} 笔订单，按 {key} 查看。"
            )
        }
        AlarmKind::SilentConsumer { pending, .. } => {
            let (held, key) = (thousands(*pending), key_of(Action::Pending));
            tell!(
                "A node has gone silent with {held} orders; {key} opens them.",
                "一个节点没有动静，手中有 {held} 笔订单，按 {key} 查看。"
            )
        }
        AlarmKind::DeadLetters { count } => {
            let (count, key) = (thousands(*count), key_of(Action::Letters));
            tell!("Dead letters: {count}; {key} opens them.", "死信 {count} 条，按 {key} 查看。")
        }
        AlarmKind::NoGroup => {
            tell!("The stream has no consumer group.", "消息流没有消费组。")
        }
        AlarmKind::RedisForgot { refused: 0, .. } => {
            tell!("Redis had forgotten buyers; all are put back.", "Redis 曾丢失买家，已全部补回。")
        }
        AlarmKind::RedisForgot { refused, .. } => {
            let refused = thousands(*refused);
            tell!(
                "Redis had forgotten buyers; promises that can't be kept: {refused}.",
                "Redis 曾丢失买家，{refused} 份承诺无法兑现。"
            )
        }
        AlarmKind::ServerBack { away_ms, .. } => {
            let away = span(*away_ms);
            tell!("A server is back after {away}.", "服务器已恢复，中断了 {away}。")
        }
    }
}

/// Alarms beside the one that is told.
pub(crate) fn more(count: usize) -> String {
    let count = thousands(count as u64);
    tell!("+{count}", "另 {count} 条")
}
