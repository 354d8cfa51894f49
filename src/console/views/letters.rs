//! Dead letters: entry, reason and current verdict, page by page.

use ratatui::{
    style::Style,
    text::{Line, Span},
};
use seckill_engine::telemetry::snapshot::LetterLine;
use seckill_model::LetterAct;

use super::{PagedState, Scene, Source, alone, is_stale, paged_rows, summary};
use crate::{
    text::{self, columns, figures, letters::labels},
    theme::Theme,
    widgets::{Canvas, Cell, Column, Value, left, table, wrap},
};

/// Rows reserved for the table beside an open detail, with and without space.
const TABLE: [u16; 2] = [6, 4];
/// Rows that a detail needs: a rule and the first fields.
const DETAIL: u16 = 5;
/// Rows of a field; values may be long, and the history has to fit as well.
const FIELD_ROWS: usize = 2;
/// A page is read once a second; an older one is outdated.
const STALE_MS: u64 = 4_000;

pub(super) fn draw(canvas: &mut Canvas<'_>, scene: &Scene<'_>, state: &mut PagedState<LetterLine>) {
    let theme = scene.theme;
    let (w, h) = (canvas.width(), canvas.height());
    let all = state.rows(scene.snapshot);
    let mut heading = scene.heading(&text::letters::HEADING, &[Source::Redis, Source::Sql]);
    let stale = [Source::Redis, Source::Sql].map(|it| is_stale(scene.health(it), scene.now));
    if let Some(age) = age(scene).filter(|age| *age > STALE_MS && stale == [false; 2]) {
        heading.push_span(Span::styled(format!("  {}", text::old(age)), theme.warn()));
    }
    canvas.line(1, 0, &heading);
    let said = summary(scene, state, all.len());
    canvas.part(0, 0, w.saturating_sub(2), 1).line_right(0, &said);
    let known = scene.snapshot.letters.taken.is_some() || none_dead(scene);
    if all.is_empty() && !(known && !state.is_waiting() && canvas.is_noting()) {
        let said = nothing(scene, state);
        for (row, line) in wrap(&said, usize::from(w.saturating_sub(2))).iter().enumerate() {
            canvas.text(1, 2 + row as u16, line, theme.soft());
        }
        return;
    }
    let cursor = state.position(&all);
    let rows: Vec<&LetterLine> = all;
    let kept = TABLE[usize::from(scene.compact)];
    let chosen = cursor.filter(|_| state.detail).and_then(|row| rows.get(row));
    let stale = match chosen.map(|line| detail_lines(scene, line, w)) {
        Some(stale) if h < kept + DETAIL => {
            return detail(&mut alone(canvas, &mut state.scroll), scene, stale);
        }
        stale => stale,
    };
    let below =
        stale.as_ref().map_or(0, |stale| h.saturating_sub(kept).min((stale.len() + 1) as u16));
    let top = u16::from(!scene.compact) + 1;
    let (marks, all) = (&state.marks, state.all);
    table(
        &mut canvas.part(0, top, w, h.saturating_sub(top + below)),
        theme,
        &layout(w, &rows),
        (rows.len(), cursor),
        &mut state.scroll,
        |row, columns| {
            let line = rows[row];
            let marked = all || marks.contains(&line.letter);
            scene.last_known(cells(scene, line, marked, columns))
        },
    );
    if let Some(stale) = stale {
        detail(&mut canvas.part(0, h - below, w, below), scene, stale);
    }
}

/// Milliseconds since the page was read.
fn age(scene: &Scene<'_>) -> Option<u64> {
    scene.snapshot.letters.taken.map(|taken| scene.now.since(taken))
}

fn none_dead(scene: &Scene<'_>) -> bool {
    !scene.is_blind() && scene.snapshot.stream.as_ref().is_some_and(|stream| stream.dead == 0)
}

/// Why there is no row.
fn nothing(scene: &Scene<'_>, state: &PagedState<LetterLine>) -> String {
    let snapshot = scene.snapshot;
    let page = &snapshot.letters;
    if page.lines.is_empty() && none_dead(scene) {
        text::letters::NONE.to_owned()
    } else if scene.is_blind() || page.taken.is_none() && !(snapshot.redis.up && snapshot.sql.up) {
        text::letters::UNREAD.to_owned()
    } else if page.taken.is_none() || page.lines.is_empty() || state.is_waiting() {
        text::READING.to_owned()
    } else {
        text::no_match(state.filter.value())
    }
}

/// IDs take what they need, and the reason takes the rest.
fn layout(width: u16, rows: &[&LetterLine]) -> Vec<Column> {
    let longest = rows.iter().map(|line| line.letter.to_string().len()).max().unwrap_or(0);
    let letter = if width >= 100 { 19.max(longest as u16) } else { 15.max(longest as u16) };
    let column = |title, width, numeric| Column { title, width, numeric };
    let mut all = vec![
        column(columns::MARK, 1, false),
        column(columns::LETTER, letter, false),
        column(columns::AGE, 7, true),
    ];
    if width >= 72 {
        all.push(column(columns::TRIES, 5, true));
    }
    if width >= 100 {
        all.push(column(columns::REPLAYS, 7, true));
    }
    if width >= 150 {
        all.push(column(columns::ORDER, 19, true));
    }
    if width >= 110 {
        all.push(column(columns::USER, 10, true));
    }
    if width >= 72 {
        all.push(column(columns::VOUCHER, 6, true));
    }
    all.push(column(columns::VERDICT, 12, false));
    all.push(column(columns::REASON, 0, false));
    all
}

