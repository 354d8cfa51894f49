//! `seckill drill`: a failure injected in a temporary data directory, for the operator to recognize and repair.
//!
//! With `--headless` the operator's actions are simulated as well, and the result is printed.

mod catalogue;
mod play;

use std::time::Duration;

use clap::{Args, builder::PossibleValuesParser};
use seckill_console::GuidePage;
use seckill_model::{Label, SaleAudit, text};
use seckill_text::figures::span;
use serde::Serialize;
use strum::IntoEnumIterator as _;

use self::{catalogue::Drill, play::Play};
use crate::{
    CliError, Output, Result, Table,
    audit::findings,
    fields,
    sandbox::{Sandbox, Setup, last_page},
};

const NAME: Label = Label("drill-name");
/// Hints to a drill: the cause, then the remedy.
const HINTS: usize = 2;

#[derive(Debug, Args)]
pub(super) struct DrillArgs {
    /// Name of the drill; 'list', or no name, lists the drills
    #[arg(value_name = "NAME", value_parser = PossibleValuesParser::new(names()))]
    name: Option<String>,
    /// Run without a terminal, perform the operator's actions as well, and print the result
    #[arg(long)]
    pub(super) headless: bool,
    /// Random seed for duplicate requests and the order of buyers
    #[arg(long, value_name = "N", default_value_t = 7)]
    seed: u64,
}

impl DrillArgs {
    /// A drill is running in a console.
    pub(super) fn has_console(&self) -> bool {
        !self.headless && self.drill().is_some()
    }

    fn drill(&self) -> Option<Drill> {
        self.name.as_ref()?.parse().ok()
    }
}

fn names() -> impl Iterator<Item = &'static str> {
    Drill::iter().map(<&'static str>::from).chain(["list"])
}

/// A condition at the end of a drill.
#[derive(Debug, Serialize)]
struct Check {
    #[serde(rename = "check")]
    condition: String,
    holds: bool,
}

/// Result of a drill; the keys are a contract of `drill NAME --headless --json`.
#[derive(Debug, Default, Serialize)]
struct Report {
    drill: &'static str,
    seed: u64,
    /// Entries affected by the fault.
    struck: u64,
    /// What the screen showed.
    seen: Vec<String>,
    /// How it was repaired.
    done: Vec<String>,
    checks: Vec<Check>,
    passed: bool,
    sales: Vec<SaleAudit>,
    /// What the operator did; `None` without a console.
    #[serde(skip)]
    exam: Option<Exam>,
}

/// How an operator solved a drill.
#[derive(Debug, Default)]
struct Exam {
    /// Number of hints requested.
    hints: usize,
    /// Time from the fault until the view with its details was opened.
    found: Option<Duration>,
    /// Time from the fault until its repair, by the operator or by the engine.
    repaired: Option<Duration>,
}

impl Exam {
    /// Its labels and figures.
    fn figures(&self) -> [(Label, String); 3] {
        let after = |time: Option<Duration>| match time {
            Some(time) => span(time.as_millis() as u64),
            None => Label("drill-never").to_owned(),
        };
        [
            (Label("drill-found"), after(self.found)),
            (Label("drill-repaired-after"), after(self.repaired)),
            (Label("drill-hints"), text!("drill-hints-of", hints = self.hints, all = HINTS)),
        ]
    }
}

impl Report {
    fn check(&mut self, condition: impl Into<String>, holds: bool) {
        self.checks.push(Check { condition: condition.into(), holds });
    }

    /// The first failed check, if any.
    fn failure(&self) -> Option<&str> {
        self.checks.iter().find(|it| !it.holds).map(|it| it.condition.as_str())
    }
}

pub(super) async fn run(setup: &Setup<'_>, args: &DrillArgs) -> Result<u8> {
    let Some(drill) = args.drill() else {
        return list(setup.out);
    };
    let seed = args.seed;
    let script = async |sandbox: &Sandbox<'_>| Play { sandbox, drill, seed }.play().await;
    let Some(report) = setup.play(NAME, args.headless, script, end).await? else {
        return Err(CliError::failed(Label("drill-aborted")));
    };
    setup.out.verdict(report.passed, &report, || render(&report))
}

/// The end of the guide.
fn end(report: &Result<Report>) -> GuidePage {
    let (title, text) = match report.as_ref().map(Report::failure) {
        Ok(None) => (Label("drill-passed"), text!("drill-passed-text")),
        Ok(Some(wrong)) => (Label("drill-failed"), text!("drill-failed-text", wrong)),
        Err(error) => (Label("drill-failed"), text!("drill-script-failed", why = error.message())),
    };
    let exam = report.iter().filter_map(|report| report.exam.as_ref()).flat_map(Exam::figures);
    GuidePage {
        summary: exam.map(|(label, figure)| (label.to_owned(), figure)).collect(),
        next: match report {
            Ok(report) => {
                let about = text!("drill-about", drill = report.drill);
                text!("drill-debriefing", about, text = text.clone())
            }
            Err(_) => text.clone(),
        },
        ..last_page(title, text, report.as_ref().is_ok_and(|report| report.passed))
    }
}

#[derive(Serialize)]
struct Listed {
    name: &'static str,
    about: String,
}

fn list(out: Output) -> Result<u8> {
    let drills: Vec<Listed> = Drill::iter()
        .map(|it| Listed { name: it.into(), about: text!("drill-about", drill = it) })
        .collect();
    out.answer(&drills, || {
        Table::new(&drills)
            .left(&Label("column-drill"), |it| it.name)
            .left(&Label("column-about"), |it| it.about.clone())
            .to_string()
    })
}

fn render(report: &Report) -> String {
    let drill = text!("drill-of-seed", drill = report.drill, seed = report.seed.to_string());
    let mut lines = vec![(NAME, drill)];
    lines.extend(report.seen.iter().map(|seen| (Label("drill-seen"), seen.clone())));
    lines.extend(report.done.iter().map(|done| (Label("drill-done"), done.clone())));
    lines.extend(report.exam.iter().flat_map(Exam::figures));
    lines.extend(report.checks.iter().map(|Check { condition, holds }| {
        let holds = if *holds { Label("drill-true") } else { Label("drill-false") };
        (holds, condition.clone())
    }));
    let text = fields(&lines).to_string() + &findings(&report.sales);
    let conclusion =
        if report.passed { Label("drill-report-passed") } else { Label("drill-report-failed") };
    text + &conclusion
}
