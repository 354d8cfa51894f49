//! The event log: events of the deployment, recorded as they begin and end.
//!
//! Rules over successive snapshots; [`follow`] is the task of a node that applies them. Several nodes see the same
//! events: the first line written wins, identified by action, subject and time. Lines go into the outbox, which keeps
//! them while the database is unreachable.

use std::{
    cmp::Ordering,
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use seckill_model::{ForeignKey, Message, Millis, Reason, reason::reason};
use seckill_redis::connection::LostServer;
use seckill_store::{AuditEntry, NO_OPERATOR, StoreError};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    EngineError,
    commands::operator::Operator,
    deployment::Deployment,
    telemetry::{
        Snapshot,
        event::Event,
        log::events,
        snapshot::{AlarmKind, ClockOf, Unconfirmed, skew_side},
    },
};

/// An alarm shorter than this is not recorded. An unreachable server is recorded immediately.
const HOLDS_MS: u64 = 2_000;
/// The same for a failed audit: two snapshots in a row have shown it by then.
const AUDIT_HOLDS_MS: u64 = 500;
/// An alarm that returns within this time never ended.
const OVER_MS: u64 = 10_000;
/// The same for a server: the operator waits for its recovery.
const ANSWERS_MS: u64 = 1_500;
/// Nodes see the same event within this time. Two outages closer than that would be taken for one.
const NEAR_MS: u64 = 5_000;
/// A node counts as dead only after Redis was reachable for this long: after an outage all heartbeats are old.
const DEAD_FOR_MS: u64 = 3_000;
/// Lines per minute; the excess is counted in one line.
const MOST: u32 = 30;
const MINUTE_MS: u64 = 60_000;
/// Characters of a subject that make its key.
const KEY_CHARS: usize = 120;
/// Timeout for the last write of a node.
const LAST_WRITE: Duration = Duration::from_secs(1);

/// Active conditions, by their identity.
#[derive(Debug)]
struct Condition {
    begins: &'static str,
    ends: &'static str,
    since: Millis,
    event: Event,
    /// Its start was recorded.
    recorded: bool,
    over: Option<Millis>,
}

impl Condition {
    /// The event of its end; `None` while it lasts.
    fn end(&self, node: &str, subject: &str) -> Option<AuditEntry> {
        let over = self.over?;
        Some(line(node, over, self.ends, subject, &Event::lasted(over.since(self.since))))
    }
}

/// The rules and their state.
#[derive(Debug, Default)]
pub struct EventLog {
    node: String,
    /// Milliseconds without a heartbeat after which a node counts as dead.
    dead_ms: u64,
    active: HashMap<(&'static str, String), Condition>,
    /// The last recorded end of each server's outage.
    ended: HashMap<String, Millis>,
    /// Nodes that look dead, and since when.
    silent: HashMap<String, Millis>,
    /// Nodes recorded as dead, with their last heartbeat.
    dead: HashSet<(String, Millis)>,
    minute: Millis,
    recorded: u32,
    left_out: u32,
}

impl EventLog {
    /// An event log written by `node`; others count as dead after `dead_ms` without a heartbeat.
    pub fn new(node: &str, dead_ms: u64) -> Self {
        Self { node: node.to_owned(), dead_ms, ..Self::default() }
    }

    /// Returns the events of this snapshot, ordered by time.
    pub fn observe(&mut self, snapshot: &Snapshot) -> Vec<AuditEntry> {
        let now = snapshot.taken;
        let mut lines = Vec::new();
        self.servers(snapshot);
        self.alarms(snapshot);
        self.settle(now, &mut lines);
        if snapshot.redis.up {
            self.nodes(snapshot, &mut lines);
        } else {
            self.silent.clear();
        }
        lines.sort_by(in_order);
        self.rate_limited(now, lines)
    }

    /// Pending ends are recorded when the log closes, without the usual delay.
    pub fn close(&mut self) -> Vec<AuditEntry> {
        let ended = self.active.drain().filter(|(_, it)| it.recorded);
        let mut lines: Vec<AuditEntry> =
            ended.filter_map(|((_, subject), it)| it.end(&self.node, &subject)).collect();
        lines.sort_by(in_order);
        lines
    }