fn cells(scene: &Scene<'_>, line: &LetterLine, marked: bool, layout: &[Column]) -> Vec<Cell> {
    let theme = scene.theme;
    let shown = |text: &str| scene.users.within(text, line.user);
    let cell = |column: &Column| match column.title {
        columns::MARK => Cell::new(if marked { theme.glyphs.mark } else { " " }, theme.key()),
        columns::LETTER => {
            let style = if marked { theme.strong() } else { Style::new() };
            Cell::new(line.letter.to_string(), style)
        }
        columns::TRIES => Cell::new(figures::within(line.deliveries, 5), theme.soft())
            .exactly(Value::count(Some(line.deliveries))),
        columns::REPLAYS => {
            let style = if line.replays > 0 { theme.warn() } else { theme.soft() };
            Cell::new(figures::within(line.replays, 7), style)
                .exactly(Value::count(Some(line.replays)))
        }
        columns::VERDICT => {
            Cell::new(text::letters::verdict_word(line.verdict), verdict(theme, line))
                .exactly(Value::word(&line.verdict))
        }
        columns::REASON => Cell::new(shown(&text::order_fault(&line.reason)), theme.soft()),
        title => paged_rows::cell(scene, line, title).unwrap_or_else(|| Cell::plain("")),
    };
    layout.iter().map(cell).collect()
}

/// Colour by urgency: a buyer waits, a decision is needed, or neither.
fn verdict(theme: Theme, line: &LetterLine) -> Style {
    match line.verdict.act() {
        LetterAct::Replay => Style::new(),
        LetterAct::Decide => theme.warn(),
        LetterAct::Discard => theme.soft(),
    }
}

type DetailRow = (&'static str, String, Style);

/// The detail of a letter, one line each, the most significant first.
fn detail_lines(scene: &Scene<'_>, line: &LetterLine, width: u16) -> Vec<DetailRow> {
    let theme = scene.theme;
    let plain = Style::new();
    let masked = |text: &str| scene.users.within(text, line.user);
    let entry = line.entry.map(|entry| entry.to_string());
    let sale = line.voucher.map(|id| match scene.snapshot.sale(id) {
        Some(sale) => text::sale_name(id, &sale.title),
        None => format!("#{id}"),
    });
    let (order, style) = if let Some(fault) = &line.fault {
        (text::letters::no_order(&masked(&text::order_fault(fault))), theme.warn())
    } else {
        let order = line.order.map(|order| order.to_string());
        let user = line.user.map(|user| scene.users.number(user));
        (text::letters::buyer(order, user, sale), plain)
    };
    let id = line.letter.to_string();
    let mut rows = vec![
        (labels::LETTER.read(), text::letters::was(&id, entry.as_deref()), plain),
        (labels::VERDICT.read(), text::letters::why(line.verdict), theme.strong()),
        (labels::REASON.read(), masked(&text::order_fault(&line.reason)), plain),
        (labels::ORDER.read(), order, style),
    ];
    let fields =
        line.payload.iter().map(|(name, value)| masked(&text::letters::field(name, value)));
    let more = (line.fields_more > 0).then(|| text::letters::more_fields(line.fields_more));
    rows.extend(fields.chain(more).map(|text| (labels::FIELDS.read(), text, plain)));
    rows.extend(line.history.iter().rev().map(|it| {
        let at = it.at.date_time(scene.zone);
        let why = masked(&text::order_fault(&it.reason));
        let text = text::letters::burial(&at, it.deliveries, &it.consumer, &why);
        (labels::HISTORY.read(), text, theme.soft())
    }));
    let room = usize::from(width.saturating_sub(18));
    let mut lines: Vec<DetailRow> = Vec::new();
    let mut before = "";
    for (label, text, style) in rows {
        let mut parts = wrap(&text, room);
        if label == labels::FIELDS.read() && parts.len() > FIELD_ROWS {
            parts.truncate(FIELD_ROWS);
            if let Some(last) = parts.last_mut() {
                let cut = left(last, room.saturating_sub(1), "");
                *last = format!("{}{}", cut.trim_end(), theme.glyphs.ellipsis);
            }
        }
        for (row, part) in parts.into_iter().enumerate() {
            let head = if row == 0 && label != before { label } else { "" };
            lines.push((head, part, style));
        }
        before = label;
    }
    lines
}

fn detail(canvas: &mut Canvas<'_>, scene: &Scene<'_>, mut rows: Vec<DetailRow>) {
    let theme = scene.theme;
    canvas.rule(0, theme.glyphs.rule, theme.soft());
    let room = usize::from(canvas.height().saturating_sub(1));
    if rows.len() > room && room > 0 {
        let more = rows.len() - room + 1;
        rows.truncate(room - 1);
        let said = text::letters::more_lines(more);
        rows.push(("", said, theme.soft()));
    }
    for (row, (label, value, style)) in rows.into_iter().enumerate() {
        let y = row as u16 + 1;
        canvas.text(1, y, label, theme.soft());
        canvas.line(16, y, &Line::styled(value, style));
    }
}
