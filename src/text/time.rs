//! Texts about time: the span of the chart, and the events of a moment.

use seckill_engine::telemetry::log::events;

use seckill_model::text;

/// The span of the chart.
pub fn last(millis: u64) -> String {
    match millis / 1_000 {
        seconds @ 0..60 => text!("time-last-s", seconds),
        seconds => text!("time-last-min", minutes = seconds / 60),
    }
}

/// A command or an event with its object, unless the event itself names it.
pub fn event(event: &str, subject: &str) -> String {
    match beyond(event, subject) {
        "" => event_name(event),
        subject => format!("{}  {subject}", event_name(event)),
    }
}

/// The subject of an entry, if its name does not imply it.
pub fn beyond<'a>(event: &str, subject: &'a str) -> &'a str {
    let named = matches!(event, events::REDIS_AWAY | events::REDIS_BACK) && subject == "redis";
    if named { "" } else { subject }
}

/// The name of a command or an event in the current language, from the name that the audit log has for it.
pub fn event_name(event: &str) -> String {
    text!("activity-event", event, key = event.replace(' ', "-"))
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
        assert_eq!(shown(), ["redis away", "database back  sqlite", "sale pause  #7", "rush stop"]);
        set_thread_language("zh");
        assert_eq!(shown(), ["Redis 不可达", "数据库恢复  sqlite", "暂停秒杀  #7", "停止压测"]);
    }
}
