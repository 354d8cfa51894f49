//! The columns of sales, consumers, locks and alarms.

use seckill_attach::{Alarm, ConsumerReport, LockReport, SaleReport};

use crate::views::{phase_style, prelude::*};

/// A rate in cells whose heading names its unit.
fn rate(rate: Option<f64>) -> Line<'static> {
    match rate {
        None => Line::raw("-"),
        Some(rate) if rate > 0.0 && rate < 9.95 => Line::raw(format!("{rate:.1}")),
        Some(rate) => Line::raw(figures::thousands(rate.round() as i64)),
    }
}

fn rounded(rate: Option<f64>) -> Value {
    rate.map(|rate| rate.round() as i64).into()
}

/// The style of a number of orders that have to be corrected.
fn wrong(scene: &Scene, count: Option<u64>) -> Style {
    if count.unwrap_or(0) > 0 { scene.theme.warn } else { Style::new() }
}

fn stock(scene: &Scene, stock: Option<i64>) -> Style {
    if stock.is_some_and(|it| it < 0) { scene.theme.bad } else { Style::new() }
}

pub(super) const SALES: &[Column<SaleReport>] = &[
    Column::figure(Label("tables-sale"), (0, 4), |it: &SaleReport| it.voucher_id.into()).fit(),
    Column::text(Label("tables-title"), (0, REST), |it: &SaleReport| it.title.clone().into()),
    Column::text(Label("tables-phase"), (120, 7), |it: &SaleReport| {
        if it.moved {
            return Label("attach-phase-moved").to_owned().to_uppercase().into();
        }
        it.phase.map_or(Value::Nothing, |it| Value::name(text::phase(it).to_uppercase(), &it))
    })
    .styled(|scene, it| {
        let phase = it.phase.filter(|_| !it.moved);
        phase.map_or_else(Style::new, |it| phase_style(scene.theme, it))
    }),
    Column::figure(Label("tables-redis-left"), (0, 10), |it: &SaleReport| it.redis_stock.into())
        .styled(|scene, it| stock(scene, it.redis_stock)),
    Column::figure(Label("tables-sql-left"), (0, 8), |it: &SaleReport| it.sql_stock.into())
        .styled(|scene, it| stock(scene, Some(it.sql_stock))),
    Column::figure(Label("tables-buyers"), (0, 7), |it: &SaleReport| it.buyers.into()),
    Column::figure(Label("attach-head-orders"), (0, 7), |it: &SaleReport| it.orders.into()),
    Column::figure(Label("tables-in-flight"), (80, 9), |it: &SaleReport| it.in_flight.into()),
    Column::figure(Label("attach-head-no-order"), (100, 8), |it: &SaleReport| {
        it.buyers_without_order.into()
    })
    .styled(|scene, it| wrong(scene, it.buyers_without_order)),
    Column::figure(Label("attach-head-closed"), (140, 8), |it: &SaleReport| {
        it.buyers_with_closed_order.into()
    })
    .styled(|scene, it| wrong(scene, it.buyers_with_closed_order)),
    Column::figure(Label("attach-head-no-buyer"), (100, 8), |it: &SaleReport| {
        it.orders_without_buyer.into()
    })
    .styled(|scene, it| wrong(scene, it.orders_without_buyer)),
    Column::figure(Label("attach-head-admitted"), (120, 10), |it: &SaleReport| {
        rounded(it.admitted_per_second)
    })
    .shown(|_, it, _| rate(it.admitted_per_second)),
    Column::figure(Label("tables-written-per-second"), (120, 8), |it: &SaleReport| {
        rounded(it.orders_per_second)
    })
    .shown(|_, it, _| rate(it.orders_per_second)),
];

pub(super) const CONSUMERS: &[Column<ConsumerReport>] = &[
    Column::text(Label("stream-consumer"), (0, REST), |it: &ConsumerReport| it.name.clone().into()),
    Column::figure(text::PENDING, (0, 9), |it: &ConsumerReport| it.pending.into()),
    Column::span(Label("tables-idle"), (0, 8), |it: &ConsumerReport| Value::Span(it.idle_ms)),
];

pub(super) const LOCKS: &[Column<LockReport>] = &[
    Column::text(Label("tables-lock"), (0, REST), |it: &LockReport| it.key.clone().into()),
    Column::text(Label("attach-head-kind"), (72, 6), |it: &LockReport| {
        Value::name(it.kind.to_string(), &it.kind)
    })
    .soft(),
    Column::text(Label("tables-holder"), (0, REST), |it: &LockReport| it.owner.clone().into()),
    Column::figure(Label("tables-depth"), (0, 5), |it: &LockReport| it.depth.into()),
    Column::span(Label("tables-lease"), (0, 8), |it: &LockReport| {
        it.left_ms.map_or(Value::Nothing, Value::Span)
    })
    // A lease without an end is the longest.
    .by(|it| Value::Span(it.left_ms.unwrap_or(u64::MAX)))
    .searched(lease)
    .styled(|scene, it| if it.left_ms.is_none() { scene.theme.warn } else { Style::new() })
    .shown(|_, it, _| lease(it).into()),
];

fn lease(lock: &LockReport) -> String {
    lock.left_ms.map_or_else(|| text!("console-no-end"), figures::span)
}

pub(super) const ALARMS: &[Column<Alarm>] =
    &[Column::text(Label("console-attention"), (0, REST), |it: &Alarm| it.to_string().into())];
