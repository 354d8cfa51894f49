//! `seckill audit`: the ledger.

use clap::Args;

use jiff::tz::TimeZone;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::{
    Consent, Fault,
    context::Context,
    fault,
    output::{Output, ask, counted, number, signed, table, why},
};
use crate::{
    config::Config,
    engine::{
        EngineError,
        command::{Command, Reply},
        ledger, mend,
        repair::{self, Repaired, SaleRepair},
    },
    model::{Millis, Said, VoucherId},
    store::{Act, ActivityFilter, Which},
    telemetry::forgot::HEALED,
};

#[derive(Debug, Args)]
pub(super) struct AuditArgs {
    /// Only this sale
    #[arg(long, value_name = "ID")]
    voucher: Option<VoucherId>,
    /// Put right what can be, after showing it and asking
    #[arg(long)]
    repair: bool,
    #[command(flatten)]
    consent: Consent,
}

/// What Redis had lost in a restart or a failover, and what became of it.
#[derive(Serialize)]
struct Loss {
    at: Millis,
    node: String,
    subject: Said,
    result: Said,
}

/// What is wrong with a partition as a whole.
#[derive(Serialize)]
struct PartitionLine {
    partition: u16,
    findings: Vec<String>,
}

#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    audit: ledger::Audit,
    /// Partitions with findings.
    partitions: Vec<PartitionLine>,
    /// The newest losses, newest first.
    losses: Vec<Loss>,
    #[serde(skip_serializing_if = "Option::is_none")]
    repaired: Option<Repaired>,
}

/// Events among which losses are looked for, in pages.
const PAGE: u32 = 500;
const PAGES: u32 = 40;
const LOSSES: usize = 10;

pub(super) async fn run(config: &Config, out: Output, args: &AuditArgs) -> Result<u8, Fault> {
    let mut context = Context::open_answering(config).await?;
    let report = look(&mut context, out, args).await;
    context.close().await;
    let report = report?;
    out.answer(&report, || words(&report))?;
    Ok(if report.audit.balanced { 0 } else { fault::NO })
}

async fn look(context: &mut Context, out: Output, args: &AuditArgs) -> Result<Report, Fault> {
    let mut link = context.redis.link();
    let repaired = if args.repair { repair(context, out, args).await? } else { None };
    let partitions = partitions(context).await?;
    let mut audit = ledger::audit(&context.store, &mut link, &context.keys, args.voucher).await?;
    audit.balanced &= partitions.is_empty();
    let losses = losses(context).await?;
    Ok(Report { audit, partitions, losses, repaired })
}

async fn partitions(context: &Context) -> Result<Vec<PartitionLine>, Fault> {
    let (mut link, mut lines) = (context.redis.link(), Vec::new());
    for of in context.keys.partitions() {
        let findings = mend::faults(&mut link, &context.keys, &of).await?;
        let findings: Vec<String> = findings.iter().map(ToString::to_string).collect();
        if !findings.is_empty() {
            lines.push(PartitionLine { partition: of.number(), findings });
        }
    }
    Ok(lines)
}

/// The newest losses; nodes write down a great deal else.
async fn losses(context: &Context) -> Result<Vec<Loss>, Fault> {
    let filter = ActivityFilter { which: Some(Which::Events), ..ActivityFilter::default() };
    let (mut losses, mut before) = (Vec::new(), None);
    for _ in 0..PAGES {
        let page = context.store.activity(&filter, before, PAGE).await?;
        let Some(last) = page.last() else { break };
        before = Some(last.place());
        let healed = page.into_iter().map(|line| line.act).filter(|act| act.act == HEALED);
        losses.extend(healed.map(|Act { at, node, subject, result, .. }| Loss {
            at,
            node,
            subject,
            result,
        }));
        if losses.len() >= LOSSES {
            break;
        }
    }
    losses.truncate(LOSSES);
    Ok(losses)
}

