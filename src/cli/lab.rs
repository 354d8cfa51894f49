//! `seckill lab`: the designs of the flash-sale tutorials, judged on the same work.
//!
//! Runs on temporary servers, with instances that are processes of this program. Exit code 1 if a design broke a
//! promise that it keeps.

use std::{
    collections::BTreeSet,
    io::{self, IsTerminal as _, Write as _},
};

use clap::{
    Args,
    builder::{PossibleValuesParser, TypedValueParser},
};
use seckill_engine::EngineError;
use seckill_lab::{
    self as designs, Database, Design, DesignReport, Lab, LabError, Program, Progress, Promise,
    Report, Source, Work,
};
use seckill_model::{Label, OsError, text};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::{
    CliError, DATA_DIR, Result, Table, count_in, indented, number, output::print, plain,
    sandbox::Setup, signals::Signals,
};

/// The first argument of a process that is an instance.
pub(super) const INSTANCE: &str = "lab-instance";
/// Most seeds of one call.
const MAX_SEEDS: u64 = 1_000;

#[derive(Debug, Args)]
pub(super) struct LabArgs {
    /// Names of the designs; without any, list them
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Run all designs
    #[arg(long, conflicts_with = "names")]
    all: bool,
    /// Runs per design, each with the next seed
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = count_in(1..=MAX_SEEDS))]
    seeds: u64,
    /// First random seed, for the order of requests and the think times
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Users who buy
    #[arg(long, value_name = "N", default_value_t = Work::default().buyers)]
    buyers: u32,
    /// Pieces to sell
    #[arg(long, value_name = "N", default_value_t = Work::default().stock)]
    stock: u32,
    /// Processes that serve the requests in turn
    #[arg(long, value_name = "N", default_value_t = Work::default().instances)]
    instances: u32,
    /// Requests at the same time, over all instances; each has a connection
    #[arg(long, value_name = "N", default_value_t = Work::default().concurrency)]
    concurrency: u32,
    /// Share of users whose request is sent twice, from 0 to 1
    #[arg(long, value_name = "F", default_value_t = Work::default().repeat)]
    repeat: f64,
    /// Mean pause between a check and the write that depends on it, in milliseconds; it widens races
    #[arg(long, value_name = "MS", default_value_t = Work::default().think_ms)]
    think: u32,
    /// Databases, separated by commas; each runs all designs
    #[arg(long, value_name = "DATABASE", value_delimiter = ',', default_value = "sqlite", value_parser = database())]
    on: Vec<Database>,
    /// Print a report in Markdown, with a timeline of each broken promise
    #[arg(long)]
    markdown: bool,
}

impl LabArgs {
    fn work(&self) -> Work {
        let Self { buyers, stock, repeat, concurrency, instances, think, .. } = *self;
        Work { buyers, stock, repeat, concurrency, instances, think_ms: think, disruption: None }
    }

    fn designs(&self) -> Result<Vec<&'static Design>, LabError> {
        if self.all {
            return Ok(designs::all().to_vec());
        }
        let mut found = Vec::new();
        for name in &self.names {
            let design = designs::find(name)?;
            // A name that is given twice is run once.
            if found.iter().all(|it: &&Design| it.name != design.name) {
                found.push(design);
            }
        }
        Ok(found)
    }

    fn databases(&self) -> Vec<Database> {
        let mut found = Vec::new();
        for database in &self.on {
            if !found.contains(database) {
                found.push(*database);
            }
        }
        found
    }
}

fn database() -> impl TypedValueParser<Value = Database> {
    PossibleValuesParser::new(Database::NAMES).try_map(|name| name.parse::<Database>())
}

pub(super) async fn run(setup: &Setup<'_>, args: &LabArgs) -> Result<u8> {
    let out = setup.out;
    // It uses no data directory, whichever is given.
    if let Some(flag) = setup.server_flag.filter(|flag| *flag != DATA_DIR) {
        return Err(CliError::usage(text!("demo-no-servers", what = Label("lab-name"), flag)));
    }
    if args.markdown && out.json {
        return Err(CliError::usage(Label("lab-one-format")));
    }
    let (work, designs) = (args.work(), args.designs()?);
    work.check()?;
    if designs.is_empty() {
        let listed: Vec<Listed> = designs::all().iter().map(|it| Listed::new(it, &work)).collect();
        return out.answer(&listed, || list(&listed));
    }
    if setup.config.read_only {
        return Err(EngineError::ReadOnly.into());
    }
    let mut signals = Signals::listen()?;
    let path = std::env::current_exe()
        .map_err(|error| CliError::failed(text!("lab-no-program", error = OsError::of(&error))))?;
    let program = Program { path, args: vec![INSTANCE.into()] };
    let databases = args.databases();
    let seeds = (args.seed..).take(args.seeds as usize).collect();
    let lab = Lab { designs, databases, work, seeds, program };
    let stop = CancellationToken::new();
    // After a signal, the lab stops its servers and removes their files first.
    let running = Box::pin(lab.run(show_progress, &stop));
    let done = signals.cancelling(&stop, running).await;
    end_progress();
    let report = done?;
    if let (Some(missing), []) = (report.missing.first(), &*report.designs) {
        return Err(CliError::unreachable(missing.text()));
    }
    if args.markdown {
        print(report.markdown().trim_end())?;
        return Ok(u8::from(report.is_unexpected()));
    }
    out.verdict(!report.is_unexpected(), &report, || render(&report))
}

