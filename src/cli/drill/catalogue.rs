//! The drills, as data: fault, symptoms on screen, remedy and final checks.
//!
//! In texts, `{n}` is the number of affected entries, `{left}` the seconds until the fault ends, and `{dir}` the data
//! dir. A text must fit the two lines of the guide at 80x24.

use seckill_engine::telemetry::{Snapshot, snapshot::AlarmKind};
use seckill_model::{ledger::Balance, message::Label};
use serde::Serialize;

use super::super::stage::is_settled;

/// The injected fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strike {
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
pub(super) struct Sign {
    pub(super) words: &'static str,
    pub(super) shows: fn(&Snapshot, u64) -> bool,
}

/// Final figures.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    /// Orders in SQL before the fault.
    pub(super) before: u64,
    /// Orders in SQL now.
    pub(super) after: u64,
    /// Entries affected by the fault.
    pub(super) struck: u64,
    /// Undelivered orders at the time of the fault.
    pub(super) waiting: u64,
    /// IDs increase from one sale to the next.
    pub(super) rising: bool,
}

/// Final check in addition to the audit.
pub(super) struct Proof {
    pub(super) words: Label,
    pub(super) holds: fn(&Facts) -> bool,
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
    pub(super) happens: Label,
    /// What to do, or what happens by itself.
    #[serde(skip)]
    pub(super) mends: Label,
    /// The keys to press.
    #[serde(skip)]
    pub(super) keys: Option<&'static str>,
    #[serde(skip)]
    pub(super) strike: Strike,
    /// Duration of the fault in seconds after it was visible; 0 if the remedy ends it.
    #[serde(skip)]
    pub(super) lasts: u64,
    #[serde(skip)]
    pub(super) remedy: Remedy,
    #[serde(skip)]
    pub(super) seen: Sign,
    #[serde(skip)]
    pub(super) done: Sign,
    #[serde(skip)]
    pub(super) proof: Proof,
}

pub(super) const DRILLS: [Drill; 8] = [
    Drill {
        name: "consumer-killed",
        about: "a node dies while it holds a batch of orders",
        title: Label("common-a-node-dies"),
        happens: Label("drill-node-b-died-with-n-orders"),
        mends: Label("drill-4-lists-what-it-held-a"),
        keys: Some("4  A  y"),
        strike: Strike::NodeDies,
        lasts: 0,
        remedy: Remedy::Plan,
        seen: Sign { words: "ALARMS: a dead consumer holds {n} entries", shows: dead_holder },
        done: Sign { words: "no pending entries", shows: settled },
        proof: Proof {
            words: Label("drill-sql-holds-the-orders-of-the"),
            holds: |it| it.after == it.before + it.struck,
        },
    },
    Drill {
        name: "poison",
        about: "invalid entries among valid ones",
        title: Label("drill-poison"),
        happens: Label("drill-n-entries-that-make-no-order"),
        mends: Label("drill-5-lists-marks-all-d-discards"),
        keys: Some("5  *  D  y"),
        strike: Strike::Poison,
        lasts: 0,
        remedy: Remedy::Discard,
        seen: Sign {
            words: "ALARMS: {n} dead letters wait for review",
            shows: |picture, struck| {
                alarm(picture, |kind| *kind == AlarmKind::DeadLetters { count: struck })
            },
        },
        done: Sign {
            words: "no dead letter is left",
            shows: |picture, _| picture.stream.as_ref().is_some_and(|it| it.dead == 0),
        },
        proof: Proof {
            words: Label("drill-sql-holds-every-good-order-and"),
            holds: |it| it.after == it.before + it.waiting,
        },
    },
    Drill {
        name: "database-away",
        about: "the database refuses connections during a load test",
        title: Label("drill-the-database-is-away"),
        happens: Label("drill-attention-says-so-within-2-s"),
        mends: Label("drill-it-is-back-attention-tells-how"),
        keys: None,
        strike: Strike::DatabaseAway,
        lasts: 8,
        remedy: Remedy::Itself,
        seen: Sign {
            words: "ALARMS within 2 s: the database is unreachable",
            shows: |picture, _| alarm(picture, |kind| matches!(kind, AlarmKind::SqlAway { .. })),
        },
        done: Sign {
            words: "ALARMS: the database is reachable again, with the length of the outage",
            shows: |picture, _| back(picture, &picture.sql.name),
        },
        proof: Proof {
            words: Label("drill-sql-holds-what-was-promised-meanwhile"),
            holds: |it| it.after > it.before,
        },
    },
    Drill {
        name: "redis-away",
        about: "Redis is killed during a load test",
        title: Label("drill-redis-is-killed"),
        happens: Label("drill-sigkill-amid-the-rush-whoever-needs"),
        mends: Label("drill-it-runs-again-attention-tells-how"),
        keys: None,
        strike: Strike::RedisKilled,
        lasts: 0,
        remedy: Remedy::Itself,
        seen: Sign {
            words: "ALARMS: Redis was unreachable",
            shows: |picture, _| {
                alarm(picture, |kind| matches!(kind, AlarmKind::RedisAway { .. }))
                    || back(picture, &picture.redis.name)
            },
        },
        done: Sign {
            words: "ALARMS: Redis is reachable again, with the length of the outage",
            shows: |picture, _| back(picture, &picture.redis.name),
        },
        proof: Proof {
            words: Label("drill-the-rush-went-on-sql-holds"),
            holds: |it| it.after > it.before,
        },
    },
    Drill {
        name: "group-destroyed",
        about: "the consumer group is destroyed with its pending entries",
        title: Label("drill-the-group-is-gone"),
        happens: Label("drill-it-was-destroyed-with-n-pending"),
        mends: Label("drill-the-node-makes-it-again-at"),
        keys: None,
        strike: Strike::GroupDestroyed,
        lasts: 8,
        remedy: Remedy::Itself,
        seen: Sign {
            words: "ALARMS: the stream has no consumer group",
            shows: |picture, _| alarm(picture, |kind| *kind == AlarmKind::NoGroup),
        },
        done: Sign {
            words: "the group exists again, no pending entries, no lag",
            shows: |picture, struck| {
                picture.stream.as_ref().is_some_and(|it| it.group) && settled(picture, struck)
            },
        },
        proof: Proof {
            words: Label("drill-sql-holds-the-orders-that-the"),
            holds: |it| it.after == it.before + it.waiting,
        },
    },
    Drill {
        name: "stream-trimmed",
        about: "the stream is trimmed under the pending entries of a dead node",
        title: Label("drill-trimmed-too-early"),
        happens: Label("drill-node-b-died-with-n-entries"),
        mends: Label("drill-in-4-a-plans-to-rebuild"),
        keys: Some("4  A  y"),
        strike: Strike::StreamTrimmed,
        lasts: 0,
        remedy: Remedy::Plan,
        seen: Sign {
            words: "a dead consumer holds {n} entries, and the stream has lost their bodies",
            shows: |picture, struck| dead_holder(picture, struck) && body_gone(picture),
        },
        done: Sign {
            words: "no pending entries",
            shows: |picture, _| picture.stream.as_ref().is_some_and(|it| it.pending == 0),
        },
        proof: Proof {
            words: Label("drill-sql-holds-the-rebuilt-orders-each"),
            holds: |it| it.after == it.before + it.struck,
        },
    },
    Drill {
        name: "duplicates",
        about: "a producer adds entries a second time",
        title: Label("drill-twice-in-the-stream"),
        happens: Label("drill-n-entries-were-added-a-second"),
        mends: Label("drill-each-is-found-in-sql-and"),
        keys: None,
        strike: Strike::Duplicates,
        lasts: 6,
        remedy: Remedy::Itself,
        seen: Sign {
            words: "STREAM: a lag of {n}",
            shows: |picture, struck| {
                picture.stream.as_ref().is_some_and(|it| it.lag == Some(struck))
            },
        },
        done: Sign { words: "no lag and no pending entries", shows: settled },
        proof: Proof {
            words: Label("drill-not-one-order-was-written-twice"),
            holds: |it| it.after == it.before,
        },
    },
    Drill {
        name: "clock-step",
        about: "the clock of the order IDs steps one day ahead, and back",
        title: Label("drill-the-clock-steps"),
        happens: Label("drill-the-clock-of-order-ids-steps"),
        mends: Label("drill-nothing-to-do-no-alarm-books"),
        keys: None,
        strike: Strike::ClockSteps,
        lasts: 0,
        remedy: Remedy::Itself,
        seen: Sign { words: "no alarm, and a passed audit after both steps", shows: calm },
        done: Sign { words: "sales continued through both steps", shows: settled },
        proof: Proof {
            words: Label("drill-ids-rose-through-both-steps-and"),
            holds: |it| it.rising && it.after > it.before,
        },
    },
];

