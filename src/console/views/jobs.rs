//! Jobs: next run, last result and history.

use ratatui::{style::Style, text::Line};
use seckill_engine::{jobs::outcome_name, telemetry::snapshot::JobLine};
use seckill_model::{JobOutcome, JobRun, Millis};

use super::{ListState, Scene, Source, View, alone, detail_line};
use crate::{
    text::{self, columns, details, figures},
    theme::Theme,
    widgets::{Canvas, Cell, Column, Value, left, right, table, width, wrap},
};

/// From this width on, the chosen job is beside the table.
const BESIDE: u16 = 160;
/// From this width on, a run has its full date.
const DATED: u16 = 90;
/// Most lines of a run's result.
const RESULT: usize = 3;
/// Lines of the detail pane above the history: rule, purpose, schedule, headings.
const ABOVE: u16 = 5;

pub(super) fn draw(canvas: &mut Canvas<'_>, scene: &Scene<'_>, state: &mut ListState) {
    let theme = scene.theme;
    let (w, h) = (canvas.width(), canvas.height());
    let jobs = &scene.snapshot.jobs;
    let rows = state.rows(jobs);
    canvas.line(1, 0, &scene.heading(&View::Jobs.title().to_uppercase(), &[Source::Sql]));
    let filter = state.filter.value();
    let count = if jobs.is_empty() {
        String::new()
    } else if filter.is_empty() {
        figures::counted(jobs.len() as u64, &text::JOB, &text::JOBS)
    } else {
        format!("/{filter}   {}", text::sales_filtered(rows.len(), jobs.len()))
    };
    let mut head = canvas.part(0, 0, w.saturating_sub(2), 1);
    head.line_right(0, &Line::styled(scene.fit(&count, w / 2), theme.soft()));
    if rows.is_empty() && !canvas.is_noting() {
        let said = if jobs.is_empty() { text::NO_JOBS.to_owned() } else { text::no_match(filter) };
        canvas.text(1, 2, &scene.fit(&said, w.saturating_sub(2)), theme.soft());
        return;
    }
    let cursor = state.cursor(&rows);
    if w >= BESIDE {
        let rows: Vec<JobLine> = rows.into_iter().cloned().collect();
        return beside(canvas, scene, state, &rows, cursor);
    }
    let top = u16::from(!scene.compact) + 1;
    // The history takes the rows that the list leaves.
    let list = (rows.len() as u16 + 1).min(h / 2);
    let open = state.detail && h > top + list + ABOVE + 1;
    let rows: Vec<JobLine> = rows.into_iter().cloned().collect();
    let chosen = cursor.filter(|_| state.detail).and_then(|row| rows.get(row));
    if let Some(job) = chosen.filter(|_| !open) {
        return detail(&mut alone(canvas, &mut state.scroll), scene, job);
    }
    let height = if open { list } else { h.saturating_sub(top) };
    table(
        &mut canvas.part(0, top, w, height),
        theme,
        &layout(w),
        (rows.len(), cursor),
        &mut state.scroll,
        |row, columns| cells(scene, &rows[row], columns),
    );
    if let Some(job) = chosen {
        let y = top + list + 1;
        detail(&mut canvas.part(0, y, w, h - y), scene, job);
    }
}

/// The table with the chosen job beside it.
fn beside(
    canvas: &mut Canvas<'_>,
    scene: &Scene<'_>,
    state: &mut ListState,
    rows: &[JobLine],
    cursor: Option<usize>,
) {
    let (w, h) = (canvas.width(), canvas.height());
    let half = w / 2;
    let cells = |row: usize, columns: &[Column]| {
        rows.get(row).map(|job| cells(scene, job, columns)).unwrap_or_default()
    };
    let mut list = canvas.part(0, 2, half, h.saturating_sub(2));
    table(&mut list, scene.theme, &layout(half), (rows.len(), cursor), &mut state.scroll, cells);
    if let Some(job) = cursor.and_then(|row| rows.get(row)) {
        // Its rule is aligned with the table headings.
        let x = half + 2;
        detail(&mut canvas.part(x, 2, w - x, h.saturating_sub(2)), scene, job);
    }
}

