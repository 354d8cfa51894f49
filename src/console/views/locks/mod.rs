//! Locks: holder, remaining lease and waiters.

use seckill_engine::{locks::Timing, telemetry::snapshot::Holder};

use super::prelude::*;
use crate::text::commands;

/// Cells of a figure beside its bar.
const BESIDE_BAR: u16 = 8;
/// Cells of the bar in the detail.
const BAR: u16 = 30;

impl Row for Holder {
    type Id = (String, String);
    type Key = ();

    const VIEW: View = View::Locks;
    const KEYS: &'static [ViewKey] = &[(Action::Release, "X", true), FILTER];
    const ON_ROW: &'static [Action] = &[Action::Release];
    const EMPTY: Label = Label("console-no-lock-is-held");
    const SOURCES: &'static [Source] = &[Source::Redis];
    const COLUMNS: &'static [Column<Self>] = &[
        Column::text(Label("tables-lock"), (0, 18), |lock: &Self| lock.name.clone().into()),
        Column::text(Label("common-node"), (0, 14), |lock: &Self| {
            Value::holder(&lock.node, state(lock))
        })
        .styled(|scene, lock| if lock.orphan { scene.theme.bad } else { Style::new() }),
        Column::text(Label("tables-task"), (72, 11), |lock: &Self| lock.task.clone().into()).soft(),
        Column::figure(Label("tables-depth"), (72, 5), |lock: &Self| u64::from(lock.depth).into()),
        Column::span(Label("tables-lease"), (0, 12), |lock: &Self| {
            lock.left_ms.map_or(Value::Nothing, Value::Span)
        })
        // A lease without an end is the longest.
        .by(|lock| Value::Span(lock.left_ms.unwrap_or(u64::MAX)))
        .searched(|lock| lock.left_ms.map_or_else(|| text!("console-no-end"), figures::span))
        .shown(|scene, lock, cells| {
            let (left, share, style) = lease(scene, lock);
            let room = cells.saturating_sub(BESIDE_BAR);
            let mut spans: Vec<_> =
                share.into_iter().flat_map(|it| bar(scene.theme, it, room, style, None)).collect();
            let beside = if share.is_some() { cells - room } else { cells };
            let left = right(&left, beside.into());
            spans.push(Span::styled(left, style));
            spans.into()
        }),
        Column::span(Label("tables-held"), (90, 7), |lock: &Self| {
            lock.since.map_or(Value::Nothing, Value::Since)
        })
        .soft(),
        Column::figure(Label("tables-waiting"), (0, 7), |lock: &Self| lock.waiting.into()).styled(
            |scene, lock| match lock.waiting {
                0 => scene.theme.soft,
                _ => scene.theme.strong,
            },
        ),
        Column::figure(Label("tables-token"), (150, 16), |lock: &Self| {
            lock.token.map_or(Value::Nothing, Value::Id)
        })
        .soft(),
        Column::text(Label("tables-owner"), (110, REST), |lock: &Self| lock.owner.clone().into())
            .soft(),
    ];

    fn id(&self) -> Self::Id {
        (self.name.clone(), self.owner.clone())
    }

    fn page(snapshot: &Snapshot) -> Page<'_, Self> {
        Page { total: Some(snapshot.locks.total), ..Page::whole(&snapshot.locks.locks) }
    }

    fn empty(scene: &Scene, _: &TableState<Self>) -> Option<String> {
        let unknown = Label("console-locks-unknown");
        Some(if scene.shown.locks_unknown { unknown } else { Self::EMPTY }.to_owned())
    }

    /// All locks are on one server.
    fn heading(scene: &Scene, _: &TableState<Self>) -> Line<'static> {
        scene.whole_heading(&Self::VIEW.title().to_uppercase(), Self::SOURCES)
    }

    fn detail<'a>(scene: &'a Scene, lock: &'a Self, cells: u16) -> Option<Detail<'a>> {
        let theme = scene.theme;
        let mut detail = Detail::new(scene, cells);
        let state = state(lock);
        let style = if lock.orphan { theme.bad } else { Style::new() };
        let node = fit(&lock.node, usize::from(cells).saturating_sub(width(&state) + 20));
        let since = lock.since.map_or_else(|| text::UNKNOWN.to_owned(), |at| scene.at(at));
        let span = lock.since.map(|at| figures::span(scene.seen().since(at)));
        let span = span.unwrap_or_else(|| "-".to_owned());
        let held = text!("console-since-for-depth", since, span, depth = lock.depth);
        let (left, share, running) = lease(scene, lock);
        let left = text!("console-left-waiting", left, waiting = lock.waiting);
        let mut lease = vec![Span::raw(format!("{left}   "))];
        lease.extend(share.into_iter().flat_map(|share| bar(theme, share, BAR, running, None)));
        let token = lock.token.map_or_else(|| "-".to_owned(), |token| token.to_string());
        detail.text(Label("field-lock"), &lock.name);
        let node = vec![Span::raw(format!("{node}  ")), Span::styled(state.read(), style)];
        detail.line(Label("tables-node"), node);
        detail.text(Label("field-task"), &lock.task);
        detail.text(Label("field-held"), held);
        detail.line(Label("field-lease"), lease);
        detail.text(Label("field-token"), token);
        detail.text(Label("field-owner"), &lock.owner);
        Some(detail)
    }

    /// Releases the lock of the exact holder that the question names.
    fn run(state: &mut TableState<Self>, action: Action, scene: &Scene) -> Option<Effect> {
        if action != Action::Release {
            return None;
        }
        let Some(lock) = state.chosen(&scene.newest) else {
            return Some(Effect::note(Label("command-holder-no-longer-holds-lock")));
        };
        let command = Command::ReleaseLock { name: lock.name.clone(), owner: lock.owner.clone() };
        Some(Effect::confirm(commands::release(lock), command))
    }
}

/// The state of its holder.
fn state(lock: &Holder) -> Label {
    match (lock.orphan, lock.known) {
        (true, _) => Label("console-orphan"),
        (false, true) => text::ALIVE,
        (false, false) => text::STRANGER,
    }
}

/// What is left of a lease, as text and as a share of a full one, and its style. A lock without an expiry outlives its
/// holder.
fn lease(scene: &Scene, lock: &Holder) -> (String, Option<f64>, Style) {
    let (theme, redis) = (scene.theme, &scene.shown.redis);
    let Some(left_ms) = lock.left_ms else {
        return (text!("console-no-end"), None, theme.warn);
    };
    // It runs down between snapshots; renewals are unknown while Redis is unreachable.
    let read = redis.last_ok.filter(|_| !is_stale(redis, scene.seen())).unwrap_or(scene.seen());
    let left_ms = left_ms.saturating_sub(scene.seen().since(read));
    let share = left_ms as f64 / Timing::default().lease.as_millis() as f64;
    // Renewals happen after a third: at half, one was missed or there are none.
    let style = if share < 0.5 { theme.warn } else { theme.accent };
    (figures::span(left_ms), Some(share), style)
}
