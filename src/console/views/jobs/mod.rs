//! Jobs: next run, last result and history.

use ratatui::{
    style::Style,
    text::{Line, Span},
};
use seckill_engine::{
    jobs::outcome_name,
    telemetry::{Snapshot, snapshot::JobLine},
};
use seckill_model::{
    JobOutcome, JobRun, Millis,
    message::{Label, text},
};

use super::{
    Scene, Source, View,
    detail::{Detail, draw_alone, draw_lines},
    draw_head,
    table::{self, Column, REST, Row, TableState, Value},
};
use crate::{
    text::{self, figures},
    theme::Theme,
    widgets::{Canvas, left, right, width, wrap},
};

/// From this width on, the chosen job is beside the table.
const BESIDE: u16 = 160;
/// From this width on, a run has its full date.
const DATED: u16 = 90;
/// Most lines of a run's result.
const RESULT: usize = 3;
/// Lines of the detail above the history: rule, purpose, schedule, headings.
const ABOVE: u16 = 5;

impl Row for JobLine {
    type Id = String;
    type Key = ();

    const FROM_REDIS: bool = false;
    const COLUMNS: &'static [Column<Self>] = &[
        Column::new(Label("tables-job"), &[(0, REST)], |job: &Self| job.name.clone().into()),
        // In a narrow pane the name and the next run take precedence.
        Column::new(Label("tables-schedule"), &[(72, 12), (100, 18)], |job: &Self| {
            job.schedule.clone().into()
        })
        .soft(),
        Column::new(Label("tables-next"), &[(0, 9)], |job: &Self| match job.next {
            _ if job.paused => Value::Text(text::PAUSED.to_owned()),
            Some(at) => Value::Time(at),
            None => Value::Nothing,
        })
        .by(|job| job.next.map_or(Value::Nothing, Value::Time))
        .shown(|scene, job, _| match job.next {
            _ if job.paused => Line::styled(text::PAUSED.read(), scene.theme.warn),
            Some(at) => {
                let span = figures::span(at.since(scene.now));
                text!("console-in", span).into()
            }
            None => "-".into(),
        })
        .right(),
        Column::new(Label("tables-last"), &[(0, 10)], |job: &Self| {
            of_last(job, |run| Value::Time(run.started))
        })
        .by(|job| of_last(job, |run| Value::Since(run.started)))
        .shown(|scene, job, _| match job.runs.first() {
            Some(run) => {
                text!("console-ago", span = figures::span(scene.now.since(run.started))).into()
            }
            None => Line::styled("-", scene.theme.soft),
        })
        .right(),
        Column::new(Label("tables-outcome"), &[(0, 9)], |job: &Self| {
            of_last(job, |run| Value::name(outcome_name(run.outcome).to_owned(), &run.outcome))
        })
        .styled(|scene, job| {
            let last = job.runs.first();
            last.map_or(scene.theme.soft, |run| outcome_style(scene.theme, run.outcome))
        }),
        Column::new(Label("tables-took"), &[(72, 7)], |job: &Self| {
            of_last(job, |run| run.took_ms.map_or(Value::Nothing, Value::Span))
        })
        .in_ms()
        .right(),
        Column::new(Label("tables-rows"), &[(100, 9)], |job: &Self| {
            of_last(job, |run| run.rows.into())
        })
        .right(),
        Column::new(Label("common-node"), &[(120, 20)], |job: &Self| {
            of_last(job, |run| run.node.clone().into())
        })
        .soft(),
    ];

    fn id(&self) -> String {
        self.name.clone()
    }

    fn list(snapshot: &Snapshot) -> Vec<&Self> {
        snapshot.jobs.iter().collect()
    }
}

fn of_last(job: &JobLine, value: impl Fn(&JobRun) -> Value) -> Value {
    job.runs.first().map_or(Value::Nothing, value)
}

