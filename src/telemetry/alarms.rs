//! What needs a person: small rules over one Snapshot, each with a test.

use super::{
    Snapshot,
    forgot::Forgot,
    snapshot::{Alarm, AlarmKind, Back, ConsumerLine, Urgency},
};
use crate::model::ledger::Balance;

/// A consumer that works asks for entries every second; one that does not for so long is stuck.
const SILENT_MS: u64 = 30_000;

/// Every alarm that this picture, and what Redis had forgotten lately, give cause for, the most urgent first.
pub fn alarms(snapshot: &Snapshot, forgot: Option<Forgot>) -> Vec<Alarm> {
    let mut found = Vec::new();
    let mut add = |urgency, kind| found.push(Alarm { urgency, kind });
    if let Some(error) = snapshot.redis.error.clone().filter(|_| !snapshot.redis.up) {
        add(Urgency::Critical, AlarmKind::RedisAway { error });
    }
    if let Some(error) = snapshot.sql.error.clone().filter(|_| !snapshot.sql.up) {
        add(Urgency::Critical, AlarmKind::SqlAway { error });
    }
    if let Balance::Off { findings } = &snapshot.books
        && let Some(finding) = findings.first().cloned()
    {
        add(Urgency::Critical, AlarmKind::BooksOff { finding });
    }
    if let Some(stream) = snapshot.stream.as_ref().filter(|_| snapshot.redis.up) {
        if !stream.group && stream.length > 0 {
            add(Urgency::Critical, AlarmKind::NoGroup);
        }
        for holder in stream.consumers.iter().filter(|c| !c.alive && c.pending > 0) {
            let (consumer, pending, idle_ms) =
                (holder.name.clone(), holder.pending, holder.idle_ms);
            add(Urgency::Warning, AlarmKind::DeadConsumer { consumer, pending, idle_ms });
        }
        // While the database is away everybody waits for it.
        let silent = |c: &&ConsumerLine| c.alive && c.pending > 0 && c.idle_ms >= SILENT_MS;
        for holder in stream.consumers.iter().filter(silent).filter(|_| snapshot.sql.up) {
            let (consumer, pending, idle_ms) =
                (holder.name.clone(), holder.pending, holder.idle_ms);
            add(Urgency::Warning, AlarmKind::SilentConsumer { consumer, pending, idle_ms });
        }
        if stream.dead > 0 {
            add(Urgency::Warning, AlarmKind::DeadLetters { count: stream.dead });
        }
    }
    if let Some(Forgot { at, buyers, refused }) = forgot {
        // What was put back needs nobody; a promise that can't be kept does.
        let urgency = if refused > 0 { Urgency::Critical } else { Urgency::Warning };
        add(urgency, AlarmKind::RedisForgot { at, buyers, refused });
    }
    for server in [&snapshot.redis, &snapshot.sql] {
        if let Some(Back { after_ms, .. }) = server.back {
            let server = server.name.clone();
            add(Urgency::Notice, AlarmKind::ServerBack { server, away_ms: after_ms });
        }
    }
    found.sort_by_key(|alarm| alarm.urgency);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Millis;
    use crate::model::ledger::{Finding, SaleFinding};
    use crate::telemetry::snapshot::{Health, StreamLine};

    fn calm() -> Snapshot {
        let up = Health { up: true, ..Health::default() };
        let stream = StreamLine { group: true, lag: Some(0), ..StreamLine::default() };
        Snapshot { redis: up.clone(), sql: up, stream: Some(stream), ..Snapshot::default() }
    }

    fn holder(alive: bool, pending: u64) -> ConsumerLine {
        ConsumerLine { name: "node-b/1".into(), alive, known: true, pending, idle_ms: 9 }
    }

    #[test]
    fn a_calm_picture_has_none() {
        assert_eq!(alarms(&calm(), None), []);
        assert_eq!(alarms(&Snapshot::default(), None), []);
    }

    #[test]
    fn a_server_that_is_away_comes_first() {
        let mut snapshot = calm();
        snapshot.sql = Health { error: Some("gone".into()), ..Health::default() };
        snapshot.stream = Some(StreamLine { group: true, dead: 2, ..StreamLine::default() });
        let kinds: Vec<_> = alarms(&snapshot, None).into_iter().map(|alarm| alarm.kind).collect();
        let away = AlarmKind::SqlAway { error: "gone".into() };
        assert_eq!(kinds, [away, AlarmKind::DeadLetters { count: 2 }]);
    }

    #[test]
    fn a_server_that_came_back_is_told_last() {
        let mut snapshot = calm();
        let back = Back { at: Millis(1), after_ms: 7 };
        snapshot.redis = Health { name: "redis".into(), back: Some(back), ..snapshot.redis };
        snapshot.stream = Some(StreamLine { group: true, dead: 2, ..StreamLine::default() });
        let kinds: Vec<_> = alarms(&snapshot, None).into_iter().map(|alarm| alarm.kind).collect();
        let back = AlarmKind::ServerBack { server: "redis".into(), away_ms: 7 };
        assert_eq!(kinds, [AlarmKind::DeadLetters { count: 2 }, back]);
    }

    #[test]
    fn only_a_dead_holder_with_entries_is_told() {
        let mut snapshot = calm();
        let consumers = vec![holder(true, 5), holder(false, 0), holder(false, 128)];
        snapshot.stream = Some(StreamLine { group: true, consumers, ..StreamLine::default() });
        let [Alarm { kind: AlarmKind::DeadConsumer { pending: 128, .. }, .. }] =
            alarms(&snapshot, None)[..]
        else {
            panic!("{:?}", alarms(&snapshot, None));
        };
    }

    #[test]
    fn a_live_holder_is_told_once_it_asks_for_nothing() {
        let silent = |idle_ms, pending, sql_up| {
            let mut snapshot = calm();
            snapshot.sql.up = sql_up;
            let consumers = vec![ConsumerLine { idle_ms, ..holder(true, pending) }];
            snapshot.stream = Some(StreamLine { group: true, consumers, ..StreamLine::default() });
            alarms(&snapshot, None)
                .iter()
                .any(|alarm| matches!(alarm.kind, AlarmKind::SilentConsumer { pending: 5, .. }))
        };
        assert!(silent(30_000, 5, true));
        assert!(!silent(29_999, 5, true) && !silent(30_000, 0, true) && !silent(30_000, 5, false));
    }

    #[test]
    fn redis_that_is_away_tells_nothing_else_of_the_stream() {
        let mut snapshot = calm();
        snapshot.redis = Health { error: Some("gone".into()), ..Health::default() };
        snapshot.stream = Some(StreamLine { dead: 2, length: 9, ..StreamLine::default() });
        let found = alarms(&snapshot, None);
        assert_eq!(found.len(), 1);
        let away = AlarmKind::RedisAway { error: "gone".into() };
        assert_eq!(
            found.first().map(|it| (it.urgency, &it.kind)),
            Some((Urgency::Critical, &away))
        );
    }

    #[test]
    fn a_stream_without_its_group_is_critical_once_it_holds_something() {
        let told = |length| {
            let stream = StreamLine { length, ..StreamLine::default() };
            let found = alarms(&Snapshot { stream: Some(stream), ..calm() }, None);
            found.first().map(|alarm| (alarm.urgency, alarm.kind.clone()))
        };
        assert_eq!(told(1), Some((Urgency::Critical, AlarmKind::NoGroup)));
        assert_eq!(told(0), None);
    }

    #[test]
    fn what_redis_had_forgotten_is_told_for_a_while() {
        let forgot = |refused| Forgot { at: Millis(7), buyers: 3, refused };
        let urgency =
            |refused| alarms(&calm(), Some(forgot(refused))).first().map(|alarm| alarm.urgency);
        assert_eq!(urgency(0), Some(Urgency::Warning));
        assert_eq!(urgency(1), Some(Urgency::Critical));
    }

    #[test]
    fn books_that_are_off_are_critical() {
        let books = {
            let finding = SaleFinding { sale: None, what: Finding::Lost(2) };
            Balance::Off { findings: vec![finding] }
        };
        let found = alarms(&Snapshot { books, ..calm() }, None);
        assert_eq!(found.first().map(|alarm| alarm.urgency), Some(Urgency::Critical));
    }
}