/// Shows what would be done, asks, and does just that.
async fn repair(
    context: &mut Context,
    out: Output,
    args: &AuditArgs,
) -> Result<Option<Repaired>, Fault> {
    let mut operator = context.operator(args.consent.reason.clone())?;
    if operator.read_only {
        return Err(EngineError::ReadOnly.into());
    }
    let mut plan = repair::plan(&context.store, &mut context.redis.link(), &context.keys).await?;
    plan.retain(|sale| args.voucher.is_none_or(|only| only == sale.voucher_id));
    let cured: Vec<SaleRepair> =
        plan.iter().filter(|sale| !sale.cures.is_empty()).cloned().collect();
    let broken = partitions(context).await?;
    for PartitionLine { partition, findings } in &broken {
        let findings = findings.join("\n  ! ");
        out.say(&format!("partition {partition}\n  ! {findings}\n    repair the partition"));
    }
    for sale in &plan {
        out.say(&told(sale));
    }
    if cured.is_empty() && broken.is_empty() {
        return Ok(None);
    }
    operator.reason = why(&args.consent);
    let sales = counted(cured.len() as u64, "sale", "sales");
    let question = match counted(broken.len() as u64, "partition", "partitions") {
        _ if broken.is_empty() => format!("Put the books of {sales} right like that?"),
        partitions => format!("Repair {partitions}, and put the books of {sales} right like that?"),
    };
    ask(&args.consent, &question)?;
    let stop = CancellationToken::new();
    match operator.execute(Command::Repair(cured), &stop).await? {
        Reply::Repaired(done) => Ok(Some(done)),
        _ => Err(Fault::no("the engine answered something else than a repair")),
    }
}

fn told(sale: &SaleRepair) -> String {
    let mut text = format!("#{}", sale.voucher_id);
    for finding in &sale.findings {
        text.push_str(&format!("\n  ! {finding}"));
    }
    for cure in &sale.cures {
        text.push_str(&format!("\n    {cure}"));
    }
    for left in &sale.left {
        text.push_str(&format!(
            "\n    needs a person, who compares tb_voucher_order with tb_seckill_voucher: {left}"
        ));
    }
    text
}

fn words(report: &Report) -> String {
    let audit = &report.audit;
    let mut broken = String::new();
    for PartitionLine { partition, findings } in &report.partitions {
        for finding in findings {
            broken.push_str(&format!("! partition {partition}: {finding}\n"));
        }
    }
    if audit.sales.is_empty() {
        let end = if audit.balanced { "and balance" } else { "but a partition is broken" };
        return format!("{broken}There is no sale yet; the books are empty {end}.");
    }
    let rows: Vec<Vec<String>> = audit
        .sales
        .iter()
        .map(|sale| {
            vec![
                format!("#{}", sale.voucher_id),
                sale.title.clone(),
                number(sale.initial),
                sale.stock.map_or("-".to_owned(), signed),
                number(sale.admitted),
                number(sale.persisted),
                number(sale.closed),
                number(sale.undelivered),
                number(sale.pending),
                number(sale.dead),
                signed(sale.db_stock),
            ]
        })
        .collect();
    let head = [
        "sale",
        "title",
        "initial",
        "stock",
        "admitted",
        "persisted",
        "closed",
        "undelivered",
        "pending",
        "dead",
        "SQL stock",
    ];
    let mut text = table(&head, &[2, 3, 4, 5, 6, 7, 8, 9, 10], &rows);
    text.push_str(&broken);
    for sale in &audit.sales {
        for finding in &sale.findings {
            text.push_str(&format!("! #{}: {finding}\n", sale.voucher_id));
        }
    }
    for Loss { at, node, subject, result } in &report.losses {
        let at = at.date_time(&TimeZone::system());
        text.push_str(&format!("  {at}  {node}, {subject}: {result}\n"));
    }
    if let Some(done) = &report.repaired {
        text.push_str(&format!(
            "Repaired: {} put back, {} enqueued, {} given back.\n",
            counted(done.put_back, "buyer", "buyers"),
            counted(done.enqueued, "order", "orders"),
            counted(done.given_back, "piece", "pieces")
        ));
        if done.mended > 0 {
            let faults = counted(done.mended, "fault", "faults");
            text.push_str(&format!(
                "{faults} of partitions repaired; 'seckill activity' shows how.\n"
            ));
        }
    }
    text.push_str(if audit.balanced { "The books balance." } else { "The books are OFF." });
    text
}
