//! Jobs: when each runs next, how it went last, and its history.

use ratatui::{style::Style, text::Line};

use super::{ListState, Scene, Source, detail_line};
use crate::{
    console::{
        text::{self, columns, details, figures},
        theme::Theme,
        widgets::{Cell, Column, Pen, left, right, table},
    },
    model::{JobOutcome, JobRun, Millis},
    telemetry::snapshot::JobLine,
};

/// Lines of the detail pane above the history: a rule, what it is for, when, the head.
const ABOVE: u16 = 5;

pub(super) fn draw(pen: &mut Pen<'_>, scene: &Scene<'_>, state: &mut ListState) {
    let theme = scene.theme;
    let (w, h) = (pen.width(), pen.height());
    let jobs = &scene.snapshot.jobs;
    let rows = state.rows(jobs);
    pen.line(1, 0, &scene.heading(&text::tabs::JOBS.to_uppercase(), &[Source::Sql]));
    let filter = state.filter.value();
    let count = if filter.is_empty() {
        figures::counted(jobs.len() as u64, &text::JOB, &text::JOBS)
    } else {
        format!("/{filter}   {}", text::sales_filtered(rows.len(), jobs.len()))
    };
    let mut head = pen.part(0, 0, w.saturating_sub(2), 1);
    head.line_right(0, &Line::styled(scene.fit(&count, w / 2), theme.soft()));
    if rows.is_empty() {
        let said = if jobs.is_empty() { text::NO_JOBS.to_owned() } else { text::no_match(filter) };
        pen.text(1, 2, &scene.fit(&said, w.saturating_sub(2)), theme.soft());
        return;
    }
    let cursor = state.cursor(&rows);
    let top = u16::from(!scene.compact) + 1;
    // The history takes what the list of jobs leaves.
    let list = (rows.len() as u16 + 1).min(h / 2);
    let open = state.detail && h > top + list + ABOVE + 1;
    let rows: Vec<JobLine> = rows.into_iter().cloned().collect();
    let height = if open { list } else { h.saturating_sub(top) };
    table(
        &mut pen.part(0, top, w, height),
        theme,
        &layout(w),
        (rows.len(), cursor),
        &mut state.scroll,
        |row, columns| cells(scene, &rows[row], columns),
    );
    if let Some(job) = cursor.filter(|_| open).and_then(|row| rows.get(row)) {
        let y = top + list + 1;
        detail(&mut pen.part(0, y, w, h - y), scene, job);
    }
}

fn layout(width: u16) -> Vec<Column> {
    let column = |title, width, numeric| Column { title, width, numeric };
    let mut all = vec![column(columns::JOB, 0, false)];
    // Where there is little room, the name and what comes next matter more than the rule.
    if width >= 72 {
        all.push(column(columns::SCHEDULE, if width >= 100 { 18 } else { 12 }, false));
    }
    all.push(column(columns::NEXT, 9, true));
    all.push(column(columns::LAST, 10, true));
    all.push(column(columns::OUTCOME, 9, false));
    if width >= 72 {
        all.push(column(columns::TOOK, 7, true));
    }
    if width >= 100 {
        all.push(column(columns::ROWS, 9, true));
    }
    if width >= 120 {
        all.push(column(columns::NODE, 20, false));
    }
    all
}

fn outcome_style(theme: Theme, outcome: JobOutcome) -> Style {
    match outcome {
        JobOutcome::Running => theme.accent(),
        JobOutcome::Done => theme.good(),
        JobOutcome::Failed | JobOutcome::Lost => theme.bad(),
        JobOutcome::Cancelled => theme.warn(),
    }
}

fn from_now(scene: &Scene<'_>, at: Millis) -> String {
    figures::span(at.since(scene.now))
}

fn ago(scene: &Scene<'_>, at: Millis) -> String {
    figures::span(scene.now.since(at))
}

fn cells(scene: &Scene<'_>, job: &JobLine, layout: &[Column]) -> Vec<Cell> {
    let theme = scene.theme;
    let last = job.runs.first();
    let of_last = |cell: &dyn Fn(&JobRun) -> Cell| match last {
        Some(run) => cell(run),
        None => Cell::new("-", theme.soft()),
    };
    let optional = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    let cell = |column: &Column| match column.title {
        columns::JOB => Cell::plain(job.name.clone()),
        columns::SCHEDULE => Cell::new(job.schedule.clone(), theme.soft()),
        columns::NEXT if job.paused => Cell::new(text::PAUSED, theme.warn()),
        columns::NEXT => {
            Cell::plain(optional(job.next.map(|at| text::in_span(&from_now(scene, at)))))
        }
        columns::LAST => of_last(&|run| Cell::plain(text::ago(&ago(scene, run.started)))),
        columns::OUTCOME => {
            of_last(&|run| Cell::new(text::outcome(run.outcome), outcome_style(theme, run.outcome)))
        }
        columns::TOOK => of_last(&|run| Cell::plain(optional(run.took_ms.map(figures::span)))),
        columns::ROWS => of_last(&|run| Cell::plain(optional(run.rows.map(figures::thousands)))),
        columns::NODE => of_last(&|run| Cell::new(run.node.clone(), theme.soft())),
        _ => Cell::plain(""),
    };
    layout.iter().map(cell).collect()
}

fn detail(pen: &mut Pen<'_>, scene: &Scene<'_>, job: &JobLine) {
    let theme = scene.theme;
    let (w, h) = (pen.width(), pen.height());
    let room = w.saturating_sub(18);
    pen.rule(0, theme.glyphs.rule, theme.soft());
    let x = pen.text(1, 1, &job.name, theme.strong());
    pen.text(x + 2, 1, &scene.fit(text::about(job), w.saturating_sub(x + 3)), theme.soft());
    let next = match job.next {
        Some(at) => text::at_in(&scene.at(at), &from_now(scene, at)),
        None if job.paused => text::PAUSED.to_owned(),
        None => text::UNKNOWN.to_owned(),
    };
    let line = Line::raw(scene.fit(&text::next_run(&job.schedule, &next), room));
    detail_line(pen, theme, 2, &details::NEXT, &line);
    if job.runs.is_empty() {
        pen.text(1, 4, &text::NO_RUNS, theme.soft());
        return;
    }
    pen.text(1, 4, &text::HISTORY, theme.heading());
    for (row, run) in job.runs.iter().enumerate() {
        let y = ABOVE + row as u16;
        if y >= h {
            break;
        }
        let ellipsis = theme.glyphs.ellipsis;
        let x = pen.text(1, y, &left(&run.due.date_time(scene.zone), 19, ellipsis), Style::new());
        let outcome = left(text::outcome(run.outcome), 9, ellipsis);
        let x = pen.text(x + 2, y, &outcome, outcome_style(theme, run.outcome));
        let took = run.took_ms.map_or_else(|| "-".to_owned(), figures::span);
        let x = pen.text(x + 1, y, &right(&took, 7, ellipsis), Style::new());
        let cause = left(text::cause(run.cause), 8, ellipsis);
        let x = pen.text(x + 2, y, &cause, theme.soft());
        let x = pen.text(x + 2, y, &left(&run.node, 14, ellipsis), theme.soft());
        let said = text::told::job_said(run.outcome, run.detail.as_ref());
        pen.text(x + 2, y, &scene.fit(&said, w.saturating_sub(x + 3)), Style::new());
    }
}