fn alarm(picture: &Snapshot, is: impl Fn(&AlarmKind) -> bool) -> bool {
    picture.alarms.iter().any(|alarm| is(&alarm.kind))
}

fn dead_holder(picture: &Snapshot, struck: u64) -> bool {
    let holds = |kind: &AlarmKind| matches!(kind, AlarmKind::DeadConsumer { pending, .. } if *pending == struck);
    alarm(picture, holds)
}

/// Every entry left in the stream is newer than the oldest pending one.
fn body_gone(picture: &Snapshot) -> bool {
    picture.stream.as_ref().is_some_and(|stream| {
        let younger = |pending| stream.oldest_ms.is_none_or(|kept| kept < pending);
        stream.oldest_pending_ms.is_some_and(younger)
    })
}

fn back(picture: &Snapshot, name: &str) -> bool {
    alarm(picture, |kind| matches!(kind, AlarmKind::ServerBack { server, .. } if server == name))
}

fn settled(picture: &Snapshot, _: u64) -> bool {
    is_settled(picture)
}

fn calm(picture: &Snapshot, _: u64) -> bool {
    picture.alarms.is_empty() && matches!(picture.books, Balance::Balanced { .. })
}

#[cfg(test)]
mod tests {
    use unicode_width::UnicodeWidthStr;

    use super::*;
    use seckill_model::locale::{Lang, set_thread_language};

    /// Columns of the two lines, without cursor, key and wrapping losses.
    fn room(keys: Option<&str>) -> usize {
        let key = keys.map_or(0, |keys| "press ".len() + keys.len() + 2);
        (80 - 6 - key) + (80 - 4) - 12
    }

    #[test]
    fn pages_fit_two_lines_of_80_columns_in_each_language() {
        for lang in [Lang::En, Lang::Zh] {
            set_thread_language(lang);
            for drill in &DRILLS {
                for (text, keys) in [(drill.happens, None), (drill.mends, drill.keys)] {
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
        for lang in [Lang::En, Lang::Zh] {
            set_thread_language(lang);
            for drill in &DRILLS {
                for (text, keys) in [(drill.happens, None), (drill.mends, drill.keys)] {
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
