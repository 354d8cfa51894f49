//! The drills, as data: fault, symptoms on screen, remedy and final checks.
//!
//! A text must fit the two lines of the guide at 80x24.

use seckill_engine::telemetry::{Snapshot, snapshot::AlarmKind};
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

/// A symptom in a snapshot; the number is that of affected entries.
pub(super) struct Symptom {
    pub(super) text: fn(u64) -> String,
    pub(super) matches: fn(&Snapshot, u64) -> bool,
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

/// Final check in addition to the audit.
pub(super) struct FinalCheck {
    pub(super) text: Label,
    pub(super) holds: fn(&Figures) -> bool,
}

/// One drill.
pub(super) struct Drill {
    pub(super) name: &'static str,
    pub(super) about: Label,
    pub(super) title: Label,
    /// What happens, and where to look, by the number of affected entries and the seconds until the fault ends.
    pub(super) fault_text: fn(u64, u64) -> String,
    /// What to do in this data dir, or what happens automatically.
    pub(super) remedy_text: fn(&str) -> String,
    pub(super) fault: InjectedFault,
    /// Duration of the fault in seconds after it was visible; 0 if the remedy ends it.
    pub(super) duration_s: u64,
    pub(super) remedy: Remedy,
    pub(super) seen: Symptom,
    pub(super) done: Symptom,
    pub(super) final_check: FinalCheck,
}

pub(super) const DRILLS: [Drill; 8] = [
    Drill {
        name: "consumer-killed",
        about: Label("drill-about-consumer-killed"),
        title: Label("common-node-failure"),
        fault_text: |n, _| text!("drill-consumer-killed-fault", n),
        remedy_text: |_| Label("drill-consumer-killed-remedy").to_owned(),
        fault: InjectedFault::NodeDies,
        duration_s: 0,
        remedy: Remedy::Plan,
        seen: Symptom { text: |n| text!("drill-seen-dead-consumer", n), matches: dead_holder },
        done: Symptom { text: |_| Label("drill-done-no-pending").to_owned(), matches: settled },
        final_check: FinalCheck {
            text: Label("drill-consumer-killed-check"),
            holds: |it| it.after == it.before + it.affected,
        },
    },
    Drill {
        name: "poison",
        about: Label("drill-about-poison"),
        title: Label("drill-poison-title"),
        fault_text: |n, _| text!("drill-poison-fault", n),
        remedy_text: |dir| text!("drill-poison-remedy", dir),
        fault: InjectedFault::Poison,
        duration_s: 0,
        remedy: Remedy::Discard,
        seen: Symptom {
            text: |n| text!("drill-seen-letters", n),
            matches: |snapshot, affected| {
                alarm(snapshot, |kind| *kind == AlarmKind::DeadLetters { count: affected })
            },
        },
        done: Symptom {
            text: |_| Label("drill-done-no-letters").to_owned(),
            matches: |snapshot, _| snapshot.stream.as_ref().is_some_and(|it| it.dead == 0),
        },
        final_check: FinalCheck {
            text: Label("drill-poison-check"),
            holds: |it| it.after == it.before + it.waiting,
        },
    },
    Drill {
        name: "database-away",
        about: Label("drill-about-database-away"),
        title: Label("drill-database-away-title"),
        fault_text: |_, left| text!("drill-database-away-fault", left),
        remedy_text: |_| Label("drill-database-away-remedy").to_owned(),
        fault: InjectedFault::DatabaseAway,
        duration_s: 8,
        remedy: Remedy::Automatic,
        seen: Symptom {
            text: |_| Label("drill-seen-database-away").to_owned(),
            matches: |snapshot, _| {
                alarm(snapshot, |kind| matches!(kind, AlarmKind::SqlAway { .. }))
            },
        },
        done: Symptom {
            text: |_| Label("drill-done-database-back").to_owned(),
            matches: |snapshot, _| back(snapshot, &snapshot.sql.name),
        },
        final_check: FinalCheck {
            text: Label("drill-database-away-check"),
            holds: |it| it.after > it.before,
        },
    },
    Drill {
        name: "redis-redis-at-does-not-answer",
        about: Label("drill-about-redis-away"),
        title: Label("drill-redis-away-title"),
        fault_text: |_, _| Label("drill-redis-away-fault").to_owned(),
        remedy_text: |_| Label("drill-redis-away-remedy").to_owned(),
        fault: InjectedFault::RedisKilled,
        duration_s: 0,
        remedy: Remedy::Automatic,
        seen: Symptom {
            text: |_| Label("drill-seen-redis-away").to_owned(),
            matches: |snapshot, _| {
                alarm(snapshot, |kind| matches!(kind, AlarmKind::RedisAway { .. }))
                    || back(snapshot, &snapshot.redis.name)
            },
        },
        done: Symptom {
            text: |_| Label("drill-done-redis-back").to_owned(),
            matches: |snapshot, _| back(snapshot, &snapshot.redis.name),
        },
        final_check: FinalCheck {
            text: Label("drill-redis-away-check"),
            holds: |it| it.after > it.before,
        },
    },
    Drill {
        name: "group-destroyed",
        about: Label("drill-about-group-destroyed"),
        title: Label("drill-group-destroyed-title"),
        fault_text: |n, left| text!("drill-group-destroyed-fault", n, left),
        remedy_text: |_| Label("drill-group-destroyed-remedy").to_owned(),
        fault: InjectedFault::GroupDestroyed,
        duration_s: 8,
        remedy: Remedy::Automatic,
        seen: Symptom {
            text: |_| Label("drill-seen-no-group").to_owned(),
            matches: |snapshot, _| alarm(snapshot, |kind| *kind == AlarmKind::NoGroup),
        },
        done: Symptom {
            text: |_| Label("drill-done-group").to_owned(),
            matches: |snapshot, affected| {
                snapshot.stream.as_ref().is_some_and(|it| it.group) && settled(snapshot, affected)
            },
        },
        final_check: FinalCheck {
            text: Label("drill-group-destroyed-check"),
            holds: |it| it.after == it.before + it.waiting,
        },
    },
    Drill {
        name: "stream-trimmed",
        about: Label("drill-about-stream-trimmed"),
        title: Label("drill-stream-trimmed-title"),
        fault_text: |n, _| text!("drill-stream-trimmed-fault", n),
        remedy_text: |_| Label("drill-stream-trimmed-remedy").to_owned(),
        fault: InjectedFault::StreamTrimmed,
        duration_s: 0,
        remedy: Remedy::Plan,
        seen: Symptom {
            text: |n| text!("drill-seen-trimmed", n),
            matches: |snapshot, affected| dead_holder(snapshot, affected) && body_gone(snapshot),
        },
        done: Symptom {
            text: |_| Label("drill-done-no-pending").to_owned(),
            matches: |snapshot, _| snapshot.stream.as_ref().is_some_and(|it| it.pending == 0),
        },
        final_check: FinalCheck {
            text: Label("drill-stream-trimmed-check"),
            holds: |it| it.after == it.before + it.affected,
        },
    },
    Drill {
        name: "duplicates",
        about: Label("drill-about-duplicates"),
        title: Label("drill-duplicates-title"),
        fault_text: |n, left| text!("drill-duplicates-fault", n, left),
        remedy_text: |_| Label("drill-duplicates-remedy").to_owned(),
        fault: InjectedFault::Duplicates,
        duration_s: 6,
        remedy: Remedy::Automatic,
        seen: Symptom {
            text: |n| text!("drill-seen-lag", n),
            matches: |snapshot, affected| {
                snapshot.stream.as_ref().is_some_and(|it| it.lag == Some(affected))
            },
        },
        done: Symptom { text: |_| Label("drill-done-settled").to_owned(), matches: settled },
        final_check: FinalCheck {
            text: Label("drill-duplicates-check"),
            holds: |it| it.after == it.before,
        },
    },
    Drill {
        name: "clock-step",
        about: Label("drill-about-clock-step"),
        title: Label("drill-clock-step-title"),
        fault_text: |_, _| Label("drill-clock-step-fault").to_owned(),
        remedy_text: |_| Label("drill-clock-step-remedy").to_owned(),
        fault: InjectedFault::ClockSteps,
        duration_s: 0,
        remedy: Remedy::Automatic,
        seen: Symptom { text: |_| Label("drill-seen-calm").to_owned(), matches: calm },
        done: Symptom { text: |_| Label("drill-done-sales").to_owned(), matches: settled },
        final_check: FinalCheck {
            text: Label("drill-clock-step-check"),
            holds: |it| it.rising && it.after > it.before,
        },
    },
];

fn alarm(snapshot: &Snapshot, is: impl Fn(&AlarmKind) -> bool) -> bool {
    snapshot.alarms.iter().any(|alarm| is(&alarm.kind))
}

fn dead_holder(snapshot: &Snapshot, affected: u64) -> bool {
    let holds = |kind: &AlarmKind| matches!(kind, AlarmKind::DeadConsumer { pending, .. } if *pending == affected);
    alarm(snapshot, holds)
}

/// Every entry left in the stream is newer than the oldest pending one.
fn body_gone(snapshot: &Snapshot) -> bool {
    snapshot.stream.as_ref().is_some_and(|stream| {
        let younger = |pending| stream.oldest_ms.is_none_or(|kept| kept < pending);
        stream.oldest_pending_ms.is_some_and(younger)
    })
}

fn back(snapshot: &Snapshot, name: &str) -> bool {
    alarm(snapshot, |kind| matches!(kind, AlarmKind::ServerBack { server, .. } if server == name))
}

fn settled(snapshot: &Snapshot, _: u64) -> bool {
    is_settled(snapshot)
}

fn calm(snapshot: &Snapshot, _: u64) -> bool {
    snapshot.alarms.is_empty() && matches!(snapshot.audit, Balance::Balanced { .. })
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
