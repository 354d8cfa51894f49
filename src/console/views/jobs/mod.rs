//! Jobs: next run, last result and history.

use seckill_engine::JobLine;
use seckill_model::{JobOutcome, JobRun};

use super::prelude::*;

/// Maximum number of lines of a run's result.
const RESULT: usize = 3;
/// Lines of the detail above the history: rule, purpose, schedule, headings.
const ABOVE: u16 = 5;

impl Row for JobLine {
    type Id = String;
    type Key = ();

    const VIEW: View = View::Jobs;
    const KEYS: &'static [ViewKey] =
        &[(Action::RunJob, "T", true), (Action::Pause, "P", true), FILTER];
    const ON_ROW: &'static [Action] = &[Action::RunJob, Action::Pause];
    const SOURCES: &'static [Source] = &[Source::Sql];
    const EMPTY: Label = Label("console-jobs-have-not-been-loaded");
    const COLUMNS: &'static [Column<Self>] = &[
        Column::text(Label("tables-job"), (0, 20), |job: &Self| job.name.clone().into()),
        Column::text(Label("tables-schedule"), (72, 12), |job: &Self| job.schedule.clone().into())
            .soft(),
        Column::figure(Label("tables-next"), (0, 9), |job: &Self| match job.next {
            _ if job.paused => Value::Text(text::PAUSED.to_owned()),
            next => next.map_or(Value::Nothing, Value::In),
        })
        .by(|job| job.next.map_or(Value::Nothing, Value::In))
        .styled(|scene, job| if job.paused { scene.theme.warn } else { Style::new() }),
        Column::figure(Label("tables-last"), (0, 10), |job: &Self| {
            of_last(job, |run| Value::Ago(run.started))
        }),
        Column::text(Label("tables-outcome"), (0, 9), |job: &Self| {
            of_last(job, |run| {
                Value::name(text!("job-outcome", outcome = run.outcome), &run.outcome)
            })
        })
        .styled(|scene, job| {
            let last = job.runs.first();
            last.map_or(scene.theme.soft, |run| outcome_style(scene.theme, run.outcome))
        }),
        Column::span(Label("tables-took"), (72, 7), |job: &Self| {
            of_last(job, |run| run.took_ms.map_or(Value::Nothing, Value::Span))
        }),
        Column::figure(Label("tables-rows"), (100, 9), |job: &Self| {
            of_last(job, |run| run.rows.into())
        }),
        Column::text(Label("common-node"), (120, REST), |job: &Self| {
            of_last(job, |run| run.node.clone().into())
        })
        .soft(),
    ];

    fn id(&self) -> String {
        self.name.clone()
    }

    fn page(snapshot: &Snapshot) -> Page<'_, Self> {
        Page::whole(&snapshot.jobs)
    }

    fn detail<'a>(scene: &'a Scene, job: &'a Self, cells: u16) -> Option<Detail<'a>> {
        let theme = scene.theme;
        let mut detail = Detail::new(scene, cells);
        detail.least = Some(ABOVE + 3);
        let about = fit(&job.about, usize::from(cells).saturating_sub(width(&job.name) + 4));
        detail.heading(vec![
            Span::styled(job.name.clone(), theme.strong),
            Span::styled(format!("  {about}"), theme.soft),
        ]);
        let next = match job.next {
            Some(at) => {
                let (time, span) = (scene.at(at), figures::span(at.since(scene.seen())));
                text!("console-at-time-in", time, span)
            }
            None if job.paused => text::PAUSED.to_owned(),
            None => text::UNKNOWN.to_owned(),
        };
        let next = text!("console-next-by-schedule", next, schedule = job.schedule);
        detail.line(Label("field-next"), vec![next.into()]);
        detail.heading(Line::default());
        let (title, style) = match job.runs.len() {
            0 => (Label("console-no-runs-yet"), theme.soft),
            _ => (Label("console-history"), theme.heading),
        };
        detail.heading(Line::styled(title.read(), style));
        let widest = job.runs.iter().map(|run| width(&run.node)).max().unwrap_or(0);
        let node = widest.clamp(4, 12);
        for line in job.runs.iter().flat_map(|run| run_lines(scene, run, node, cells)) {
            detail.heading(line);
        }
        Some(detail)
    }

    fn run(state: &mut TableState<Self>, action: Action, scene: &Scene) -> Option<Effect> {
        if !matches!(action, Action::RunJob | Action::Pause) {
            return None;
        }
        let Some(job) = state.chosen(&scene.newest) else {
            return Some(Effect::note(Label("command-job-no-longer-exists")));
        };
        let name = job.name.clone();
        let shown = plain(&name);
        let question = match action {
            Action::RunJob => question!("ask-run-job", name = shown, about = job.about),
            _ if job.paused => question!("ask-resume-job", name = shown),
            _ => question!("ask-pause-job", name = shown),
        };
        let command = match action {
            Action::RunJob => Command::RunJob(name),
            _ => Command::SwitchJob { job: name, paused: !job.paused },
        };
        Some(Effect::confirm(question, command))
    }
}

fn of_last(job: &JobLine, value: impl Fn(&JobRun) -> Value) -> Value {
    job.runs.first().map_or(Value::Nothing, value)
}

fn outcome_style(theme: Theme, outcome: JobOutcome) -> Style {
    match outcome {
        JobOutcome::Running => theme.accent,
        JobOutcome::Done => theme.good,
        JobOutcome::Failed | JobOutcome::Lost => theme.bad,
        JobOutcome::Cancelled => theme.warn,
    }
}

/// One run, with its full result.
fn run_lines(scene: &Scene, run: &JobRun, node: usize, cells: u16) -> Vec<Line<'static>> {
    let theme = scene.theme;
    let due = left(&scene.at_second(run.due), 11);
    let outcome = left(&text!("job-outcome", outcome = run.outcome), 9);
    let took = run.took_ms.map_or_else(|| "-".to_owned(), figures::span);
    let cause = left(&text!("console-cause", cause = run.cause), 8);
    let head = Line::from(vec![
        Span::raw(due + "  "),
        Span::styled(outcome, outcome_style(theme, run.outcome)),
        Span::raw(format!(" {}  ", right(&took, 7))),
        Span::styled(format!("{cause}  {}  ", left(&run.node, node)), theme.soft),
    ]);
    let indent = head.width();
    let result = text::audit_log::job_result(run.outcome, run.detail.as_ref());
    let room = usize::from(cells).saturating_sub(indent + 2);
    let mut parts = wrap(&result, room).into_iter();
    let first = Span::raw(parts.next().unwrap_or_default());
    let rest = parts.take(RESULT - 1).map(|part| Line::raw(" ".repeat(indent) + &part));
    std::iter::once(head + first).chain(rest).collect()
}
