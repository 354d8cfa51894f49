//! The Overview: stock, admission, rates, the way through the stream, and what needs a person.

use std::cmp::Ordering;

use ratatui::{
    style::Style,
    text::{Line, Span},
};

use super::{OverviewState, Scene, Source, rates};
use crate::{
    console::{
        text::{self, figures},
        widgets::{Pen, bar, left, right, width, wrap},
    },
    model::Phase,
    telemetry::{
        log::Weight,
        snapshot::{Funnel, Holders, SaleLine, StreamLine, Urgency},
    },
};

pub(super) fn draw(pen: &mut Pen<'_>, scene: &Scene<'_>, state: &mut OverviewState) {
    if scene.compact {
        state.settle(None);
        return draw_compact(pen, scene);
    }
    let (w, h) = (pen.width(), pen.height());
    let alarms = attention_rows(scene, w, if h >= 26 { 6 } else { 3 });
    let attention = alarms.len() as u16 + 1;
    let main = h.saturating_sub(attention + 1);
    let margin = u16::from(h >= 22);
    // One cell of margin at each side, three between the columns.
    let column_width = (w - 5) * 9 / 20;
    let gap = if w >= 110 { 5 } else { 3 };
    let mut column = pen.part(1, margin, column_width, main.saturating_sub(margin));
    // Admission needs its rows and a blank above it; a rush or two may follow.
    let rushes = (scene.snapshot.rushes.len() as u16).min(2);
    let rush_rows = if rushes > 0 { rushes + 2 } else { 0 };
    let for_stock =
        column.height().saturating_sub(2 + shown_funnel(scene, h).len() as u16 + rush_rows).max(2);
    let mut y = stock(&mut column, scene, for_stock);
    y = admission(&mut column, scene, y + 1, &shown_funnel(scene, h));
    rush(&mut column, scene, y + 1, usize::from(rushes));
    lately(&mut column, scene, y + 1 + rush_rows);
    let width = w.saturating_sub(column_width + gap + 2);
    right_column(
        &mut pen.part(column_width + gap, margin, width, main.saturating_sub(margin)),
        scene,
        state,
    );
    let mut below = pen.part(1, h.saturating_sub(attention), w.saturating_sub(2), attention);
    draw_attention(&mut below, scene, &alarms);
}

fn draw_compact(pen: &mut Pen<'_>, scene: &Scene<'_>) {
    let (w, h) = (pen.width(), pen.height());
    let alarms = attention_rows(scene, w, 3);
    let attention = alarms.len() as u16;
    let room = h.saturating_sub(attention + 4);
    let mut column = pen.part(1, 0, w.saturating_sub(2), h);
    let y = stock(&mut column, scene, room.clamp(2, 6)) + 1;
    let funnel = &scene.snapshot.funnel;
    let mut x = 0;
    for (row, (label, count)) in text::funnel(funnel).into_iter().enumerate() {
        let figure = figures::within(count.total, 9);
        if usize::from(x) + width(label) + 1 + width(&figure) > usize::from(column.width()) {
            break;
        }
        x = column.text(x, y, label, scene.theme.soft()) + 1;
        let style = if row < 2 { scene.theme.strong() } else { Style::new() };
        x = column.text(x, y, &figure, style) + 3;
    }
    if let Some(stream) = &scene.snapshot.stream {
        let mut line = lag_line(scene, stream);
        line.push_span(Span::styled(format!("   {} ", text::PENDING), scene.theme.heading()));
        line.push_span(Span::raw(figures::thousands(stream.pending)));
        line.push_span(Span::styled(format!("   {} ", text::DEAD), scene.theme.heading()));
        line.push_span(Span::raw(figures::thousands(stream.dead)));
        column.line(0, y + 1, &line);
    }
    let mut below = pen.part(1, h.saturating_sub(attention), w.saturating_sub(2), attention);
    for (row, line) in alarms.iter().enumerate() {
        below.line(0, row as u16, line);
    }
}

