//! Activity: commands and events, the newest at the bottom, page by page.

use ratatui::{
    style::Style,
    text::{Line, Span},
};
use seckill_engine::telemetry::log::{Recorded, Weight};

use seckill_model::message::Label;

use super::{LogState, Scene, Source, alone, log_state::Level, throughput_chart::sign};
use crate::{
    text::{
        self,
        activity::{self, heads, labels, levels},
        audit_log,
        time::{act_word, beyond},
    },
    widgets::{Canvas, Cell, Column, Value, right, table, width, wrap},
};

/// Rows reserved for the table beside an open detail.
const TABLE: u16 = 5;
/// Rows that a detail needs: a rule and the first fields.
const DETAIL: u16 = 5;
/// Cells of the labels of a detail.
const LABELS: u16 = 10;

pub(super) fn draw(canvas: &mut Canvas<'_>, scene: &Scene<'_>, state: &mut LogState) {
    let theme = scene.theme;
    let (w, h) = (canvas.width(), canvas.height());
    let rows = state.rows(scene.snapshot);
    let x = canvas.line(1, 0, &scene.heading(&activity::HEADING, &[Source::Sql]));
    level(canvas, scene, state.level(), x + 3);
    let said = summary(scene, state, &rows);
    canvas.part(0, 0, w.saturating_sub(2), 1).line_right(0, &said);
    let known = scene.snapshot.log.taken.is_some() && !state.is_waiting();
    if rows.is_empty() && !(known && canvas.is_noting()) {
        let said = nothing(scene, state);
        for (row, line) in wrap(&said, usize::from(w.saturating_sub(2))).iter().enumerate() {
            canvas.text(1, 2 + row as u16, line, theme.soft());
        }
        return;
    }
    let cursor = state.cursor(&rows);
    let chosen = cursor.filter(|_| state.detail).and_then(|row| rows.get(row));
    let shown = chosen.map(|line| detail_lines(scene, line, w));
    if let Some(shown) = shown.as_ref().filter(|_| h < TABLE + DETAIL) {
        return detail(&mut alone(canvas, &mut state.scroll), scene, shown);
    }
    let below =
        shown.as_ref().map_or(0, |lines| h.saturating_sub(TABLE).min((lines.len() + 1) as u16));
    let top = u16::from(!scene.compact) + 1;
    table(
        &mut canvas.part(0, top, w, h.saturating_sub(top + below)),
        theme,
        &layout(w, rows.iter().any(|line| !is_today(scene, line))),
        (rows.len(), cursor),
        &mut state.scroll,
        |row, columns| cells(scene, rows[row], columns),
    );
    if let Some(shown) = shown {
        detail(&mut canvas.part(0, h - below, w, below), scene, &shown);
    }
}

