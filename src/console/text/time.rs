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
        _ if beyond(act, subject).is_empty() => text,
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

/// The name of a command or an event in the current language, from the name that the audit log has for it.
pub fn act_word(act: &str) -> String {
    text!("activity-event", act, key = act.replace(' ', "-"))
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