fn layout(width: u16) -> Vec<Column> {
    let column = |title, width, numeric| Column { title, width, numeric };
    let mut all = vec![column(columns::JOB, 0, false)];
    // In a narrow pane the name and the next run take precedence over the rule.
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
                .exactly(Value::time(job.next))
        }
        columns::LAST => of_last(&|run| {
            Cell::plain(text::ago(&ago(scene, run.started))).exactly(Value::time(Some(run.started)))
        }),
        columns::OUTCOME => of_last(&|run| {
            Cell::new(outcome_name(run.outcome).read(), outcome_style(theme, run.outcome))
                .exactly(Value::word(&run.outcome))
        }),
        columns::TOOK => of_last(&|run| {
            Cell::plain(optional(run.took_ms.map(figures::span))).exactly(Value::count(run.took_ms))
        }),
        columns::ROWS => of_last(&|run| Cell::plain(optional(run.rows.map(figures::thousands)))),
        columns::NODE => of_last(&|run| Cell::new(run.node.clone(), theme.soft())),
        _ => Cell::plain(""),
    };
    layout.iter().map(cell).collect()
}

fn detail(canvas: &mut Canvas<'_>, scene: &Scene<'_>, job: &JobLine) {
    let theme = scene.theme;
    let (w, h) = (canvas.width(), canvas.height());
    let room = w.saturating_sub(18);
    canvas.rule(0, theme.glyphs.rule, theme.soft());
    let x = canvas.text(1, 1, &job.name, theme.strong());
    canvas.text(x + 2, 1, &scene.fit(&job.about, w.saturating_sub(x + 3)), theme.soft());
    let next = match job.next {
        Some(at) => text::at_in(&scene.at(at), &from_now(scene, at)),
        None if job.paused => text::PAUSED.to_owned(),
        None => text::UNKNOWN.to_owned(),
    };
    let line = Line::raw(scene.fit(&text::next_run(&job.schedule, &next), room));
    detail_line(canvas, theme, 2, &details::NEXT, &line);
    if job.runs.is_empty() {
        canvas.text(1, 4, &text::NO_RUNS, theme.soft());
        return;
    }
    canvas.text(1, 4, &text::HISTORY, theme.heading());
    let ellipsis = theme.glyphs.ellipsis;
    let widest = job.runs.iter().map(|run| width(&run.node)).max().unwrap_or(0);
    let node = widest.clamp(4, if w >= DATED { 20 } else { 12 });
    let mut y = ABOVE;
    for run in &job.runs {
        if y >= h {
            break;
        }
        // In a narrow window today's date is omitted.
        let due = if w >= DATED { run.due.date_time(scene.zone) } else { scene.at(run.due) };
        let x = canvas.text(
            1,
            y,
            &left(&due, if w >= DATED { 19 } else { 11 }, ellipsis),
            Style::new(),
        );
        let outcome = left(outcome_name(run.outcome).read(), 9, ellipsis);
        let x = canvas.text(x + 2, y, &outcome, outcome_style(theme, run.outcome));
        let took = run.took_ms.map_or_else(|| "-".to_owned(), figures::span);
        let x = canvas.text(x + 1, y, &right(&took, 7, ellipsis), Style::new());
        let cause = left(text::cause(run.cause), 8, ellipsis);
        let x = canvas.text(x + 2, y, &cause, theme.soft());
        let x = canvas.text(x + 2, y, &left(&run.node, node, ellipsis), theme.soft()) + 2;
        // The full result, on rows of its own if it is long.
        let said = text::audit_log::job_result(run.outcome, run.detail.as_ref());
        let lines = wrap(&said, usize::from(w.saturating_sub(x + 1)));
        for (row, line) in lines.iter().take(RESULT).enumerate() {
            let y = y + row as u16;
            if y < h {
                canvas.text(x, y, line, Style::new());
            }
        }
        y += lines.len().clamp(1, RESULT) as u16;
    }
}
