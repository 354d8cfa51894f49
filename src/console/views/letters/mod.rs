//! Dead letters: entry, reason and current verdict, page by page.

pub(crate) mod wording;

use ratatui::style::Style;
use seckill_engine::{
    commands::Focus,
    dead_letters::LetterScope,
    telemetry::{
        Snapshot,
        snapshot::{LetterLine, LetterPage},
    },
};
use seckill_model::{
    EntryId, LetterAction,
    filter::Filter,
    message::{Label, text},
};

use self::wording::Selected;
use super::{
    Scene, Source, View,
    detail::Detail,
    table::{Column, Page, REST, Row, TableState, Value},
    table_view::TableView,
};
use crate::text::{self, figures};

/// Rows of a field; values may be long, and the history has to fit as well.
const FIELD_ROWS: usize = 2;

impl Row for LetterLine {
    type Id = EntryId;
    type Key = EntryId;

    const MARKS: bool = true;
    const COLUMNS: &'static [Column<Self>] = &[
        Column::text(Label("tables-letter"), &[(0, 15), (100, 19)], |line: &Self| {
            Value::Entry(line.letter)
        })
        .fit(|_, line| line.letter.to_string().len()),
        Column::span(Label("tables-age"), &[(0, 7)], |line: &Self| Value::Span(line.age_ms)),
        Column::hidden(Label("tables-entry"), |line: &Self| {
            line.entry.map_or(Value::Nothing, Value::Entry)
        }),
        Column::figure(Label("tables-tries"), &[(72, 5)], |line: &Self| line.deliveries.into())
            .shown(|_, line, cells| figures::within(line.deliveries, cells.into()).into())
            .soft(),
        Column::figure(Label("tables-replays"), &[(100, 7)], |line: &Self| line.replays.into())
            .shown(|_, line, cells| figures::within(line.replays, cells.into()).into())
            .styled(|scene, line| match line.replays {
                0 => scene.theme.soft,
                _ => scene.theme.warn,
            }),
        Column::figure(Label("tables-order"), &[(150, 19)], |line: &Self| line.order.into()),
        Column::figure(Label("common-user"), &[(110, 10)], |line: &Self| line.user.into()),
        Column::figure(Label("tables-sale"), &[(72, 6)], |line: &Self| line.voucher.into()),
        Column::hidden(Label("tables-holder"), |line: &Self| line.consumer.clone().into()),
        Column::text(Label("tables-verdict"), &[(0, 12)], |line: &Self| {
            Value::name(text!("letters-verdict", verdict = line.verdict), &line.verdict)
        })
        // By urgency: a buyer waits, a decision is needed, or neither.
        .styled(|scene, line| match line.verdict.action() {
            LetterAction::Replay => Style::new(),
            LetterAction::Decide => scene.theme.warn,
            LetterAction::Discard => scene.theme.soft,
        }),
        Column::text(Label("tables-reason"), &[(0, REST)], |line: &Self| {
            Value::Mentions(text::order_error(&line.reason), line.user)
        })
        .soft(),
    ];

    fn id(&self) -> EntryId {
        self.letter
    }

    fn page(snapshot: &Snapshot) -> Page<'_, Self> {
        let LetterPage { view, taken, more, lines } = &snapshot.letters;
        let total = snapshot.stream.as_ref().map(|stream| stream.dead);
        let last = lines.last().filter(|_| *more).map(|last| last.letter);
        Page {
            key: *view,
            next: last.and_then(EntryId::next_of_all),
            ids: Some(*view..=last.unwrap_or(EntryId::MAX)),
            total: Some(total.unwrap_or(0)),
            taken: *taken,
            // There are none, whether or not a page was read.
            is_read: snapshot.redis.up && (taken.is_some() || total == Some(0)),
            ..Page::whole(lines.iter())
        }
    }
}

impl TableView for LetterLine {
    const VIEW: View = View::Letters;
    const SOURCES: &'static [Source] = &[Source::Redis, Source::Sql];

    fn empty(scene: &Scene<'_>, _: &TableState<Self>) -> Option<String> {
        let Snapshot { stream, redis, sql, letters, .. } = scene.snapshot;
        let is_blind = scene.is_blind();
        if !is_blind && stream.as_ref().is_some_and(|stream| stream.dead == 0) {
            return Some(text!("letters-no-dead-letters-entries"));
        }
        let is_unread = is_blind || letters.taken.is_none() && !(redis.up && sql.up);
        is_unread.then(|| text!("letters-redis-or-database-is-unreachable"))
    }

    /// The most significant fields first.
    fn detail(scene: &Scene<'_>, line: &Self, cells: u16) -> Detail {
        let theme = scene.theme;
        let mut detail = Detail::new(scene, cells);
        detail.more = |count| text!("letters-seckill-dead-show", count);
        let masked = |text: &str| scene.users.within(text, line.user);
        let letter = line.letter;
        let was = match line.entry {
            Some(entry) => text!("letters-was-entry", letter, entry),
            None => letter.to_string(),
        };
        detail.text(Label("letters-letter"), was);
        detail.field(Label("common-verdict"), wording::why(line.verdict), theme.strong);
        detail.text(Label("common-reason"), masked(&text::order_error(&line.reason)));
        match (&line.fault, line.order, line.user, line.voucher) {
            (Some(fault), ..) => {
                let fault = masked(&text::order_error(fault));
                detail.field(Label("field-order"), text!("letters-none", fault), theme.warn);
            }
            (None, Some(order), Some(user), Some(sale)) => {
                let (user, sale) = (scene.users.number(user), scene.sale_name(sale));
                detail.text(Label("field-order"), text!("letters-user-sale", order, user, sale));
            }
            _ => detail.text(Label("field-order"), Label("common-none")),
        }
        for (name, value) in &line.payload {
            let text = masked(&format!("{name} = {value}"));
            detail.field_of(FIELD_ROWS, Label("letters-fields"), text, Style::new());
        }
        if line.fields_more > 0 {
            let more = text!("letters-more-fields", count = line.fields_more);
            detail.text(Label("letters-fields"), more);
        }
        for it in line.history.iter().rev() {
            let (at, deliveries) = (it.at.date_time(scene.zone), it.deliveries);
            let reason = masked(&text::order_error(&it.reason));
            let text = match &*it.consumer {
                "" => text!("letters-deliveries", at, deliveries, reason),
                consumer => text!("letters-given-up-by", at, deliveries, consumer, reason),
            };
            detail.field(Label("letters-given-up"), text, theme.soft);
        }
        detail
    }

    fn is_read(snapshot: &Snapshot) -> bool {
        snapshot.letters.taken.is_some()
    }

    fn focus(page: EntryId, focus: &mut Focus) {
        focus.letters_from = Some(page);
    }
}

/// The letters that a command applies to: the marked ones, else the one under the cursor.
pub(crate) fn in_scope(
    state: &TableState<LetterLine>,
    snapshot: &Snapshot,
) -> Option<(LetterScope, Selected)> {
    if state.all_marked {
        // The engine reports up to which ID it counted.
        let scope = LetterScope::Matching { filter: Filter::default(), last: EntryId::MAX };
        let filtered = !state.controls.filter.value().is_empty();
        let shown = filtered.then(|| state.rows(snapshot).len());
        return Some((scope, Selected::All { shown }));
    }
    if !state.marks.is_empty() {
        let marks = state.marks.iter().copied().collect();
        return Some((LetterScope::Letters(marks), Selected::Marked(state.marked(snapshot))));
    }
    let letter = state.chosen(snapshot)?.letter;
    Some((LetterScope::Letters(vec![letter]), Selected::One(letter.to_string())))
}
