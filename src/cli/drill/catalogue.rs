//! The drills, as data: fault, symptoms on screen, remedy and final checks.
//!
//! A text must fit the two lines of the guide at 80x24.

use seckill_engine::telemetry::{
    Snapshot,
    snapshot::{AlarmKind, StreamLine},
};
use seckill_model::{
    ledger::Balance,
    message::{Label, text},
};

use super::super::sandbox::is_settled;

/// The injected fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InjectedFault {
    NodeDies,
    Poison,
    DatabaseAway,
    RedisKilled,
    GroupDestroyed,
    StreamTrimmed,
    Duplicates,
    ClockSteps,
}

/// Who repairs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Remedy {
    /// The engine.
    Automatic,
    /// The operator, who plans and applies the recovery of pending entries.
    Plan,
    /// The operator, who discards dead letters.
    Discard,
}

impl Remedy {
    /// The keys that the operator presses.
    pub(super) fn keys(self) -> Option<&'static str> {
        match self {
            Self::Automatic => None,
            Self::Plan => Some("4  A  y"),
            Self::Discard => Some("5  *  D  y"),
        }
    }
}

/// Final figures.
#[derive(Clone, Copy, Debug)]
pub(super) struct Figures {
    /// Orders in SQL before the fault.
    pub(super) before: u64,
    /// Orders in SQL now.
    pub(super) after: u64,
    /// Entries affected by the fault.
    pub(super) affected: u64,
    /// Undelivered orders at the time of the fault.
    pub(super) waiting: u64,
    /// IDs increase from one sale to the next.
    pub(super) rising: bool,
}

/// One drill. The numbers passed to its functions are those of affected entries.
pub(super) struct Drill {
    pub(super) name: &'static str,
    pub(super) about: Label,
    pub(super) title: Label,
    pub(super) fault: InjectedFault,
    /// Duration of the fault in seconds after it was visible; 0 if the remedy ends it.
    pub(super) duration_s: u64,
    /// What happens, and where to look; the second number is that of seconds until the fault ends.
    pub(super) fault_text: fn(u64, u64) -> String,
    pub(super) remedy: Remedy,
    /// What to do in this data dir, or what happens automatically.
    pub(super) remedy_text: fn(&str) -> String,
    /// The symptom of the fault.
    pub(super) is_seen: fn(&Snapshot, u64) -> bool,
    pub(super) seen_text: fn(u64) -> String,
    /// The symptom of the repair.
    pub(super) is_repaired: fn(&Snapshot, u64) -> bool,
    pub(super) repaired_text: Label,
    /// The final check in addition to the audit.
    pub(super) holds: fn(&Figures) -> bool,
    pub(super) check: Label,
}

