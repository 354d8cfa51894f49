//! Ledger: the audit findings of each sale, their causes, and the effects of a repair.

use std::collections::BTreeSet;

use seckill_engine::{
    AlarmKind,
    recovery::partition_repair::{PartitionFault, PartitionFindings},
    telemetry::ledger_page::{AuditLimit, LedgerPage},
};
use seckill_model::{Balance, Finding, SaleAudit, SaleFinding, ledger::Cure};
use strum::IntoEnumIterator as _;

use super::{orders::query_of_sale, prelude::*};
use crate::text::{alarms::alarm_text, commands::Question};

/// Maximum age of an audit that can be acted on, in milliseconds.
const FRESH_MS: u64 = 15_000;
/// Most shards that are listed although they passed.
const FEW_SHARDS: usize = 8;
/// Lines of one note.
const NOTE: usize = 2;

impl Row for SaleAudit {
    type Id = VoucherId;
    type Key = ();

    const VIEW: View = View::Ledger;
    const KEYS: &'static [ViewKey] = &[(Action::Repair, "A", true), MARK, FILTER];
    const SOURCES: &'static [Source] = &[Source::Redis, Source::Sql];
    const FOCUS: fn(&mut Focus, Self::Key) = |focus, ()| focus.ledger = true;
    const UNMARKABLE: Label = Label("ledger-this-sale-has-no-automatic");
    const MARKS: bool = true;
    /// Sales has the sale.
    const IS_OFFERED: bool = false;
    const COLUMNS: &'static [Column<Self>] = &[
        Column::figure(Label("tables-id"), (0, 5), |line: &Self| line.voucher_id.into()).soft(),
        Column::text(Label("tables-title"), (0, REST), |line: &Self| line.title.clone().into()),
        Column::figure(Label("tables-initial"), (92, 9), |line: &Self| line.initial.into()),
        Column::figure(Label("tables-redis-left"), (72, 10), |line: &Self| line.stock.into()),
        Column::figure(Label("tables-buyers"), (0, 9), |line: &Self| line.admitted.into()),
        Column::figure(Label("tables-sql-orders"), (0, 10), |line: &Self| line.persisted.into()),
        Column::figure(Label("tables-sql-left"), (92, 9), |line: &Self| line.db_stock.into()),
        Column::figure(Label("tables-in-flight"), (112, 9), |line: &Self| line.in_flight().into())
            .styled(|scene, line| match line.in_flight() {
                0 => scene.theme.soft,
                _ => scene.theme.accent,
            }),
        Column::figure(Label("common-dead"), (112, 5), |line: &Self| line.dead.into()).styled(
            |scene, line| match line.dead {
                0 => scene.theme.soft,
                _ => scene.theme.warn,
            },
        ),
        Column::text(Label("common-state"), (0, 14), |line: &Self| state(line).into())
            .by(|line| Value::Number(line.findings.len() as i64))
            .styled(|scene, line| state_style(scene.theme, line)),
    ];

    fn id(&self) -> VoucherId {
        self.voucher_id
    }

    fn page(snapshot: &Snapshot) -> Page<'_, Self> {
        let is_read = snapshot.ledger.taken.is_some();
        Page { is_read, ..Page::whole(&*snapshot.ledger.lines) }
    }

    /// Repaired sales lose their marks.
    fn is_markable(&self) -> bool {
        !self.cures().is_empty()
    }

    /// The age of the audit.
    fn extent(scene: &Scene, _: &TableState<Self>) -> Line<'static> {
        let page = &scene.shown.ledger;
        let Some(taken) = page.taken else { return Line::default() };
        let age = figures::steady_span(scene.seen().since(taken));
        let audited = text!("ledger-audited-ago", age, sales = page.lines.len());
        Line::styled(audited, scene.theme.soft)
    }

    fn above(scene: &Scene, cells: u16, rows: u16) -> Vec<Line<'static>> {
        let mut notes = notes(scene, cells);
        notes.truncate(rows.into());
        notes
    }

    fn empty(scene: &Scene, _: &TableState<Self>) -> Option<String> {
        let page = &scene.shown.ledger;
        Some(match (page.taken, page.limit) {
            (Some(_), _) => text!("ledger-no-sales-yet-nothing"),
            // A note says why.
            (None, Some(_)) => String::new(),
            (None, None) => text!("ledger-auditing-the-sales"),
        })
    }

    /// Differences of a sale first, with their repair and what is left to the operator; then its figures.
    fn detail<'a>(scene: &'a Scene, line: &'a Self, cells: u16) -> Option<Detail<'a>> {
        let theme = scene.theme;
        let mut detail = Detail::new(scene, cells);
        let name = text::sale_name(line.voucher_id, &line.title);
        detail.field(Label("field-sale"), name, theme.strong);
        if line.is_outdated {
            detail.field(Label("ledger-differences"), outdated(scene), theme.warn);
        } else if line.findings.is_empty() && !line.incomplete {
            detail.field(
                Label("ledger-differences"),
                Label("ledger-none-every-order-verified"),
                theme.good,
            );
        }
        for found in line.found() {
            // The name of the sale is above; that of a shard is not.
            let finding = found.shard.map_or(found.what.to_string(), |_| found.to_string());
            detail.field(Label("ledger-differences"), finding, theme.bad);
        }
        for (place, cure) in line.cures().into_iter().enumerate() {
            detail.field(Label("field-repair"), format!("{}. {cure}", place + 1), theme.key);
        }
        let manual = line.findings.iter().filter(|it| it.cure().is_none());
        let advice: BTreeSet<_> = manual.map(|it| advice(it, line.voucher_id)).collect();
        for advice in advice {
            detail.field(Label("ledger-by-hand"), advice, theme.warn);
        }
        if scene.shown.undelivered.contains(&line.voucher_id) {
            detail.field(
                Label("ledger-change"),
                Label("ledger-changed-in-sql-not-confirmed"),
                theme.warn,
            );
        }
        let in_sql = sum(line.db_stock, line.persisted, line.initial);
        let SaleAudit { undelivered, pending, dead, closed, .. } = *line;
        let elsewhere =
            text!("ledger-not-delivered-pending-dead-closed", undelivered, pending, dead, closed);
        detail.text(Label("ledger-in-redis"), in_redis(line));
        detail.text(Label("ledger-in-sql"), in_sql);
        detail.text(Label("tables-under-way"), elsewhere);
        let is_quiet = |shard: &&SaleAudit| shard.findings.is_empty() && shard.in_flight() == 0;
        let quiet = line.shards.iter().filter(is_quiet).count();
        let are_few = line.shards.len() <= FEW_SHARDS;
        for shard in line.shards.iter().filter(|shard| are_few || !is_quiet(shard)) {
            let name = Span::raw(format!("#{} ", shard.shard_id()));
            let state = Span::styled(state(shard), state_style(theme, shard));
            let stock = Span::styled(format!("  {}", in_redis(shard)), theme.soft);
            detail.line(Label("sale-shards"), vec![name, state, stock]);
        }
        if !are_few && quiet > 0 {
            let passed = text!("ledger-shards-passed", quiet, shards = line.shards.len());
            detail.field(Label("sale-shards"), passed, theme.good);
        }
        Some(detail)
    }

    /// Asks for confirmation of the repair of the marked sales, or of all, as the newest audit found them.
    fn run(state: &mut TableState<Self>, action: Action, scene: &Scene) -> Option<Effect> {
        if action != Action::Repair {
            return None;
        }
        let page = &scene.newest.ledger;
        if page.taken.is_none_or(|at| scene.newest.taken.since(at) > FRESH_MS) {
            let is_running = || text!("ledger-audit-is-running-press-again");
            return Some(Effect::Note(page.limit.map_or_else(is_running, limit_reached)));
        }
        let meant = page.lines.iter().filter(|line| {
            let is_marked = state.marks.is_empty() || state.marks.contains(&line.voucher_id);
            is_marked && !line.findings.is_empty()
        });
        let (plan, left): (Vec<_>, Vec<_>) =
            meant.cloned().partition(|sale| !sale.cures().is_empty());
        if plan.is_empty() && page.partitions.is_empty() {
            return Some(Effect::note(match (left.as_slice(), page.unread.as_slice()) {
                ([], []) => NOTHING_TO_REPAIR,
                ([], _) => Label("ledger-incomplete"),
                _ => Label("ledger-no-automatic-repair-for-these"),
            }));
        }
        let faults = page.partitions.iter().map(|it| it.findings.len()).sum();
        let question = repair_question(&plan, !state.marks.is_empty(), faults);
        Some(Effect::confirm(question, Command::Repair(plan)))
    }
}