/// Sales with what is left of each; returns the row after the last.
fn stock(pen: &mut Pen<'_>, scene: &Scene<'_>, rows: u16) -> u16 {
    pen.line(0, 0, &scene.heading(&text::STOCK, &[Source::Redis]));
    let mut sales: Vec<&SaleLine> = scene.snapshot.sales.iter().collect();
    if sales.is_empty() {
        let lines = wrap(&text::no_sales(), usize::from(pen.width().saturating_sub(2)));
        for (row, line) in lines.iter().enumerate() {
            pen.text(2, row as u16 + 1, line, scene.theme.soft());
        }
        return lines.len() as u16 + 1;
    }
    // What sells or may sell comes first; the chosen one is never below the edge.
    let rank = |sale: &SaleLine| match sale.phase {
        Phase::Running => 0,
        Phase::Paused | Phase::SoldOut => 1,
        Phase::Planned => 2,
        Phase::Ended | Phase::Archived => 3,
    };
    sales.sort_by_key(|sale| (Some(sale.voucher_id) != scene.chosen, rank(sale)));
    let room = usize::from(rows.saturating_sub(1));
    let shown = if sales.len() > room { room.saturating_sub(1).max(1) } else { sales.len() };
    let mut kept = sales[..shown.min(sales.len())].to_vec();
    // Among the shown ones the order is that of the list, so that choosing moves no row.
    kept.sort_by_key(|sale| {
        let at = scene.snapshot.sales.iter().position(|s| s.voucher_id == sale.voucher_id);
        (sale.phase.is_over(), at)
    });
    let mut y = 1;
    for sale in kept {
        stock_line(pen, scene, y, sale);
        y += 1;
    }
    if shown < sales.len() {
        let more = text::more_sales(sales.len() - shown);
        pen.text(2, y, &scene.fit(&more, pen.width()), scene.theme.soft());
        y += 1;
    }
    y
}

fn stock_line(pen: &mut Pen<'_>, scene: &Scene<'_>, y: u16, sale: &SaleLine) {
    let theme = scene.theme;
    let wide = pen.width() >= 44;
    let cells = if wide { (pen.width() / 5).min(24) } else { 6 };
    // Room for 10,000,000 of them only where there are as many.
    let most = scene.snapshot.sales.iter().map(|sale| sale.initial).max().unwrap_or(0);
    let figure =
        if wide { (figures::thousands(most).len() as u16 * 2 + 3).clamp(15, 23) } else { 10 };
    let title = pen.width().saturating_sub(figure + cells + 4);
    if scene.chosen == Some(sale.voucher_id) {
        pen.text(0, y, theme.glyphs.pointer, theme.key());
    }
    let name = text::sale_name(sale.voucher_id, &sale.title);
    let (strong, soft) = (Style::new(), theme.soft());
    let name_style = if sale.phase.is_over() { soft } else { strong };
    pen.text(2, y, &scene.fit(&name, title.saturating_sub(1)), name_style);
    let left = sale.stock;
    let (told, style, full) = match (sale.phase, left) {
        (Phase::Archived, _) => (text::phase(Phase::Archived).to_owned(), soft, soft),
        (_, None) => (text::not_in_redis(), theme.warn(), soft),
        (Phase::Ended, Some(left)) => {
            let told = text::ended_with(if wide { left } else { 0 });
            (told, soft, soft)
        }
        (Phase::SoldOut, _) => (text::phase(Phase::SoldOut).to_owned(), theme.strong(), soft),
        (Phase::Paused, _) => (text::phase(Phase::Paused).to_owned(), theme.warn(), soft),
        (Phase::Planned, _) => {
            let at = sale.begin.map_or_else(String::new, |at| scene.at(at));
            (if wide { text::starts_at(&at) } else { at }, theme.accent(), soft)
        }
        (Phase::Running, Some(left)) => {
            let told = figures::signed(left);
            let told = if wide { text::left_of(&told, sale.initial) } else { told };
            (told, strong, theme.accent())
        }
    };
    let told = right(&told, usize::from(figure), theme.glyphs.ellipsis);
    let x = pen.text(2 + title, y, &told, style) + 2;
    let line = match (sale.phase, left) {
        (Phase::Planned, _) => {
            vec![Span::styled(theme.glyphs.waiting.repeat(usize::from(cells)), soft)]
        }
        (_, left) => {
            let share = left.unwrap_or(0).max(0) as f64 / sale.initial.max(1) as f64;
            bar(theme, share, cells, full, Some(theme.glyphs.empty))
        }
    };
    pen.line(x, y, &Line::from(line));
}

