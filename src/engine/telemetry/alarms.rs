//! Alarm rules: small functions of one Snapshot, each with a test.

use std::iter;

use seckill_model::{
    JobOutcome, JobRun, Message, ShardId,
    ledger::{Balance, SaleFinding},
};
use seckill_store::StoreError;

use crate::{EngineError, deployment::time_zone::Zone};

use super::{
    Snapshot,
    data_loss::{RecentLosses, Reconciled, Unwitnessed},
    snapshot::{Alarm, AlarmKind, Back, ClockOf, ConsumerLine, Health, SaleLine, SqlCopy, Urgency},
};

/// An active consumer asks for entries every second; one silent for this long is stuck.
const SILENT_MS: u64 = 5_000;

/// A single node writes fewer entries than this within seconds, whatever the cause of the lag.
const LARGE_LAG: u64 = 10_000;

/// A burst of some seconds fills the stream faster than it is written; a lag that lasts longer is not a burst.
const LAG_MS: u64 = 30_000;

/// A drain time beyond this is not that of a burst.
const LONG_DRAIN_MS: u64 = 300_000;

/// Clocks that are synchronized over a network differ by far less, in milliseconds.
pub const CLOCK_SKEW_MS: u64 = 2_000;

/// More keys of a wrong type than this share one alarm: one program has overwritten all of them.
const FOREIGN_KEYS: usize = 5;

