//! Alarms fit in the smallest full window, in each language.

use seckill_redis::Layout;

use super::prelude::*;
use crate::text::{AlarmText, Reader, alarms::*};

pub(super) fn sql_away(reason: Reason) -> EngineError {
    EngineError::Store(StoreError::Away(reason))
}

/// Redis is out of memory.
pub(super) fn full() -> Message {
    let words = "OOM command not allowed when used memory > 'maxmemory'.".to_owned();
    Message::of(&EngineError::Redis(RedisError::Unwilling(words.into())))
}

fn losses(total: Reconciled) -> RecentLosses {
    RecentLosses { at: NOW, total, again: 0 }
}

/// A loss with these counts, the last of them pending.
fn loss([restored, promised, refused, unknown, pending]: [u64; 5]) -> AlarmKind {
    let total = Reconciled { restored, promised, refused, unknown, ..Reconciled::default() };
    AlarmKind::DataLoss { losses: losses(total), pending }
}

/// Each kind with realistic figures and errors.
fn kinds() -> Vec<AlarmKind> {
    let refused = || OsError::Number(111);
    let address = || "/home/operator/.local/share/seckill/redis.sock".to_owned();
    let mysql = || "mysql://shop@10.20.30.40:3306/shop".to_owned();
    let redis = |why: EngineError| AlarmKind::RedisAway { error: Message::of(&why) };
    let sql = |why: EngineError| AlarmKind::SqlAway { error: Message::of(&why) };
    let off = |what| {
        let finding = SaleFinding { sale: Some(VoucherId(1_204)), shard: None, what };
        AlarmKind::AuditFailed { finding, more: 0, repairable: true }
    };
    let node = || "till-hangzhou-04-9f3c-12".to_owned();
    let consumer = || format!("{}/1", node());
    let (pending, idle_ms) = (1_234_567, 7_100_000);
    let holder = |known| AlarmKind::DeadConsumer {
        consumer: consumer(),
        known,
        pending,
        at_risk: None,
        sale_lost: false,
        idle_ms,
    };
    let read_only = Message::of(&sql_away(reason!("store-reason-file-is-read-only")));
    let words = "NOPERM User shop has no permissions to run the 'wait' command".to_owned();
    let no_wait = Message::of(&EngineError::Redis(RedisError::Rejected(words.into())));
    let foreign = |key: String, holds: &str| {
        AlarmKind::ForeignKey(ForeignKey { key, holds: holds.to_owned() })
    };
    let keys = Layout::default();
    vec![
        redis(RedisError::Away { address: address(), detail: refused().into() }.into()),
        redis(RedisError::Silent { address: address(), millis: 1_500 }.into()),
        AlarmKind::ServerLost(lost_server()),
        sql(sql_away(reason!("store-reason-connection-failed", reason = refused()))),
        sql(StoreError::Silent { name: mysql(), millis: 1_500 }.into()),
        AlarmKind::Unconfirmed(Unconfirmed { replicas: Some(1), wanted: 2, error: None }),
        AlarmKind::Unconfirmed(Unconfirmed { replicas: None, wanted: 2, error: Some(no_wait) }),
        AlarmKind::SqlLocked { waiting: Some(1_234_567) },
        AlarmKind::SqlLocked { waiting: None },
        AlarmKind::OrdersWait { sale: VoucherId(7), waiting: Some(3), error: read_only.clone() },
        AlarmKind::SalesLost {
            sales: vec![ShardId::only(VoucherId(7)), ShardId { sale: SaleId(1_204), number: 12 }],
            orders: Some(12_345),
        },
        AlarmKind::SalesLost { sales: vec![ShardId::only(VoucherId(7))], orders: None },
        AlarmKind::SaleUnreadable { sale: VoucherId(7), error: read_only.clone() },
        AlarmKind::SqlReadOnly { error: read_only },
        sql(sql_away(reason!("store-reason-unreachable", server = mysql()))),
        off(Finding::NotLoaded),
        off(Finding::Lost(12_345)),
        off(Finding::Unknown(12_345)),
        off(Finding::Kept(12_345)),
        off(Finding::Repeated(12_345)),
        off(Finding::RedisStock { initial: 100_000, stock: -12_345, admitted: 123_456 }),
        off(Finding::SqlStock { initial: 100_000, stock: -12_345, live: 123_456 }),
        holder(true),
        holder(false),
        AlarmKind::DeadConsumer {
            consumer: consumer(),
            known: true,
            pending,
            at_risk: Some(0),
            sale_lost: false,
            idle_ms,
        },
        AlarmKind::DeadConsumer {
            consumer: consumer(),
            known: true,
            pending,
            at_risk: Some(pending),
            sale_lost: true,
            idle_ms,
        },
        AlarmKind::SilentConsumer { consumer: consumer(), pending: 123_456, idle_ms: 7_100_000 },
        AlarmKind::LagHigh { lag: 1_234_567, drains_ms: None },
        AlarmKind::LagHigh { lag: 1_234_567, drains_ms: Some(7_100_000) },
        AlarmKind::JobFailed {
            job: "close-overdue".to_owned(),
            ago_ms: 7_100_000,
            why: "closed 5 orders; sale #1 was left out".into(),
        },
        AlarmKind::Unwitnessed(Unwitnessed { seconds: 2, newest: Some(Millis(1)) }),
        AlarmKind::DeadLetters { count: 1_234_567 },
        AlarmKind::RedisReadOnly { error: full() },
        foreign(keys.buyers(ShardId::only(VoucherId(1_204))), "string"),
        foreign(keys.lock("job:close-overdue"), NO_NUMBER),
        AlarmKind::NoGroup,
        AlarmKind::Oversold { sales: vec![ShardId { sale: SaleId(1_204), number: 12 }] },
        AlarmKind::ClockSkew { of: ClockOf::Host, ahead_ms: 7_100_000 },
        AlarmKind::ClockSkew { of: ClockOf::Database, ahead_ms: -7_100_000 },
        AlarmKind::ClockSkew { of: ClockOf::Node(node()), ahead_ms: 7_100_000 },
        AlarmKind::TimeZonesDiffer {
            zones: vec![
                (node(), "America/Argentina/Buenos_Aires".to_owned()),
                ("till-2".to_owned(), "Asia/Shanghai".to_owned()),
            ],
        },
        loss([1_234_567, 0, 0, 0, 6]),
        loss([1_204, 345, 12, 0, 6]),
        loss([1_204, 0, 0, 345, 0]),
        loss([0; 5]),
        AlarmKind::ServerBack { server: "mysql 11.8.2-MariaDB".to_owned(), away_ms: 7_100_000 },
    ]
}