pub(super) fn draw(canvas: &mut Canvas<'_>, scene: &Scene<'_>, state: &mut TableState<JobLine>) {
    let (w, h) = (canvas.width(), canvas.height());
    let all = scene.snapshot.jobs.len();
    let rows = state.rows(scene.snapshot);
    let filter = state.controls.filter.value();
    let count = match all {
        0 => String::new(),
        _ if filter.is_empty() => text!("console-jobs", count = all),
        _ => Scene::filtered(filter, rows.len(), all),
    };
    let heading = scene.heading(&View::Jobs.title().to_uppercase(), &[Source::Sql]);
    draw_head(canvas, &heading, &scene.summary(canvas, &count));
    if rows.is_empty() {
        let none = if all == 0 {
            text!("console-jobs-have-not-been-loaded")
        } else {
            text::no_match(filter)
        };
        return draw_lines(canvas, scene, 2, &none);
    }
    let cursor = state.position(&rows);
    if w >= BESIDE {
        let half = w / 2;
        let mut list = canvas.part(0, 2, half, h.saturating_sub(2));
        table::draw(&mut list, scene, state, &rows, cursor);
        // Its rule is aligned with the table headings.
        let x = half + 2;
        if let Some(job) = cursor.and_then(|row| rows.get(row)) {
            detail(scene, job, w - x).draw(&mut canvas.part(x, 2, w - x, h.saturating_sub(2)));
        }
        return;
    }
    let top = scene.table_top();
    let Some(detail) = state.opened(scene.snapshot).map(|job| detail(scene, job, w)) else {
        return table::draw(&mut canvas.below(top), scene, state, &rows, cursor);
    };
    // The history takes the rows that the list leaves.
    let list = (rows.len() as u16 + 1).min(h / 2);
    if h <= top + list + ABOVE + 1 {
        return draw_alone(canvas, state, Some(detail));
    }
    table::draw(&mut canvas.part(0, top, w, list), scene, state, &rows, cursor);
    detail.draw(&mut canvas.below(top + list + 1));
}

fn outcome_style(theme: Theme, outcome: JobOutcome) -> Style {
    match outcome {
        JobOutcome::Running => theme.accent,
        JobOutcome::Done => theme.good,
        JobOutcome::Failed | JobOutcome::Lost => theme.bad,
        JobOutcome::Cancelled => theme.warn,
    }
}

fn detail(scene: &Scene<'_>, job: &JobLine, cells: u16) -> Detail {
    let theme = scene.theme;
    let mut detail = Detail::new(scene, cells);
    let about = scene.fit(&job.about, cells.saturating_sub(width(&job.name) as u16 + 4));
    detail.heading(vec![
        Span::styled(job.name.clone(), theme.strong),
        Span::styled(format!("  {about}"), theme.soft),
    ]);
    let next = match job.next {
        Some(at) => {
            let (time, span) = (scene.at(at), figures::span(at.since(scene.now)));
            text!("console-at-time-in", time, span)
        }
        None if job.paused => text::PAUSED.to_owned(),
        None => text::UNKNOWN.to_owned(),
    };
    let next = text!("console-next-by-schedule", next, schedule = job.schedule);
    detail.line(Label("field-next"), vec![next.into()]);
    detail.heading(Vec::new());
    let (title, style) = match job.runs.len() {
        0 => (Label("console-no-runs-yet"), theme.soft),
        _ => (Label("console-history"), theme.heading),
    };
    detail.heading(vec![Span::styled(title.read(), style)]);
    let widest = job.runs.iter().map(|run| width(&run.node)).max().unwrap_or(0);
    let node = widest.clamp(4, if cells >= DATED { 20 } else { 12 });
    for line in job.runs.iter().flat_map(|run| run_lines(scene, run, node, cells)) {
        detail.heading(line.spans);
    }
    detail
}

/// One run, with its full result.
fn run_lines(scene: &Scene<'_>, run: &JobRun, node: usize, cells: u16) -> Vec<Line<'static>> {
    let theme = scene.theme;
    let ellipsis = theme.glyphs.ellipsis;
    let due = |at: Millis| match cells {
        // In a narrow window today's date is omitted.
        ..DATED => left(&scene.at(at), 11, ellipsis),
        DATED.. => left(&at.date_time(scene.zone), 19, ellipsis),
    };
    let outcome = left(outcome_name(run.outcome).read(), 9, ellipsis);
    let took = run.took_ms.map_or_else(|| "-".to_owned(), figures::span);
    let cause = left(&text!("console-cause", cause = run.cause), 8, ellipsis);
    let head = Line::from(vec![
        Span::raw(format!("{}  ", due(run.due))),
        Span::styled(outcome, outcome_style(theme, run.outcome)),
        Span::raw(format!(" {}  ", right(&took, 7, ellipsis))),
        Span::styled(format!("{cause}  {}  ", left(&run.node, node, ellipsis)), theme.soft),
    ]);
    let indent = head.width();
    let result = text::audit_log::job_result(run.outcome, run.detail.as_ref());
    let room = usize::from(cells).saturating_sub(indent + 2);
    let mut parts = wrap(&result, room).into_iter();
    let first = Span::raw(parts.next().unwrap_or_default());
    let rest = parts.take(RESULT - 1).map(|part| Line::raw(" ".repeat(indent) + &part));
    std::iter::once(head + first).chain(rest).collect()
}
