//! `seckill drill`: a failure injected in a temporary data dir, for the operator to recognize and repair.
//!
//! With `--headless` the operator's actions are simulated as well, and the result is printed.

mod catalogue;
mod play;

use clap::{Args, builder::PossibleValuesParser};
use seckill_console::{Options, Story};
use seckill_engine::EngineError;
use seckill_engine::node::Node;
use seckill_model::{
    ledger::SaleAudit,
    message::{Label, text},
};
use seckill_store::fault_injection::{Ill, faulty};
use serde::{Serialize, Serializer};
use tokio::sync::watch;

use self::{
    catalogue::{DRILLS, Drill},
    play::Play,
};
use super::{
    Fault,
    context::Context,
    display_args::DisplayArgs,
    fault,
    output::{Output, table},
    sandbox::{self, Sandbox, page},
};
use crate::config::Config;

const NAME: Label = Label("drill-drill");
const LIST: &str = "list";

#[derive(Debug, Args)]
pub(super) struct DrillArgs {
    /// Name of the drill; 'list' or none lists them
    #[arg(value_name = "NAME", value_parser = PossibleValuesParser::new(names()))]
    name: Option<String>,
    /// Run without a terminal, including the operator's actions, and print the result
    #[arg(long)]
    headless: bool,
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

/// `servers`: which servers were given; a drill accepts none.
pub(super) async fn run(
    config: &Config,
    out: Output,
    display: &DisplayArgs,
    servers: (bool, bool, bool),
    args: &DrillArgs,
) -> Result<u8, Fault> {
    let Some(drill) = args.drill() else {
        out.answer(&DRILLS, listed)?;
        return Ok(0);
    };
    sandbox::refuse_servers(NAME, servers)?;
    sandbox::refuse_blind(config, out, display, args.headless)?;
    let options = if args.headless { None } else { Some(display.options(config)?) };
    let mut switch = None;
    let (context, node) = sandbox::open(config, |store| {
        let (store, fault_switch) = faulty(&store, args.seed);
        switch = Some(fault_switch);
        store
    })
    .await?;
    let result = match &switch {
        Some(fault_switch) => {
            let sandbox = Sandbox { node: &node, context: &context, what: NAME };
            let play = Play { sandbox, drill, fault_switch, seed: args.seed, pages: None };
            let result = match options {
                None => play.play().await.map(Some),
                Some(options) => with_console(play, options).await,
            };
            // Quitting while the database is unavailable must not wait for it.
            fault_switch.set(Ill::Not);
            result
        }
        None => Ok(None),
    };
    close(node, context).await;
    let Some(report) = result? else {
        return Err(Fault::no(Label("drill-the-drill-was-left-before-its")));
    };
    out.answer(&report, || render(&report))?;
    Ok(if report.passed { 0 } else { fault::NO })
}

async fn close(node: Node, context: Context) {
    node.stop().await;
    context.close().await;
}

/// Runs the console, and the drill in parallel until the user quits; `None` if that was before its end.
async fn with_console(play: Play<'_>, options: Options) -> Result<Option<Report>, Fault> {
    // The first page may be written before the console starts.
    seckill_model::locale::set_language(options.lang);
    let (pages, story) = watch::channel(Story::default());
    let options = Options { story: Some(story), ..options };
    let shown = seckill_console::run(play.sandbox.node.remote(), options);
    let played = Play { pages: Some(&pages), ..play };
    let playing = played.play();
    tokio::pin!(shown, playing);
    let report = tokio::select! {
        left = &mut shown => {
            left?;
            return Ok(None);
        }
        report = &mut playing => report,
    };
    let failed = Label("drill-not-passed");
    let last = match &report {
        Ok(report) => match report.failure() {
            None => Story {
                done: true,
                ..page(
                    &Label("drill-passed"),
                    &Label("drill-every-order-was-followed-by-its"),
                    Some("q"),
                )
            },
            Some(wrong) => page(&failed, &text!("drill-not-so-q-ends-the-drill", wrong), Some("q")),
        },
        Err(fault) => {
            let why = fault.sentence.localized::<EngineError>();
            page(&failed, &text!("drill-the-drill-broke-off", why), Some("q"))
        }
    };
    pages.send_replace(last);
    shown.await?;
    report.map(Some)
}

fn listed() -> String {
    let rows: Vec<Vec<String>> = DRILLS
        .iter()
        .map(|Drill { name, about, .. }| vec![(*name).into(), (*about).into()])
        .collect();
    table(&["drill", "what happens"], &[], &rows)
}

fn render(report: &Report) -> String {
    let mut text = format!("drill  {}, seed {}\n", report.drill, report.seed);
    for (name, lines) in [("seen", &report.seen), ("done", &report.done)] {
        for line in lines {
            text.push_str(&format!("{name}   {line}\n"));
        }
    }
    for Check { condition, holds } in &report.checks {
        text.push_str(&format!(
            "{}  {}\n",
            if *holds { "true " } else { "FALSE" },
            condition.english()
        ));
    }
    for sale in &report.sales {
        for finding in &sale.findings {
            text.push_str(&format!("! #{}: {finding}\n", sale.voucher_id));
        }
    }
    text.push_str(if report.passed { "Passed." } else { "NOT passed." });
    text
}