/// Returns the alarms of a snapshot and of recent losses, most urgent first: losses and conditions that need the
/// operator come before a mere backlog.
pub fn alarms(snapshot: &Snapshot, losses: Option<RecentLosses>) -> Vec<Alarm> {
    let mut found = Vec::new();
    let mut add = |urgency, kind| found.push(Alarm { urgency, kind });
    if let Some(error) = snapshot.redis.error.clone().filter(|_| !snapshot.redis.up) {
        add(Urgency::Critical, AlarmKind::RedisAway { error });
    }
    for server in &snapshot.unreachable {
        add(Urgency::Critical, AlarmKind::ServerLost(server.clone()));
    }
    if let Some(error) = snapshot.redis.unwritable.clone().filter(|_| snapshot.redis.up) {
        add(Urgency::Critical, AlarmKind::RedisReadOnly { error });
    }
    if let Some(unconfirmed) = snapshot.unconfirmed.clone().filter(|_| snapshot.redis.up) {
        add(Urgency::Critical, AlarmKind::Unconfirmed(unconfirmed));
    }
    if let Some(kind) = sql(snapshot) {
        add(Urgency::Critical, kind);
    }
    let lost = lost_sales(snapshot);
    let sale_lost = lost.is_some();
    if let Some(kind) = lost {
        add(Urgency::Critical, kind);
    }
    for kind in orders_wait(snapshot) {
        add(Urgency::Critical, kind);
    }
    for (sale, error) in snapshot.unreadable_sales.iter().filter(|_| snapshot.sql.up) {
        add(Urgency::Critical, AlarmKind::SaleUnreadable { sale: *sale, error: error.clone() });
    }
    if !snapshot.undelivered.is_empty() && snapshot.sql.up {
        let sales = snapshot.undelivered.clone();
        add(Urgency::Critical, AlarmKind::Undelivered { sales });
    }
    if !snapshot.damaged.is_empty() && snapshot.redis.up {
        add(Urgency::Critical, AlarmKind::Damaged { keys: snapshot.damaged.clone() });
    }
    if !snapshot.oversold.is_empty() && snapshot.redis.up && snapshot.sql.up {
        add(Urgency::Critical, AlarmKind::Oversold { sales: snapshot.oversold.clone() });
    }
    for (of, ahead_ms) in clocks(snapshot) {
        if ahead_ms.unsigned_abs() > CLOCK_SKEW_MS {
            add(Urgency::Warning, AlarmKind::ClockSkew { of, ahead_ms });
        }
    }
    let zones = zones(snapshot);
    let rules: Vec<Option<Zone>> = zones.iter().map(|(_, name)| name.parse().ok()).collect();
    let differ = |(one, other): (&Option<Zone>, &Option<Zone>)| match (one, other) {
        (Some(one), Some(other)) => !one.is_like(other, snapshot.taken),
        // Of one that this host does not know, nothing is known.
        _ => false,
    };
    if rules.iter().zip(rules.iter().skip(1)).any(differ) {
        add(Urgency::Warning, AlarmKind::TimeZonesDiffer { zones });
    }
    let (unwitnessed, losses) = split(losses);
    if let Some(unwitnessed) = unwitnessed {
        add(Urgency::Warning, AlarmKind::Unwitnessed(unwitnessed));
    }
    if let Some(losses) = losses {
        // Restored data needs no action. Broken promises do. Entries held by live consumers will be written.
        let dead =
            snapshot.stream.iter().flat_map(|stream| &stream.consumers).filter(|it| !it.alive);
        let pending = dead.map(|it| it.pending).sum();
        let urgency = match (losses.total.refused + losses.total.unknown, pending) {
            (0, 0) => Urgency::Notice,
            (0, _) => Urgency::Warning,
            _ => Urgency::Critical,
        };
        add(urgency, AlarmKind::DataLoss { losses, pending });
    }
    if let Balance::Off { findings } = &snapshot.audit
        && let [finding, others @ ..] = findings.as_slice()
    {
        let repairable = findings.iter().any(|it| it.what.cure().is_some());
        let (finding, more) = (finding.clone(), others.len());
        add(Urgency::Critical, AlarmKind::AuditFailed { finding, more, repairable });
    }
    for found in snapshot.foreign_keys.iter().take(FOREIGN_KEYS).filter(|_| snapshot.redis.up) {
        add(Urgency::Critical, AlarmKind::ForeignKey(found.clone()));
    }
    if let Some(stream) = snapshot.stream.as_ref().filter(|_| snapshot.redis.up) {
        if !stream.group && stream.length > 0 {
            add(Urgency::Critical, AlarmKind::NoGroup);
        }
        for holder in stream.consumers.iter().filter(|it| it.pending > 0) {
            let ConsumerLine { alive, known, pending, idle_ms, .. } = *holder;
            let consumer = holder.name.clone();
            if !alive {
                let at_risk = snapshot.unwritten().map(|orders| orders.min(pending));
                let kind = AlarmKind::DeadConsumer {
                    consumer,
                    known,
                    pending,
                    at_risk,
                    sale_lost: sale_lost && at_risk != Some(0),
                    idle_ms,
                };
                add(Urgency::Warning, kind);
            } else if idle_ms >= SILENT_MS
                && snapshot.sql.takes_writes()
                && snapshot.refused_sales.is_empty()
            {
                // While the database is unreachable or locked, or accepts no orders, consumers wait for it.
                add(Urgency::Warning, AlarmKind::SilentConsumer { consumer, pending, idle_ms });
            }
        }
        if let Some(kind) = persistent_lag(snapshot) {
            add(Urgency::Warning, kind);
        }
        if stream.dead > 0 {
            add(Urgency::Warning, AlarmKind::DeadLetters { count: stream.dead });
        }
    }
    // A paused job was paused on purpose.
    for job in snapshot.jobs.iter().filter(|job| !job.paused) {
        // An interrupted run resolves nothing.
        let ended = |run: &&JobRun| matches!(run.outcome, JobOutcome::Done | JobOutcome::Failed);
        let failed = |run: &&JobRun| run.outcome == JobOutcome::Failed && !is_audit_failure(run);
        if let Some(run) = job.runs.iter().find(ended).filter(failed) {
            let (job, ago_ms) = (job.name.clone(), snapshot.taken.since(run.started));
            let why = run.detail.clone().unwrap_or_default();
            add(Urgency::Warning, AlarmKind::JobFailed { job, ago_ms, why });
        }
    }
    for server in [&snapshot.redis, &snapshot.sql] {
        if let Some(Back { after_ms, .. }) = server.back {
            let server = server.name.clone();
            add(Urgency::Notice, AlarmKind::ServerBack { server, away_ms: after_ms });
        }
    }
    found
}

/// The clocks that are known, with how far that of Redis is ahead of each in ms.
fn clocks(snapshot: &Snapshot) -> Vec<(ClockOf, i64)> {
    let (Snapshot { redis, sql, node, nodes, .. }, ahead_ms) = (snapshot, snapshot.clock_ahead_ms);
    if !redis.up {
        return Vec::new();
    }
    let of_sql = snapshot.sql_clock_ahead_ms.filter(|_| sql.up).map(|sql| ahead_ms - sql);
    let of_sql = of_sql.map(|ahead_ms| (ClockOf::Database, ahead_ms));
    let others = nodes.iter().filter(|it| it.alive && it.name != *node);
    let others = others.filter_map(|it| Some((ClockOf::Node(it.name.clone()), it.clock_ahead_ms?)));
    iter::once((ClockOf::Host, ahead_ms)).chain(of_sql).chain(others).collect()
}

