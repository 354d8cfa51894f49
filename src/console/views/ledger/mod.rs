//! Ledger: the audit findings of each sale, their causes, and the effects of a repair.

pub(crate) mod wording;

use std::collections::BTreeSet;

use ratatui::{
    style::Style,
    text::{Line, Span},
};
use seckill_engine::telemetry::{Snapshot, snapshot::AlarmKind};
use seckill_model::{
    VoucherId,
    ledger::{Balance, SaleAudit, SaleFinding},
    message::{Label, text},
};

use super::{
    Scene, Source, View,
    detail::{Detail, draw_table},
    draw_head,
    table::{Column, REST, Row, TableState, Value},
};
use crate::{
    text::{self, figures},
    widgets::{Canvas, wrap},
};

/// Rows that the table keeps beside the notes.
const TABLE: u16 = 4;
/// Lines of one note.
const NOTE: usize = 2;

/// Widths of a figure by the width of the table.
const FIGURE: &[(u16, u16)] = &[(0, 9), (150, 12)];

impl Row for SaleAudit {
    type Id = VoucherId;
    type Key = ();

    const MARKS: bool = true;
    const COLUMNS: &'static [Column<Self>] = &[
        Column::new(Label("tables-id"), &[(0, 5)], |line: &Self| line.voucher_id.into())
            .soft()
            .right(),
        Column::new(Label("tables-title"), &[(0, REST)], |line: &Self| line.title.clone().into()),
        Column::new(Label("tables-initial"), &[(92, 9), (150, 12)], |line: &Self| {
            line.initial.into()
        })
        .right(),
        Column::new(Label("tables-redis-left"), &[(72, 10), (150, 12)], |line: &Self| {
            line.stock.into()
        })
        .right(),
        Column::new(Label("tables-buyers"), FIGURE, |line: &Self| line.admitted.into()).right(),
        Column::new(Label("tables-sql-orders"), &[(0, 10), (150, 12)], |line: &Self| {
            line.persisted.into()
        })
        .right(),
        Column::new(Label("tables-sql-left"), &[(92, 9), (150, 12)], |line: &Self| {
            line.db_stock.into()
        })
        .right(),
        Column::new(Label("tables-in-flight"), &[(112, 9)], |line: &Self| line.in_flight().into())
            .styled(|scene, line| match line.in_flight() {
                0 => scene.theme.soft,
                _ => scene.theme.accent,
            })
            .right(),
        Column::new(Label("common-dead"), &[(112, 5)], |line: &Self| line.dead.into())
            .styled(|scene, line| match line.dead {
                0 => scene.theme.soft,
                _ => scene.theme.warn,
            })
            .right(),
        Column::new(Label("common-state"), &[(0, 14)], |line: &Self| state(line).into())
            .by(|line| Value::Number(line.findings.len() as i64))
            .styled(|scene, line| match (line.findings.len(), line.in_flight()) {
                (0, 0) => scene.theme.good,
                (0, _) => scene.theme.accent,
                _ => scene.theme.bad,
            }),
    ];

    fn id(&self) -> VoucherId {
        self.voucher_id
    }

    fn list(snapshot: &Snapshot) -> Vec<&Self> {
        snapshot.ledger.lines.iter().collect()
    }

    /// Repaired sales lose their marks.
    fn is_markable(&self) -> bool {
        !self.cures().is_empty()
    }
}

/// The state of a sale in one or two words.
fn state(line: &SaleAudit) -> String {
    match (line.findings.len(), line.in_flight()) {
        (0, 0) => text!("ledger-balanced"),
        (0, orders) => text!("ledger-in-flight", orders),
        (count, _) => text!("ledger-differences-of-sale", count),
    }
}

pub(super) fn draw(canvas: &mut Canvas<'_>, scene: &Scene<'_>, state: &mut TableState<SaleAudit>) {
    let (w, h) = (canvas.width(), canvas.height());
    let page = &scene.snapshot.ledger;
    let heading =
        scene.heading(&View::Ledger.title().to_uppercase(), &[Source::Redis, Source::Sql]);
    draw_head(canvas, &heading, &summary(scene, state));
    let detail = state.opened(scene.snapshot).map(|line| detail(scene, line, w));
    let gap = scene.table_top() - 1;
    let notes = notes(scene, usize::from(w.saturating_sub(2)));
    let room = h.saturating_sub(2 * gap + 1 + TABLE);
    let shown = (notes.len() as u16).min(room);
    let top = 1 + 2 * gap + shown;
    let is_alone = detail.as_ref().is_some_and(|detail| !detail.fits(scene, h, top));
    for (y, (line, style)) in notes.iter().take(shown.into()).enumerate().filter(|_| !is_alone) {
        canvas.text(1, 1 + gap + y as u16, line, *style);
    }
    draw_table(canvas, scene, top, state, detail, |state| match page.lines.len() {
        // The notes say so.
        0 => String::new(),
        _ => text::no_match(state.controls.filter.value()),
    });
}

