//! `seckill lab lock`, `streams` and `schedule`: the playgrounds, printed as they happen.

use std::{
    fmt::Write as _,
    io::{self, IsTerminal as _},
    time::Duration,
};

use clap::Args;
use jiff::{Timestamp, tz::TimeZone};
use seckill_engine::{EngineError, jobs::Schedule};
use seckill_lab::playground::{
    Event, Lane, Recording,
    lock::LockPlay,
    schedule::{SchedulePlay, Upcoming},
    streams::{TourStep, tour},
};
use seckill_model::{Label, Millis, text};
use serde::Serialize;
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;
use unicode_width::UnicodeWidthStr as _;

use crate::{
    CliError, Output, Result, Table, count_in, indented, local, output::print, sandbox::Setup,
    signals::Signals,
};

/// Columns of the times, and of a lane: three or four lanes fit in 80 columns.
const TIME: usize = 9;
const LOCK_LANE: usize = 21;
const SCHEDULE_LANE: usize = 17;
/// Cells of the picture of all runs.
const PICTURE: i64 = 64;
/// Next times in a line of 80 columns.
const TIMES_PER_LINE: usize = 2;
const MAX_MS: u64 = 60_000;

#[derive(Debug, Args)]
pub(super) struct LockArgs {
    /// How long B waits for the lock, in milliseconds (waitTime); 0 tries once
    #[arg(long, value_name = "MS", default_value_t = 5_000, value_parser = count_in(0..=MAX_MS))]
    wait: u64,
    /// Lease in milliseconds (leaseTime), not renewed; without it, the watchdog renews the lease
    #[arg(long, value_name = "MS", value_parser = count_in(100..=MAX_MS))]
    lease: Option<u64>,
    /// Lease that the watchdog renews each third of it, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 1_500, value_parser = count_in(300..=MAX_MS), conflicts_with = "lease")]
    watchdog: u64,
    /// How long A works under the lock, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 2_500, value_parser = count_in(1..=MAX_MS))]
    hold: u64,
    /// How often A acquires the lock; it releases it as often
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = count_in(1..=10))]
    depth: u64,
    /// Print it in Markdown
    #[arg(long)]
    pub(super) markdown: bool,
}

#[derive(Debug, Args)]
pub(super) struct StreamsArgs {
    /// Wait for Enter after each step
    #[arg(long, conflicts_with = "markdown")]
    step: bool,
    /// Print it in Markdown
    #[arg(long)]
    pub(super) markdown: bool,
}

#[derive(Debug, Args)]
pub(super) struct ScheduleArgs {
    /// How long the jobs run, in seconds; 0 prints the next times only
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = count_in(0..=60))]
    seconds: u64,
    /// Period of the jobs, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 1_000, value_parser = count_in(200..=10_000))]
    period: u64,
    /// Cron expression of 5, 6 or 7 fields, instead of the examples; may be repeated. The first one is run
    #[arg(long, value_name = "EXPR", value_parser = cron)]
    cron: Vec<Schedule>,
    /// Next times per cron expression
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = count_in(1..=20))]
    next: u64,
    /// Print it in Markdown
    #[arg(long)]
    pub(super) markdown: bool,
}

fn cron(text: &str) -> Result<Schedule, String> {
    match Schedule::read(text, Millis::now()) {
        Ok(schedule @ Schedule::Cron(_)) => Ok(schedule),
        Ok(_) => Err(text!("lab-schedule-not-cron", example = "0 0 9 ? * 6#3")),
        Err(why) => Err(why.to_string()),
    }
}

/// Listens for signals, unless changes are forbidden.
fn signals(setup: &Setup<'_>) -> Result<Signals> {
    if setup.config.read_only {
        return Err(EngineError::ReadOnly.into());
    }
    Signals::listen()
}

/// Prints text while it happens; a document is printed at the end.
fn live(setup: &Setup<'_>, markdown: bool) -> Output {
    Output { json: setup.out.json || markdown }
}

