//! Texts of alarms: the problem, and the key or the command that helps.

use std::fmt::Display;

use seckill_engine::{
    AlarmKind, EngineError,
    error::{RedisError, StoreError},
    telemetry::{
        data_loss::{self, RecentLosses, Reconciled, list_keys},
        event::Event,
        snapshot::{ClockOf, LostServer, Unconfirmed, skew_side},
    },
};
use seckill_model::{ForeignKey, Label, Message, text};

use crate::cells::right;
use crate::figures::{span, within};

/// Where the text of an alarm is read; the catalog has a sentence for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display)]
#[strum(serialize_all = "lowercase")]
pub enum Reader {
    /// The Overview, with the keys that help.
    Overview,
    /// The presenter layout, without names.
    Presenter,
    /// The command line, with the commands that help.
    Status,
}

/// An alarm as text. Growing figures are in a column of their own or come last, so that no word moves.
pub struct AlarmText {
    /// An age or a count, in [`FIGURE`] cells.
    pub figure: Option<String>,
    /// The sentence.
    pub text: String,
}

/// Cells of the figure before the text.
pub const FIGURE: usize = 8;

impl AlarmText {
    /// The text of an alarm, with its figure apart.
    pub fn of(kind: &AlarmKind, reader: Reader) -> Self {
        let figure = figure(kind, reader).map(|figure| right(&figure, FIGURE));
        Self { figure, text: alarm_text(kind, reader) }
    }
}

/// The age or the count before the text, which the text continues.
fn figure(kind: &AlarmKind, reader: Reader) -> Option<String> {
    match (reader, kind) {
        (
            Reader::Overview,
            AlarmKind::DeadConsumer { idle_ms: age_ms, .. }
            | AlarmKind::SilentConsumer { idle_ms: age_ms, .. }
            | AlarmKind::JobFailed { ago_ms: age_ms, .. },
        ) => Some(span(*age_ms)),
        (Reader::Overview, AlarmKind::SqlLocked { waiting: Some(count @ 1..) })
        | (
            Reader::Presenter,
            AlarmKind::DeadConsumer { pending: count, .. }
            | AlarmKind::SilentConsumer { pending: count, .. },
        )
        | (_, AlarmKind::LagHigh { lag: count, .. } | AlarmKind::DeadLetters { count }) => {
            Some(within(*count, FIGURE - 1))
        }
        _ => None,
    }
}

/// The sentence of an alarm.
pub fn alarm_text(kind: &AlarmKind, reader: Reader) -> String {
    match kind {
        AlarmKind::RedisAway { error } => {
            text!("alarms-redis-away", reader, reason = reason(error), error = full(error))
        }
        AlarmKind::ServerLost(server) => {
            let LostServer { address, partitions, error, .. } = server;
            let (count, numbers) = (partitions.len(), server.numbers());
            let reason = reason(&Message::of(&EngineError::Redis(error.clone())));
            text!("alarms-server-lost", reader, address, count, numbers, reason, error = server)
        }
        AlarmKind::RedisReadOnly { error } => {
            // How to make Redis accept writes again.
            let step = match error.data() {
                Some(EngineError::Redis(error)) => error.remedy(),
                _ => text!("redis-remedy", code = ""),
            };
            let (reason, error) = (reason(error), full(error));
            text!("alarms-redis-read-only", reader, step, reason, error)
        }
        AlarmKind::Unconfirmed(Unconfirmed { replicas, wanted, error }) => {
            let (replicas, state) =
                (replicas.unwrap_or(0), if error.is_some() { "unknown" } else { "few" });
            let (reason, error) =
                error.as_ref().map(|error| (reason(error), full(error))).unwrap_or_default();
            text!("alarms-unconfirmed", reader, state, replicas, wanted, reason, error)
        }
        AlarmKind::ForeignKey(found) => {
            let kind = if found.is_lock() { "lock" } else { "other" };
            let (key, holds) = (&found.key, ForeignKey::content(&found.holds));
            text!("alarms-foreign-key", reader, kind, key, holds, found)
        }
        // seckill cannot release the lock of another program, so the text states the consequence.
        AlarmKind::SqlLocked { waiting } => {
            let (error, waiting) = (StoreError::Locked, waiting.unwrap_or(0));
            text!("alarms-sql-locked", reader, waiting, error)
        }
        AlarmKind::SqlReadOnly { error } => {
            text!("alarms-sql-read-only", reader, reason = reason(error), error = full(error))
        }
        AlarmKind::SqlAway { error } => {
            text!("alarms-sql-away", reader, reason = reason(error), error = full(error))
        }
        AlarmKind::SalesLost { sales, orders } => {
            let (sales, orders) = (list_sales(sales), orders.unwrap_or(0));
            text!("alarms-sales-lost", reader, sales, orders)
        }
        AlarmKind::OrdersWait { sale, waiting, error } => {
            let (waiting, reason, error) = (waiting.unwrap_or(0), reason(error), full(error));
            text!("alarms-orders-wait", reader, sale, waiting, reason, error)
        }
        AlarmKind::SaleUnreadable { sale, error } => {
            text!(
                "alarms-sale-unreadable",
                reader,
                sale,
                reason = reason(error),
                error = full(error)
            )
        }
        AlarmKind::AuditFailed { finding, more, repairable } => {
            text!("alarms-audit-failed", reader, finding, more, repairable)
        }
        AlarmKind::DeadConsumer { consumer, pending, idle_ms, .. }
        | AlarmKind::SilentConsumer { consumer, pending, idle_ms } => {
            let state = match kind {
                AlarmKind::DeadConsumer { known: true, .. } => "dead",
                AlarmKind::DeadConsumer { .. } => "unknown",
                _ => "silent",
            };
            let at_risk = match kind {
                AlarmKind::DeadConsumer { at_risk, .. } => *at_risk,
                _ => None,
            };
            // Orders that are in SQL already lack no more than the acknowledgement.
            let risk = match at_risk {
                _ if matches!(kind, AlarmKind::DeadConsumer { sale_lost: true, .. }) => "lost",
                Some(0) => "none",
                Some(orders) if orders < *pending => "some",
                _ => "unknown",
            };
            let (idle, orders) = (span(*idle_ms), at_risk.unwrap_or(*pending));
            text!("alarms-consumer", reader, state, consumer, count = pending, risk, orders, idle)
        }
        AlarmKind::LagHigh { lag, drains_ms } => {
            let drains = drains_ms.map_or_else(|| "none".to_owned(), span);
            text!("alarms-lag-high", reader, lag, drains)
        }
        AlarmKind::JobFailed { job, ago_ms, why } => {
            let why = why.localized::<Event>();
            text!("alarms-job-failed", reader, job, ago = span(*ago_ms), why)
        }
        AlarmKind::DeadLetters { count } => text!("alarms-dead-letters", reader, count),
        AlarmKind::Undelivered { sales } => {
            text!("alarms-undelivered", reader, count = sales.len(), sales = list_sales(sales))
        }
        AlarmKind::NoGroup => text!("alarms-no-group", reader),
        AlarmKind::Damaged { keys } => {
            text!("alarms-damaged", reader, keys = list_keys(keys), short = list_keys(&short(keys)))
        }
        AlarmKind::Oversold { sales } => {
            text!("alarms-oversold", reader, sales = list_sales(sales))
        }
        AlarmKind::ClockSkew { of, ahead_ms } => {
            let (side, by) = (skew_side(*ahead_ms), span(ahead_ms.unsigned_abs()));
            let node = if let ClockOf::Node(name) = of { name } else { "" };
            let of: &str = of.into();
            text!("alarms-clock-skew", reader, of, node, side, by)
        }
        AlarmKind::TimeZonesDiffer { zones } => {
            let zones = zones.iter().map(|(node, zone)| format!("{node} {zone}"));
            let zones = zones.collect::<Vec<_>>().join(&Label("list-items"));
            text!("alarms-zones-differ", reader, zones)
        }
        AlarmKind::DataLoss { losses, pending } => data_loss(losses, *pending, reader),
        AlarmKind::Unwitnessed(what) => text!("alarms-unwitnessed", reader, what),
        AlarmKind::ServerBack { server, away_ms } => {
            text!("alarms-server-back", reader, server, away = span(*away_ms))
        }
    }
}