/// Runs this process as an instance of the lab.
pub(super) async fn run_instance() -> Result<u8> {
    seckill_lab::instance::run().await?;
    Ok(0)
}

/// A design in the list.
#[derive(Debug, Serialize)]
struct Listed {
    name: &'static str,
    question: &'static str,
    source: Source,
    breaks: Vec<&'static str>,
    mended_by: Option<&'static str>,
    #[serde(skip)]
    titles: (Label, Vec<Label>),
}

impl Listed {
    fn new(design: &Design, work: &Work) -> Self {
        // Under any disruption.
        let breaks: BTreeSet<Promise> =
            design.question.works(work).flat_map(|work| design.breaks(&work)).collect();
        Self {
            name: design.name,
            question: design.question.into(),
            source: design.source,
            breaks: breaks.iter().copied().map(Into::into).collect(),
            mended_by: design.mended_by,
            titles: (design.question.title(), breaks.into_iter().map(Promise::title).collect()),
        }
    }
}

fn list(listed: &[Listed]) -> String {
    let breaks = |it: &Listed| {
        let titles: Vec<&str> = it.titles.1.iter().map(|it| it.read()).collect();
        if titles.is_empty() { "-".to_owned() } else { titles.join(", ") }
    };
    let table = Table::new(listed)
        .left(&Label("lab-column-design"), |it| it.name)
        .left(&Label("lab-column-question"), |it| it.titles.0)
        .left(&Label("lab-column-source"), |it| {
            format!("{} §{}", it.source.text, it.source.section)
        })
        .left(&Label("lab-column-breaks"), breaks)
        .left(&Label("lab-column-mended-by"), |it| it.mended_by.unwrap_or("-"));
    format!("{table}\n{}", Label("lab-list-hint"))
}

fn render(report: &Report) -> String {
    let mut text = report.work_text();
    text.push('\n');
    for missing in &report.missing {
        text.push_str(&format!("\n{}\n", missing.text()));
    }
    for lacking in &report.not_applicable {
        text.push_str(&format!("\n{}\n", lacking.text()));
    }
    for (title, designs) in report.groups() {
        text.push_str(&format!("\n{title}\n{}", table(designs)));
    }
    for design in &report.designs {
        if design.disruption.is_none() {
            let (name, database) = (design.name, design.database.title());
            text.push_str(&format!("\n{name} ({database})\n{}\n", indented(design.why_text())));
        } else if !(design.unexpected.is_empty() && design.timelines.is_empty()) {
            text.push_str(&format!("\n{}\n", design.label()));
        }
        for promise in &design.unexpected {
            let promise = promise.title();
            text.push_str(&format!("  {}\n", text!("lab-unexpected", promise)));
        }
        for timeline in &design.timelines {
            text.push_str(&format!("\n{}\n", indented(&timeline.text())));
        }
    }
    text
}

fn table(designs: &[DesignReport]) -> String {
    let median = |it: &DesignReport, of: fn(&seckill_lab::Verdict) -> u64| number(it.median(of));
    let broken = |it: &DesignReport| {
        let text = it.broken_text();
        if text.is_empty() { "-".to_owned() } else { text }
    };
    Table::new(designs)
        .left(&Label("lab-column-design"), DesignReport::label)
        .right(&Label("lab-column-orders"), |it| median(it, |of| of.sold))
        .right(&Label("lab-column-oversold"), |it| median(it, |of| of.oversold))
        .right(&Label("lab-column-two-orders"), |it| median(it, |of| of.users_with_two_orders))
        .right(&Label("lab-column-unsold"), |it| median(it, |of| of.unsold))
        .right(&Label("lab-column-lost"), |it| median(it, |of| of.lost))
        .right(&Label("lab-column-per-second"), |it| number(it.latency.throughput as u64))
        .right(&Label("lab-column-average"), |it| format!("{:.1}", it.latency.average))
        .right("50 %", |it| format!("{:.1}", it.latency.median))
        .right("95 %", |it| format!("{:.1}", it.latency.p95))
        .right("99 %", |it| format!("{:.1}", it.latency.p99))
        .right(&Label("lab-column-errors"), |it| format!("{:.1}", it.latency.error_percent))
        .right("SQL", |it| format!("{:.1}", it.sql_per_request))
        .right("Redis", |it| format!("{:.1}", it.redis_per_request))
        .left(&Label("lab-column-broken"), broken)
        .to_string()
}

/// Progress on the terminal, in one line; stdout is for the report.
fn show_progress(progress: Progress) {
    if !io::stderr().is_terminal() {
        return;
    }
    let Progress { database, design, disruption, seed, done, runs } = progress;
    let (database, design) = (database.title(), design.label(disruption));
    let line = text!("lab-progress", database, design, seed = seed.to_string(), done, runs);
    let _ = write!(io::stderr(), "\r\u{1b}[2K{}", plain(&line));
}

fn end_progress() {
    if io::stderr().is_terminal() {
        let _ = write!(io::stderr(), "\r\u{1b}[2K");
    }
}