/// The time zones that live nodes want for the deployment.
fn zones(snapshot: &Snapshot) -> Vec<(String, String)> {
    let alive = snapshot.nodes.iter().filter(|it| it.alive && snapshot.redis.up);
    let mut zones: Vec<_> =
        alive.filter_map(|it| Some((it.name.clone(), it.zone.clone()?))).collect();
    zones.sort_unstable();
    zones
}

/// Separates what may be missing without a record from the known losses, if there are any.
fn split(losses: Option<RecentLosses>) -> (Option<Unwitnessed>, Option<RecentLosses>) {
    let Some(mut losses) = losses else { return (None, None) };
    let unwitnessed = losses.total.unwitnessed.take();
    let is_known = unwitnessed.is_none() || losses.total != Reconciled::default();
    (unwitnessed, is_known.then_some(losses))
}

/// The sales that SQL has lost.
fn lost_sales(snapshot: &Snapshot) -> Option<AlarmKind> {
    let lost: Vec<&SaleLine> = snapshot.lost_sales().filter(|_| snapshot.sql.up).collect();
    let shards = |sale: &SaleLine| match sale.sql {
        SqlCopy::Lost => vec![ShardId::only(sale.voucher_id)],
        _ => sale.shards.iter().filter(|it| it.is_lost()).map(SaleLine::shard_id).collect(),
    };
    let mut sales: Vec<ShardId> = lost.iter().flat_map(|sale| shards(sale)).collect();
    if sales.is_empty() {
        return None;
    }
    sales.sort_unstable();
    let orders = lost.iter().map(|sale| snapshot.unwritten_of(sale.voucher_id)).sum();
    Some(AlarmKind::SalesLost { sales, orders })
}

/// The sales of which the database accepts no orders. Those that it has lost have an alarm of their own, and so has a
/// database for which all orders wait.
fn orders_wait(snapshot: &Snapshot) -> impl Iterator<Item = AlarmKind> {
    let is_lost = |sale| snapshot.lost_sales().any(|lost| lost.voucher_id == sale);
    // Admitted orders that are in no stream wait for an operator: they are a finding of the audit.
    let in_stream = snapshot.stream.as_ref().and_then(|stream| Some(stream.lag? + stream.pending));
    let refused = snapshot.refused_sales.iter().filter(|_| snapshot.sql.takes_writes());
    refused.filter(move |(sale, _)| !is_lost(*sale)).map(move |(sale, error)| {
        let unwritten = snapshot.unwritten_of(*sale);
        let waiting = unwritten.map(|orders| orders.min(in_stream.unwrap_or(orders)));
        AlarmKind::OrdersWait { sale: *sale, waiting, error: error.clone() }
    })
}

/// Returns the reason why the database accepts no orders.
fn sql(snapshot: &Snapshot) -> Option<AlarmKind> {
    let Health { up, error, unwritable, .. } = &snapshot.sql;
    if !up {
        return error.clone().map(|error| AlarmKind::SqlAway { error });
    }
    let why = unwritable.clone()?;
    if why.data() != Some(EngineError::Store(StoreError::Locked)) {
        return Some(AlarmKind::SqlReadOnly { error: why });
    }
    let stream = snapshot.stream.as_ref().filter(|_| snapshot.redis.up);
    let waiting = stream.and_then(|stream| Some(stream.lag? + stream.pending));
    Some(AlarmKind::SqlLocked { waiting })
}

/// A failed audit has a separate alarm, which ends with the finding and not with the next run.
fn is_audit_failure(run: &JobRun) -> bool {
    let finding = |message: &Message| message.part::<SaleFinding>("/error/unbalanced");
    run.detail.as_ref().and_then(finding).is_some()
}

