//! `seckill lab`: the designs of the flash-sale tutorials, judged on the same work.
//!
//! Runs on temporary servers, with instances that are processes of this program. Exit code 1 if a design broke a
//! promise that it keeps.

mod playground;

use std::io::{self, IsTerminal as _, Write as _};

use clap::{
    Args, Subcommand,
    builder::{PossibleValuesParser, TypedValueParser},
};
use seckill_console::{LabSetup, Options};
use seckill_engine::EngineError;
use seckill_lab::{
    self as designs, Cell, Database, Design, DesignReport, How, Incident, Lab, LabError, Program,
    Progress, Promise, Property, Queue, Queues, Report, Source, Work,
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
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct LabArgs {
    #[command(subcommand)]
    command: Option<LabCommand>,
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
    /// What happens while locks are held and orders are handed over to SQL, separated by commas
    #[arg(long, value_name = "INCIDENT", value_delimiter = ',', default_values = Incident::NAMES, value_parser = incident())]
    incidents: Vec<Option<Incident>>,
    /// Print a report in Markdown, with a timeline of each broken promise
    #[arg(long)]
    markdown: bool,
    /// Open the lab in the terminal, with these designs marked: choose, run, and see each broken promise step by step
    #[arg(long)]
    tui: bool,
}

#[derive(Debug, Subcommand)]
enum LabCommand {
    /// Compare the queues of the tutorials; each cell is measured
    Queues {
        /// Print it in Markdown
        #[arg(long)]
        markdown: bool,
    },
    /// Watch two contenders for the engine's lock: waiting, lease, depth, watchdog and hand-over
    Lock(playground::LockArgs),
    /// Take a guided tour of streams, consumer groups and scripts, with the real replies of Redis
    Streams(playground::StreamsArgs),
    /// Watch jobs at a fixed rate, with a fixed delay, by cron and slower than their period, side by side
    ///
    /// The engine's scheduler runs them. Before that, prints the next times of cron expressions.
    Schedule(playground::ScheduleArgs),
}

impl LabCommand {
    fn markdown(&self) -> bool {
        match self {
            Self::Queues { markdown } => *markdown,
            Self::Lock(args) => args.markdown,
            Self::Streams(args) => args.markdown,
            Self::Schedule(args) => args.markdown,
        }
    }
}

impl LabArgs {
    /// Its screen opens, unless the arguments are wrong.
    pub(super) fn has_console(&self) -> bool {
        self.tui
    }

    fn work(&self) -> Work {
        let Self { buyers, stock, repeat, concurrency, instances, think, .. } = *self;
        let incidents = self.incidents.iter().flatten().copied().collect();
        Work { buyers, stock, repeat, concurrency, instances, think_ms: think, incidents }
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

    fn seeds(&self) -> Vec<u64> {
        (self.seed..).take(self.seeds as usize).collect()
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

/// `none` is for work without incidents.
fn incident() -> impl TypedValueParser<Value = Option<Incident>> {
    let names: Vec<&str> = Incident::NAMES.iter().copied().chain(["none"]).collect();
    PossibleValuesParser::new(names).map(|name| name.parse().ok())
}

pub(super) async fn run(setup: &Setup<'_>, args: &LabArgs) -> Result<u8> {
    let out = setup.out;
    // It uses no data directory, whichever is given.
    if let Some(flag) = setup.server_flag.filter(|flag| *flag != DATA_DIR) {
        return Err(CliError::usage(text!("demo-no-servers", what = Label("lab-name"), flag)));
    }
    let markdown = args.command.as_ref().map_or(args.markdown, LabCommand::markdown);
    if markdown && out.json {
        return Err(CliError::usage(Label("lab-one-format")));
    }
    if args.tui && (markdown || out.json) {
        return Err(CliError::usage(Label("lab-one-screen")));
    }
    if args.incidents.len() > 1 && args.incidents.contains(&None) {
        return Err(CliError::usage(Label("lab-none-alone")));
    }
    match &args.command {
        None => {}
        Some(LabCommand::Queues { .. }) => return compare_queues(setup, markdown).await,
        Some(LabCommand::Lock(args)) => return playground::lock(setup, args).await,
        Some(LabCommand::Streams(args)) => return playground::streams(setup, args).await,
        Some(LabCommand::Schedule(args)) => return playground::schedule(setup, args).await,
    }
    let (work, designs) = (args.work(), args.designs()?);
    work.check()?;
    if args.tui {
        return show(setup, args, work, designs).await;
    }
    if designs.is_empty() {
        let listed: Vec<Listed> = designs::all().iter().map(|it| Listed::new(it, &work)).collect();
        return out.answer(&listed, || list(&listed));
    }
    if setup.config.read_only {
        return Err(EngineError::ReadOnly.into());
    }
    let mut signals = Signals::listen()?;
    let program = program()?;
    let (databases, seeds) = (args.databases(), args.seeds());
    let lab = Lab { designs, databases, work, seeds, program };
    let stop = CancellationToken::new();
    // After a signal, the lab stops its servers and removes their files first.
    let first = args.seed;
    let progress = |it: Progress| show_progress(&it, it.seed == first && it.incident.is_none());
    let running = Box::pin(lab.run(progress, &stop));
    let done = signals.cancelling(&stop, running).await;
    end_progress();
    let report = done?;
    if args.markdown {
        print(report.markdown().trim_end())?;
        return Ok(u8::from(report.is_unexpected()));
    }
    out.verdict(!report.is_unexpected(), &report, || render(&report))
}

/// This program, as an instance of the lab.
pub(super) fn program() -> Result<Program> {
    let path = std::env::current_exe()
        .map_err(|error| CliError::failed(text!("lab-no-program", error = OsError::of(&error))))?;
    Ok(Program { path, args: vec![INSTANCE.into()] })
}

/// `seckill lab queues`
async fn compare_queues(setup: &Setup<'_>, markdown: bool) -> Result<u8> {
    if setup.config.read_only {
        return Err(EngineError::ReadOnly.into());
    }
    let (mut signals, program, stop) = (Signals::listen()?, program()?, CancellationToken::new());
    let measuring = Box::pin(Queues::measure(&program, &stop));
    let queues = signals.cancelling(&stop, measuring).await?;
    if markdown {
        print(queues.markdown().trim_end())?;
        return Ok(0);
    }
    setup.out.answer(&queues, || render_queues(&queues))
}

fn render_queues(queues: &Queues) -> String {
    let rows: Vec<(Property, Vec<String>)> = Property::all()
        .map(|property| (property, queues.row(property).map(Cell::text).collect()))
        .collect();
    let mut table = Table::new(&rows).left("", |(property, _)| property.title().read());
    for (place, queue) in Queue::all().enumerate() {
        table = table.left(queue.title().read(), move |(_, cells)| {
            cells.get(place).cloned().unwrap_or_default()
        });
    }
    let mut text = table.to_string();
    for cell in &queues.cells {
        text.push_str(&format!("\n{}, {}\n", cell.property.title(), cell.queue.title()));
        let steps: Vec<String> = cell.how.iter().map(How::text).collect();
        text.push_str(&indented(&steps.join("\n")));
        text.push('\n');
    }
    text
}

/// Opens the screen of the lab.
async fn show(
    setup: &Setup<'_>,
    args: &LabArgs,
    work: Work,
    designs: Vec<&'static Design>,
) -> Result<u8> {
    if setup.config.read_only {
        return Err(EngineError::ReadOnly.into());
    }
    seckill_console::check_terminal()?;
    let database = args.databases().first().copied().unwrap_or(Database::Sqlite);
    let (program, seeds) = (Some(program()?), args.seeds());
    let lab = LabSetup { program, designs, database, work, seeds };
    let options = Options { lab, ..setup.display.options(setup.config)? };
    seckill_console::run_lab(options).await?;
    Ok(0)
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
        Self {
            name: design.name,
            question: design.question.into(),
            source: design.source,
            breaks: design.breaks(work).map(Into::into).collect(),
            mended_by: design.mended_by,
            titles: (design.question.title(), design.breaks(work).map(Promise::title).collect()),
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
    format!("{table}\n{}\n\n{}", Label("lab-texts"), Label("lab-list-hint"))
}

fn render(report: &Report) -> String {
    let mut text = format!("{}\n\n{}\n", report.work_text(), Label("lab-texts"));
    for lacking in &report.not_applicable {
        text.push_str(&format!("\n{}\n", lacking.text()));
    }
    for (title, designs) in report.groups() {
        text.push_str(&format!("\n{title}\n{}", table(designs)));
    }
    for design in &report.designs {
        if design.incident.is_none() {
            let (name, database) = (design.name, design.database.title());
            text.push_str(&format!("\n{name} ({database})\n{}\n", indented(design.why_text())));
        } else if !(design.unexpected.is_empty() && design.timelines.is_empty()) {
            text.push_str(&format!("\n{}\n", design.label()));
        }
        for promise in &design.unexpected {
            let promise = promise.title();
            text.push_str(&format!("  {}\n", text!("lab-unexpected", promise)));
        }
        for (title, timeline) in design.interleavings() {
            text.push_str(&format!("\n{}\n", indented(&format!("{title}\n{}", timeline.text()))));
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
        .right(&Label("lab-column-ratio-per-second"), |it| format!("{:.2}", it.ratio.throughput))
        .right(&Label("lab-column-average"), |it| format!("{:.1}", it.latency.average))
        .right(&Label("lab-column-ratio-average"), |it| format!("{:.2}", it.ratio.average))
        .right("50 %", |it| format!("{:.1}", it.latency.median))
        .right("95 %", |it| format!("{:.1}", it.latency.p95))
        .right("99 %", |it| format!("{:.1}", it.latency.p99))
        .right(&Label("lab-column-errors"), |it| format!("{:.1}", it.latency.error_percent))
        .right("SQL", |it| format!("{:.1}", it.sql_per_request))
        .right("Redis", |it| format!("{:.1}", it.redis_per_request))
        .left(&Label("lab-column-broken"), broken)
        .to_string()
}

/// Progress on stderr, because stdout is for the report: on a terminal in one line, otherwise a line per design.
fn show_progress(progress: &Progress, is_new_design: bool) {
    let Progress { database, design, incident, seed, done, runs } = *progress;
    let (database, design) = (database.title(), design.label(incident));
    let line = text!("lab-progress", database, design, seed = seed.to_string(), done, runs);
    if io::stderr().is_terminal() {
        let _ = write!(io::stderr(), "\r\u{1b}[2K{}", plain(&line));
    } else if is_new_design {
        let _ = writeln!(io::stderr(), "{}", plain(&line));
    }
}

fn end_progress() {
    if io::stderr().is_terminal() {
        let _ = write!(io::stderr(), "\r\u{1b}[2K");
    }
}
