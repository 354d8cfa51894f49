//! Ledger: the audit findings of each sale, their causes, and the effects of a repair.

use ratatui::{
    style::Style,
    text::{Line, Span},
};
use seckill_engine::telemetry::snapshot::AlarmKind;
use seckill_model::ledger::{Balance, SaleAudit, SaleFinding};

use seckill_model::message::Label;

use super::{LedgerState, Marked, Scene, Source, View, alone};
use crate::{
    text::{
        self, columns, figures,
        ledger::{self as words, labels},
    },
    widgets::{Canvas, Cell, Column, table, wrap},
};

/// Rows reserved for the table beside the notes and the detail.
const TABLE: u16 = 4;
/// Lines of one note.
const NOTE: usize = 2;
/// Column of the detail's text.
const LABEL: u16 = 16;

pub(super) fn draw(canvas: &mut Canvas<'_>, scene: &Scene<'_>, state: &mut LedgerState) {
    let theme = scene.theme;
    let (w, h) = (canvas.width(), canvas.height());
    let page = &scene.snapshot.ledger;
    let all = state.list.rows(&page.lines);
    let title = View::Ledger.title().to_uppercase();
    canvas.line(1, 0, &scene.heading(&title, &[Source::Redis, Source::Sql]));
    let said = summary(scene, state, all.len());
    canvas.part(0, 0, w.saturating_sub(2), 1).line_right(0, &said);
    let gap = u16::from(!scene.compact);
    let notes = notes(scene, usize::from(w.saturating_sub(2)));
    let room = usize::from(h.saturating_sub(2 * gap + 1 + TABLE));
    let cursor = state.list.cursor(&all);
    let chosen = cursor.filter(|_| state.list.detail).and_then(|row| all.get(row).copied());
    let detail = chosen.map(|line| detail(scene, line, w));
    let wanted = detail.as_ref().map_or(0, |lines| lines.len() as u16 + 2);
    let top = 1 + 2 * gap + notes.len().min(room) as u16;
    if let Some(lines) = detail.as_ref().filter(|_| h < top + TABLE + wanted) {
        return draw_detail(&mut alone(canvas, &mut state.list.scroll), scene, lines);
    }
    for (row, (line, style)) in notes.into_iter().take(room).enumerate() {
        canvas.text(1, 1 + gap + row as u16, &line, style);
    }
    if all.is_empty() && !canvas.is_noting() {
        if !page.lines.is_empty() {
            let none = text::no_match(state.list.filter.value());
            canvas.text(1, top, &scene.fit(&none, w.saturating_sub(2)), theme.soft());
        }
        return;
    }
    let rows: Vec<SaleAudit> = all.into_iter().cloned().collect();
    let marks = &state.marks;
    table(
        &mut canvas.part(0, top, w, h.saturating_sub(top + wanted)),
        theme,
        &layout(w),
        (rows.len(), cursor),
        &mut state.list.scroll,
        |row, columns| {
            let marked = marks.contains(&rows[row].voucher_id);
            scene.last_known(cells(scene, &rows[row], marked, columns))
        },
    );
    if let Some(lines) = detail {
        draw_detail(&mut canvas.part(0, h - wanted, w, wanted), scene, &lines);
    }
}