/// What became of all requests; returns the row after the last.
fn admission(pen: &mut Pen<'_>, scene: &Scene<'_>, top: u16, rows: &[usize]) -> u16 {
    pen.line(0, top, &scene.heading(&text::ADMISSION, &[Source::Redis]));
    let funnel = &scene.snapshot.funnel;
    let mut y = top + 1;
    for row in rows {
        funnel_line(pen, scene, y, funnel, *row, text::funnel(funnel)[*row].0);
        y += 1;
    }
    y
}

/// Lines of the funnel; where rows are few, those that never happened are left out.
fn shown_funnel(scene: &Scene<'_>, height: u16) -> Vec<usize> {
    let lines = text::funnel(&scene.snapshot.funnel);
    let seen = |row: &usize| height >= 19 || *row < 4 || lines[*row].1.total > 0;
    (0..lines.len()).filter(seen).collect()
}

/// A counter of the funnel: total, rate, and its share of all requests.
pub(super) fn funnel_line(
    pen: &mut Pen<'_>,
    scene: &Scene<'_>,
    y: u16,
    funnel: &Funnel,
    row: usize,
    label: &str,
) {
    let theme = scene.theme;
    let count = text::funnel(funnel)[row].1;
    let lead = row == 1;
    pen.text(2, y, label, if lead { Style::new() } else { theme.soft() });
    let total = right(&figures::within(count.total, 10), 11, theme.glyphs.ellipsis);
    let style = if lead { theme.strong() } else { Style::new() };
    let x = pen.text(11, y, &total, style);
    let flowing = count.per_second >= 0.05;
    let rate = right(&figures::rate_within(count.per_second, 9), 10, theme.glyphs.ellipsis);
    let x = pen.text(x, y, &rate, if flowing { Style::new() } else { theme.soft() }) + 2;
    // The first line is the whole of which the others are shares.
    if row > 0 && pen.width() > x + 3 {
        let share = count.total as f64 / funnel.attempts.total.max(1) as f64;
        let style = if lead { theme.accent() } else { theme.soft() };
        let cells = (pen.width() - x).min(24);
        pen.line(x, y, &Line::from(bar(theme, share, cells, style, None)));
    }
}

fn rush(pen: &mut Pen<'_>, scene: &Scene<'_>, top: u16, rows: usize) {
    if rows == 0 || top >= pen.height() {
        return;
    }
    let theme = scene.theme;
    pen.text(0, top, &text::RUSH, theme.heading());
    for (row, rush) in scene.snapshot.rushes.iter().take(rows).enumerate() {
        let y = top + 1 + row as u16;
        pen.text(2, y, &format!("#{}", rush.voucher_id), Style::new());
        let sent = text::requests_sent(rush.sent, rush.planned);
        let x = pen.text(9, y, &right(&sent, 23, theme.glyphs.ellipsis), Style::new()) + 2;
        let share = rush.sent as f64 / rush.planned.max(1) as f64;
        let cells = pen.width().saturating_sub(x).min(24);
        pen.line(
            x,
            y,
            &Line::from(bar(theme, share, cells, theme.accent(), Some(theme.glyphs.empty))),
        );
    }
}

/// What was done and what befell last, where the column has room to spare.
fn lately(pen: &mut Pen<'_>, scene: &Scene<'_>, top: u16) {
    let theme = scene.theme;
    let room = usize::from(pen.height().saturating_sub(top + 1)).min(MOST_LATELY);
    let lines: Vec<_> = rates::marks(scene.snapshot)
        .map(|(_, line)| (line, Weight::of(&line.act)))
        .filter(|(_, weight)| *weight > Weight::Notice)
        .take(room)
        .collect();
    if room < LEAST_LATELY || lines.is_empty() {
        return;
    }
    pen.text(0, top, &text::overview::LATELY, theme.heading());
    for (row, (line, weight)) in lines.iter().rev().enumerate() {
        let y = top + 1 + row as u16;
        let (glyph, style) = rates::sign(theme, *weight);
        let x = pen.text(2, y, &right(&scene.at_second(line.act.at), 8, ""), theme.soft()) + 2;
        pen.text(x, y, glyph, style);
        let told = text::time::befell(&line.act.act, &text::told::subject(&line.act.subject), 0);
        pen.text(x + 3, y, &scene.fit(&told, pen.width().saturating_sub(x + 4)), Style::new());
    }
}

