//! Texts about time: the span of the chart, and the events of a moment.

use seckill_engine::telemetry::log::events;

use seckill_model::message::{Label, text};

use super::figures::thousands;
use crate::keymap::{Action, key_of};

pub(crate) const LAG: Label = Label("common-lag");
pub(crate) const PENDING: Label = Label("common-pending");
pub(crate) const UNREAD: Label = Label("time-no-data-for-that-moment");

/// The span of the chart.
pub(crate) fn last(millis: u64) -> String {
    match millis / 1_000 {
        seconds @ 0..60 => text!("time-last-s", seconds),
        seconds => {
            let minutes = seconds / 60;
            text!("time-last-min", minutes)
        }
    }
}

/// The selected moment, and what is not part of it.
pub(crate) fn moment(clock: &str) -> String {
    text!("time-values-of-rest-is-current", clock)
}

/// The display is paused.
pub(crate) fn held() -> String {
    let [earlier, later, go_on] = [Action::Earlier, Action::Later, Action::Freeze].map(key_of);
    text!("time-display-paused-and-step-through", earlier, later, go_on)
}

pub(crate) fn nothing_earlier() -> String {
    let zoom = key_of(Action::ZoomOut);
    text!("time-start-of-chart-press", zoom)
}

pub(crate) fn no_mark(later: bool) -> String {
    if later {
        text!("time-no-later-command-or-alarm")
    } else {
        text!("time-no-earlier-command-or-alarm")
    }
}

/// A command or an event with its object; a server is named by the event itself, with its kind after that.
pub(crate) fn event(act: &str, subject: &str) -> String {
    let text = act_word(act);
    match act {
        _ if beyond(act, subject).is_empty() => text.to_owned(),
        events::DATABASE_AWAY | events::DATABASE_BACK => {
            text!("time-value", text, subject)
        }
        _ => format!("{text}  {subject}"),
    }
}

/// The subject of an entry, if its name does not imply it.
pub(crate) fn beyond<'a>(act: &str, subject: &'a str) -> &'a str {
    let named = matches!(act, events::REDIS_AWAY | events::REDIS_BACK) && subject == "redis";
    if named { "" } else { subject }
}

/// Number of further events at the same moment.
pub(crate) fn more_events(more: usize) -> String {
    let more = thousands(more as u64);
    text!("time-and-more", more)
}

/// Commands and events by the name that the audit log has for them.
const NAMES: &[(&str, Label)] = &[
    ("voucher create", Label("command-voucher-create")),
    ("voucher buy", Label("command-voucher-buy")),
    ("sale create", Label("command-sale-create")),
    ("sale start", Label("command-sale-start")),
    ("sale pause", Label("command-sale-pause")),
    ("sale resume", Label("command-sale-resume")),
    ("sale end", Label("command-sale-end")),
    ("sale cut", Label("command-sale-cut")),
    ("sale restock", Label("command-sale-restock")),
    ("rush", Label("command-rush")),
    ("rush stop", Label("command-rush-stop")),
    ("audit repair", Label("command-audit-repair")),
    ("audit repair begun", Label("command-audit-repair-begun")),
    ("pending plan", Label("command-pending-plan")),
    ("pending apply", Label("command-pending-apply")),
    ("pending apply begun", Label("command-pending-apply-begun")),
    ("stream rewind", Label("command-stream-rewind")),
    ("stream rewind begun", Label("command-stream-rewind-begun")),
    ("stream claim", Label("command-stream-claim")),
    ("stream claim begun", Label("command-stream-claim-begun")),
    ("stream remove-consumer", Label("command-stream-remove-consumer")),
    ("stream remove-consumer begun", Label("command-stream-remove-consumer-begun")),
    ("order pay", Label("command-order-pay")),
    ("lock release", Label("command-lock-release")),
    ("job run", Label("command-job-run")),
    ("job pause", Label("command-job-pause")),
    ("job resume", Label("command-job-resume")),
    ("dead count", Label("command-dead-count")),
    ("dead replay", Label("command-dead-replay")),
    ("dead replay begun", Label("command-dead-replay-begun")),
    ("dead discard", Label("command-dead-discard")),
    ("dead discard begun", Label("command-dead-discard-begun")),
    ("redis away", Label("event-redis-away")),
    ("redis back", Label("event-redis-back")),
    ("database away", Label("event-database-away")),
    ("database back", Label("event-database-back")),
    ("alarm raised", Label("event-alarm-raised")),
    ("alarm cleared", Label("event-alarm-cleared")),
    ("orders wait", Label("event-orders-wait")),
    ("orders written", Label("event-orders-written")),
    ("node started", Label("event-node-started")),
    ("node stopped", Label("event-node-stopped")),
    ("node dead", Label("event-node-dead")),
    ("redis reconciled", Label("event-redis-reconciled")),
    ("partition repaired", Label("event-partition-repaired")),
    ("left out", Label("event-left-out")),
];

/// The name of a command or an event in the current language.
pub fn act_word(act: &str) -> &str {
    NAMES.iter().find(|(name, _)| *name == act).map_or(act, |(_, label)| label.read())
}

#[cfg(test)]
mod tests {
    use super::*;
    use seckill_model::locale::set_thread_language;

    #[test]
    fn an_event_of_a_server_names_it_once() {
        let shown = || {
            [
                event("redis away", "redis"),
                event("database back", "sqlite"),
                event("sale pause", "#7"),
                event("rush stop", ""),
            ]
        };
        assert_eq!(
            shown(),
            ["redis away", "database back (sqlite)", "sale pause  #7", "rush stop"]
        );
        set_thread_language("zh");
        assert_eq!(shown(), ["Redis 不可达", "数据库恢复（sqlite）", "暂停秒杀  #7", "停止压测"]);
    }
}