/// The state of a sale in one or two words.
fn state(line: &SaleAudit) -> String {
    match (line.findings.len(), line.in_flight()) {
        _ if line.is_outdated => text::UNKNOWN.to_owned(),
        (0, _) if line.incomplete => text!("ledger-sale-incomplete"),
        (0, 0) => text!("ledger-balanced"),
        (0, orders) => text!("ledger-in-flight", orders),
        (count, _) => text!("ledger-differences-of-sale", count),
    }
}

fn state_style(theme: Theme, line: &SaleAudit) -> Style {
    match (line.findings.len(), line.in_flight()) {
        _ if line.is_outdated => theme.warn,
        (0, _) if line.incomplete => theme.warn,
        (0, 0) => theme.good,
        (0, _) => theme.accent,
        _ => theme.bad,
    }
}

/// What the last audit found, and when: a server does not answer, so its result is unknown now.
fn outdated(scene: &Scene) -> String {
    let page = &scene.shown.ledger;
    let found: usize = page.lines.iter().map(|line| line.findings.len()).sum();
    let age = page.taken.map_or(0, |taken| scene.seen().since(taken));
    text!("ledger-outdated", age = figures::steady_span(age), found)
}

/// Findings across all sales, wrapped to `cells`.
fn notes(scene: &Scene, cells: u16) -> Vec<Line<'static>> {
    let (theme, snapshot) = (scene.theme, &scene.shown);
    let page = &snapshot.ledger;
    let is_outdated = page.lines.iter().any(|line| line.is_outdated);
    let passed = page.lines.iter().all(|line| line.findings.is_empty());
    let mut notes = Vec::new();
    if is_outdated {
        notes.push((outdated(scene), theme.warn));
    } else if !page.lines.is_empty() {
        let style = match passed {
            _ if !snapshot.unreachable.is_empty() => theme.dimmed,
            true => theme.good,
            false => theme.bad,
        };
        let all = page.unread.is_empty() || !passed;
        let incomplete = || Label("ledger-incomplete").to_owned();
        notes.push((if all { verdict(&page.lines) } else { incomplete() }, style));
    }
    notes.extend(page.limit.map(|it| (limit_reached(it), theme.warn)));
    if let Balance::Off { findings } = &snapshot.audit
        && passed
    {
        // From figures alone: the audit of single sales has not found the cause yet.
        let all = findings.iter().filter(|found| found.sale.is_none());
        notes.extend(all.map(|SaleFinding { what: finding, .. }| {
            (text!("ledger-all-sales", finding), theme.bad)
        }));
    }
    for PartitionFindings { partition, findings } in page.partitions.iter() {
        let number = partition.to_string();
        let note = |fault: &PartitionFault| (text!("ledger-partition", number, fault), theme.bad);
        notes.extend(findings.iter().map(note));
    }
    let alarms = snapshot.alarms.iter().map(|alarm| &alarm.kind);
    let losses = alarms.filter(|it| {
        use AlarmKind::{DataLoss, Undelivered, Unwitnessed};
        matches!(it, DataLoss { .. } | Undelivered { .. } | Unwitnessed(_))
    });
    notes.extend(losses.map(|it| (alarm_text(it, text::Reader::Overview), theme.warn)));
    let lines = |(note, style): (String, Style)| {
        let lines = wrap_to(&note, cells.into(), NOTE).into_iter();
        lines.map(move |line| Line::styled(line, style))
    };
    notes.into_iter().flat_map(lines).collect()
}

