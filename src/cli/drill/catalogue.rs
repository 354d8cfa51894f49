//! The drills, as data: fault, symptoms on screen, remedy and final checks.
//!
//! In texts, `{n}` is the number of affected entries, `{left}` the seconds until the fault ends, and `{dir}` the data
//! dir. A text must fit the two lines of the guide at 80x24.

use seckill_engine::telemetry::{Snapshot, snapshot::AlarmKind};
use seckill_model::{ledger::Balance, message::Label};
use serde::Serialize;

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
    Itself,
    /// The operator, who plans and applies the recovery of pending entries.
    Plan,
    /// The operator, who discards dead letters.
    Discard,
}

/// A symptom in a snapshot; the number is that of affected entries.
pub(super) struct Symptom {
    pub(super) text: &'static str,
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
#[derive(Serialize)]
pub(super) struct Drill {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    #[serde(skip)]
    pub(super) title: Label,
    /// What happens, and where to look.
    #[serde(skip)]
    pub(super) fault_text: Label,
    /// What to do, or what happens by itself.
    #[serde(skip)]
    pub(super) remedy_text: Label,
    /// The keys to press.
    #[serde(skip)]
    pub(super) keys: Option<&'static str>,
    #[serde(skip)]
    pub(super) fault: InjectedFault,
    /// Duration of the fault in seconds after it was visible; 0 if the remedy ends it.
    #[serde(skip)]
    pub(super) duration_s: u64,
    #[serde(skip)]
    pub(super) remedy: Remedy,
    #[serde(skip)]
    pub(super) seen: Symptom,
    #[serde(skip)]
    pub(super) done: Symptom,
    #[serde(skip)]
    pub(super) final_check: FinalCheck,
}

pub(super) const DRILLS: [Drill; 8] = [
    Drill {
        name: "consumer-killed",
        about: "a node dies while it holds a batch of orders",
        title: Label("common-a-node-dies"),
        fault_text: Label("drill-node-b-died-with-n-orders"),
        remedy_text: Label("drill-4-lists-what-it-held-a"),
        keys: Some("4  A  y"),
        fault: InjectedFault::NodeDies,
        duration_s: 0,
        remedy: Remedy::Plan,
        seen: Symptom { text: "ALARMS: a dead consumer holds {n} entries", matches: dead_holder },
        done: Symptom { text: "no pending entries", matches: settled },
        final_check: FinalCheck {
            text: Label("drill-sql-holds-the-orders-of-the"),
            holds: |it| it.after == it.before + it.affected,
        },
    },
    Drill {
        name: "poison",
        about: "invalid entries among valid ones",
        title: Label("drill-poison"),
        fault_text: Label("drill-n-entries-that-make-no-order"),
        remedy_text: Label("drill-5-lists-marks-all-d-discards"),
        keys: Some("5  *  D  y"),
        fault: InjectedFault::Poison,
        duration_s: 0,
        remedy: Remedy::Discard,
        seen: Symptom {
            text: "ALARMS: {n} dead letters wait for review",
            matches: |snapshot, affected| {
                alarm(snapshot, |kind| *kind == AlarmKind::DeadLetters { count: affected })
            },
        },
        done: Symptom {
            text: "no dead letter is left",
            matches: |snapshot, _| snapshot.stream.as_ref().is_some_and(|it| it.dead == 0),
        },
        final_check: FinalCheck {
            text: Label("drill-sql-holds-every-good-order-and"),
            holds: |it| it.after == it.before + it.waiting,
        },
    },
    Drill {
        name: "database-away",
        about: "the database refuses connections during a load test",
        title: Label("drill-the-database-is-away"),
        fault_text: Label("drill-attention-says-so-within-2-s"),
        remedy_text: Label("drill-database-is-back-alarms"),
        keys: None,
        fault: InjectedFault::DatabaseAway,
        duration_s: 8,
        remedy: Remedy::Itself,
        seen: Symptom {
            text: "ALARMS within 2 s: the database is unreachable",
            matches: |snapshot, _| {
                alarm(snapshot, |kind| matches!(kind, AlarmKind::SqlAway { .. }))
            },
        },
        done: Symptom {
            text: "ALARMS: the database is reachable again, with the length of the outage",
            matches: |snapshot, _| back(snapshot, &snapshot.sql.name),
        },
        final_check: FinalCheck {
            text: Label("drill-sql-holds-what-was-promised-meanwhile"),
            holds: |it| it.after > it.before,
        },
    },
    Drill {
        name: "redis-away",
        about: "Redis is killed during a load test",
        title: Label("drill-redis-is-killed"),
        fault_text: Label("drill-sigkill-during-load-test"),
        remedy_text: Label("drill-redis-is-back-alarms"),
        keys: None,
        fault: InjectedFault::RedisKilled,
        duration_s: 0,
        remedy: Remedy::Itself,
        seen: Symptom {
            text: "ALARMS: Redis was unreachable",
            matches: |snapshot, _| {
                alarm(snapshot, |kind| matches!(kind, AlarmKind::RedisAway { .. }))
                    || back(snapshot, &snapshot.redis.name)
            },
        },
        done: Symptom {
            text: "ALARMS: Redis is reachable again, with the length of the outage",
            matches: |snapshot, _| back(snapshot, &snapshot.redis.name),
        },
        final_check: FinalCheck {
            text: Label("drill-the-rush-went-on-sql-holds"),
            holds: |it| it.after > it.before,
        },
    },
    Drill {
        name: "group-destroyed",
        about: "the consumer group is destroyed with its pending entries",
        title: Label("drill-the-group-is-gone"),
        fault_text: Label("drill-it-was-destroyed-with-n-pending"),
        remedy_text: Label("drill-the-node-makes-it-again-at"),
        keys: None,
        fault: InjectedFault::GroupDestroyed,
        duration_s: 8,
        remedy: Remedy::Itself,
        seen: Symptom {
            text: "ALARMS: the stream has no consumer group",
            matches: |snapshot, _| alarm(snapshot, |kind| *kind == AlarmKind::NoGroup),
        },
        done: Symptom {
            text: "the group exists again, no pending entries, no lag",
            matches: |snapshot, affected| {
                snapshot.stream.as_ref().is_some_and(|it| it.group) && settled(snapshot, affected)
            },
        },
        final_check: FinalCheck {
            text: Label("drill-sql-holds-the-orders-that-the"),
            holds: |it| it.after == it.before + it.waiting,
        },
    },
    Drill {
        name: "stream-trimmed",
        about: "the stream is trimmed under the pending entries of a dead node",
        title: Label("drill-trimmed-too-early"),
        fault_text: Label("drill-node-b-died-with-n-entries"),
        remedy_text: Label("drill-in-4-a-plans-to-rebuild"),
        keys: Some("4  A  y"),
        fault: InjectedFault::StreamTrimmed,
        duration_s: 0,
        remedy: Remedy::Plan,
        seen: Symptom {
            text: "a dead consumer holds {n} entries, and the stream has lost their bodies",
            matches: |snapshot, affected| dead_holder(snapshot, affected) && body_gone(snapshot),
        },
        done: Symptom {
            text: "no pending entries",
            matches: |snapshot, _| snapshot.stream.as_ref().is_some_and(|it| it.pending == 0),
        },
        final_check: FinalCheck {
            text: Label("drill-sql-holds-the-rebuilt-orders-each"),
            holds: |it| it.after == it.before + it.affected,
        },
    },
    Drill {
        name: "duplicates",
        about: "a producer adds entries a second time",
        title: Label("drill-twice-in-the-stream"),
        fault_text: Label("drill-n-entries-were-added-a-second"),
        remedy_text: Label("drill-each-is-found-in-sql-and"),
        keys: None,
        fault: InjectedFault::Duplicates,
        duration_s: 6,
        remedy: Remedy::Itself,
        seen: Symptom {
            text: "STREAM: a lag of {n}",
            matches: |snapshot, affected| {
                snapshot.stream.as_ref().is_some_and(|it| it.lag == Some(affected))
            },
        },
        done: Symptom { text: "no lag and no pending entries", matches: settled },
        final_check: FinalCheck {
            text: Label("drill-not-one-order-was-written-twice"),
            holds: |it| it.after == it.before,
        },
    },
    Drill {
        name: "clock-step",
        about: "the clock of the order IDs steps one day ahead, and back",
        title: Label("drill-the-clock-steps"),
        fault_text: Label("drill-the-clock-of-order-ids-steps"),
        remedy_text: Label("drill-nothing-to-do-no-alarm-books"),
        keys: None,
        fault: InjectedFault::ClockSteps,
        duration_s: 0,
        remedy: Remedy::Itself,
        seen: Symptom { text: "no alarm, and a passed audit after both steps", matches: calm },
        done: Symptom { text: "sales continued through both steps", matches: settled },
        final_check: FinalCheck {
            text: Label("drill-ids-rose-through-both-steps-and"),
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
                for (text, keys) in [(drill.fault_text, None), (drill.remedy_text, drill.keys)] {
                    let text = text.replace("{dir}", "/tmp/seckill-demo-AbCdEf");
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
                for (text, keys) in [(drill.fault_text, None), (drill.remedy_text, drill.keys)] {
                    let text = text.replace("{dir}", "/tmp/seckill-demo-AbCdEf");
                    let long = drill.title.width() + 4 + text.width();
                    assert!(long <= least_room(keys), "{}: {long}", drill.name);
                }
            }
        }
    }

    #[test]
    fn names_are_unique_and_operator_drills_have_keys() {
        for (at, drill) in DRILLS.iter().enumerate() {
            assert!(DRILLS.iter().skip(at + 1).all(|other| other.name != drill.name));
            assert_eq!(drill.remedy != Remedy::Itself, drill.keys.is_some(), "{}", drill.name);
        }
    }
}