/// Detects a lag that stayed large and grows, stagnates, or falls too slowly. A gap restarts the measurement: after an
/// outage or a lock the backlog is processed first.
fn persistent_lag(snapshot: &Snapshot) -> Option<AlarmKind> {
    let now = snapshot.series.last()?;
    let lag = now.lag?;
    for point in snapshot.series.points().rev() {
        let works = point.persisted.is_some() && !point.held;
        let past = point.lag.filter(|it| *it >= LARGE_LAG && works)?;
        let over_ms = now.at.since(point.at);
        if over_ms >= LAG_MS {
            let fell = past.saturating_sub(lag);
            let drains_ms = (fell > 0).then(|| (lag as f64 / fell as f64 * over_ms as f64) as u64);
            return drains_ms
                .is_none_or(|it| it > LONG_DRAIN_MS)
                .then_some(AlarmKind::LagHigh { lag, drains_ms });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::telemetry::{
        Point, Series,
        snapshot::{JobLine, NodeLine, NodeState, StreamLine},
    };
    use seckill_model::{
        Cause, ForeignKey, Millis, Sale, SaleId, SaleShard, SaleState, VoucherId, ledger::Finding,
    };
    use seckill_redis::stream_stats::SaleStats;

    fn healthy() -> Snapshot {
        let up = Health { up: true, ..Health::default() };
        let stream = StreamLine { group: true, lag: Some(0), ..StreamLine::default() };
        Snapshot { redis: up.clone(), sql: up, stream: Some(stream), ..Snapshot::default() }
    }

    fn lost(total: Reconciled) -> RecentLosses {
        RecentLosses { at: Millis(7), total, again: 0 }
    }

    fn holder(alive: bool, pending: u64) -> ConsumerLine {
        let (partition, name) = (0, "node-b/1".into());
        let state = if alive { NodeState::Alive } else { NodeState::Dead };
        ConsumerLine {
            partition,
            name,
            state,
            alive,
            known: true,
            pending,
            idle_ms: 9,
            per_second: None,
        }
    }

    #[test]
    fn a_healthy_snapshot_has_no_alarms() {
        assert_eq!(alarms(&healthy(), None), []);
        assert_eq!(alarms(&Snapshot::default(), None), []);
    }

    #[test]
    fn an_unreachable_server_comes_first() {
        let mut snapshot = healthy();
        snapshot.sql = Health { error: Some("gone".into()), ..Health::default() };
        snapshot.stream = Some(StreamLine { group: true, dead: 2, ..StreamLine::default() });
        let kinds: Vec<_> = alarms(&snapshot, None).into_iter().map(|alarm| alarm.kind).collect();
        let away = AlarmKind::SqlAway { error: "gone".into() };
        assert_eq!(kinds, [away, AlarmKind::DeadLetters { count: 2 }]);
    }

    #[test]
    fn a_database_that_accepts_no_writes_is_reported_with_the_lag() {
        let mut snapshot = healthy();
        let stream = StreamLine { group: true, lag: Some(3), pending: 4, ..StreamLine::default() };
        snapshot.stream = Some(stream);
        let raised = |snapshot: &Snapshot| {
            let mut raised = alarms(snapshot, None).into_iter();
            raised.next().map(|it| (it.urgency, it.kind)).filter(|_| raised.next().is_none())
        };
        snapshot.sql.unwritable = Some(Message::of(&EngineError::Store(StoreError::Locked)));
        let locked = |waiting| Some((Urgency::Critical, AlarmKind::SqlLocked { waiting }));
        assert_eq!(raised(&snapshot), locked(Some(7)));
        snapshot.stream = Some(StreamLine { group: true, pending: 4, ..StreamLine::default() });
        assert_eq!(raised(&snapshot), locked(None), "a lag that is not known");
        snapshot.sql.unwritable = Some("read-only".into());
        let other = AlarmKind::SqlReadOnly { error: "read-only".into() };
        assert_eq!(raised(&snapshot), Some((Urgency::Critical, other)));
    }

    fn sale(id: u64, initial: u64, stock: u64) -> SaleShard {
        let sale = Sale {
            voucher_id: VoucherId(id),
            title: String::new(),
            initial,
            stock,
            begin: None,
            end: None,
            state: SaleState::Running,
            limit: 1,
            changed: Millis(1),
            version: 1,
            delivered: 1,
            created: Millis(1),
            spread: None,
        };
        SaleShard { id: ShardId::only(VoucherId(id)), sale }
    }

    fn facts(initial: u64, buyers: u64) -> SaleStats {
        SaleStats { buyers, initial: Some(initial), ..SaleStats::default() }
    }

    #[test]
    fn each_sale_whose_orders_wait_raises_an_alarm() {
        let refused_sales = vec![(VoucherId(3), "no".into()), (VoucherId(4), "no".into())];
        let sales = vec![SaleLine::of_shard(&sale(4, 9, 9), Millis(1), Some(&facts(9, 7)))];
        let mut snapshot = Snapshot { sales, refused_sales, ..healthy() };
        let waits = |snapshot: &Snapshot, orders| {
            let alarm = |sale, waiting| AlarmKind::OrdersWait { sale, waiting, error: "no".into() };
            let found = alarms(snapshot, None).into_iter().map(|alarm| alarm.kind);
            let wanted = [alarm(VoucherId(3), None), alarm(VoucherId(4), Some(orders))];
            assert_eq!(found.collect::<Vec<_>>(), wanted);
        };
        let stream =
            |lag, pending| StreamLine { group: true, lag, pending, ..StreamLine::default() };
        snapshot.stream = Some(stream(Some(5), 9));
        waits(&snapshot, 7);
        snapshot.stream = Some(stream(Some(0), 2));
        waits(&snapshot, 2);
        snapshot.stream = Some(stream(None, 2));
        waits(&snapshot, 7);
    }

    #[test]
    fn a_sale_that_sql_has_lost_is_named_and_repaired_first() {
        let refused_sales = vec![(VoucherId(4), "no".into())];
        let sales = vec![SaleLine::of_lost(&sale(4, 900, 900), Millis(1), Some(&facts(900, 150)))];
        let consumers = vec![holder(false, 60)];
        let stream = StreamLine { group: true, pending: 60, consumers, ..StreamLine::default() };
        let snapshot = Snapshot { sales, refused_sales, stream: Some(stream), ..healthy() };
        let found = alarms(&snapshot, None);
        let [lost, dead] = &found[..] else { panic!("{found:?}") };
        let sales = vec![ShardId::only(VoucherId(4))];
        assert_eq!(lost.kind, AlarmKind::SalesLost { sales, orders: Some(150) });
        let AlarmKind::DeadConsumer { at_risk: Some(60), sale_lost: true, .. } = dead.kind else {
            panic!("{dead:?}");
        };
        let shard = |number, sql| {
            let id = ShardId { sale: SaleId(5), number };
            let shard = SaleShard { id, ..sale(5, 20, 20) };
            SaleLine { sql, ..SaleLine::of_shard(&shard, Millis(1), Some(&facts(20, 0))) }
        };
        let shards = [(1, SqlCopy::Lost), (2, SqlCopy::Current)].map(|(it, sql)| shard(it, sql));
        let partly = Snapshot { sales: SaleLine::of_vouchers(shards), ..healthy() };
        let named = alarms(&partly, None).into_iter().next().map(|it| it.kind);
        let sales = vec![ShardId { sale: SaleId(5), number: 1 }];
        assert_eq!(named, Some(AlarmKind::SalesLost { sales, orders: Some(0) }));
        let found = alarms(&Snapshot { lost_unknown: true, ..snapshot }, None);
        assert!(
            found.iter().any(|it| matches!(it.kind, AlarmKind::DeadConsumer { at_risk: None, .. }))
        );
    }

    #[test]
    fn a_redis_that_accepts_no_writes_raises_an_alarm() {
        let mut snapshot = healthy();
        snapshot.redis.unwritable = Some("OOM".into());
        let kinds = |snapshot: &Snapshot| {
            alarms(snapshot, None).into_iter().map(|it| (it.urgency, it.kind)).collect::<Vec<_>>()
        };
        let full = AlarmKind::RedisReadOnly { error: "OOM".into() };
        assert_eq!(kinds(&snapshot), [(Urgency::Critical, full)]);
        snapshot.redis = Health { error: Some("gone".into()), ..Health::default() };
        let away = AlarmKind::RedisAway { error: "gone".into() };
        assert_eq!(kinds(&snapshot), [(Urgency::Critical, away)]);
    }

    #[test]
    fn a_clock_that_differs_by_seconds_raises_an_alarm() {
        for (ahead_ms, raised) in [(-2_000, false), (2_001, true), (-3_600_000, true)] {
            let snapshot = Snapshot { clock_ahead_ms: ahead_ms, ..healthy() };
            let kind = AlarmKind::ClockSkew { of: ClockOf::Host, ahead_ms };
            let skew = Alarm { urgency: Urgency::Warning, kind };
            assert_eq!(alarms(&snapshot, None).contains(&skew), raised, "{ahead_ms}");
        }
    }

    #[test]
    fn each_clock_is_compared_with_that_of_redis() {
        let node = |name: &str, alive, clock_ahead_ms| NodeLine {
            name: name.to_owned(),
            alive,
            clock_ahead_ms,
            ..NodeLine::default()
        };
        let nodes = vec![
            node("here", true, Some(3_600_000)),
            node("slow", true, Some(5_000)),
            node("right", true, Some(3)),
            node("old", true, None),
            node("dead", false, Some(9_000)),
        ];
        let of = |redis, sql| {
            let mut snapshot = Snapshot {
                node: "here".to_owned(),
                nodes: nodes.clone(),
                clock_ahead_ms: redis,
                sql_clock_ahead_ms: sql,
                ..healthy()
            };
            let found = alarms(&snapshot, None);
            snapshot.redis.up = false;
            assert!(!alarms(&snapshot, None).iter().any(is_skew), "Redis is away");
            found.into_iter().filter(is_skew).map(|it| it.kind).collect::<Vec<_>>()
        };
        let skew = |of, ahead_ms| AlarmKind::ClockSkew { of, ahead_ms };
        let slow = || skew(ClockOf::Node("slow".to_owned()), 5_000);
        assert_eq!(of(0, None), [slow()]);
        assert_eq!(of(0, Some(3_600_000)), [skew(ClockOf::Database, -3_600_000), slow()]);
        // Only this host is wrong.
        assert_eq!(of(7_000, Some(7_001)), [skew(ClockOf::Host, 7_000), slow()]);
    }

    fn is_skew(alarm: &Alarm) -> bool {
        matches!(alarm.kind, AlarmKind::ClockSkew { .. })
    }

    #[test]
    fn nodes_that_want_different_time_zones_raise_an_alarm() {
        let raised = |zones: &[(&str, bool, Option<&str>)]| {
            let line = |(name, alive, zone): &(&str, bool, Option<&str>)| NodeLine {
                name: (*name).to_owned(),
                alive: *alive,
                zone: zone.map(str::to_owned),
                ..NodeLine::default()
            };
            let nodes = zones.iter().map(line).collect();
            let found = alarms(&Snapshot { nodes, ..healthy() }, None);
            found.into_iter().find_map(|it| match it.kind {
                AlarmKind::TimeZonesDiffer { zones } => Some(zones),
                _ => None,
            })
        };
        let (utc, kolkata) = (Some("UTC"), Some("Asia/Kolkata"));
        let same = Some("Etc/UTC");
        assert_eq!(raised(&[("a", true, utc), ("b", true, same), ("c", true, None)]), None);
        assert_eq!(raised(&[("a", true, utc), ("b", false, kolkata)]), None);
        let both = raised(&[("a", true, utc), ("b", true, kolkata), ("c", true, None)]).unwrap();
        let both: Vec<_> = both.iter().map(|(node, zone)| (node.as_str(), zone.as_str())).collect();
        assert_eq!(both, [("a", "UTC"), ("b", "Asia/Kolkata")]);
    }

    #[test]
    fn foreign_keys_have_their_own_alarms_up_to_a_limit() {
        let key = |number| ForeignKey { key: format!("k{number}"), holds: "list".to_owned() };
        let snapshot = Snapshot { foreign_keys: (0..9).map(key).collect(), ..healthy() };
        let found = alarms(&snapshot, None);
        assert_eq!(found.len(), FOREIGN_KEYS);
        assert_eq!(found.first().map(|it| &it.kind), Some(&AlarmKind::ForeignKey(key(0))));
    }

    #[test]
    fn a_recovered_server_comes_last() {
        let mut snapshot = healthy();
        let back = Back { at: Millis(1), after_ms: 7 };
        snapshot.redis = Health { name: "redis".into(), back: Some(back), ..snapshot.redis };
        snapshot.stream = Some(StreamLine { group: true, dead: 2, ..StreamLine::default() });
        let kinds: Vec<_> = alarms(&snapshot, None).into_iter().map(|alarm| alarm.kind).collect();
        let back = AlarmKind::ServerBack { server: "redis".into(), away_ms: 7 };
        assert_eq!(kinds, [AlarmKind::DeadLetters { count: 2 }, back]);
    }

    #[test]
    fn only_a_dead_consumer_with_entries_raises_an_alarm() {
        let mut snapshot = healthy();
        let consumers = vec![holder(true, 5), holder(false, 0), holder(false, 128)];
        snapshot.stream = Some(StreamLine { group: true, consumers, ..StreamLine::default() });
        let [Alarm { kind: AlarmKind::DeadConsumer { pending: 128, .. }, .. }] =
            alarms(&snapshot, None)[..]
        else {
            panic!("{:?}", alarms(&snapshot, None));
        };
    }

    #[test]
    fn the_alarm_of_a_dead_consumer_knows_how_many_orders_are_at_risk() {
        let at_risk = |sql_up: bool, persisted: u64| {
            let mut snapshot = healthy();
            let sale = sale(1, 9_000, 9_000 - persisted);
            snapshot.sales = vec![SaleLine::of(&sale, Millis(1), Some(&facts(9_000, 9_000)))];
            snapshot.sql.up = sql_up;
            let consumers = vec![holder(false, 6)];
            snapshot.stream = Some(StreamLine { group: true, consumers, ..StreamLine::default() });
            let kinds = alarms(&snapshot, None).into_iter().map(|it| it.kind);
            let mut found = kinds.filter_map(|kind| match kind {
                AlarmKind::DeadConsumer { at_risk, .. } => Some(at_risk),
                _ => None,
            });
            found.next_back().unwrap()
        };
        assert_eq!(at_risk(true, 9_000), Some(0), "all orders are in SQL");
        assert_eq!(at_risk(true, 8_998), Some(2));
        assert_eq!(at_risk(true, 8_000), Some(6), "no more than it holds");
        assert_eq!(at_risk(false, 9_000), None, "unknown without SQL");
    }

    #[test]
    fn a_consumer_of_no_node_is_marked() {
        for known in [true, false] {
            let mut snapshot = healthy();
            let consumers = vec![ConsumerLine { known, ..holder(false, 5) }];
            snapshot.stream = Some(StreamLine { group: true, consumers, ..StreamLine::default() });
            let raised = alarms(&snapshot, None);
            let raised = raised.first().map(|it| &it.kind);
            assert!(
                matches!(raised, Some(AlarmKind::DeadConsumer { known: it, .. }) if *it == known)
            );
        }
    }

    /// Returns the alarm for a lag with these figures, one per second.
    fn of_lag(lags: impl IntoIterator<Item = Option<u64>>) -> Option<AlarmKind> {
        let mut series = Series::default();
        for (second, lag) in lags.into_iter().enumerate() {
            let at = Millis(second as i64 * 1_000);
            series.push(Point { at, lag, persisted: lag.map(|_| 1.0), ..Point::default() });
        }
        let raised = alarms(&Snapshot { series: Arc::new(series), ..healthy() }, None);
        raised.into_iter().next().map(|it| it.kind)
    }

    #[test]
    fn a_persistent_large_lag_raises_an_alarm() {
        let persists = |lag, drains_ms| Some(AlarmKind::LagHigh { lag, drains_ms });
        let still = |seconds| iter::repeat_n(Some(20_000), seconds);
        assert_eq!(of_lag(still(31)), persists(20_000, None));
        assert_eq!(of_lag(still(30)), None, "not long enough");
        assert_eq!(of_lag((0..31).map(|it| Some(10_000 + it * 50))), persists(11_500, None));
        assert_eq!(of_lag((0..31).map(|it| Some(9_999 + it))), None, "it was small");
        // 60 s count as a burst, 10 minutes do not.
        assert_eq!(of_lag((0..31).map(|it| Some(90_000 - it * 1_000))), None);
        assert_eq!(
            of_lag((0..31).map(|it| Some(63_000 - it * 100))),
            persists(60_000, Some(600_000))
        );
    }

    #[test]
    fn a_short_burst_and_an_outage_are_no_persistent_lag() {
        let rush = (0..20).map(|it| it * 5_000).chain((0..20).map(|it| 95_000 - it * 4_000));
        assert_eq!(of_lag(rush.map(Some)), None);
        let gap = (0..40).map(|second| (second != 20).then_some(500_000));
        assert_eq!(of_lag(gap), None);
        let mut series = Series::default();
        for second in 0..40 {
            let point = Point { lag: Some(500_000), persisted: Some(0.0), ..Point::default() };
            series.push(Point { at: Millis(second * 1_000), held: second < 20, ..point });
        }
        let locked = Snapshot { series: Arc::new(series), ..healthy() };
        assert_eq!(alarms(&locked, None), [], "a lock held them up");
        assert_eq!(of_lag([None, Some(500_000)]), None);
    }

    #[test]
    fn a_job_whose_last_run_failed_raises_an_alarm() {
        use JobOutcome::{Cancelled, Done, Failed, Lost, Running};

        let raised = |outcomes: &[JobOutcome], paused| {
            let run = |outcome: &JobOutcome| JobRun {
                id: 1,
                job: "close-overdue".into(),
                due: Millis(0),
                cause: Cause::Due,
                node: "a".into(),
                started: Millis(2_000),
                took_ms: Some(5),
                outcome: *outcome,
                detail: None,
                rows: None,
            };
            let job = JobLine {
                name: "close-overdue".into(),
                about: String::new(),
                schedule: String::new(),
                paused,
                next: None,
                runs: outcomes.iter().map(run).collect(),
            };
            let found =
                alarms(&Snapshot { jobs: vec![job], taken: Millis(9_000), ..healthy() }, None);
            found.into_iter().next().map(|it| it.kind)
        };
        let why = Message::default();
        let failed = Some(AlarmKind::JobFailed { job: "close-overdue".into(), ago_ms: 7_000, why });
        assert_eq!(raised(&[Failed, Done], false), failed);
        assert_eq!(raised(&[Running, Failed], false), failed, "it has not ended yet");
        assert_eq!(raised(&[Done, Failed], false), None);
        assert_eq!((raised(&[Failed], true), raised(&[], false)), (None, None));
        assert_eq!(raised(&[Lost, Cancelled, Failed], false), failed, "no run has succeeded since");
    }

    #[test]
    fn a_silent_live_consumer_raises_an_alarm() {
        let silent = |idle_ms, pending, writes: bool| {
            let mut snapshot = healthy();
            snapshot.sql.unwritable = (!writes).then(|| "locked".into());
            let consumers = vec![ConsumerLine { idle_ms, ..holder(true, pending) }];
            snapshot.stream = Some(StreamLine { group: true, consumers, ..StreamLine::default() });
            alarms(&snapshot, None)
                .iter()
                .any(|alarm| matches!(alarm.kind, AlarmKind::SilentConsumer { pending: 5, .. }))
        };
        assert!(silent(5_000, 5, true));
        assert!(!silent(4_999, 5, true) && !silent(5_000, 0, true) && !silent(5_000, 5, false));
    }

    #[test]
    fn an_unreachable_redis_hides_stream_alarms() {
        let mut snapshot = healthy();
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
        let raised = |length| {
            let stream = StreamLine { length, ..StreamLine::default() };
            let found = alarms(&Snapshot { stream: Some(stream), ..healthy() }, None);
            found.first().map(|alarm| (alarm.urgency, alarm.kind.clone()))
        };
        assert_eq!(raised(1), Some((Urgency::Critical, AlarmKind::NoGroup)));
        assert_eq!(raised(0), None);
    }

    #[test]
    fn data_loss_is_reported_for_a_while() {
        let forgot = |refused| lost(Reconciled { restored: 3, refused, ..Reconciled::default() });
        let urgency = |refused, pending| {
            let consumers = vec![holder(false, pending)];
            let stream = StreamLine { pending, group: true, consumers, ..StreamLine::default() };
            let snapshot = Snapshot { stream: Some(stream), ..healthy() };
            alarms(&snapshot, Some(forgot(refused))).first().map(|alarm| alarm.urgency)
        };
        assert_eq!(urgency(0, 0), Some(Urgency::Notice), "nothing is left to do");
        assert_eq!(urgency(0, 5), Some(Urgency::Warning));
        assert_eq!(urgency(1, 0), Some(Urgency::Critical));
    }

    #[test]
    fn losses_come_before_backlogs() {
        let mut snapshot = Snapshot { undelivered: vec![VoucherId(7)], ..healthy() };
        snapshot.redis.unwritable = Some("OOM".into());
        snapshot.stream = Some(StreamLine { group: true, dead: 2, ..StreamLine::default() });
        let kinds: Vec<_> = alarms(&snapshot, Some(lost(Reconciled::default())))
            .into_iter()
            .map(|it| it.kind)
            .collect();
        let [
            AlarmKind::RedisReadOnly { .. },
            AlarmKind::Undelivered { .. },
            AlarmKind::DataLoss { .. },
            AlarmKind::DeadLetters { .. },
        ] = kinds[..]
        else {
            panic!("{kinds:?}");
        };
    }

    #[test]
    fn a_failed_audit_is_critical() {
        for (what, repaired) in [(Finding::Lost(2), true), (Finding::Stranded(2), false)] {
            let findings = vec![SaleFinding { sale: None, shard: None, what }];
            let audit = Balance::Off { findings };
            let [Alarm { urgency, kind: AlarmKind::AuditFailed { repairable, .. } }] =
                alarms(&Snapshot { audit, ..healthy() }, None)[..]
            else {
                panic!("no alarm of its own");
            };
            assert_eq!((urgency, repairable), (Urgency::Critical, repaired));
        }
    }
}