/// Stock and buyers in Redis beside the initial stock.
fn in_redis(line: &SaleAudit) -> String {
    match line.stock {
        Some(stock) => sum(stock, line.admitted, line.initial),
        None => text::NOT_IN_REDIS.to_owned(),
    }
}

/// Stock and orders beside the initial stock.
fn sum(stock: i64, orders: u64, initial: u64) -> String {
    let sum = stock.saturating_add_unsigned(orders);
    text!("ledger-left-of", stock, orders, sum, initial)
}

pub(crate) const NOTHING_TO_REPAIR: Label = Label("ledger-no-differences-so");

/// Whether an audit found no difference.
pub(crate) fn is_balanced(page: &LedgerPage) -> bool {
    let is_found = page.lines.iter().any(|line| !line.findings.is_empty());
    page.taken.is_some() && !is_found && page.unread.is_empty() && page.partitions.is_empty()
}

/// The result over all sales.
fn verdict(lines: &[SaleAudit]) -> String {
    let off = lines.iter().filter(|line| !line.findings.is_empty()).count() as u64;
    let found: u64 = lines.iter().map(|line| line.findings.len() as u64).sum();
    let repairable = lines.iter().filter(|line| !line.cures().is_empty()).count() as u64;
    let flying: u64 = lines.iter().map(SaleAudit::in_flight).sum();
    text!("ledger-verdict", found, off, flying, repairable)
}