/// What Redis lost, what was restored, and what is left to do; dead consumers hold `stuck` entries.
fn data_loss(losses: &RecentLosses, stuck: u64, reader: Reader) -> String {
    let loss = Reconciled { removed: 0, closed: None, ..losses.total.clone() };
    let (refused, unknown) = (loss.refused, loss.unknown);
    let lost = data_loss::loses_letters(&loss.keys);
    // A sale that was closed has an alarm of its own, or had one.
    let is_closed = losses.total.closed.is_some();
    let is_left = lost || is_closed || losses.total.paused;
    let again = losses.again as u64;
    let open = refused + unknown + stuck + again + u64::from(is_left);
    let keys = match loss.keys.as_slice() {
        [] => "none".to_owned(),
        keys => list_keys(&short(keys)),
    };
    let parts = loss.parts();
    text!("alarms-data-loss", reader, keys, parts, loss, refused, unknown, lost, stuck, again, open)
}

fn list_sales(sales: &[impl Display]) -> String {
    let named: Vec<String> = sales.iter().map(|sale| format!("#{sale}")).collect();
    named.join(&Label("list-items"))
}

/// Keys without their common prefix: an alarm sometimes has a single row.
fn short(keys: &[String]) -> Vec<String> {
    let short = |key: &String| key.split_once("}:").map_or(key.as_str(), |(_, it)| it).to_owned();
    keys.iter().map(short).collect()
}

fn full(error: &Message) -> String {
    error.localized::<EngineError>()
}

/// The problem alone: on the screen an alarm has two lines in total.
fn reason(error: &Message) -> String {
    match error.data() {
        Some(
            EngineError::Redis(RedisError::Silent { millis, .. })
            | EngineError::Store(StoreError::Silent { millis, .. }),
        ) => {
            let seconds = millis as f64 / 1e3;
            text!("alarms-no-reply-within-s", seconds)
        }
        Some(EngineError::Redis(
            RedisError::Certificate { detail, .. } | RedisError::ClientCertificate { detail, .. },
        )) => detail,
        Some(
            EngineError::Redis(
                RedisError::Away { detail, .. }
                | RedisError::Login { detail, .. }
                | RedisError::Unwilling(detail)
                | RedisError::ClusterDown(detail)
                | RedisError::Rejected(detail),
            )
            | EngineError::Store(
                StoreError::Away(detail)
                | StoreError::Failed(detail)
                | StoreError::Rejected(detail),
            ),
        ) => detail.to_string(),
        _ => full(error).trim_end_matches(['.', '?', '!', '。']).to_owned(),
    }
}