/// Marks, filter, and the age of the audit.
fn summary(scene: &Scene<'_>, state: &TableState<SaleAudit>) -> Line<'static> {
    let (theme, page) = (scene.theme, &scene.snapshot.ledger);
    let mut spans = Vec::new();
    if !state.marks.is_empty() {
        let marked = text::marked(state.marked(scene.snapshot));
        spans.push(Span::styled(format!("{marked}   "), theme.key));
    }
    let filter = state.controls.filter.value();
    if !filter.is_empty() {
        let filter = scene.fit(filter, 20);
        let part = Scene::filtered(&filter, state.rows(scene.snapshot).len(), page.lines.len());
        spans.push(Span::raw(format!("{part}   ")));
    }
    if let Some(taken) = page.taken {
        let age = figures::steady_span(scene.now.since(taken));
        let audited = text!("ledger-audited-ago", age, sales = page.lines.len());
        spans.push(Span::styled(audited, theme.soft));
    }
    Line::from(spans)
}

/// Findings over all sales, wrapped to `cells`.
fn notes(scene: &Scene<'_>, cells: usize) -> Vec<(String, Style)> {
    let (theme, snapshot) = (scene.theme, scene.snapshot);
    let page = &snapshot.ledger;
    let up = snapshot.redis.up && snapshot.sql.up;
    let passed = page.lines.iter().all(|line| line.findings.is_empty());
    let mut notes = Vec::new();
    match (page.taken, page.limit) {
        (Some(_), _) if page.lines.is_empty() => {
            notes.push((text!("ledger-no-sales-yet-nothing"), theme.soft));
        }
        (Some(_), _) => {
            let style = match passed {
                _ if !up => theme.dimmed,
                true => theme.good,
                false => theme.bad,
            };
            notes.push((wording::verdict(&page.lines), style));
        }
        (None, Some(_)) => {}
        (None, None) if up => notes.push((text!("ledger-auditing-the-sales"), theme.soft)),
        (None, None) => {
            notes.push((text!("ledger-audit-runs-once-redis"), theme.warn));
        }
    }
    notes.extend(page.limit.map(|limit| (wording::limit(limit), theme.warn)));
    if let Balance::Off { findings } = &snapshot.audit
        && passed
    {
        // From figures alone: the audit of single sales has not found the cause yet.
        let all = findings.iter().filter(|found| found.sale.is_none());
        notes.extend(all.map(|SaleFinding { what: finding, .. }| {
            (text!("ledger-all-sales", finding), theme.bad)
        }));
    }
    for found in page.partitions.iter() {
        let fault = text::audit_log::partition_fault(&found.fault);
        let number = found.partition.to_string();
        notes.push((text!("ledger-partition", number, fault), theme.bad));
    }
    let alarms = snapshot.alarms.iter().filter(|alarm| {
        matches!(alarm.kind, AlarmKind::DataLoss { .. } | AlarmKind::Undelivered { .. })
    });
    notes.extend(alarms.map(|alarm| (text::alarm(&alarm.kind).text, theme.warn)));
    let lines = |(note, style): (String, Style)| {
        wrap(&note, cells).into_iter().take(NOTE).map(move |line| (line, style))
    };
    notes.into_iter().flat_map(lines).collect()
}

/// Stock and orders beside the initial stock.
fn sum(stock: i64, orders: u64, initial: u64) -> String {
    let sum = stock.saturating_add_unsigned(orders);
    text!("ledger-left-of", stock, orders, sum, initial)
}

/// Differences of a sale first, with their repair and what is left to the operator; then its figures.
fn detail(scene: &Scene<'_>, line: &SaleAudit, width: u16) -> Detail {
    let theme = scene.theme;
    let mut detail = Detail::new(scene, width);
    let name = text::sale_name(line.voucher_id, &line.title);
    detail.field_of(1, Label("field-sale"), name, theme.strong);
    if line.findings.is_empty() {
        detail.field(
            Label("ledger-differences"),
            Label("ledger-none-every-order-verified"),
            theme.good,
        );
    }
    for finding in &line.findings {
        detail.field(Label("ledger-differences"), finding.to_string(), theme.bad);
    }
    for (place, cure) in line.cures().into_iter().enumerate() {
        detail.field(Label("field-repair"), format!("{}. {cure}", place + 1), theme.key);
    }
    let manual = line.findings.iter().filter(|it| it.cure().is_none());
    let advice: BTreeSet<_> = manual.map(|it| wording::advice(it, line.voucher_id)).collect();
    for advice in advice {
        detail.field(Label("ledger-by-hand"), advice, theme.warn);
    }
    if scene.snapshot.undelivered.contains(&line.voucher_id) {
        detail.field(
            Label("ledger-change"),
            Label("ledger-changed-in-sql-not-confirmed"),
            theme.warn,
        );
    }
    let in_redis = match line.stock {
        Some(stock) => sum(stock, line.admitted, line.initial),
        None => text::NOT_IN_REDIS.to_owned(),
    };
    let in_sql = sum(line.db_stock, line.persisted, line.initial);
    let SaleAudit { undelivered, pending, dead, closed, .. } = *line;
    let elsewhere =
        text!("ledger-not-delivered-pending-dead-closed", undelivered, pending, dead, closed);
    detail.field(Label("ledger-in-redis"), in_redis, Style::new());
    detail.field(Label("ledger-in-sql"), in_sql, Style::new());
    detail.field(Label("tables-under-way"), elsewhere, Style::new());
    detail
}
