//! Activity: commands and events, the newest at the bottom, page by page.

use seckill_engine::telemetry::{
    log::{AuditEntry, LogView, Weight, Which},
    snapshot::LogPage,
};

use super::{overview::throughput_chart::sign, prelude::*};
use crate::text::{
    audit_log,
    time::{beyond, event_name},
};

/// The levels in the order of their key: all lines, failures and recoveries, commands of operators.
const LEVELS: [(Option<Which>, Label); 3] = [
    (None, Label("activity-all")),
    (Some(Which::Events), Label("activity-alarms")),
    (Some(Which::Commands), Label("activity-commands")),
];

impl Row for AuditEntry {
    type Id = i64;
    type Key = LogView;

    const VIEW: View = View::Activity;
    const KEYS: &'static [ViewKey] = &[(Action::Level, "v", true), FILTER];
    const SOURCES: &'static [Source] = &[Source::Sql];
    const FOCUS: fn(&mut Focus, Self::Key) = |focus, page| focus.log = Some(page);
    const PAGING: Paging = Paging::Log;
    /// A line has no name.
    const IS_OFFERED: bool = false;
    const COLUMNS: &'static [Column<Self>] = &[
        Column::figure(Label("common-time"), (0, 11), |line: &Self| Value::Time(line.at)).soft(),
        Column::text(Label("common-empty"), (0, 1), |line: &Self| Value::Text(sign(line).0.into()))
            .styled(|scene, line| sign(line).1(scene.theme)),
        // The log itself matches in every language.
        Column::hidden(|line: &Self| {
            let AuditEntry { action, subject, result, reason, .. } = line;
            let reason = reason.as_deref().unwrap_or_default();
            Value::Text(format!("{action} {subject} {result} {reason}"))
        }),
        Column::text(Label("activity-what"), (0, 16), |line: &Self| {
            Value::Text(event_name(&line.action))
        })
        .styled(|scene, line| match Weight::of(line) {
            Weight::Notice => scene.theme.soft,
            Weight::Trouble | Weight::Failed => sign(line).1(scene.theme),
            Weight::Relief | Weight::Command => Style::new(),
        }),
        Column::text(Label("activity-who"), (72, 9), |line: &Self| {
            if line.is_event() { Value::Nothing } else { line.operator.clone().into() }
        })
        .soft(),
        Column::text(Label("common-node"), (110, 10), |line: &Self| line.node.clone().into())
            .soft(),
        Column::text(Label("activity-on"), (0, REST), |line: &Self| {
            Value::Name(subject(line), line.subject.to_string())
        }),
        Column::text(Label("tables-result"), (0, REST), |line: &Self| {
            Value::Name(audit_log::localized_result(&line.result), line.result.to_string())
        })
        .styled(|scene, line| match Weight::of(line) {
            Weight::Failed => scene.theme.broken,
            _ => Style::new(),
        }),
    ];

    fn id(&self) -> i64 {
        self.id
    }

    fn name(&self) -> String {
        self.id.to_string()
    }

    /// The page that was read; until it arrives, the newest lines of the snapshot.
    fn page(snapshot: &Snapshot) -> Page<'_, Self> {
        let LogPage { view, more, taken, lines } = &snapshot.log;
        let page = match taken {
            Some(_) => Page::whole(lines.iter()),
            None => Page::whole(snapshot.activity.iter().rev()),
        };
        let before = page.rows.first().filter(|_| *more).map(|line| line.position());
        let next = before.map(|before| LogView { before: Some(before), ..*view });
        Page { key: *view, next, total: None, ..page }
    }

    fn is_of(&self, list: LogView) -> bool {
        match list.which {
            None => true,
            Some(Which::Events) => Weight::of(self).is_alarm(),
            Some(Which::Commands) => !self.is_event(),
        }
    }

    /// The title and the levels, the selected one underlined.
    fn heading(scene: &Scene, state: &TableState<Self>) -> Line<'static> {
        let mut heading = scene.heading(&Self::VIEW.title().to_uppercase(), Self::SOURCES);
        heading.push_span(" ");
        for (which, name) in LEVELS {
            let is_selected = which == state.key().which;
            let style =
                if is_selected { scene.theme.strong.underlined() } else { scene.theme.soft };
            heading.extend([Span::raw("  "), Span::styled(name.read(), style)]);
        }
        heading
    }

    /// The range of the page, and whether it follows new lines.
    fn extent(scene: &Scene, state: &TableState<Self>) -> Line<'static> {
        let (theme, rows) = (scene.theme, state.rows(&scene.shown));
        let mut line = Line::default();
        let mut push = |text: String, style| {
            line.push_span(Span::styled(text + "   ", style));
        };
        if let (Some(first), Some(last), false) = (rows.first(), rows.last(), state.is_first_page())
        {
            let (first, last) = (scene.at(first.at), scene.at(last.at));
            push(text!("activity-to", first, last), theme.soft);
        } else if state.follows() && !rows.is_empty() {
            push(format!("{} {}", glyphs::UP, Label("activity-following").read()), theme.good);
        }
        if !state.follows() && !scene.compact {
            push(text!("activity-follows"), theme.key);
        }
        let (shown, of) = (rows.len(), Self::page(&scene.shown).rows.len());
        line.push_span(match state.controls.order {
            Some(order) => Span::styled(order.summary(shown), theme.key),
            None if !state.controls.filter.value().is_empty() => Span::default(),
            None if shown < of => text!("console-of-on-this-page", shown, of).into(),
            None => Span::styled(text!("activity-lines", count = shown), theme.soft),
        });
        line
    }

    fn empty(scene: &Scene, state: &TableState<Self>) -> Option<String> {
        let log = &scene.shown.log;
        match state.key().which {
            _ if log.taken.is_some() && log.view != state.key() => None,
            None => Some(text!("activity-log-is-empty-commands")),
            Some(_) => {
                let (_, level) = LEVELS[level(state)];
                Some(text!("activity-no-on-this-page-press", level))
            }
        }
    }

    /// Everything that the log has of a line.
    fn detail<'a>(scene: &'a Scene, line: &'a Self, cells: u16) -> Option<Detail<'a>> {
        let (theme, entry) = (scene.theme, line);
        let (glyph, style) = sign(entry);
        let mut detail = Detail::new(scene, cells);
        let event = vec![
            Span::styled(format!("{glyph} "), style(theme)),
            Span::styled(event_name(&entry.action), theme.strong),
            Span::raw(format!("  {}", fit(&subject(line), cells.saturating_sub(30).into()))),
        ];
        detail.heading(event);
        let at = entry.at.date_time(&scene.zone);
        detail.text(Label("activity-when"), text!("activity-node", at, node = entry.node));
        let style = if Weight::of(entry) == Weight::Failed { theme.broken } else { Style::new() };
        detail.field(Label("field-result"), audit_log::localized_result(&entry.result), style);
        if !entry.is_event() {
            detail.text(Label("activity-user"), &entry.operator);
            match &entry.reason {
                Some(reason) => detail.text(Label("common-reason"), reason),
                None => {
                    detail.field(Label("common-reason"), Label("activity-not-given"), theme.soft);
                }
            }
        }
        add_figures(&mut detail, scene, line);
        Some(detail)
    }

    /// Selects the next level, at its newest line.
    fn run(state: &mut TableState<Self>, action: Action, scene: &Scene) -> Option<Effect> {
        if action != Action::Level {
            return None;
        }
        let (which, _) = LEVELS[(level(state) + 1) % LEVELS.len()];
        state.open(LogView { which, before: None });
        Table::settle(state, &scene.shown);
        Some(Effect::Done)
    }
}

/// The object of the line, if its name does not imply it.
fn subject(line: &AuditEntry) -> String {
    beyond(&line.action, &audit_log::localized_subject(&line.subject)).to_owned()
}

/// The place of the selected level.
fn level(state: &TableState<AuditEntry>) -> usize {
    LEVELS.iter().position(|(level, _)| *level == state.key().which).unwrap_or(0)
}

/// The figures that a command changed, one per line, followed by those it did not.
fn add_figures(detail: &mut Detail<'_>, scene: &Scene, line: &AuditEntry) {
    let all = seckill_text::changes::changes(line.before.as_deref(), line.after.as_deref());
    let (changed, same): (Vec<_>, Vec<_>) = all.into_iter().partition(|it| it.before != it.after);
    for it in changed {
        detail.text(Label("activity-figures"), format!("{} {} → {}", it.name, it.before, it.after));
    }
    if !same.is_empty() {
        let same: Vec<String> = same.iter().map(|it| format!("{} {}", it.name, it.after)).collect();
        let same = same.join(&Label("list-items"));
        detail.field(Label("activity-unchanged"), same, scene.theme.soft);
    }
}
