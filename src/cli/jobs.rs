//! `seckill jobs`: scheduled jobs, their history, and running one by hand.

use clap::Subcommand;
use jiff::tz::TimeZone;
use seckill_engine::{
    EngineError,
    command::{Command, Reply},
    jobs::{board, builtin},
    telemetry::snapshot::JobLine,
};
use seckill_model::{JobOutcome, JobRun, Message, RunEnd};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::{
    Fault,
    context::Context,
    fault,
    output::{Output, number, span, table},
    work::EndOfLife,
};
use crate::config::Config;

#[derive(Debug, Subcommand)]
pub(super) enum JobsCommand {
    /// List jobs with their next and last runs
    List,
    /// List the newest runs of one job, or of all
    History {
        /// Name of the job
        name: Option<String>,
        /// Maximum number of runs
        #[arg(long, value_name = "N", default_value_t = 20)]
        limit: u32,
    },
    /// Run a job now, even if it is paused
    Run {
        /// Name of the job
        name: String,
        /// Reason, recorded in the audit log
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// Pause a job on all nodes
    Pause {
        /// Name of the job
        name: String,
        /// Reason, recorded in the audit log
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// Resume a paused job
    Resume {
        /// Name of the job
        name: String,
        /// Reason, recorded in the audit log
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
}

#[derive(Serialize)]
struct Ran {
    job: String,
    outcome: JobOutcome,
    took_ms: u64,
    rows: u64,
    detail: Option<Message>,
}

#[derive(Serialize)]
struct Switched {
    job: String,
    paused: bool,
}

pub(super) async fn run(config: &Config, out: Output, command: JobsCommand) -> Result<u8, Fault> {
    let mut context = Context::open_answering(config).await?;
    let result = go(&mut context, out, command).await;
    context.close().await;
    result
}

async fn go(context: &mut Context, out: Output, command: JobsCommand) -> Result<u8, Fault> {
    let (command, reason) = match command {
        JobsCommand::List => return list(context, out).await,
        JobsCommand::History { name, limit } => return history(context, out, name, limit).await,
        JobsCommand::Run { name, reason } => (Command::RunJob(name), reason),
        JobsCommand::Pause { name, reason } => {
            (Command::SwitchJob { job: name, paused: true }, reason)
        }
        JobsCommand::Resume { name, reason } => {
            (Command::SwitchJob { job: name, paused: false }, reason)
        }
    };
    let operator = context.operator(reason)?;
    let mut end = EndOfLife::listen()?;
    let stop = CancellationToken::new();
    let acting = operator.execute(command, &stop);
    tokio::pin!(acting);
    let reply = tokio::select! {
        reply = &mut acting => reply,
        // Interrupted: the run is cancelled and recorded as such.
        () = end.come() => {
            stop.cancel();
            acting.await
        }
    };
    match reply? {
        Reply::JobRun { job, end: RunEnd { outcome, took_ms, detail, rows } } => {
            let ran = Ran { job, outcome, took_ms, rows, detail };
            out.answer(&ran, || {
                let said = ran.detail.as_deref().map(|it| format!(": {it}")).unwrap_or_default();
                format!("{} {} after {}{said}", ran.job, ran.outcome, span(ran.took_ms))
            })?;
            Ok(if outcome == JobOutcome::Done { 0 } else { fault::NO })
        }
        Reply::JobSwitched { job, paused } => {
            let switched = Switched { job, paused };
            out.answer(&switched, || {
                let state = if paused { "is paused" } else { "goes on" };
                format!("{} {state}.", switched.job)
            })?;
            Ok(0)
        }
        _ => Err(Fault::no("unexpected reply from the engine to a job command")),
    }
}

async fn list(context: &Context, out: Output) -> Result<u8, Fault> {
    let jobs = builtin::jobs(&context.config.engine);
    let now = context.redis.connection().now().await?;
    let lines = board(&context.store, &jobs, now, 1).await?;
    out.answer(&lines, || {
        let zone = TimeZone::system();
        let row = |line: &JobLine| {
            let last = line.runs.first();
            let of = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
            let next = line.next.map(|at| at.date_time(&zone));
            vec![
                line.name.clone(),
                line.schedule.clone(),
                if line.paused { "paused".to_owned() } else { of(next) },
                of(last.map(|run| run.started.date_time(&zone))),
                of(last.map(|run| run.outcome.to_string())),
                of(last.and_then(|run| run.took_ms).map(span)),
                of(last.and_then(|run| run.rows).map(number)),
                of(last.map(|run| run.node.clone())),
            ]
        };
        let rows: Vec<Vec<String>> = lines.iter().map(row).collect();
        let head = ["job", "schedule", "next", "last", "outcome", "took", "rows", "node"];
        table(&head, &[5, 6], &rows)
    })?;
    Ok(0)
}

async fn history(
    context: &Context,
    out: Output,
    name: Option<String>,
    limit: u32,
) -> Result<u8, Fault> {
    let jobs = builtin::jobs(&context.config.engine);
    if let Some(name) = name.as_ref().filter(|name| !jobs.iter().any(|job| job.name == **name)) {
        return Err(EngineError::NoJob(name.chars().take(60).collect()).into());
    }
    let runs = context.store.runs(name.as_deref(), limit).await?;
    out.answer(&runs, || {
        if runs.is_empty() {
            return "No run yet.".to_owned();
        }
        let zone = TimeZone::system();
        let row = |run: &JobRun| {
            vec![
                run.job.clone(),
                run.due.date_time(&zone),
                run.cause.to_string(),
                run.node.clone(),
                run.outcome.to_string(),
                run.took_ms.map_or("-".to_owned(), span),
                run.rows.map_or("-".to_owned(), number),
                run.detail.as_deref().unwrap_or_default().to_owned(),
            ]
        };
        let rows: Vec<Vec<String>> = runs.iter().map(row).collect();
        let head = ["job", "due", "cause", "node", "outcome", "took", "rows", "detail"];
        table(&head, &[5, 6], &rows)
    })?;
    Ok(0)
}