/// Lines of what befell last: from so many on they are shown, and more is no story.
const LEAST_LATELY: usize = 3;
const MOST_LATELY: usize = 8;

fn right_column(pen: &mut Pen<'_>, scene: &Scene<'_>, state: &mut OverviewState) {
    let h = pen.height();
    let holders = scene.snapshot.stream.as_ref().map_or(0, |stream| {
        stream.consumers.iter().filter(|consumer| consumer.pending > 0 || !consumer.alive).count()
    });
    let holders = (holders as u16).min(h.saturating_sub(14) / 2).min(5);
    // Heading, legend, latency, four lines of the stream, and blanks between.
    let locks = u16::from(h >= LOCKS_FROM);
    let rows = h.saturating_sub(7 + holders + locks).min((h * 2 / 3).max(12));
    rates::draw(pen, scene, state, rows);
    stream(pen, scene, rows + 4, usize::from(holders), locks > 0);
}

/// Rows of the right column from which the locks have a line of their own.
const LOCKS_FROM: u16 = 18;
/// Cells of a panel in which the stream's line tells how much is kept.
const ROOM_FOR_KEPT: u16 = 60;
/// Cells for the names at the left of the stream's figures.
const NAMES: u16 = 10;

fn stream(pen: &mut Pen<'_>, scene: &Scene<'_>, top: u16, holders: usize, locks: bool) {
    let theme = scene.theme;
    let Some(stream) = &scene.snapshot.stream else {
        pen.text(0, top, &text::STREAM, theme.heading());
        pen.text(NAMES, top, &text::UNKNOWN, theme.warn());
        return;
    };
    let lag = lag_line(scene, stream);
    pen.line(0, top, &lag);
    if let Some(oldest) = stream.oldest_ms {
        let kept = text::kept(stream.length, oldest);
        let x = pen.width().saturating_sub(width(&kept) as u16);
        // Only where it can stay whatever the lag has to say.
        if pen.width() >= ROOM_FOR_KEPT && usize::from(x) >= lag.width() + 3 {
            pen.text(x, top, &kept, theme.soft());
        }
    }
    pen.text(0, top + 1, &text::PENDING, theme.heading());
    let mut line = vec![Span::raw(figures::thousands(stream.pending))];
    if let Some(age) = stream.oldest_pending_ms.filter(|_| stream.pending > 0) {
        line.push(Span::styled(format!("   {}", text::oldest(age)), theme.soft()));
    }
    pen.line(NAMES, top + 1, &Line::from(line));
    let with_entries: Vec<_> = stream
        .consumers
        .iter()
        .filter(|consumer| consumer.pending > 0 || !consumer.alive)
        .collect();
    let mut y = top + 2;
    let shown = if with_entries.len() > holders { holders.saturating_sub(1) } else { holders };
    let longest = with_entries.iter().take(shown).map(|line| width(&line.name)).max();
    let most = pen.width().saturating_sub(NAMES + 22).clamp(8, 30);
    let name_room = (longest.unwrap_or(0) as u16).clamp(8, most);
    for consumer in with_entries.iter().take(shown) {
        let (glyph, style, word) = if consumer.alive {
            (theme.glyphs.up, theme.good(), text::ALIVE)
        } else {
            (theme.glyphs.away, theme.bad(), text::DEAD_HOLDER)
        };
        pen.text(NAMES, y, glyph, style);
        pen.text(NAMES + 2, y, &scene.fit(&consumer.name, name_room), Style::new());
        let x = pen.text(NAMES + 3 + name_room, y, &word, style);
        let count = right(&figures::thousands(consumer.pending), 9, theme.glyphs.ellipsis);
        pen.text(x.max(NAMES + 9 + name_room), y, &count, Style::new());
        y += 1;
    }
    if holders > 0 && shown < with_entries.len() {
        pen.text(NAMES, y, &text::more_holders(with_entries.len() - shown), theme.soft());
        y += 1;
    }
    pen.text(0, y, &text::DEAD, theme.heading());
    let style = if stream.dead > 0 { theme.warn() } else { Style::new() };
    pen.text(NAMES, y, &figures::thousands(stream.dead), style);
    if locks {
        let Holders { total, locks } = &scene.snapshot.locks;
        pen.text(0, y + 1, &text::overview::LOCKS, theme.heading());
        let x = pen.text(NAMES, y + 1, &figures::thousands(*total), Style::new()) + 3;
        let waiting = locks.iter().map(|lock| lock.waiting).sum();
        let orphans = locks.iter().filter(|lock| lock.orphan).count() as u64;
        let x = match waiting {
            0 => x,
            waiting => pen.text(x, y + 1, &text::overview::waiting(waiting), theme.soft()) + 3,
        };
        if orphans > 0 {
            pen.text(x, y + 1, &text::overview::orphans(orphans), theme.warn());
        }
    }
}