pub(super) const DRILLS: [Drill; 8] = [
    Drill {
        name: "consumer-killed",
        about: Label("drill-about-consumer-killed"),
        title: Label("common-node-failure"),
        fault: InjectedFault::NodeDies,
        duration_s: 0,
        fault_text: |n, _| text!("drill-consumer-killed-fault", n),
        remedy: Remedy::Plan,
        remedy_text: |_| Label("drill-consumer-killed-remedy").to_owned(),
        is_seen: has_dead_consumer,
        seen_text: |n| text!("drill-seen-dead-consumer", n),
        is_repaired: |it, _| is_settled(it),
        repaired_text: Label("drill-done-no-pending"),
        holds: |it| it.after == it.before + it.affected,
        check: Label("drill-consumer-killed-check"),
    },
    Drill {
        name: "poison",
        about: Label("drill-about-poison"),
        title: Label("drill-poison-title"),
        fault: InjectedFault::Poison,
        duration_s: 0,
        fault_text: |n, _| text!("drill-poison-fault", n),
        remedy: Remedy::Discard,
        remedy_text: |dir| text!("drill-poison-remedy", dir),
        is_seen: |it, n| alarm(it, |kind| *kind == AlarmKind::DeadLetters { count: n }),
        seen_text: |n| text!("drill-seen-letters", n),
        is_repaired: |it, _| stream(it, |stream| stream.dead == 0),
        repaired_text: Label("drill-done-no-letters"),
        holds: |it| it.after == it.before + it.waiting,
        check: Label("drill-poison-check"),
    },
    Drill {
        name: "database-away",
        about: Label("drill-about-database-away"),
        title: Label("drill-database-away-title"),
        fault: InjectedFault::DatabaseAway,
        duration_s: 8,
        fault_text: |_, left| text!("drill-database-away-fault", left),
        remedy: Remedy::Automatic,
        remedy_text: |_| Label("drill-database-away-remedy").to_owned(),
        is_seen: |it, _| alarm(it, |kind| matches!(kind, AlarmKind::SqlAway { .. })),
        seen_text: |_| Label("drill-seen-database-away").to_owned(),
        is_repaired: |it, _| is_back(it, &it.sql.name),
        repaired_text: Label("drill-done-database-back"),
        holds: |it| it.after > it.before,
        check: Label("drill-database-away-check"),
    },
    Drill {
        name: "redis-away",
        about: Label("drill-about-redis-away"),
        title: Label("drill-redis-away-title"),
        fault: InjectedFault::RedisKilled,
        duration_s: 0,
        fault_text: |_, _| Label("drill-redis-away-fault").to_owned(),
        remedy: Remedy::Automatic,
        remedy_text: |_| Label("drill-redis-away-remedy").to_owned(),
        is_seen: |it, _| {
            let is_away = alarm(it, |kind| matches!(kind, AlarmKind::RedisAway { .. }));
            is_away || is_back(it, &it.redis.name)
        },
        seen_text: |_| Label("drill-seen-redis-away").to_owned(),
        is_repaired: |it, _| is_back(it, &it.redis.name),
        repaired_text: Label("drill-done-redis-back"),
        holds: |it| it.after > it.before,
        check: Label("drill-redis-away-check"),
    },
    Drill {
        name: "group-destroyed",
        about: Label("drill-about-group-destroyed"),
        title: Label("drill-group-destroyed-title"),
        fault: InjectedFault::GroupDestroyed,
        duration_s: 8,
        fault_text: |n, left| text!("drill-group-destroyed-fault", n, left),
        remedy: Remedy::Automatic,
        remedy_text: |_| Label("drill-group-destroyed-remedy").to_owned(),
        is_seen: |it, _| alarm(it, |kind| *kind == AlarmKind::NoGroup),
        seen_text: |_| Label("drill-seen-no-group").to_owned(),
        is_repaired: |it, _| stream(it, |stream| stream.group) && is_settled(it),
        repaired_text: Label("drill-done-group"),
        holds: |it| it.after == it.before + it.waiting,
        check: Label("drill-group-destroyed-check"),
    },
    Drill {
        name: "stream-trimmed",
        about: Label("drill-about-stream-trimmed"),
        title: Label("drill-stream-trimmed-title"),
        fault: InjectedFault::StreamTrimmed,
        duration_s: 0,
        fault_text: |n, _| text!("drill-stream-trimmed-fault", n),
        remedy: Remedy::Plan,
        remedy_text: |_| Label("drill-stream-trimmed-remedy").to_owned(),
        is_seen: |it, n| has_dead_consumer(it, n) && body_gone(it),
        seen_text: |n| text!("drill-seen-trimmed", n),
        is_repaired: |it, _| stream(it, |stream| stream.pending == 0),
        repaired_text: Label("drill-done-no-pending"),
        holds: |it| it.after == it.before + it.affected,
        check: Label("drill-stream-trimmed-check"),
    },
    Drill {
        name: "duplicates",
        about: Label("drill-about-duplicates"),
        title: Label("drill-duplicates-title"),
        fault: InjectedFault::Duplicates,
        duration_s: 6,
        fault_text: |n, left| text!("drill-duplicates-fault", n, left),
        remedy: Remedy::Automatic,
        remedy_text: |_| Label("drill-duplicates-remedy").to_owned(),
        is_seen: |it, n| stream(it, |stream| stream.lag == Some(n)),
        seen_text: |n| text!("drill-seen-lag", n),
        is_repaired: |it, _| is_settled(it),
        repaired_text: Label("drill-done-settled"),
        holds: |it| it.after == it.before,
        check: Label("drill-duplicates-check"),
    },
    Drill {
        name: "clock-step",
        about: Label("drill-about-clock-step"),
        title: Label("drill-clock-step-title"),
        fault: InjectedFault::ClockSteps,
        duration_s: 0,
        fault_text: |_, _| Label("drill-clock-step-fault").to_owned(),
        remedy: Remedy::Automatic,
        remedy_text: |_| Label("drill-clock-step-remedy").to_owned(),
        is_seen: |it, _| it.alarms.is_empty() && matches!(it.audit, Balance::Balanced { .. }),
        seen_text: |_| Label("drill-seen-calm").to_owned(),
        is_repaired: |it, _| is_settled(it),
        repaired_text: Label("drill-done-sales"),
        holds: |it| it.rising && it.after > it.before,
        check: Label("drill-clock-step-check"),
    },
];

