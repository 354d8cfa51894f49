//! Dead letters: entry, reason and current verdict, page by page.

use std::collections::BTreeMap;

use seckill_engine::{
    LetterLine,
    recovery::dead_letters::{LetterScope, LettersCounted},
};
use seckill_model::{Filter, LetterAction, LetterCounts, LetterVerdict, OrderEntry};

use super::{prelude::*, table::Marked};
use crate::text::{commands::Question, figures::thousands};

impl Row for LetterLine {
    type Id = EntryId;
    type Key = EntryId;

    const VIEW: View = View::Letters;
    const KEYS: &'static [ViewKey] = &[
        (Action::ReplayLetters, "R", true),
        (Action::Discard, "D", true),
        (Action::Compensate, "C", true),
        STOP_COMMAND,
        MARK,
        (Action::MarkAll, "*", true),
        FILTER,
        USERS,
    ];
    const SOURCES: &'static [Source] = &[Source::Redis, Source::Sql];
    const FOCUS: fn(&mut Focus, Self::Key) = |focus, page| focus.letters_from = Some(page);
    const MARKS: bool = true;
    const COLUMNS: &'static [Column<Self>] = &[
        Column::text(Label("tables-letter"), (0, 15), |line: &Self| line.letter.letter.into())
            .fit(),
        Column::span(Label("tables-age"), (0, 7), |line: &Self| Value::Span(line.age_ms)),
        Column::hidden(|line: &Self| line.letter.entry.map_or(Value::Nothing, Value::Entry)),
        Column::figure(Label("tables-tries"), (72, 5), |line: &Self| line.letter.deliveries.into())
            .soft(),
        Column::figure(Label("tables-replays"), (100, 7), |line: &Self| line.letter.replays.into())
            .styled(|scene, line| match line.letter.replays {
                0 => scene.theme.soft,
                _ => scene.theme.warn,
            }),
        Column::figure(Label("tables-order"), (150, 19), |line: &Self| {
            line.letter.order.map(|it| it.order).into()
        }),
        Column::figure(Label("common-user"), (110, 10), |line: &Self| {
            line.letter.order.map(|it| it.user).into()
        }),
        Column::figure(Label("tables-sale"), (72, 6), |line: &Self| {
            line.letter.order.map(|it| it.voucher).into()
        }),
        Column::hidden(|line: &Self| line.letter.consumer.clone().into()),
        Column::text(Label("tables-verdict"), (0, 12), |line: &Self| {
            Value::name(text!("letters-verdict", verdict = line.verdict), &line.verdict)
        })
        .styled(|scene, line| style(scene, line.verdict)),
        Column::text(Label("tables-reason"), (0, REST), |line: &Self| {
            let user = line.letter.order.map(|it| it.user);
            Value::Mentions(text::order_error(&line.letter.reason), user)
        })
        .soft(),
    ];

    fn id(&self) -> EntryId {
        self.letter.letter
    }

    fn page(snapshot: &Snapshot) -> Page<'_, Self> {
        let total = snapshot.stream.as_ref().map(|stream| stream.dead);
        let page = Page::by_id(&snapshot.letters, total.unwrap_or(0));
        // If there are none, no page has to be read.
        Page { is_read: snapshot.redis.up && (page.is_read || total == Some(0)), ..page }
    }

    fn empty(scene: &Scene, _: &TableState<Self>) -> Option<String> {
        let stream = scene.shown.stream.as_ref()?;
        (stream.dead == 0).then(|| text!("letters-no-dead-letters-entries"))
    }

    /// The letters of the page by verdict, those that a buyer waits for first.
    fn above(scene: &Scene, cells: u16, rows: u16) -> Vec<Line<'static>> {
        let mut groups: BTreeMap<LetterVerdict, usize> = BTreeMap::new();
        for line in Self::page(&scene.shown).rows {
            *groups.entry(line.verdict).or_default() += 1;
        }
        if groups.is_empty() || rows == 0 {
            return Vec::new();
        }
        let head = format!("{}  ", Label("letters-on-this-page").read());
        let mut line = Line::styled(head, scene.theme.soft);
        for (verdict, count) in groups {
            let group = format!("{count} × {}   ", text!("letters-verdict", verdict));
            if line.width() + width(&group) > usize::from(cells) {
                line.push_span("…");
                break;
            }
            line.push_span(Span::styled(group, style(scene, verdict)));
        }
        vec![line]
    }

    /// The most significant fields first.
    fn detail<'a>(scene: &'a Scene, line: &'a Self, cells: u16) -> Option<Detail<'a>> {
        let theme = scene.theme;
        let mut detail = Detail::new(scene, cells);
        let letter = &line.letter;
        let user = letter.order.map(|it| it.user);
        let masked = |text: &str| scene.users.within(text, user);
        let was = match letter.entry {
            Some(entry) => text!("letters-was-entry", letter = letter.letter, entry),
            None => letter.letter.to_string(),
        };
        detail.text(Label("letters-letter"), was);
        detail.field(Label("common-verdict"), why(line.verdict), theme.strong);
        detail.text(Label("common-reason"), masked(&text::order_error(&letter.reason)));
        match (&letter.fault, letter.order) {
            (Some(fault), _) => {
                let fault = masked(&text::order_error(fault));
                detail.field(Label("field-order"), text!("letters-none", fault), theme.warn);
            }
            (None, Some(OrderEntry { order, user, voucher, .. })) => {
                let (user, sale) = (scene.users.number(user), text::sale_in(&scene.shown, voucher));
                detail.text(Label("field-order"), text!("letters-user-sale", order, user, sale));
            }
            (None, None) => detail.text(Label("field-order"), Label("common-none")),
        }
        for (name, value) in &letter.payload {
            let text = masked(&format!("{name} = {value}"));
            detail.text(Label("letters-fields"), text);
        }
        if letter.fields_more > 0 {
            let more = text!("letters-more-fields", count = letter.fields_more);
            detail.text(Label("letters-fields"), more);
        }
        for it in letter.history.iter().rev() {
            let (at, deliveries) = (it.at.date_time(&scene.zone), it.deliveries);
            let reason = masked(&text::order_error(&it.reason));
            let text = match &*it.consumer {
                "" => text!("letters-deliveries", at, deliveries, reason),
                consumer => text!("letters-given-up-by", at, deliveries, consumer, reason),
            };
            detail.field(Label("letters-given-up"), text, theme.soft);
        }
        Some(detail)
    }

    fn why_not(action: Action, scene: &Scene) -> Option<String> {
        let is_of_letters =
            matches!(action, Action::ReplayLetters | Action::Discard | Action::Compensate);
        let is_none = scene.newest.stream.as_ref().is_none_or(|it| it.dead == 0);
        (is_of_letters && is_none).then(|| NOTHING_DEAD.to_owned())
    }
}