fn closed_up(text: &str) -> String {
    text.split_whitespace().collect()
}

#[test]
fn each_alarm_fits_in_80_columns() {
    for kind in in_each_language(kinds) {
        let alarms = vec![Alarm { urgency: Urgency::Warning, kind: kind.clone() }];
        let screen = Tui::new(Snapshot { alarms, ..normal() }).screen_at(80, 24);
        let text = AlarmText::of(&kind, Reader::Overview).text;
        assert!(closed_up(&screen).contains(&closed_up(&text)), "{}: {text}", width(&text));
    }
}

/// The same alarm a while later.
fn later(kind: &AlarmKind, age_ms: u64, count: u64) -> AlarmKind {
    let mut kind = kind.clone();
    match &mut kind {
        AlarmKind::DeadConsumer { pending, idle_ms, .. }
        | AlarmKind::SilentConsumer { pending, idle_ms, .. } => {
            (*pending, *idle_ms) = (count, age_ms);
        }
        AlarmKind::SqlLocked { waiting: Some(waiting) } => *waiting = count,
        AlarmKind::LagHigh { lag, .. } => *lag = count,
        AlarmKind::JobFailed { ago_ms, .. } => *ago_ms = age_ms,
        AlarmKind::DeadLetters { count: letters } => *letters = count,
        _ => {}
    }
    kind
}