    /// An event of this node itself.
    pub fn own(&self, at: Millis, action: &str, result: &Event) -> AuditEntry {
        let mut line = line(&self.node, at, action, &self.node, result);
        line.once = None;
        line
    }

    fn servers(&mut self, snapshot: &Snapshot) {
        let servers = [
            ("redis", events::REDIS_AWAY, events::REDIS_BACK, &snapshot.redis),
            ("database", events::DATABASE_AWAY, events::DATABASE_BACK, &snapshot.sql),
        ];
        for (kind, begins, ends, health) in servers {
            // The version is known only after it has answered.
            let subject = health.name.split(' ').next().unwrap_or_default().to_owned();
            match health.away_since {
                Some(since) => {
                    let event = read_error(&health.error.clone().unwrap_or_default());
                    self.begin((kind, subject), [begins, ends], since, event);
                }
                None => {
                    self.end(&(kind, subject), health.back.map_or(snapshot.taken, |it| it.at));
                }
            }
        }
    }

    fn alarms(&mut self, snapshot: &Snapshot) {
        let mut seen = HashSet::new();
        let node = self.node.clone();
        let recorded = snapshot.alarms.iter().filter_map(|it| recorded(&it.kind, &node));
        for (subject, event) in recorded {
            let key = ("alarm", subject.to_owned());
            seen.insert(key.clone());
            // Another node may have recorded it, or this one before it was restarted.
            let ends = [events::ALARM_RAISED, events::ALARM_CLEARED];
            let is_of_it =
                |it: &&AuditEntry| *it.subject == *subject && ends.contains(&it.action.as_str());
            let newest = snapshot.activity.iter().find(is_of_it);
            let raised = newest.filter(|it| it.action == events::ALARM_RAISED).map(|it| it.at);
            let since = raised.unwrap_or(snapshot.taken);
            self.begin(key, ends, since, event).recorded |= raised.is_some();
        }
        // While a server is unreachable, the state of the other conditions is unknown.
        if snapshot.redis.up && snapshot.unreachable.is_empty() && snapshot.sql.up {
            let gone: Vec<_> = self.active.keys().filter(|it| it.0 == "alarm").cloned().collect();
            for key in gone.iter().filter(|key| !seen.contains(*key)) {
                self.end(key, snapshot.taken);
            }
        }
    }