/// By urgency: a buyer waits, a decision is needed, or neither.
fn style(scene: &Scene, verdict: LetterVerdict) -> Style {
    match verdict.action() {
        LetterAction::Replay => Style::new(),
        LetterAction::Decide => scene.theme.warn,
        LetterAction::Discard => scene.theme.soft,
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
    let letter = state.chosen(snapshot)?.letter.letter;
    Some((LetterScope::Letters(vec![letter]), Selected::One(letter.to_string())))
}

const NOTHING_DEAD: Label = Label("letters-there-are-no-dead-letters");

/// Which letters a command applies to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Selected {
    /// The one under the cursor.
    One(String),
    Marked(Marked),
    /// All letters, of which a filter shows this many.
    All {
        shown: Option<usize>,
    },
}

/// Describes the scope, given the `total`.
fn scope(about: &Selected, total: u64) -> String {
    match about {
        Selected::One(letter) => text!("letters-one", letter),
        Selected::All { shown } => {
            let shown = shown.map_or_else(|| "none".to_owned(), |shown| thousands(shown as u64));
            text!("letters-scope-all", count = total, shown)
        }
        Selected::Marked(Marked { count, filtered, elsewhere }) => {
            text!("letters-marked", count, filtered, elsewhere)
        }
    }
}

/// The effect on letters of one verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
enum Consequence {
    Replayed,
    Removed,
    Cancelled,
    /// Kept, as every replay failed; the command line can replay it.
    Exhausted,
    Stays,
}

