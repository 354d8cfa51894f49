//! `seckill jobs`: scheduled jobs, their history, and running one by hand.

use clap::{Args, Subcommand};
use seckill_engine::{
    Command, JobLine,
    commands::command_handler::no_job,
    jobs::{board, builtin},
};
use seckill_model::{JobRun, Label, text};
use seckill_text::audit_log::job_result;

use crate::{
    Config, Context, Needs, Output, Reason, Result, Table, local, number, or_dash, reply, rows,
    span,
};

#[derive(Debug, Subcommand)]
pub(super) enum JobsCommand {
    /// List jobs with their next and last runs
    List,
    /// List the newest runs of one job, or of all jobs
    History {
        /// Name of the job
        name: Option<String>,
        /// Maximum number of runs
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = rows())]
        limit: u32,
    },
    /// Run a job now, even if it is paused
    Run(JobArgs),
    /// Pause a job on all nodes
    Pause(JobArgs),
    /// Resume a paused job
    Resume(JobArgs),
}

#[derive(Debug, Args)]
pub(super) struct JobArgs {
    /// Name of the job
    name: String,
    #[command(flatten)]
    reason: Reason,
}

pub(super) async fn run(config: &Config, out: Output, command: JobsCommand) -> Result<u8> {
    let done = Context::with(config, out, Needs::Both, async |context| match command {
        JobsCommand::List => list(context).await,
        JobsCommand::History { name, limit } => history(context, name, limit).await,
        JobsCommand::Run(JobArgs { name, reason }) => {
            reply::run_once(context, Command::RunJob(name), reason).await
        }
        JobsCommand::Pause(JobArgs { name: job, reason }) => {
            reply::run_once(context, Command::SwitchJob { job, paused: true }, reason).await
        }
        JobsCommand::Resume(JobArgs { name: job, reason }) => {
            reply::run_once(context, Command::SwitchJob { job, paused: false }, reason).await
        }
    });
    done.await
}

async fn list(context: &Context) -> Result<u8> {
    let jobs = builtin::jobs(&context.config.engine);
    let now = context.redis.connection().now().await?;
    let lines = board(&context.store, &jobs, now, 1).await?;
    let last = |line: &JobLine| line.runs.first().cloned();
    context.out.answer(&lines, || {
        let next = |line: &JobLine| match line.next {
            _ if line.paused => Label("cli-paused").to_owned(),
            next => or_dash(next.map(local)),
        };
        Table::new(&lines)
            .left(&Label("column-job"), |line| line.name.clone())
            .left(&Label("column-schedule"), |line| line.schedule.clone())
            .left(&Label("column-next"), next)
            .left(&Label("column-last"), |it| or_dash(last(it).map(|it| local(it.started))))
            .left(&Label("column-outcome"), |it| {
                or_dash(last(it).map(|it| text!("job-outcome", outcome = it.outcome)))
            })
            .right(&Label("column-took"), |it| {
                or_dash(last(it).and_then(|it| it.took_ms).map(span))
            })
            .right(&Label("column-rows"), |it| or_dash(last(it).and_then(|it| it.rows).map(number)))
            .left(&Label("column-node"), |it| or_dash(last(it).map(|it| it.node)))
            .to_string()
    })
}

async fn history(context: &Context, name: Option<String>, limit: u32) -> Result<u8> {
    let jobs = builtin::jobs(&context.config.engine);
    if let Some(name) = name.as_ref().filter(|name| !jobs.iter().any(|job| job.name == **name)) {
        return Err(no_job(name).into());
    }
    let runs = context.store.runs(name.as_deref(), limit).await?;
    context.out.answer(&runs, || match runs.as_slice() {
        [] => Label("cli-jobs-no-run").to_owned(),
        runs => table(runs).to_string(),
    })
}

pub(super) fn table(runs: &[JobRun]) -> Table<'_, JobRun> {
    Table::new(runs)
        .left(&Label("column-job"), |run| run.job.clone())
        .left(&Label("column-due"), |run| local(run.due))
        .left(&Label("column-cause"), |run| text!("console-cause", cause = run.cause))
        .left(&Label("column-node"), |run| run.node.clone())
        .left(&Label("column-outcome"), |run| text!("job-outcome", outcome = run.outcome))
        .right(&Label("column-took"), |run| or_dash(run.took_ms.map(span)))
        .right(&Label("column-rows"), |run| or_dash(run.rows.map(number)))
        .left(&Label("column-detail"), |run| job_result(run.outcome, run.detail.as_ref()))
}