/// Why no newer audit can be run from here.
fn limit_reached(limit: AuditLimit) -> String {
    match limit {
        AuditLimit::Orders(most) => text!("ledger-view-audits-at-most-orders", most),
        AuditLimit::Seconds(most) => text!("ledger-audit-was-stopped-after-s", most),
    }
}

/// What the operator has to do about a difference that no repair fixes.
fn advice(finding: &Finding, sale: VoucherId) -> String {
    if matches!(finding, Finding::Stranded(_)) {
        return text!("ledger-press-for-dead-letters-then");
    }
    text!("ledger-compare-its-orders", query = query_of_sale(sale))
}

/// Sales that a question lists individually.
const NAMED: usize = 8;

/// Asks for confirmation of a repair, with its exact counts.
fn repair_question(plan: &[SaleAudit], marked: bool, faults: usize) -> Question {
    let named = plan.iter().take(NAMED).map(|sale| format!("#{}", sale.voucher_id));
    let mut named = named.collect::<Vec<_>>().join(" ");
    if let Some(more @ 1..) = plan.len().checked_sub(NAMED) {
        named = text!("ledger-more-sales", named, more);
    }
    let findings = || plan.iter().flat_map(|sale| &sale.findings);
    let with = |cure: &Cure| plan.iter().filter(|sale| sale.cures().contains(cure)).count();
    let repairs = Cure::iter().map(|cure| (cure, with(&cure))).filter(|(_, sales)| *sales > 0);
    let repairs = repairs.map(|(cure, sales)| text!("ledger-repair-of-sales", sales, cure));
    question!(
        "ask-repair-ledger",
        scope = match plan {
            [] => "none",
            _ if marked => "marked",
            _ => "all",
        },
        sales = plan.len(),
        found = findings().count(),
        named,
        repairs = Lines(repairs.collect::<Vec<_>>().join("\n")),
        faults,
        left = findings().filter(|it| it.cure().is_none()).count(),
        pauses = with(&Cure::Reconcile) > 0,
    )
}