fn stream(snapshot: &Snapshot, is: impl Fn(&StreamLine) -> bool) -> bool {
    snapshot.stream.as_ref().is_some_and(is)
}

fn alarm(snapshot: &Snapshot, is: impl Fn(&AlarmKind) -> bool) -> bool {
    snapshot.alarms.iter().any(|alarm| is(&alarm.kind))
}

fn has_dead_consumer(snapshot: &Snapshot, entries: u64) -> bool {
    alarm(
        snapshot,
        |kind| matches!(kind, AlarmKind::DeadConsumer { pending, .. } if *pending == entries),
    )
}

/// Every entry left in the stream is newer than the oldest pending one.
fn body_gone(snapshot: &Snapshot) -> bool {
    stream(snapshot, |stream| {
        let is_newer = |pending| stream.oldest_ms.is_none_or(|kept| kept < pending);
        stream.oldest_pending_ms.is_some_and(is_newer)
    })
}

fn is_back(snapshot: &Snapshot, name: &str) -> bool {
    alarm(snapshot, |kind| matches!(kind, AlarmKind::ServerBack { server, .. } if server == name))
}

#[cfg(test)]
mod tests {
    use unicode_width::UnicodeWidthStr;

    use super::*;
    use seckill_model::locale::set_thread_language;

    /// The pages of a drill, each with the keys that it names.
    fn texts(drill: &Drill) -> [(String, Option<&'static str>); 2] {
        let remedy = (drill.remedy_text)("/tmp/seckill-demo-AbCdEf");
        [((drill.fault_text)(128, 8), None), (remedy, drill.remedy.keys())]
    }

    /// Columns of the two lines, without cursor, key and wrapping losses.
    fn room(keys: Option<&str>) -> usize {
        let key = keys.map_or(0, |keys| "press ".len() + keys.len() + 2);
        (80 - 6 - key) + (80 - 4) - 12
    }

    #[test]
    fn pages_fit_two_lines_of_80_columns_in_each_language() {
        for lang in ["en", "zh"] {
            set_thread_language(lang);
            for drill in &DRILLS {
                for (text, keys) in texts(drill) {
                    let long = drill.title.width() + 4 + text.width();
                    assert!(long <= room(keys), "{}: {long} of {}", drill.name, room(keys));
                }
            }
        }
    }

    /// Columns of the three lines in the smallest window, counted the same way.
    fn least_room(keys: Option<&str>) -> usize {
        let key = keys.map_or(0, |keys| "press ".len() + keys.len() + 2);
        (60 - 6 - key) + 2 * (60 - 4) - 18
    }

    #[test]
    fn pages_fit_three_lines_of_60_columns_in_each_language() {
        for lang in ["en", "zh"] {
            set_thread_language(lang);
            for drill in &DRILLS {
                for (text, keys) in texts(drill) {
                    let long = drill.title.width() + 4 + text.width();
                    assert!(long <= least_room(keys), "{}: {long}", drill.name);
                }
            }
        }
    }

    #[test]
    fn names_are_unique() {
        for (at, drill) in DRILLS.iter().enumerate() {
            assert!(DRILLS.iter().skip(at + 1).all(|other| other.name != drill.name));
        }
    }
}