/// `seckill lab lock`
pub(super) async fn lock(setup: &Setup<'_>, args: &LockArgs) -> Result<u8> {
    let (mut signals, stop) = (signals(setup)?, CancellationToken::new());
    let play = LockPlay {
        wait: Duration::from_millis(args.wait),
        lease: args.lease.map(Duration::from_millis),
        watchdog: Duration::from_millis(args.watchdog),
        hold: Duration::from_millis(args.hold),
        depth: args.depth as u32,
    };
    let (lanes, live) = (play.lanes(), live(setup, args.markdown));
    let mut screen = Screen::new(&lanes, LOCK_LANE);
    live.say(&screen.head(&lanes));
    let playing = play.play(|event| live.say(&screen.line(event)), &stop);
    let played = signals.cancelling(&stop, Box::pin(playing)).await?;
    let renewals = text!("lab-lock-renewals", count = played.renewals);
    let waited = match played.waited_ms {
        Some(waited) => text!("lab-lock-waited", waited),
        None => Label("lab-lock-not-waited").to_owned(),
    };
    let summary = format!("{renewals}\n{waited}");
    if args.markdown {
        let page = page(Label("lab-lock-title"), &played.recording);
        print(&format!("{page}\n{summary}"))?;
        return Ok(0);
    }
    setup.out.answer(&played, || format!("\n{summary}"))
}

/// `seckill lab streams`
pub(super) async fn streams(setup: &Setup<'_>, args: &StreamsArgs) -> Result<u8> {
    let live = live(setup, args.markdown);
    if args.step && (live.json || !io::stdin().is_terminal()) {
        return Err(CliError::usage(text!("lab-tour-step-needs-terminal", flag = "--step")));
    }
    let (mut signals, stop) = (signals(setup)?, CancellationToken::new());
    let touring = tour(
        async |number, step| {
            live.say(&format!("{number}. {}\n{}", step.why, dialog(step)));
            if args.step {
                // After Ctrl-C, the exit does not wait for it.
                let _ = spawn_blocking(|| io::stdin().read_line(&mut String::new())).await;
            } else {
                live.say("\n");
            }
        },
        &stop,
    );
    let steps = signals.cancelling(&stop, Box::pin(touring)).await?;
    if args.markdown {
        let mut page = format!("# {}\n", Label("lab-tour-title"));
        for (number, step) in (1..).zip(&steps) {
            let _ = write!(page, "\n{number}. {}\n\n", step.why);
            let dialog = indented(&indented(&format!("```\n{}\n```", dialog(step))));
            let _ = writeln!(page, "{dialog}");
        }
        print(page.trim_end())?;
        return Ok(0);
    }
    setup.out.answer(&steps, || text!("lab-tour-done", count = steps.len()))
}

/// A command and its reply, as redis-cli shows them.
fn dialog(step: &TourStep) -> String {
    format!("> {}\n{}", step.command, step.reply)
}

/// The result of `seckill lab schedule`.
#[derive(Debug, Serialize)]
struct Scheduled {
    cron: Vec<Upcoming>,
    #[serde(flatten)]
    recording: Option<Recording>,
}

/// `seckill lab schedule`
pub(super) async fn schedule(setup: &Setup<'_>, args: &ScheduleArgs) -> Result<u8> {
    let (mut signals, stop) = (signals(setup)?, CancellationToken::new());
    let next = args.next as usize;
    let given = args.cron.iter().map(|it| Upcoming::of(it.clone(), None, next));
    let cron = if args.cron.is_empty() { Upcoming::examples(next)? } else { given.collect() };
    let live = live(setup, args.markdown);
    live.say(
        &expressions(&cron).with_details(|it| {
            times(it).chunks(TIMES_PER_LINE).map(|line| line.join("  ")).collect()
        }),
    );
    let first = cron.first().map(|it| it.schedule.clone());
    let mut recording = None;
    if let Some(cron) = first.filter(|_| args.seconds > 0) {
        let (period, time) =
            (Duration::from_millis(args.period), Duration::from_secs(args.seconds));
        let play = SchedulePlay { period, cron, time };
        let lanes = play.lanes();
        let mut screen = Screen::new(&lanes, SCHEDULE_LANE);
        live.say(&format!("\n{}", screen.head(&lanes)));
        let playing = play.play(|event| live.say(&screen.line(event)), &stop);
        recording = Some(signals.cancelling(&stop, Box::pin(playing)).await?);
    }
    let picture = recording.as_ref().map(|it| picture(it, args.seconds)).unwrap_or_default();
    if args.markdown {
        let next = &Label("lab-cron-column-next");
        let times = expressions(&cron).left(next, |it| times(it).join(", ")).markdown_or("");
        let mut text = format!("# {}\n\n{times}", Label("lab-schedule-title"));
        if let Some(recording) = &recording {
            let page = page(Label("lab-schedule-runs"), recording);
            let _ = write!(text, "\n#{page}\n```\n{picture}```\n");
        }
        print(text.trim_end())?;
        return Ok(0);
    }
    setup.out.answer(&Scheduled { cron, recording }, || format!("\n{picture}"))
}