/// StreamPositions, filter, and the age of the audit.
fn summary(scene: &Scene<'_>, state: &LedgerState, shown: usize) -> Line<'static> {
    let (theme, page) = (scene.theme, &scene.snapshot.ledger);
    let mut spans = Vec::new();
    if !state.marks.is_empty() {
        let filtered = state.list.rows(&page.lines);
        let shown = filtered.iter().filter(|it| state.marks.contains(&it.voucher_id)).count();
        let count = state.marks.len();
        let marked = text::marked(Marked { count, filtered: count - shown, elsewhere: 0 });
        spans.push(Span::styled(format!("{marked}   "), theme.key()));
    }
    let filter = state.list.filter.value();
    if !filter.is_empty() {
        let part = text::sales_filtered(shown, page.lines.len());
        spans.push(Span::raw(format!("/{}   {part}   ", scene.fit(filter, 20))));
    }
    if let Some(taken) = page.taken {
        let age = figures::steady_span(scene.now.since(taken));
        let audited = words::audited(page.lines.len(), &age);
        spans.push(Span::styled(audited, theme.soft()));
    }
    Line::from(spans)
}

/// Findings over all sales, wrapped to `cells`.
fn notes(scene: &Scene<'_>, cells: usize) -> Vec<(String, Style)> {
    let (theme, snapshot) = (scene.theme, scene.snapshot);
    let page = &snapshot.ledger;
    let up = snapshot.redis.up && snapshot.sql.up;
    let mut notes = Vec::new();
    match (page.taken, page.limit) {
        (Some(_), _) if page.lines.is_empty() => {
            notes.push((words::NO_SALES.to_string(), theme.soft()));
        }
        (Some(_), _) => {
            let passed = page.lines.iter().all(|line| line.findings.is_empty());
            let style = match passed {
                _ if !up => theme.dimmed(),
                true => theme.good(),
                false => theme.bad(),
            };
            notes.push((words::verdict(&page.lines), style));
        }
        (None, Some(_)) => {}
        (None, None) if up => notes.push((words::AUDITING.to_string(), theme.soft())),
        (None, None) => notes.push((words::AWAY.to_string(), theme.warn())),
    }
    notes.extend(page.limit.map(|limit| (words::limit(limit), theme.warn())));
    let explained = page.lines.iter().any(|line| !line.findings.is_empty());
    if let Balance::Off { findings } = &snapshot.audit
        && !explained
    {
        // From figures alone: the audit of single sales has not found the cause yet.
        let all = findings.iter().filter(|found| found.sale.is_none());
        notes.extend(
            all.map(|SaleFinding { what, .. }| (words::of_all(&what.to_string()), theme.bad())),
        );
    }
    for found in page.partitions.iter() {
        let fault = text::audit_log::partition_fault(&found.fault);
        notes.push((words::partition(found.partition, &fault), theme.bad()));
    }
    let alarms = snapshot.alarms.iter().filter(|alarm| {
        matches!(alarm.kind, AlarmKind::DataLoss { .. } | AlarmKind::Undelivered { .. })
    });
    notes.extend(alarms.map(|alarm| (text::alarm(&alarm.kind).words, theme.warn())));
    notes
        .into_iter()
        .flat_map(|(note, style)| {
            wrap(&note, cells).into_iter().take(NOTE).map(move |line| (line, style))
        })
        .collect()
}

fn layout(width: u16) -> Vec<Column> {
    let column = |title, width, numeric| Column { title, width, numeric };
    let figure = if width >= 150 { 12 } else { 9 };
    let mut all = vec![
        column(columns::MARK, 1, false),
        column(columns::ID, 5, true),
        column(columns::TITLE, 0, false),
    ];
    if width >= 92 {
        all.push(column(columns::INITIAL, figure, true));
    }
    if width >= 72 {
        all.push(column(columns::REDIS_LEFT, figure.max(10), true));
    }
    all.push(column(columns::BUYERS, figure, true));
    all.push(column(columns::SQL_ORDERS, figure.max(10), true));
    if width >= 92 {
        all.push(column(columns::SQL_LEFT, figure, true));
    }
    if width >= 112 {
        all.push(column(columns::IN_FLIGHT, 9, true));
        all.push(column(columns::DEAD, 5, true));
    }
    all.push(column(columns::STATE, 14, false));
    all
}

fn state_style(scene: &Scene<'_>, line: &SaleAudit) -> Style {
    match (line.findings.is_empty(), line.in_flight()) {
        (false, _) => scene.theme.bad(),
        (true, 0) => scene.theme.good(),
        (true, _) => scene.theme.accent(),
    }
}

fn cells(scene: &Scene<'_>, line: &SaleAudit, marked: bool, layout: &[Column]) -> Vec<Cell> {
    let theme = scene.theme;
    let count = |count: u64| Cell::plain(figures::thousands(count));
    let some = |count: u64, style: Style| {
        Cell::new(figures::thousands(count), if count > 0 { style } else { theme.soft() })
    };
    let cell = |column: &Column| match column.title {
        columns::MARK => Cell::new(if marked { theme.glyphs.mark } else { " " }, theme.key()),
        columns::ID => Cell::new(format!("#{}", line.voucher_id), theme.soft()),
        columns::TITLE => {
            let style = if marked { theme.strong() } else { Style::new() };
            Cell::new(line.title.clone(), style)
        }
        columns::INITIAL => count(line.initial),
        columns::REDIS_LEFT => {
            Cell::plain(line.stock.map_or_else(|| "-".to_owned(), figures::signed))
        }
        columns::BUYERS => count(line.admitted),
        columns::SQL_ORDERS => count(line.persisted),
        columns::SQL_LEFT => Cell::plain(figures::signed(line.db_stock)),
        columns::IN_FLIGHT => some(line.in_flight(), theme.accent()),
        columns::DEAD => some(line.dead, theme.warn()),
        columns::STATE => Cell::new(words::state(line), state_style(scene, line)),
        _ => Cell::plain(""),
    };
    layout.iter().map(cell).collect()
}

/// A line of the detail, with its label if it is the first of its kind.
struct DetailLine {
    label: Option<Label>,
    text: String,
    style: Style,
}

/// The detail of a sale: figures, differences, their repair, and what is left to the operator.
fn detail(scene: &Scene<'_>, line: &SaleAudit, width: u16) -> Vec<DetailLine> {
    let theme = scene.theme;
    let room = usize::from(width.saturating_sub(LABEL + 2));
    let mut lines = Vec::new();
    let mut add = |label: Label, texts: Vec<String>, style: Style| {
        let texts = texts.iter().flat_map(|text| wrap(text, room));
        lines.extend(texts.enumerate().map(|(row, text)| DetailLine {
            label: (row == 0).then_some(label),
            text,
            style,
        }));
    };
    let name = text::sale_name(line.voucher_id, &line.title);
    add(text::details::VOUCHER, vec![scene.fit(&name, room as u16)], theme.strong());
    let in_redis = match line.stock {
        Some(stock) => words::sum(stock, line.admitted, line.initial),
        None => text::NOT_IN_REDIS.to_string(),
    };
    add(labels::REDIS, vec![in_redis], Style::new());
    let in_sql = words::sum(line.db_stock, line.persisted, line.initial);
    add(labels::SQL, vec![in_sql], Style::new());
    add(text::details::UNDER_WAY, vec![words::elsewhere(line)], Style::new());
    if scene.snapshot.undelivered.contains(&line.voucher_id) {
        add(labels::CHANGE, vec![words::UNCONFIRMED.to_string()], theme.warn());
    }
    if line.findings.is_empty() {
        add(labels::DIFFERENCES, vec![words::NONE.to_string()], theme.good());
        return lines;
    }
    let findings = line.findings.iter().map(ToString::to_string).collect();
    add(labels::DIFFERENCES, findings, theme.bad());
    let cures = line.cures().into_iter().enumerate();
    let cures = cures.map(|(place, cure)| format!("{}. {cure}", place + 1));
    add(labels::REPAIR, cures.collect(), theme.key());
    let mut advice: Vec<String> = Vec::new();
    for left in line.findings.iter().filter(|it| it.cure().is_none()) {
        let shown = words::advice(left, line.voucher_id);
        if !advice.contains(&shown) {
            advice.push(shown);
        }
    }
    add(labels::BY_HAND, advice, theme.warn());
    lines
}

fn draw_detail(canvas: &mut Canvas<'_>, scene: &Scene<'_>, lines: &[DetailLine]) {
    let theme = scene.theme;
    canvas.rule(0, theme.glyphs.rule, theme.soft());
    let room = usize::from(canvas.height().saturating_sub(1));
    let is_kind = |line: &DetailLine, label: Label| line.label.is_some_and(|it| it == label);
    // If space is short, differences come first: the figures are in the table too.
    let first = lines.iter().position(|line| is_kind(line, labels::DIFFERENCES)).unwrap_or(1);
    let skipped = if lines.len() > room { first.saturating_sub(1) } else { 0 };
    let seen: Vec<&DetailLine> =
        lines.iter().take(1).chain(lines.iter().skip(1 + skipped)).collect();
    let cut = seen.len() > room;
    let shown = if cut { room.saturating_sub(1) } else { seen.len() };
    for (row, line) in seen.iter().take(shown).enumerate() {
        let y = row as u16 + 1;
        if let Some(label) = line.label {
            canvas.text(1, y, &label, theme.soft());
        }
        canvas.text(LABEL, y, &line.text, line.style);
    }
    if cut {
        let more = words::more_lines(seen.len() - shown);
        canvas.text(LABEL, shown as u16 + 1, &more, theme.soft());
    }
}
