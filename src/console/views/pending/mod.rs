//! Pending: delivered, unacknowledged entries, page by page.

mod histogram;
pub(crate) mod wording;

use ratatui::{style::Style, text::Span};
use seckill_engine::telemetry::{
    Snapshot,
    snapshot::{PendingLine, PendingPage},
};
use seckill_model::{
    EntryId, Verdict,
    message::{Label, text},
};

use super::{
    Scene, Source,
    detail::{Detail, draw_table},
    draw_head, paged, stream,
    table::{self, Column, Page, REST, Row, TableState, Value},
};
use crate::{
    text::{self},
    widgets::Canvas,
};

/// Rows that the table keeps below the histograms.
const TABLE: u16 = 6;

impl Row for PendingLine {
    type Id = EntryId;
    type Key = EntryId;

    const MARKS: bool = true;
    const COLUMNS: &'static [Column<Self>] = &[
        Column::new(Label("tables-entry"), &[(0, 17), (100, 19)], |line: &Self| {
            Value::Entry(line.entry)
        })
        .fit(|_, line| line.entry.to_string().len()),
        Column::new(Label("tables-age"), &[(0, 7)], |line: &Self| Value::Span(line.age_ms))
            .in_ms()
            .right(),
        Column::new(Label("tables-idle"), &[(92, 7)], |line: &Self| Value::Span(line.idle_ms))
            .soft()
            .in_ms()
            .right(),
        Column::new(Label("tables-tries"), &[(72, 5)], |line: &Self| line.deliveries.into())
            .styled(|scene, line| match line.deliveries {
                2.. => scene.theme.warn,
                _ => scene.theme.soft,
            })
            .right(),
        Column::new(Label("tables-order"), &[(150, 19)], |line: &Self| line.order.into()).right(),
        Column::new(Label("common-user"), &[(110, 10)], |line: &Self| line.user.into()).right(),
        Column::new(Label("tables-sale"), &[(72, 6)], |line: &Self| line.voucher.into()).right(),
        Column::new(Label("tables-holder"), &[(0, 16), (120, 24)], |line: &Self| {
            Value::Text(format!("{} {}", line.consumer, state_word(line)))
        })
        .by(|line| line.consumer.clone().into())
        .shown(|scene, line, cells| scene.fit_before(&line.consumer, state_word(line), cells))
        .styled(|scene, line| if line.holder_alive { Style::new() } else { scene.theme.broken }),
        Column::new(Label("tables-verdict"), &[(0, REST)], |line: &Self| {
            match (line.verdict, fault(line)) {
                (Some(verdict), _) => Value::name(wording::verdict_word(verdict), &verdict),
                (None, Some(fault)) => Value::Mentions(fault, line.user),
                (None, None) => Value::Text(String::new()),
            }
        })
        .by(|line| line.verdict.map(wording::verdict_word).into())
        .searched(|line| {
            let verdict = line.verdict.map(wording::verdict_word).unwrap_or_default();
            format!("{verdict} {}", fault(line).unwrap_or_default())
        })
        .styled(|scene, line| match line.verdict {
            Some(Verdict::Written | Verdict::InHand) => scene.theme.soft,
            Some(Verdict::Stuck) => Style::new(),
            _ => scene.theme.warn,
        }),
    ];

    fn id(&self) -> EntryId {
        self.entry
    }

    fn list(snapshot: &Snapshot) -> Vec<&Self> {
        snapshot.pending.lines.iter().collect()
    }

    fn page(snapshot: &Snapshot) -> Page<'_, Self> {
        let PendingPage { from, taken, more, lines } = &snapshot.pending;
        Page {
            key: *from,
            next: lines.last().filter(|_| *more).and_then(|last| last.entry.next_of_all()),
            total: Some(pending_in(snapshot)),
            is_read: snapshot.redis.up && taken.is_some(),
            ..Page::whole(Self::list(snapshot))
        }
    }

    fn is_on(page: &Page<'_, Self>, id: &EntryId) -> bool {
        page.covers(*id)
    }
}

