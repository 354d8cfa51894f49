//! Pending: delivered, unacknowledged entries, page by page.

mod histogram;

use seckill_engine::{Scope, telemetry::snapshot::PendingLine};
use seckill_model::{Filter, Verdict};

use super::prelude::*;

impl Row for PendingLine {
    type Id = EntryId;
    type Key = EntryId;

    const VIEW: View = View::Pending;
    const KEYS: &'static [ViewKey] =
        &[(Action::PlanRecovery, "A", true), STOP_COMMAND, MARK, FILTER, USERS];
    const SOURCES: &'static [Source] = &[Source::Redis];
    const FOCUS: fn(&mut Focus, Self::Key) = |focus, page| focus.pending = Some(page);
    const MARKS: bool = true;
    const COLUMNS: &'static [Column<Self>] = &[
        Column::text(Label("tables-entry"), (0, 15), |line: &Self| line.entry.into()).fit(),
        Column::span(Label("tables-age"), (0, 7), |line: &Self| Value::Span(line.age_ms)),
        Column::span(Label("tables-idle"), (92, 7), |line: &Self| Value::Span(line.idle_ms)).soft(),
        Column::figure(Label("tables-tries"), (72, 5), |line: &Self| line.deliveries.into())
            .styled(|scene, line| match line.deliveries {
                2.. => scene.theme.warn,
                _ => scene.theme.soft,
            }),
        Column::figure(Label("tables-order"), (150, 19), |line: &Self| line.order.into()),
        Column::figure(Label("common-user"), (110, 10), |line: &Self| line.user.into()),
        Column::figure(Label("tables-sale"), (72, 6), |line: &Self| line.voucher.into()),
        Column::text(Label("tables-holder"), (0, 16), |line: &Self| {
            Value::holder(&line.consumer, holder(line))
        })
        .styled(|scene, line| if line.holder_alive { Style::new() } else { scene.theme.broken }),
        Column::text(Label("tables-verdict"), (0, REST), |line: &Self| {
            match (line.verdict, &line.fault) {
                (Some(verdict), _) => {
                    Value::name(text!("recovery-verdict-word", verdict), &verdict)
                }
                (None, Some(fault)) => Value::Mentions(text::order_error(fault), line.user),
                (None, None) => Value::Nothing,
            }
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

    fn page(snapshot: &Snapshot) -> Page<'_, Self> {
        let page = Page::by_id(&snapshot.pending, pending_in(snapshot));
        Page { is_read: page.is_read && snapshot.redis.up, ..page }
    }

    fn above(scene: &Scene, cells: u16, rows: u16) -> Vec<Line<'static>> {
        if scene.compact || rows < histogram::ROWS + 2 {
            return Vec::new();
        }
        histogram::lines(scene, cells)
    }

    fn empty(scene: &Scene, _: &TableState<Self>) -> Option<String> {
        let (stream, _) = scene.shown.stream.as_ref().zip(scene.shown.pending.taken)?;
        // The pending list does not contain undelivered entries.
        Some(match stream.lag {
            Some(0) => text!("stream-no-pending-entries-every-delivered"),
            Some(lag) => text!("stream-no-pending-entries-entries-wait", count = lag),
            None => text!("stream-no-pending-entries-lag"),
        })
    }

    fn detail<'a>(scene: &'a Scene, line: &'a Self, cells: u16) -> Option<Detail<'a>> {
        let theme = scene.theme;
        let shown = |value: Option<String>| value.unwrap_or_else(|| text::UNKNOWN.to_owned());
        let style = if line.holder_alive { theme.good } else { theme.bad };
        let name = fit(&line.consumer, cells.saturating_sub(28).into());
        let holder = vec![format!("{name}  ").into(), Span::styled(holder(line).read(), style)];
        let order = line.order.map(|order| order.to_string());
        let sale = line.voucher.map(|id| text::sale_in(&scene.shown, id));
        let verdict = line.verdict.map(|verdict| {
            let action = text!("recovery-action", action = verdict.action());
            text!("recovery-value", text = text!("recovery-verdict", verdict), action)
        });
        let mut detail = Detail::new(scene, cells);
        detail.text(Label("field-entry"), line.entry.to_string());
        detail.line(Label("field-holder"), holder);
        detail.text(Label("field-order"), shown(order));
        detail.user(scene, line.user);
        detail.text(Label("field-sale"), shown(sale));
        detail.text(Label("common-verdict"), shown(verdict));
        detail.fault(scene, line.fault.as_ref(), line.user);
        Some(detail)
    }

    /// Requests a plan for the marked entries, or for all; the question follows when it arrives.
    fn run(state: &mut TableState<Self>, action: Action, _: &Scene) -> Option<Effect> {
        let scope = match action {
            Action::PlanRecovery if state.marks.is_empty() => Scope::All(Filter::default()),
            Action::PlanRecovery => Scope::Entries(state.marks.iter().copied().collect()),
            _ => return None,
        };
        Some(Effect::Send(Command::Plan(scope), None))
    }

    fn why_not(action: Action, scene: &Scene) -> Option<String> {
        let is_none = scene.newest.redis.up && Self::page(&scene.newest).total == Some(0);
        let why = || Label("command-there-are-no-pending-entries").to_owned();
        (action == Action::PlanRecovery && is_none).then(why)
    }
}

/// The number of pending entries: of the whole list if it was read for this snapshot, shortly after the count.
pub(crate) fn pending_in(snapshot: &Snapshot) -> u64 {
    let page = &snapshot.pending;
    if page.is_whole() && page.taken == Some(snapshot.taken) {
        return page.lines.len() as u64;
    }
    snapshot.stream.as_ref().map_or(0, |stream| stream.pending)
}

/// The state of a holder; one that is not a node is not dead, as it never lived here.
fn holder(line: &PendingLine) -> Label {
    match (line.holder_alive, line.holder_known) {
        (true, _) => text::ALIVE,
        (false, true) => text::DEAD_HOLDER,
        (false, false) => text::STRANGER,
    }
}