/// The expressions with what they mean.
fn expressions(cron: &[Upcoming]) -> Table<'_, Upcoming> {
    let table =
        Table::new(cron).left(&Label("lab-cron-column-expression"), |it| it.schedule.to_string());
    if cron.iter().all(|it| it.meaning.is_none()) {
        return table;
    }
    table.left(&Label("lab-cron-column-meaning"), |it| it.meaning.unwrap_or_default())
}

/// The next times of an expression, as date, time and day of the week.
fn times(cron: &Upcoming) -> Vec<String> {
    let time = |at: &Millis| {
        let zoned = Timestamp::from_millisecond(at.0).map(|it| it.to_zoned(TimeZone::system()));
        let day = zoned.map_or(7, |it| it.weekday().to_monday_one_offset() as u8);
        text!("lab-cron-time", at = local(*at), day)
    };
    cron.next.iter().map(time).collect()
}

/// When each job ran, a row per job.
fn picture(recording: &Recording, seconds: u64) -> String {
    let cell_us = seconds as i64 * 1_000_000 / PICTURE;
    let mut text = String::new();
    for (lane, Lane { name, .. }) in recording.lanes.iter().enumerate() {
        let runs = recording.busy(lane);
        let cells = (0..PICTURE).map(|cell| {
            let (from, to) = (cell * cell_us, (cell + 1) * cell_us);
            let is_in = |(begun, ended): &(i64, Option<i64>)| {
                *begun < to && ended.is_none_or(|ended| ended > from)
            };
            if runs.iter().any(is_in) { '#' } else { '.' }
        });
        let _ = writeln!(text, "{name}  {}", cells.collect::<String>());
    }
    let _ = writeln!(
        text,
        "   0{:>width$}",
        text!("lab-schedule-seconds", seconds),
        width = PICTURE as usize - 1
    );
    text
}

/// A table with a column per lane.
fn page(title: Label, recording: &Recording) -> String {
    let mut text = format!("# {title}\n\n");
    for Lane { name, title } in &recording.lanes {
        let _ = writeln!(text, "- {name}: {title}");
    }
    let mut table = Table::new(&recording.events).right("ms", time);
    for (lane, Lane { name, .. }) in recording.lanes.iter().enumerate() {
        table = table
            .left(name, move |it| if it.lane == lane { it.text.clone() } else { String::new() });
    }
    let _ = write!(text, "\n{}", table.markdown_or(""));
    text
}

fn time(event: &Event) -> String {
    format!("{:.1}", event.at_us as f64 / 1e3)
}

/// Draws events below each other, each in the column of its lane.
struct Screen {
    width: usize,
    /// The lanes that hold the lock or run the job: a bar marks them.
    busy: Vec<bool>,
}

impl Screen {
    fn new(lanes: &[Lane], width: usize) -> Self {
        Self { width, busy: vec![false; lanes.len()] }
    }

    /// What the lanes are, and their names in their columns.
    fn head(&self, lanes: &[Lane]) -> String {
        let mut text = String::new();
        for Lane { name, title } in lanes {
            let _ = writeln!(text, "{name}: {title}");
        }
        let _ = write!(text, "\n{:>width$} ", "ms", width = TIME - 1);
        for Lane { name, .. } in lanes {
            let _ = write!(text, "{name:width$}", width = self.width);
        }
        text.trim_end().to_owned()
    }

    fn line(&mut self, event: &Event) -> String {
        let mut text = format!("{:>width$} ", time(event), width = TIME - 1);
        for (lane, busy) in self.busy.iter_mut().enumerate() {
            let is_here = lane == event.lane;
            if let Some(now) = event.busy.filter(|_| is_here) {
                *busy = now;
            }
            let column = TIME + lane * self.width;
            let used = text.width();
            // The text of a lane may cover the bar of the next one.
            if is_here || (*busy && (lane == 0 || used < column)) {
                text.push_str(&" ".repeat(column.saturating_sub(used)));
                text.push_str(if is_here { &event.text } else { "|" });
            }
        }
        text
    }
}