/// The number of pending entries: of the whole list if it was read for this snapshot, shortly after the count.
pub(super) fn pending_in(snapshot: &Snapshot) -> u64 {
    let page = &snapshot.pending;
    if page.is_whole() && page.taken == Some(snapshot.taken) {
        return page.lines.len() as u64;
    }
    snapshot.stream.as_ref().map_or(0, |stream| stream.pending)
}

/// Why the entry is no order.
fn fault(line: &PendingLine) -> Option<String> {
    line.fault.as_ref().map(text::order_error)
}

/// The state of a holder, unless it is alive.
fn state_word(line: &PendingLine) -> &'static str {
    if line.holder_alive { "" } else { holder(line).read() }
}

/// The state of a holder; one that is not a node is not dead, as it never lived here.
fn holder(line: &PendingLine) -> Label {
    match (line.holder_alive, line.holder_known) {
        (true, _) => text::ALIVE,
        (false, true) => text::DEAD_HOLDER,
        (false, false) => text::STRANGER,
    }
}

pub(super) fn draw(
    canvas: &mut Canvas<'_>,
    scene: &Scene<'_>,
    state: &mut TableState<PendingLine>,
) {
    let (w, h) = (canvas.width(), canvas.height());
    let heading = scene.heading(&text::PENDING, &[Source::Redis]);
    draw_head(canvas, &heading, &paged::summary(scene, state));
    let detail = state.opened(scene.snapshot).map(|line| detail(scene, line, w));
    let below = detail.as_ref().map_or(0, Detail::height);
    let mut top = scene.table_top();
    if !scene.compact && h >= top + histogram::ROWS + 1 + TABLE + below {
        histogram::draw(&mut canvas.part(0, top, w, histogram::ROWS), scene);
        top += histogram::ROWS + 1;
    }
    if state.rows(scene.snapshot).is_empty() {
        // With the headings: in a load test, rows appear and disappear with each snapshot.
        table::draw(&mut canvas.below(top), scene, state, &[], None);
        top += 1;
    }
    draw_table(canvas, scene, top, state, detail, |state| nothing(scene, state));
}

/// Why no row is shown.
fn nothing(scene: &Scene<'_>, state: &TableState<PendingLine>) -> String {
    let page = &scene.snapshot.pending;
    if state.is_waiting() {
        text::READING.to_owned()
    } else if scene.snapshot.stream.is_none() {
        text::UNKNOWN.to_owned()
    } else if page.lines.is_empty() && scene.is_blind() {
        text!("console-redis-is-unreachable-pending-entries")
    } else if page.taken.is_none() {
        text::READING.to_owned()
    } else if page.lines.is_empty() {
        stream::wording::nothing_pending(scene.snapshot.stream.as_ref().and_then(|it| it.lag))
    } else {
        text::no_match(state.controls.filter.value())
    }
}

fn detail(scene: &Scene<'_>, line: &PendingLine, width: u16) -> Detail {
    let theme = scene.theme;
    let mut detail = Detail::new(scene, width);
    let shown = |value: Option<String>| value.unwrap_or_else(|| text::UNKNOWN.to_owned());
    let user = line.user.map(|user| stream::wording::user(&scene.users.number(user)));
    let state = holder(line);
    let style = if line.holder_alive { theme.good } else { theme.bad };
    let holder = scene.fit(&line.consumer, width.saturating_sub(28));
    let holder = vec![Span::raw(format!("{holder}  ")), Span::styled(state.read(), style)];
    let order = line.order.map(|order| order.to_string());
    let sale = line.voucher.map(|id| scene.sale_name(id));
    detail.field(Label("field-entry"), line.entry.to_string(), Style::new());
    detail.line(Label("field-holder"), holder);
    detail.field(Label("field-order"), shown(order), Style::new());
    detail.line(Label("tables-user"), vec![Span::raw(shown(user))]);
    detail.field_of(1, Label("field-sale"), shown(sale), Style::new());
    detail.field(Label("common-verdict"), shown(line.verdict.map(wording::judged)), Style::new());
    detail.fault(scene, line.fault.as_ref(), line.user);
    detail
}