/// The lag, where it goes, and how soon it is worked off.
fn lag_line(scene: &Scene<'_>, stream: &StreamLine) -> Line<'static> {
    let theme = scene.theme;
    let head = left(&text::STREAM, usize::from(NAMES), theme.glyphs.ellipsis);
    let mut spans = vec![Span::styled(head, theme.heading())];
    if !stream.group {
        spans.push(Span::styled(text::NO_GROUP, theme.bad()));
        return Line::from(spans);
    }
    let unknown = stream.lag.is_none();
    let style = if unknown { theme.warn() } else { Style::new() };
    spans.push(Span::styled(text::lag(stream.lag), style));
    let Some(lag) = stream.lag.filter(|lag| *lag > 0) else { return Line::from(spans) };
    let (glyph, style) = match scene.lag_trend {
        Some(Ordering::Greater) => (theme.glyphs.rising, theme.warn()),
        Some(Ordering::Less) => (theme.glyphs.falling, theme.good()),
        _ => (theme.glyphs.steady, theme.soft()),
    };
    spans.push(Span::styled(format!(" {glyph}"), style));
    let speed = scene.snapshot.series.last().and_then(|point| point.persisted).unwrap_or(0.0);
    if speed >= 1.0 && scene.lag_trend == Some(Ordering::Less) {
        let wait = (lag as f64 / speed * 1e3) as u64;
        spans.push(Span::styled(format!("   {}", text::drains_in(wait)), theme.soft()));
    }
    Line::from(spans)
}

/// Alarms as lines, broken where they must be, at most `most` of them.
fn attention_rows(scene: &Scene<'_>, cells: u16, most: usize) -> Vec<Line<'static>> {
    let theme = scene.theme;
    if scene.snapshot.alarms.is_empty() {
        return vec![Line::styled(text::NOTHING_WRONG, theme.soft())];
    }
    let mut rows = Vec::new();
    for (place, alarm) in scene.snapshot.alarms.iter().enumerate() {
        let style = match alarm.urgency {
            Urgency::Critical => theme.bad(),
            Urgency::Warning => theme.warn(),
            Urgency::Notice => theme.good(),
        };
        let lines = wrap(&text::alarm(&alarm.kind), usize::from(cells).saturating_sub(5));
        let left = scene.snapshot.alarms.len() - place - 1;
        if place > 0 && rows.len() + lines.len() + usize::from(left > 0) > most {
            rows.push(Line::styled(text::more_alarms(left + 1), theme.soft()));
            break;
        }
        // An error of another program may be a page long: two lines of it are enough.
        for (row, line) in lines.iter().take(2).enumerate() {
            let cut = row == 1 && lines.len() > 2;
            let line = if cut { format!("{line} {}", theme.glyphs.ellipsis) } else { line.clone() };
            rows.push(Line::from(vec![
                Span::styled(if row == 0 { "! " } else { "  " }, style),
                Span::raw(line),
            ]));
        }
    }
    rows
}

fn draw_attention(pen: &mut Pen<'_>, scene: &Scene<'_>, rows: &[Line<'static>]) {
    pen.text(0, 0, &text::ATTENTION, scene.theme.heading());
    for (row, line) in rows.iter().enumerate() {
        pen.line(0, row as u16 + 1, line);
    }
}