/// What a command does with a letter of this verdict: a replay puts it back into the stream, discarding removes it unless
/// a buyer waits, and compensating removes it, so that a waiting buyer gets nothing and the stock is returned.
fn effect(command: Action, verdict: LetterVerdict) -> Consequence {
    match (command, verdict) {
        (Action::ReplayLetters, LetterVerdict::Awaited) => Consequence::Replayed,
        (Action::ReplayLetters, LetterVerdict::CameBack) => Consequence::Exhausted,
        (Action::ReplayLetters, _) | (_, LetterVerdict::IdTaken) => Consequence::Stays,
        (Action::Compensate, verdict) if verdict.is_awaited() => Consequence::Cancelled,
        (_, verdict) if verdict.is_awaited() => Consequence::Stays,
        _ => Consequence::Removed,
    }
}

/// The command of the engine.
pub(crate) fn command(action: Action, scope: LetterScope) -> Command {
    match action {
        Action::ReplayLetters => Command::ReplayLetters { scope, force: false },
        _ => Command::DiscardLetters { scope, compensate: action == Action::Compensate },
    }
}

/// How many letters a command changes.
pub(crate) fn done(command: Action, counts: &LetterCounts) -> u64 {
    counts.total()
        - count(command, counts, Consequence::Stays)
        - count(command, counts, Consequence::Exhausted)
}

/// On how many letters a command has that effect.
fn count(command: Action, counts: &LetterCounts, wanted: Consequence) -> u64 {
    let verdicts = LetterVerdict::ALL.iter().copied();
    verdicts.filter(|it| effect(command, *it) == wanted).map(|it| counts.of(it)).sum()
}

/// The reason and the consequence, with the key for it.
fn why(verdict: LetterVerdict) -> String {
    text!("letters-advice", verdict)
}

/// What the command would do, in exact counts; or why there is nothing to do.
pub(crate) fn question(
    command: Action,
    found: &LettersCounted,
    about: &Selected,
) -> Result<Question, String> {
    let LettersCounted { counts, gone, .. } = found;
    let (total, done) = (counts.total(), done(command, counts));
    let stay = total - done;
    let orders = count(command, counts, Consequence::Cancelled);
    if total == 0 {
        let all = matches!(about, Selected::All { .. });
        return Err(if all { NOTHING_DEAD } else { Label("letters-these-letters-are-no-longer") }
            .to_string());
    }
    let present = || LetterVerdict::ALL.iter().copied().filter(|it| counts.of(*it) > 0);
    if done == 0 || (command == Action::Compensate && orders == 0) {
        return Err(match present().next().filter(|_| total == 1) {
            Some(only) => why(only),
            None => text!("letters-nothing-to-do", command = command.setting(), count = total),
        });
    }
    let about = scope(about, total);
    let figure = |count: u64| format!("{:>9}", thousands(count));
    let mut verdicts: Vec<String> = present()
        .map(|it| {
            let effect = text!("letters-effect", effect = <&str>::from(effect(command, it)));
            let (count, verdict) = (figure(counts.of(it)), text!("letters-verdict", verdict = it));
            text!("letters-verdict-line", count, verdict, effect)
        })
        .collect();
    if *gone > 0 {
        verdicts.push(text!("letters-marked-no-longer-present", gone = figure(*gone)));
    }
    let verdicts = Lines(verdicts.join("\n"));
    Ok(match command {
        Action::ReplayLetters => question!("ask-replay-letters", about, done, stay, verdicts),
        Action::Discard => question!("ask-discard-letters", about, done, stay, verdicts),
        _ => {
            question!("ask-compensate-letters", about, done, stay, verdicts, orders)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_letter_of_a_waiting_buyer_is_removed_without_compensation() {
        for &verdict in LetterVerdict::ALL {
            let discarded = effect(Action::Discard, verdict);
            assert_eq!(discarded == Consequence::Stays, verdict.is_awaited(), "{verdict}");
            let given_back = effect(Action::Compensate, verdict);
            assert_eq!(given_back == Consequence::Removed, !verdict.is_awaited(), "{verdict}");
            assert!(!why(verdict).contains("  "), "{verdict}");
        }
    }
}