    fn begin(
        &mut self,
        key: (&'static str, String),
        [begins, ends]: [&'static str; 2],
        since: Millis,
        event: Event,
    ) -> &mut Condition {
        let new = Condition { begins, ends, since, event, recorded: false, over: None };
        let condition = self.active.entry(key).or_insert(new);
        condition.over = None;
        condition
    }

    fn end(&mut self, key: &(&'static str, String), at: Millis) {
        if let Some(active) = self.active.get_mut(key) {
            active.over.get_or_insert(at);
        }
    }

    /// Records conditions that have lasted, or have been over, for long enough.
    fn settle(&mut self, now: Millis, lines: &mut Vec<AuditEntry>) {
        let node = &self.node;
        self.active.retain(|(kind, subject), it| {
            let (holds, ends) = match *kind {
                "alarm" if subject == "audit" => (AUDIT_HOLDS_MS, OVER_MS),
                "alarm" => (HOLDS_MS, OVER_MS),
                _ => (0, ANSWERS_MS),
            };
            let until = it.over.unwrap_or(now);
            // A condition that ends this soon after an outage belongs to it.
            let apart = self.ended.get(subject).is_none_or(|end| until.since(*end) > NEAR_MS);
            if !it.recorded && until.since(it.since) >= holds && apart {
                it.recorded = true;
                lines.push(line(node, it.since, it.begins, subject, &it.event));
            }
            match it.over {
                Some(over) if now.since(over) >= ends && now.since(it.since) > NEAR_MS => {
                    if it.recorded {
                        if *kind != "alarm" {
                            self.ended.insert(subject.clone(), over);
                        }
                        lines.extend(it.end(node, subject));
                    }
                    false
                }
                _ => true,
            }
        });
    }

    fn nodes(&mut self, snapshot: &Snapshot, lines: &mut Vec<AuditEntry>) {
        let now = snapshot.taken;
        let others = || snapshot.nodes.iter().filter(|it| !it.alive && it.name != self.node);
        let (names, seen): (HashSet<&str>, HashSet<(String, Millis)>) =
            others().map(|it| (it.name.as_str(), (it.name.clone(), it.seen))).unzip();
        self.silent.retain(|name, _| names.contains(name.as_str()));
        for (name, sign) in self.dead.iter().filter(|dead| !seen.contains(dead)) {
            let back = snapshot.nodes.iter().find(|it| it.alive && it.name == *name);
            if let Some(back) = back {
                let away = format!("{:.1}", back.seen.since(*sign) as f64 / 1e3);
                let result = Event::Other(reason!("event-node-back", seconds = away));
                let mut line = line(&self.node, now, events::NODE_BACK, name, &result);
                line.once = Some(format!("node back|{}|{}", short(name), sign.0));
                lines.push(line);
            }
        }
        self.dead.retain(|dead| seen.contains(dead));
        for (name, sign) in seen {
            let since = *self.silent.entry(name.clone()).or_insert(now);
            if now.since(since) >= DEAD_FOR_MS && self.dead.insert((name.clone(), sign)) {
                // A node dies some time after its last heartbeat, and what happened in between precedes this event, so
                // it is dated when the node counts as dead. Every node knows the same heartbeat, even one that starts
                // much later.
                let silent_ms = i64::try_from(self.dead_ms).unwrap_or(i64::MAX);
                let at = Millis(sign.0.saturating_add(silent_ms));
                let seconds = format!("{:.1}", self.dead_ms as f64 / 1e3);
                let result = Event::Other(reason!("event-no-heartbeat", seconds));
                let mut line = line(&self.node, at, events::NODE_DEAD, &name, &result);
                line.once = Some(format!("node dead|{}|{}", short(&name), sign.0));
                lines.push(line);
            }
        }
    }

    /// At most [`MOST`] lines per minute; the excess is counted and written to the log file.
    fn rate_limited(&mut self, now: Millis, lines: Vec<AuditEntry>) -> Vec<AuditEntry> {
        let mut kept = Vec::new();
        if now.since(self.minute) >= MINUTE_MS {
            if self.left_out > 0 {
                let event = Event::Other(reason!("event-omitted", lines = self.left_out));
                kept.push(line(&self.node, now, "left out", "activity", &event));
            }
            (self.minute, self.recorded, self.left_out) = (now, 0, 0);
        }
        for line in lines {
            if self.recorded < MOST {
                self.recorded += 1;
                kept.push(line);
            } else {
                self.left_out += 1;
                tracing::warn!(?line, "too many events; this line is omitted from the audit log");
            }
        }
        kept
    }
}

fn line(node: &str, at: Millis, action: &str, subject: &str, result: &Event) -> AuditEntry {
    let slot = at.0.div_euclid(NEAR_MS as i64);
    AuditEntry {
        at,
        operator: NO_OPERATOR.to_owned(),
        node: node.to_owned(),
        action: action.to_owned(),
        subject: subject.into(),
        result: Message::of(result),
        once: Some(format!("{action}|{}|{slot}", short(subject))),
        ..AuditEntry::default()
    }
}

/// By time; at the same moment, possible causes first.
fn in_order(a: &AuditEntry, b: &AuditEntry) -> Ordering {
    let key = |line: &AuditEntry| (line.at, line.action.starts_with("alarm"));
    key(a).cmp(&key(b)).then_with(|| a.subject.as_bytes().cmp(b.subject.as_bytes()))
}

fn short(subject: &str) -> String {
    subject.chars().take(KEY_CHARS).collect()
}

/// Why a server could not be read.
fn read_error(error: &Message) -> Event {
    error.data().map_or_else(|| Event::Other(error.to_string().into()), Event::Error)
}

/// The subject of an alarm (a name, or a code of the message `activity-subject`), as `node` records it, and the event of its
/// start; `None` if another event records it.
fn recorded<'a>(kind: &'a AlarmKind, node: &'a str) -> Option<(&'a str, Event)> {
    let (subject, event) = match kind {
        AlarmKind::RedisAway { .. }
        | AlarmKind::SqlAway { .. }
        | AlarmKind::ServerBack { .. }
        | AlarmKind::Damaged { .. }
        | AlarmKind::Oversold { .. }
        | AlarmKind::DataLoss { .. }
        | AlarmKind::Unwitnessed(_)
        // The writer of orders records when they begin to wait, and when they are written; the alarm of the audit is
        // recorded for what SQL has lost.
        | AlarmKind::OrdersWait { .. }
        | AlarmKind::SalesLost { .. } => return None,
        AlarmKind::ServerLost(LostServer { address, error, .. }) => {
            return Some((address, Event::Error(EngineError::Redis(error.clone()))));
        }
        AlarmKind::RedisReadOnly { error } => return Some(("redis", read_error(error))),
        AlarmKind::Unconfirmed(Unconfirmed { error: Some(error), .. }) => {
            return Some(("replicas", read_error(error)));
        }
        AlarmKind::Unconfirmed(Unconfirmed { replicas, wanted, .. }) => {
            let (replicas, wanted) = (replicas.unwrap_or(0), *wanted);
            ("replicas", reason!("event-unconfirmed", replicas, wanted))
        }
        AlarmKind::SqlReadOnly { error } => return Some(("database", read_error(error))),
        AlarmKind::SqlLocked { .. } => {
            return Some(("database", Event::Error(EngineError::Store(StoreError::Locked))));
        }
        AlarmKind::AuditFailed { finding, .. } => {
            return Some(("audit", Event::Error(EngineError::Unbalanced(finding.clone()))));
        }
        AlarmKind::ForeignKey(ForeignKey { key, holds }) => {
            (key.as_str(), reason!("event-foreign-key", holds = ForeignKey::content(holds)))
        }
        AlarmKind::ClockSkew { of, ahead_ms } => {
            let (side, seconds) = (skew_side(*ahead_ms), ahead_ms.unsigned_abs() / 1_000);
            let (subject, node) = match of {
                ClockOf::Host => (node, node),
                ClockOf::Database => ("clock", ""),
                ClockOf::Node(name) => (name.as_str(), name.as_str()),
            };
            let of: &str = of.into();
            (subject, reason!("event-clock-skew", of, node, side, seconds))
        }
        AlarmKind::TimeZonesDiffer { zones } => {
            let zones = zones.iter().map(|(node, zone)| format!("{node} {zone}"));
            ("time-zone", reason!("event-zones-differ", zones = zones.collect::<Vec<_>>().join(", ")))
        }
        AlarmKind::Undelivered { .. } => ("delivery", Reason::default()),
        AlarmKind::SaleUnreadable { error, .. } => return Some(("sales", read_error(error))),
        AlarmKind::DeadConsumer { consumer, pending, known: true, .. } => {
            (consumer.as_str(), reason!("event-dead-holds", pending = *pending))
        }
        AlarmKind::DeadConsumer { consumer, pending, .. } => {
            (consumer.as_str(), reason!("event-unknown-holds", pending = *pending))
        }
        AlarmKind::SilentConsumer { consumer, pending, .. } => {
            (consumer.as_str(), reason!("event-silent-holds", pending = *pending))
        }
        AlarmKind::LagHigh { lag, .. } => ("lag", reason!("event-lag", lag = *lag)),
        AlarmKind::JobFailed { job, why, .. } => {
            let why = match why.data() {
                Some(Event::Other(why) | Event::Error(EngineError::Failed(why))) => why,
                _ => Reason::Quoted(why.to_string()),
            };
            (job.as_str(), reason!("event-run-failed", why))
        }
        AlarmKind::DeadLetters { count } => {
            ("dead-letters", reason!("event-dead-letters", count = *count))
        }
        AlarmKind::NoGroup => ("consumer-group", reason!("event-no-group")),
    };
    Some((subject, Event::Other(event)))
}

/// Passes snapshots to the event log until `stop`, and writes its lines.
pub(crate) async fn follow(
    operator: Operator,
    mut snapshots: watch::Receiver<Arc<Snapshot>>,
    stop: CancellationToken,
) {
    let Operator { deployment: Deployment { store, settings, .. }, node, outbox, .. } = operator;
    let mut log = EventLog::new(&node, settings.node_dead_ms);
    // The first snapshot shows how far the clock of Redis, by which all events are dated, is ahead of this host's.
    let (begun, mut ahead) = (Millis::now(), None);
    while let Some(Ok(())) = stop.run_until_cancelled(snapshots.changed()).await {
        let snapshot = Arc::clone(&snapshots.borrow_and_update());
        if snapshot.seq == 0 {
            continue;
        }
        if ahead.replace(snapshot.clock_ahead_ms).is_none() {
            outbox.put(log.own(begun.plus(snapshot.clock_ahead_ms), "node started", &version()));
        }
        for line in log.observe(&snapshot) {
            outbox.put_event(line, NEAR_MS);
        }
        if snapshot.sql.takes_writes() {
            stop.run_until_cancelled(outbox.write(&store)).await;
        }
    }
    if ahead.is_none() {
        outbox.put(log.own(begun, "node started", &version()));
    }
    for line in log.close() {
        outbox.put_event(line, NEAR_MS);
    }
    let now = Millis::now().plus(ahead.unwrap_or(0));
    outbox.put(log.own(now, "node stopped", &Event::Other(reason!("event-stopped"))));
    let written = tokio::time::timeout(LAST_WRITE, outbox.write(&store)).await;
    if written != Ok(true) {
        for entry in outbox.waiting() {
            tracing::error!(?entry, "the node stops without this line in the audit log");
        }
    }
}

fn version() -> Event {
    Event::Other(concat!("seckill ", env!("CARGO_PKG_VERSION")).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::snapshot::{Alarm, Back, Health, NodeLine, Urgency};

    const T: Millis = Millis(1_795_000_000_000);
    const DEAD_MS: u64 = 5_000;

    fn calm(at: i64) -> Snapshot {
        let up = |name: &str| Health { name: name.into(), up: true, ..Health::default() };
        let (redis, sql) = (up("redis 7.0.15"), up("mysql"));
        Snapshot { seq: 1, taken: T.plus(at), redis, sql, ..Snapshot::default() }
    }

    fn redis_away(at: i64, since: i64) -> Snapshot {
        let mut snapshot = calm(at);
        snapshot.redis.up = false;
        snapshot.redis.away_since = Some(T.plus(since));
        snapshot.redis.error = Some("refused".into());
        snapshot
    }

    fn with(mut snapshot: Snapshot, kind: AlarmKind) -> Snapshot {
        snapshot.alarms.push(Alarm { urgency: Urgency::Warning, kind });
        snapshot
    }

    fn summary(lines: &[AuditEntry]) -> Vec<(&str, &str, i64)> {
        lines.iter().map(|it| (it.action.as_str(), &*it.subject, it.at.0 - T.0)).collect()
    }

    #[test]
    fn an_outage_has_one_begin_and_one_end() {
        let mut log = EventLog::new("a", DEAD_MS);
        assert_eq!(log.observe(&calm(0)), []);
        let begun = log.observe(&redis_away(1_000, 900));
        assert_eq!(summary(&begun), [("redis away", "redis", 900)]);
        assert_eq!(begun[0].operator, NO_OPERATOR);
        assert_eq!(log.observe(&redis_away(5_000, 900)), []);
        let mut back = calm(7_000);
        back.redis.back = Some(Back { at: T.plus(6_900), after_ms: 6_000 });
        assert_eq!(log.observe(&back), []);
        back.taken = T.plus(8_400);
        let ended = log.observe(&back);
        assert_eq!(summary(&ended), [("redis back", "redis", 6_900)]);
        assert_eq!(&*ended[0].result, "after 6.0 s");
        assert_eq!(log.observe(&calm(30_000)), []);
    }

    #[test]
    fn close_outages_never_omit_an_end() {
        // Unreachable at these seconds; the log merges lines of one action that are this close.
        for (away, expected) in [
            (&[(1, 2), (3, 4)][..], &[("redis away", 1), ("redis back", 4)][..]),
            (&[(1, 11), (14, 15)], &[("redis away", 1), ("redis back", 11)]),
            (
                &[(1, 11), (14, 20)],
                &[("redis away", 1), ("redis back", 11), ("redis away", 14), ("redis back", 20)],
            ),
            (
                &[(1, 2), (9, 10)],
                &[("redis away", 1), ("redis back", 2), ("redis away", 9), ("redis back", 10)],
            ),
        ] {
            let mut log = EventLog::new("a", DEAD_MS);
            let mut lines = Vec::new();
            for at in 0..40 {
                let since = away.iter().find(|(from, to)| (*from..*to).contains(&at));
                let snapshot = match since {
                    Some((since, _)) => redis_away(at * 1_000, since * 1_000),
                    None => calm(at * 1_000),
                };
                lines.extend(log.observe(&snapshot));
            }
            let seen: Vec<_> =
                summary(&lines).into_iter().map(|(action, _, at)| (action, at / 1_000)).collect();
            assert_eq!(seen, expected, "{away:?}");
        }
    }

    #[test]
    fn a_flapping_alarm_is_one_line_and_a_changed_count_none() {
        let mut log = EventLog::new("a", DEAD_MS);
        let mut lines = Vec::new();
        for at in 0..60 {
            let snapshot = calm(at * 1_000);
            let count = at as u64 + 1;
            let snapshot = match at % 4 {
                3 => snapshot,
                _ => with(snapshot, AlarmKind::DeadLetters { count }),
            };
            lines.extend(log.observe(&snapshot));
        }
        assert_eq!(summary(&lines), [("alarm raised", "dead-letters", 0)]);
        let mut log = EventLog::new("a", DEAD_MS);
        let mut lines = Vec::new();
        for waiting in 0..4 {
            let kind = AlarmKind::SqlLocked { waiting: Some(waiting) };
            lines.extend(log.observe(&with(calm(waiting as i64 * 1_000), kind)));
        }
        assert_eq!(summary(&lines), [("alarm raised", "database", 0)]);
        assert!(lines.iter().all(|it| *it.result == StoreError::Locked.to_string()));
        // A condition that ends immediately is not recorded.
        let mut log = EventLog::new("a", DEAD_MS);
        let mut lines = log.observe(&with(calm(0), AlarmKind::NoGroup));
        for at in 1..30 {
            lines.extend(log.observe(&calm(at * 1_000)));
        }
        assert_eq!(lines, []);
    }

    #[test]
    fn an_alarm_in_the_log_is_not_raised_again_by_a_node_that_starts() {
        let dead = |at| with(calm(at), AlarmKind::DeadLetters { count: 3 });
        let mut log = EventLog::new("a", DEAD_MS);
        log.observe(&dead(0));
        let raised = log.observe(&dead(2_000));
        assert_eq!(summary(&raised), [("alarm raised", "dead-letters", 0)]);
        let known = |mut snapshot: Snapshot, lines: &[AuditEntry]| {
            snapshot.activity = Arc::new(lines.to_vec());
            snapshot
        };
        let mut log = EventLog::new("b", DEAD_MS);
        for at in [60_000, 63_000, 90_000] {
            assert_eq!(log.observe(&known(dead(at), &raised)), []);
        }
        log.observe(&known(calm(100_000), &raised));
        let cleared = log.observe(&known(calm(111_000), &raised));
        assert_eq!(summary(&cleared), [("alarm cleared", "dead-letters", 100_000)]);
        assert_eq!(&*cleared[0].result, "after 100.0 s");
        // The next one is new.
        let lines = [cleared, raised].concat();
        log.observe(&known(dead(200_000), &lines));
        let again = log.observe(&known(dead(203_000), &lines));
        assert_eq!(summary(&again), [("alarm raised", "dead-letters", 200_000)]);
    }

    #[test]
    fn alarms_stay_unchanged_while_a_server_is_unreachable() {
        let mut log = EventLog::new("a", DEAD_MS);
        let dead = || AlarmKind::DeadConsumer {
            consumer: "b/1".into(),
            known: true,
            pending: 3,
            at_risk: None,
            sale_lost: false,
            idle_ms: 1,
        };
        log.observe(&with(calm(0), dead()));
        let raised = log.observe(&with(calm(2_000), dead()));
        assert_eq!(summary(&raised), [("alarm raised", "b/1", 0)]);
        let mut lines = Vec::new();
        for at in 3..40 {
            lines.extend(log.observe(&redis_away(at * 1_000, 3_000)));
        }
        assert_eq!(summary(&lines), [("redis away", "redis", 3_000)]);
        log.observe(&calm(41_000));
        assert_eq!(
            summary(&log.observe(&calm(52_000))),
            [("redis back", "redis", 41_000), ("alarm cleared", "b/1", 41_000)]
        );
    }

    #[test]
    fn a_node_dies_once_and_not_after_an_outage() {
        let node = |name: &str, alive| NodeLine {
            name: name.into(),
            alive,
            seen: T.plus(-2_000),
            ..NodeLine::default()
        };
        let snapshot = |at, alive| {
            let nodes = vec![node("a", alive), node("b", alive)];
            Snapshot { nodes, ..calm(at) }
        };
        let mut log = EventLog::new("a", DEAD_MS);
        // Redis is just back, and all heartbeats are old.
        assert_eq!(log.observe(&snapshot(0, false)), []);
        assert_eq!(log.observe(&snapshot(1_000, true)), []);
        let mut lines = Vec::new();
        for at in 2..20 {
            lines.extend(log.observe(&snapshot(at * 1_000, false)));
        }
        assert_eq!(summary(&lines), [("node dead", "b", 3_000)], "and not itself");
        let mut other = EventLog::new("c", DEAD_MS);
        other.observe(&snapshot(50_000, false));
        let again = other.observe(&snapshot(60_000, false));
        let same = again.iter().find(|it| &*it.subject == "b").unwrap();
        assert_eq!(same.once, lines[0].once, "the log takes it once");
    }

    #[test]
    fn excess_lines_are_counted() {
        let mut log = EventLog::new("a", DEAD_MS);
        let flood = |at| {
            (0..100).fold(calm(at), |snapshot, number| {
                let consumer = format!("n{number}/1");
                with(
                    snapshot,
                    AlarmKind::DeadConsumer {
                        consumer,
                        known: true,
                        pending: 1,
                        at_risk: None,
                        sale_lost: false,
                        idle_ms: 1,
                    },
                )
            })
        };
        log.observe(&flood(0));
        assert_eq!(log.observe(&flood(3_000)).len(), MOST as usize);
        let next = log.observe(&flood(61_000));
        assert_eq!((next.len(), next[0].action.as_str()), (1, "left out"));
        assert!(next[0].result.contains("70 lines"), "{next:?}");
    }

    #[test]
    fn closing_records_pending_ends() {
        let mut log = EventLog::new("a", DEAD_MS);
        log.observe(&redis_away(1_000, 900));
        log.observe(&calm(2_000));
        assert_eq!(summary(&log.close()), [("redis back", "redis", 2_000)]);
        log.observe(&redis_away(3_000, 2_900));
        assert_eq!(log.close(), [], "it is away still");
    }
}
