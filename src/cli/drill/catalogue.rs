//! The drills: fault, symptoms on screen, remedy and final check. Their texts are messages of the catalog.

use std::time::Duration;

use seckill_engine::{AlarmKind, Snapshot, StreamLine, commands::Focus};
use seckill_model::{Balance, text};
use strum::{Display, EnumIter, EnumString, IntoStaticStr};

use crate::sandbox::is_settled;

/// A drill, named after its fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display, EnumIter, EnumString, IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub(super) enum Drill {
    /// A node dies while it holds a batch.
    ConsumerKilled,
    /// Invalid entries among valid ones.
    Poison,
    /// The database refuses connections.
    DatabaseAway,
    /// Redis is killed.
    RedisAway,
    /// The consumer group is destroyed with its pending entries.
    GroupDestroyed,
    /// The stream loses the bodies of pending entries.
    StreamTrimmed,
    /// Entries are added a second time.
    Duplicates,
    /// The clock of the order IDs steps ahead and back.
    ClockStep,
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
#[derive(Clone, Copy, Debug, Default)]
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

impl Drill {
    pub(super) fn title(self) -> String {
        text!("drill-title", drill = self)
    }

    /// What happened to `n` entries, and where it is shown.
    pub(super) fn fault(self, n: u64) -> String {
        text!("drill-fault", drill = self, n)
    }

    /// What to do in this data directory, or what happens automatically.
    pub(super) fn instructions(self, dir: &str) -> String {
        text!("drill-remedy", drill = self, dir)
    }

    /// Least duration of the fault, or of what is left of it, with a console; `None` if the operator ends it.
    pub(super) fn duration(self) -> Option<Duration> {
        match self {
            Self::DatabaseAway => Some(Duration::from_secs(20)),
            Self::ConsumerKilled | Self::Poison | Self::StreamTrimmed => None,
            _ => Some(Duration::from_secs(10)),
        }
    }

    /// Whether the screen shows the details of the fault.
    pub(super) fn is_found(self, focus: &Focus) -> bool {
        match self {
            Self::ConsumerKilled | Self::StreamTrimmed => focus.pending.is_some(),
            Self::Poison => focus.letters_from.is_some(),
            Self::DatabaseAway | Self::GroupDestroyed | Self::Duplicates => focus.stream.is_some(),
            Self::RedisAway => focus.log.is_some(),
            Self::ClockStep => focus.orders.is_some(),
        }
    }

    /// Whether a server is unreachable for a while.
    pub(super) fn is_outage(self) -> bool {
        matches!(self, Self::DatabaseAway | Self::RedisAway)
    }

    pub(super) fn remedy(self) -> Remedy {
        match self {
            Self::ConsumerKilled | Self::StreamTrimmed => Remedy::Plan,
            Self::Poison => Remedy::Discard,
            _ => Remedy::Automatic,
        }
    }

    /// Whether the screen shows the fault in `n` entries.
    pub(super) fn is_seen(self, it: &Snapshot, n: u64) -> bool {
        match self {
            Self::ConsumerKilled => has_dead_consumer(it, n),
            Self::Poison => alarm(it, |kind| *kind == AlarmKind::DeadLetters { count: n }),
            Self::DatabaseAway => alarm(it, |kind| matches!(kind, AlarmKind::SqlAway { .. })),
            Self::RedisAway => {
                let is_away = alarm(it, |kind| matches!(kind, AlarmKind::RedisAway { .. }));
                is_away || is_back(it, &it.redis.name)
            }
            Self::GroupDestroyed => alarm(it, |kind| *kind == AlarmKind::NoGroup),
            Self::StreamTrimmed => has_dead_consumer(it, n) && body_gone(it),
            Self::Duplicates => stream(it, |stream| stream.lag == Some(n)),
            Self::ClockStep => it.alarms.is_empty() && matches!(it.audit, Balance::Balanced { .. }),
        }
    }

    /// Whether the screen shows the repair.
    pub(super) fn is_repaired(self, it: &Snapshot) -> bool {
        match self {
            Self::ConsumerKilled | Self::Duplicates | Self::ClockStep => is_settled(it),
            Self::Poison => stream(it, |stream| stream.dead == 0),
            Self::DatabaseAway => is_back(it, &it.sql.name) && is_settled(it),
            Self::RedisAway => is_back(it, &it.redis.name) && is_settled(it),
            Self::GroupDestroyed => stream(it, |stream| stream.group) && is_settled(it),
            Self::StreamTrimmed => stream(it, |stream| stream.pending == 0),
        }
    }

    /// Whether the final check passes.
    pub(super) fn holds(self, it: &Figures) -> bool {
        match self {
            Self::ConsumerKilled | Self::StreamTrimmed => it.after == it.before + it.affected,
            Self::Poison | Self::GroupDestroyed => it.after == it.before + it.waiting,
            Self::DatabaseAway | Self::RedisAway => it.after > it.before,
            Self::Duplicates => it.after == it.before,
            Self::ClockStep => it.rising && it.after > it.before,
        }
    }
}

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
    use strum::IntoEnumIterator as _;
    use unicode_width::UnicodeWidthStr;

    use super::*;
    use seckill_model::locale::set_thread_language;

    /// The pages of a drill, each with the keys that it names.
    fn texts(drill: Drill) -> [(String, Option<&'static str>); 2] {
        let remedy = drill.instructions("/tmp/seckill-demo-AbCdEf");
        [(drill.fault(128), None), (remedy, drill.remedy().keys())]
    }

    /// Columns of the two lines, without cursor, key and wrapping losses.
    fn room(keys: Option<&str>) -> usize {
        let key = keys.map_or(0, |keys| "press ".len() + keys.len() + 2);
        (80 - 6 - key) + (80 - 4) - 12
    }

    /// Columns of the three lines in the smallest window, counted the same way.
    fn least_room(keys: Option<&str>) -> usize {
        let key = keys.map_or(0, |keys| "press ".len() + keys.len() + 2);
        (60 - 6 - key) + 2 * (60 - 4) - 18
    }

    #[test]
    fn pages_fit_the_guide_in_each_language() {
        for lang in ["en", "zh"] {
            set_thread_language(lang);
            for drill in Drill::iter() {
                for (text, keys) in texts(drill) {
                    let long = drill.title().width() + " 2/2".len() + 4 + text.width();
                    assert!(long <= room(keys), "{drill}: {long} of {}", room(keys));
                    assert!(long <= least_room(keys), "{drill}: {long} of {}", least_room(keys));
                }
            }
        }
    }

    #[test]
    fn every_drill_has_its_texts() {
        for lang in ["en", "zh"] {
            set_thread_language(lang);
            for drill in Drill::iter() {
                let texts = [
                    drill.title(),
                    text!("drill-about", drill),
                    drill.fault(1),
                    drill.instructions("x"),
                    text!("drill-symptom", drill, n = 1),
                    text!("drill-repaired", drill),
                    text!("drill-check", drill),
                ];
                assert!(!texts.contains(&drill.to_string()), "{lang}: {drill}: {texts:?}");
            }
        }
    }
}
