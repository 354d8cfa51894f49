//! Words about time: how much of it the chart shows, and what befell at a moment.

use seckill_engine::telemetry::log::events;

use seckill_model::{
    locale::{Lang, language},
    message::{Label, text},
};

use super::figures::thousands;
use crate::keymap::{Action, key_of};

pub(crate) const LAG: Label = Label("common-lag");
pub(crate) const PENDING: Label = Label("common-pending");
pub(crate) const UNREAD: Label = Label("time-nothing-was-read-at-that-moment");
pub(crate) const NOTHING_LATER: Label = Label("time-this-is-the-newest-moment-of");
pub(crate) const NO_CHART: Label = Label("time-the-chart-needs-a-larger-window");

/// How much the chart shows.
pub(crate) fn last(millis: u64) -> String {
    match millis / 1_000 {
        seconds @ 0..60 => text!("time-last-s", seconds),
        seconds => {
            let minutes = seconds / 60;
            text!("time-last-min", minutes)
        }
    }
}

/// The moment that is looked at, and what is not of it.
pub(crate) fn moment(clock: &str) -> String {
    text!("time-figures-at-the-rest-is-now", clock)
}

/// The picture stands still.
pub(crate) fn held() -> String {
    let [earlier, later, go_on] = [Action::Earlier, Action::Later, Action::Freeze].map(key_of);
    text!("time-held-still-and-go-through-time", earlier, later, go_on)
}

pub(crate) fn nothing_earlier() -> String {
    let zoom = key_of(Action::ZoomOut);
    text!("time-the-chart-begins-here-shows-a", zoom)
}

pub(crate) fn no_mark(later: bool) -> String {
    if later {
        text!("time-no-act-and-no-alarm-after")
    } else {
        text!("time-no-act-and-no-alarm-before")
    }
}

/// What befell. A server is named in its own act, and its kind stands behind that.
pub(crate) fn befell(act: &str, subject: &str) -> String {
    let told = act_word(act);
    match act {
        _ if beyond(act, subject).is_empty() => told.to_owned(),
        events::DATABASE_AWAY | events::DATABASE_BACK => {
            text!("time-value", told, subject)
        }
        _ => format!("{told}  {subject}"),
    }
}

/// The subject of an act, as far as the act itself does not name it.
pub(crate) fn beyond<'a>(act: &str, subject: &'a str) -> &'a str {
    let named = matches!(act, events::REDIS_AWAY | events::REDIS_BACK) && subject == "redis";
    if named { "" } else { subject }
}

/// How much more did at the same moment.
pub(crate) fn more_befell(more: usize) -> String {
    let more = thousands(more as u64);
    text!("time-and-more", more)
}

/// Acts and events of the log by name; the log itself holds the English one, as the command line prints it.
const ACTS: &[(&str, &str)] = &[
    ("voucher create", "创建优惠券"),
    ("voucher buy", "购买优惠券"),
    ("sale create", "创建秒杀"),
    ("sale start", "开始秒杀"),
    ("sale pause", "暂停秒杀"),
    ("sale resume", "恢复秒杀"),
    ("sale end", "结束秒杀"),
    ("sale cut", "减少库存"),
    ("sale restock", "增加库存"),
    ("rush", "模拟抢购"),
    ("rush stop", "停止模拟抢购"),
    ("audit repair", "对账修复"),
    ("audit repair begun", "对账修复开始"),
    ("pending apply", "执行计划"),
    ("pending apply begun", "执行计划开始"),
    ("stream rewind", "消费组回退"),
    ("stream rewind begun", "消费组回退开始"),
    ("stream claim", "转交消息"),
    ("stream claim begun", "转交消息开始"),
    ("stream remove-consumer", "移除消费者"),
    ("stream remove-consumer begun", "移除消费者开始"),
    ("order pay", "支付订单"),
    ("lock release", "释放锁"),
    ("job run", "运行任务"),
    ("job pause", "暂停任务"),
    ("job resume", "恢复任务"),
    ("dead replay", "重放死信"),
    ("dead replay begun", "重放死信开始"),
    ("dead discard", "丢弃死信"),
    ("dead discard begun", "丢弃死信开始"),
    ("redis away", "Redis 失联"),
    ("redis back", "Redis 恢复"),
    ("database away", "数据库失联"),
    ("database back", "数据库恢复"),
    ("alarm raised", "告警触发"),
    ("alarm cleared", "告警解除"),
    ("orders wait", "订单等待落库"),
    ("orders written", "订单已落库"),
    ("node started", "节点启动"),
    ("node stopped", "节点停止"),
    ("node dead", "节点失联"),
    ("redis healed", "Redis 数据已补回"),
    ("partition repaired", "分区已修复"),
    ("left out", "省略"),
];

/// An act's name as it is read now.
pub fn act_word(act: &str) -> &str {
    let known = || ACTS.iter().find(|(en, _)| *en == act).map(|(_, zh)| *zh);
    match language() {
        Lang::En => act,
        Lang::Zh => known().unwrap_or(act),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seckill_model::locale::set_thread_language;

    #[test]
    fn what_befell_a_server_names_it_once() {
        let told = || {
            [
                befell("redis away", "redis"),
                befell("database back", "sqlite"),
                befell("sale pause", "#7"),
                befell("rush stop", ""),
            ]
        };
        assert_eq!(told(), ["redis away", "database back (sqlite)", "sale pause  #7", "rush stop"]);
        set_thread_language(Lang::Zh);
        assert_eq!(told(), ["Redis 失联", "数据库恢复（sqlite）", "暂停秒杀  #7", "停止模拟抢购"]);
    }
}
