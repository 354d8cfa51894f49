//! Words about time: how much of it the chart shows, and what befell at a moment.

use seckill_engine::telemetry::log::events;

use super::{
    figures::thousands,
    lang::{Lang, Word, spoken, tell, word},
};
use crate::keymap::{Action, key_of};

pub(crate) const LAG: Word = word("lag", "积压");
pub(crate) const PENDING: Word = word("pending", "待确认");
pub(crate) const UNREAD: Word = word("nothing was read at that moment", "该时刻没有读到数据");
pub(crate) const NOTHING_LATER: Word =
    word("this is the newest moment of the picture", "已是画面中最新的时刻");
pub(crate) const NO_CHART: Word =
    word("the chart needs a larger window; 80x24 shows it", "图表需要更大的窗口，80x24 即可显示");

/// How much the chart shows.
pub(crate) fn last(millis: u64) -> String {
    match millis / 1_000 {
        seconds @ 0..60 => tell!("last {seconds} s", "最近 {seconds} 秒"),
        seconds => {
            let minutes = seconds / 60;
            tell!("last {minutes} min", "最近 {minutes} 分钟")
        }
    }
}

/// The moment that is looked at, and what is not of it.
pub(crate) fn moment(clock: &str) -> String {
    tell!("figures at {clock}; the rest is now", "{clock} 的数据；其余为当前")
}

/// The picture stands still.
pub(crate) fn held() -> String {
    let [earlier, later, go_on] = [Action::Earlier, Action::Later, Action::Freeze].map(key_of);
    tell!(
        "held still, {earlier} and {later} go through time; {go_on} lets it go on",
        "画面已冻结，{earlier} 和 {later} 查看之前的时刻，{go_on} 恢复"
    )
}

pub(crate) fn nothing_earlier() -> String {
    let zoom = key_of(Action::ZoomOut);
    tell!(
        "the chart begins here; {zoom} shows a longer time",
        "图表从这里开始，{zoom} 可显示更长时间"
    )
}

pub(crate) fn no_mark(later: bool) -> String {
    if later {
        tell!("no act and no alarm after this moment", "此刻之后没有操作或告警")
    } else {
        tell!("no act and no alarm before this moment in the chart", "图表中此刻之前没有操作或告警")
    }
}

/// What befell. A server is named in its own act, and its kind stands behind that.
pub(crate) fn befell(act: &str, subject: &str) -> String {
    let told = act_word(act);
    match act {
        _ if beyond(act, subject).is_empty() => told.to_owned(),
        events::DATABASE_AWAY | events::DATABASE_BACK => {
            tell!("{told} ({subject})", "{told}（{subject}）")
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
    tell!("  and {more} more", "  另有 {more} 条")
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
    match spoken() {
        Lang::En => act,
        Lang::Zh => known().unwrap_or(act),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::speak_here;

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
        speak_here(Lang::Zh);
        assert_eq!(told(), ["Redis 失联", "数据库恢复（sqlite）", "暂停秒杀  #7", "停止模拟抢购"]);
    }
}
