//! `seckill drill`: a failure injected in a temporary data dir, for the operator to recognize and repair.
//!
//! With `--headless` the operator's actions are simulated as well, and the result is printed.

mod catalogue;
mod play;

use clap::{Args, builder::PossibleValuesParser};
use seckill_console::Story;
use seckill_model::{
    ledger::SaleAudit,
    message::{Label, text},
};
use seckill_store::fault_injection::{Ill, faulty};
use serde::{Serialize, Serializer};

use self::{
    catalogue::{DRILLS, Drill},
    play::Play,
};
use super::{
    CliError, Result,
    audit::findings,
    error,
    output::Output,
    sandbox::{self, Guide, Sandbox, Setup, page},
    table::{Table, fields},
};

const NAME: Label = Label("drill-name");
const LIST: &str = "list";

#[derive(Debug, Args)]
pub(super) struct DrillArgs {
    /// Name of the drill; 'list', or no name, lists the drills
    #[arg(value_name = "NAME", value_parser = PossibleValuesParser::new(names()))]
    name: Option<String>,
    /// Run without a terminal, including the operator's actions, and print the result
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

    fn drill(&self) -> Option<&'static Drill> {
        DRILLS.iter().find(|drill| Some(drill.name) == self.name.as_deref())
    }
}

fn names() -> impl Iterator<Item = &'static str> {
    DRILLS.iter().map(|drill| drill.name).chain([LIST])
}

/// A condition at the end of a drill.
#[derive(Debug, Serialize)]
struct Check {
    #[serde(rename = "check", serialize_with = "english")]
    condition: Label,
    holds: bool,
}

/// Documents are English.
fn english<S: Serializer>(condition: &Label, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(condition.english())
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
}

impl Report {
    fn check(&mut self, condition: Label, holds: bool) {
        self.checks.push(Check { condition, holds });
    }

    /// The first failed check, if any.
    fn failure(&self) -> Option<Label> {
        self.checks.iter().find(|it| !it.holds).map(|it| it.condition)
    }
}

pub(super) async fn run(setup: &Setup<'_>, args: &DrillArgs) -> Result<u8> {
    let Some(drill) = args.drill() else {
        return list(setup.out);
    };
    let options = setup.options(NAME)?;
    let seed = args.seed;
    let (context, node, fault_switch) =
        sandbox::open(setup.config, setup.out, |store| faulty(&store, seed)).await?;
    let sandbox = Sandbox { node: &node, context: &context, what: NAME };
    let script = async |guide: &Guide| {
        Play { sandbox, drill, fault_switch: &fault_switch, seed, guide }.play().await
    };
    let result = Box::pin(sandbox::play(&node, options, script, last_page)).await;
    // Quitting while the database is unavailable must not wait for it.
    fault_switch.set(Ill::Not);
    node.stop().await;
    context.close().await;
    let Some(report) = result? else {
        return Err(CliError::failed(Label("drill-aborted")));
    };
    setup.out.answer(&report, || render(&report))?;
    Ok(if report.passed { 0 } else { error::FAILED })
}

/// The end of the guide.
fn last_page(report: &Result<Report>) -> Story {
    let failed = Label("drill-failed");
    match report.as_ref().map(Report::failure) {
        Ok(None) => {
            let text = Label("drill-passed-text");
            Story { done: true, ..page(&Label("drill-passed"), &text, Some("q")) }
        }
        Ok(Some(wrong)) => page(&failed, &text!("drill-failed-text", wrong), Some("q")),
        Err(error) => {
            let text = text!("drill-script-failed", why = error.message());
            page(&failed, &text, Some("q"))
        }
    }
}

#[derive(Serialize)]
struct Listed {
    name: &'static str,
    #[serde(serialize_with = "english")]
    about: Label,
}

fn list(out: Output) -> Result<u8> {
    let drills: Vec<Listed> =
        DRILLS.iter().map(|it| Listed { name: it.name, about: it.about }).collect();
    out.answer(&drills, || {
        Table::new(&drills)
            .left(&Label("column-drill"), |it| it.name)
            .left(&Label("column-about"), |it| it.about)
            .to_string()
    })?;
    Ok(0)
}

fn render(report: &Report) -> String {
    let drill = text!("drill-of-seed", drill = report.drill, seed = report.seed.to_string());
    let mut lines = vec![(Label("drill-name"), drill)];
    lines.extend(report.seen.iter().map(|seen| (Label("drill-seen"), seen.clone())));
    lines.extend(report.done.iter().map(|done| (Label("drill-done"), done.clone())));
    lines.extend(report.checks.iter().map(|Check { condition, holds }| {
        let holds = if *holds { Label("drill-true") } else { Label("drill-false") };
        (holds, condition.to_string())
    }));
    let text = fields(&lines).to_string() + &findings(&report.sales);
    let conclusion =
        if report.passed { Label("drill-report-passed") } else { Label("drill-report-failed") };
    text + &conclusion
}