#[test]
fn no_word_of_an_alarm_moves_while_its_age_and_count_grow() {
    for kind in in_each_language(kinds) {
        for reader in [Reader::Overview, Reader::Presenter] {
            let grown = [(3_000, 2), (12_000, 86), (119_000, 1_204), (7_100_000, 999_999)];
            let texts =
                grown.map(|(age_ms, count)| AlarmText::of(&later(&kind, age_ms, count), reader));
            for it in &texts {
                assert_eq!(it.figure.is_some(), texts[0].figure.is_some(), "{kind:?}");
                let cells = it.figure.as_deref().map_or(FIGURE, width);
                assert_eq!(cells, FIGURE, "the figure is in a column of its own: {kind:?}");
                // What differs in the text is its end: a figure and its unit.
                let same = it.text.chars().zip(texts[0].text.chars());
                let same = same.take_while(|(one, two)| one == two).count();
                let rest: String = it.text.chars().skip(same).collect();
                assert!(width(&rest) <= 2 * FIGURE + 2, "{kind:?}: {}", it.text);
            }
        }
    }
}

/// Dead letters beside a loss, a rejected change, and a Redis that rejects writes.
fn crowded() -> Vec<Alarm> {
    let (layout, sale) = (Layout::default(), ShardId::only(VoucherId(1)));
    let of = layout.home();
    let [first, list] = [of.watermark(), format!("{} list", of.watermark())];
    let keys = vec![of.orders(), of.dead(), list, first, layout.sale(sale), layout.stock(sale)];
    let kinds = [
        AlarmKind::RedisReadOnly { error: full() },
        AlarmKind::Undelivered { sales: vec![VoucherId(7)] },
        AlarmKind::DataLoss {
            losses: losses(Reconciled { keys, promised: 18, ..Reconciled::default() }),
            pending: 0,
        },
        AlarmKind::DeadLetters { count: 86 },
        AlarmKind::JobFailed {
            job: "close-overdue".to_owned(),
            ago_ms: 7_100_000,
            why: "closed 5 orders; sale #1 was left out".into(),
        },
    ];
    kinds.map(|kind| Alarm { urgency: Urgency::Critical, kind }).into()
}

#[test]
fn each_alarm_has_a_row_before_one_has_two() {
    let mut text = String::new();
    for (w, h) in [(60, 15), (80, 24), (120, 36)] {
        for alarms in [crowded(), crowded()[2..4].to_vec(), crowded()[2..].to_vec()] {
            let screen = Tui::new(Snapshot { alarms, ..normal() }).screen_at(w, h);
            let starts = |line: &str| line.contains("ALARMS") || line.starts_with(" ! ");
            let from = screen.lines().position(starts).unwrap();
            text.push_str(&format!("{w}x{h}\n{}\n\n", inner(&screen, from, 0)));
        }
    }
    assert_screen("attention", &text);
}

#[test]
fn a_loss_shows_its_outcome_and_the_key() {
    // Messages name the keys of a console.
    Tui::new(empty());
    for (counts, expected) in [
        ([0, 18, 0, 0, 0], ": 18 orders re-added to the stream.  No action needed."),
        ([0, 0, 2, 0, 0], ": 2 admitted orders cannot be fulfilled.  Press 5 to list them."),
        ([1, 0, 0, 0, 6], ": 1 buyer restored.  Press 4 then A to recover the rest."),
        (
            [1, 0, 0, 9, 0],
            ": 1 buyer restored, 9 buyers possibly missing (counted only by the stock in Redis).  Press 0 for the event.",
        ),
    ] {
        let text = alarm_text(&loss(counts), Reader::Overview);
        assert_eq!(text, format!("Redis lost data{expected}"));
    }
    let closed = Reconciled { closed: Some(Closed::Oversold), ..Reconciled::default() };
    let paused = Reconciled { paused: true, ..Reconciled::default() };
    for total in [closed, paused] {
        let kind = AlarmKind::DataLoss { losses: losses(total), pending: 0 };
        for reader in [Reader::Overview, Reader::Status] {
            let text = alarm_text(&kind, reader);
            assert!(!text.to_lowercase().contains("no action needed"), "{text}");
        }
    }
}