fn detail(canvas: &mut Canvas<'_>, scene: &Scene<'_>, rows: &[Line<'_>]) {
    canvas.rule(0, scene.theme.glyphs.rule, scene.theme.soft());
    for (row, line) in rows.iter().enumerate() {
        canvas.line(1, row as u16 + 1, line);
    }
}

/// The levels in a row, the selected one underlined.
fn level(canvas: &mut Canvas<'_>, scene: &Scene<'_>, chosen: Level, left: u16) {
    let theme = scene.theme;
    let all =
        [(Level::All, levels::ALL), (Level::Alarms, levels::ALARMS), (Level::Acts, levels::ACTS)];
    let mut x = left;
    for (level, word) in all {
        let style =
            if level == chosen { theme.strong().patch(theme.underlined()) } else { theme.soft() };
        x = canvas.text(x, 0, &word, style) + 2;
    }
}

fn summary(scene: &Scene<'_>, state: &LogState, rows: &[&Recorded]) -> Line<'static> {
    let theme = scene.theme;
    let mut spans = Vec::new();
    let filter = state.filter.value();
    if !filter.is_empty() {
        spans.push(Span::raw(format!("/{}   ", scene.fit(filter, 16))));
    }
    if state.is_waiting() {
        spans.push(Span::styled(format!("{}   ", text::READING), theme.warn()));
    }
    let narrow = scene.compact;
    if let (Some(first), Some(last), false) = (rows.first(), rows.last(), state.is_newest()) {
        let text = activity::older_page(&scene.at(first.act.at), &scene.at(last.act.at));
        spans.push(Span::styled(format!("{text}   "), theme.soft()));
    } else if state.follows() && !rows.is_empty() {
        let glyph = theme.glyphs.up;
        spans.push(Span::styled(format!("{glyph} {}   ", &*activity::FOLLOWS), theme.good()));
    }
    if !state.follows() && !narrow {
        spans.push(Span::styled(format!("{}   ", activity::paused()), theme.key()));
    }
    if let Some(order) = &state.scroll.order {
        let sorted = text::conventions::sorted_page(&order.head, rows.len());
        spans.push(Span::styled(sorted, theme.key()));
    } else {
        let count = activity::count(rows.len(), LogState::all(scene.snapshot));
        spans.push(Span::styled(count, theme.soft()));
    }
    Line::from(spans)
}

/// Why there is no row.
fn nothing(scene: &Scene<'_>, state: &LogState) -> String {
    let filter = state.filter.value();
    let word = match state.level() {
        Level::All => levels::ALL,
        Level::Alarms => levels::ALARMS,
        Level::Acts => levels::ACTS,
    };
    let snapshot = scene.snapshot;
    let known = snapshot.log.taken.is_some();
    match (filter.is_empty(), state.level()) {
        _ if state.is_waiting() || snapshot.log.look != state.look() && known => {
            text::READING.into()
        }
        _ if !known && !snapshot.sql.up => activity::UNREAD.into(),
        (false, _) => text::no_match(filter),
        (true, Level::All) => activity::EMPTY.into(),
        (true, _) => activity::none_of(&word),
    }
}

/// Lines of other days include the date, which takes space.
fn layout(width: u16, days: bool) -> Vec<Column> {
    let column = |title, width| Column { title, width, numeric: false };
    let mut all = vec![
        column(heads::TIME, if width >= 72 && days { 14 } else { 8 }),
        column(heads::SIGN, 1),
        column(heads::WHAT, if width >= 110 { 22 } else { 16 }),
    ];
    if width >= 72 {
        all.push(column(heads::WHO, 9));
    }
    if width >= 110 {
        all.push(column(heads::NODE, 10));
    }
    all.push(column(heads::SUBJECT, if width >= 110 { 24 } else { 14 }));
    all.push(column(heads::RESULT, 0));
    all
}

fn cells(scene: &Scene<'_>, line: &Recorded, layout: &[Column]) -> Vec<Cell> {
    let (theme, act) = (scene.theme, &line.act);
    let weight = Weight::of(act);
    let (glyph, style) = sign(theme, weight);
    let cell = |column: &Column| match column.title {
        heads::TIME => Cell::new(time(scene, line, column.width), theme.soft())
            .exactly(Value::time(Some(act.at))),
        heads::SIGN => Cell::new(glyph, style),
        heads::WHAT => Cell::new(
            act_word(&act.act),
            match weight {
                Weight::Notice => theme.soft(),
                Weight::Trouble | Weight::Failed => style,
                Weight::Relief | Weight::Act => Style::new(),
            },
        ),
        heads::WHO => Cell::new(who(line), theme.soft()),
        heads::NODE => Cell::new(act.node.clone(), theme.soft()),
        heads::SUBJECT => {
            let subject = audit_log::subject(&act.subject);
            Cell::plain(beyond(&act.act, &subject).to_owned())
                .exactly(Value::Text(act.subject.to_string()))
        }
        _ => {
            let failed = weight == Weight::Failed;
            Cell::new(
                audit_log::result(&act.result),
                if failed { theme.broken() } else { Style::new() },
            )
            .exactly(Value::Text(act.result.to_string()))
        }
    };
    layout.iter().map(cell).collect()
}

fn is_today(scene: &Scene<'_>, line: &Recorded) -> bool {
    let [day, today] = [line.act.at, scene.now].map(|at| at.date_time(scene.zone));
    day.get(..10) == today.get(..10)
}

/// With the date if it is another day and there is room.
fn time(scene: &Scene<'_>, line: &Recorded, room: u16) -> String {
    let full = line.act.at.date_time(scene.zone);
    let (day, clock) = (full.get(5..10).unwrap_or_default(), full.get(11..).unwrap_or(&full));
    if is_today(scene, line) {
        right(clock, usize::from(room), "")
    } else if room >= 14 {
        format!("{day} {clock}")
    } else {
        right(day, usize::from(room), "")
    }
}

fn who(line: &Recorded) -> String {
    if line.act.is_event() { "-".to_owned() } else { line.act.operator.clone() }
}

/// The detail of a line: everything in the log.
fn detail_lines(scene: &Scene<'_>, line: &Recorded, cells: u16) -> Vec<Line<'static>> {
    let (theme, act) = (scene.theme, &line.act);
    let (glyph, style) = sign(theme, Weight::of(act));
    let room = usize::from(cells.saturating_sub(LABELS + 3));
    let mut lines = vec![Line::from(vec![
        Span::styled(format!("{glyph} "), style),
        Span::styled(act_word(&act.act).to_owned(), theme.strong()),
        Span::raw("  "),
        Span::raw(
            scene
                .fit(beyond(&act.act, &audit_log::subject(&act.subject)), cells.saturating_sub(30)),
        ),
    ])];
    let mut field = |label: Label, value: &str, style: Style, most: usize| {
        let wrapped = wrap(value, room);
        let cut = wrapped.len() > most;
        for (row, part) in wrapped.into_iter().take(most).enumerate() {
            let head = if row == 0 { label.read() } else { "" };
            let head = crate::widgets::left(head, usize::from(LABELS), "");
            let end = if cut && row + 1 == most { theme.glyphs.ellipsis } else { "" };
            lines.push(Line::from(vec![
                Span::styled(head, theme.soft()),
                Span::styled(format!("{part}{end}"), style),
            ]));
        }
    };
    let when = activity::when(&act.at.date_time(scene.zone), &act.node);
    field(labels::WHEN, &when, Style::new(), 1);
    let failed = Weight::of(act) == Weight::Failed;
    field(
        labels::RESULT,
        &audit_log::result(&act.result),
        if failed { theme.broken() } else { Style::new() },
        3,
    );
    if !act.is_event() {
        field(labels::WHO, &act.operator, Style::new(), 1);
        match &act.reason {
            Some(reason) => field(labels::REASON, reason, Style::new(), 3),
            None => field(labels::REASON, &labels::NO_REASON, theme.soft(), 1),
        }
    }
    lines.extend(figure_lines(scene, line, cells));
    lines
}

/// The figures that a command changed, one per line, followed by those it did not.
fn figure_lines(scene: &Scene<'_>, line: &Recorded, cells: u16) -> Vec<Line<'static>> {
    let (theme, act) = (scene.theme, &line.act);
    let all = activity::changes(act.before.as_deref(), act.after.as_deref());
    let (changed, same): (Vec<_>, Vec<_>) = all.into_iter().partition(|it| it.before != it.after);
    let names = changed.iter().map(|it| width(&it.name)).max().unwrap_or(0);
    let figures = changed.iter().map(|it| width(&it.before).max(width(&it.after))).max();
    let mut lines = Vec::new();
    let label = |first: bool, label: Label| {
        let label = if first { label.read() } else { "" };
        Span::styled(crate::widgets::left(label, usize::from(LABELS), ""), theme.soft())
    };
    for (row, it) in changed.iter().enumerate() {
        let name = crate::widgets::left(&it.name, names, "");
        let [before, after] =
            [&it.before, &it.after].map(|text| right(text, figures.unwrap_or(0), ""));
        lines.push(Line::from(vec![
            label(row == 0, labels::FIGURES),
            Span::styled(name, theme.soft()),
            Span::raw(format!("   {before}")),
            Span::styled(" → ", theme.soft()),
            Span::styled(after, theme.strong()),
        ]));
    }
    if !same.is_empty() {
        let rows: Vec<String> = same.iter().map(|it| format!("{} {}", it.name, it.after)).collect();
        let rows = wrap(&rows.join(", "), usize::from(cells.saturating_sub(LABELS + 3)));
        lines.extend(rows.into_iter().enumerate().map(|(row, part)| {
            Line::from(vec![label(row == 0, labels::UNCHANGED), Span::styled(part, theme.soft())])
        }));
    }
    lines
}
