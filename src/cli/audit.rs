//! `seckill audit`: the ledger.

use clap::Args;

use jiff::tz::TimeZone;
use seckill_engine::{
    EngineError,
    command::{Command, Reply},
    command_handler::Operator,
    ledger, mend,
    repair::{self, Repaired, SaleRepair},
    telemetry::data_loss::{REDIS_RECONCILED, add_published, published, unknown_buyers},
};
use seckill_model::{
    Message, Millis, VoucherId,
    ledger::{Finding, SaleAudit},
};
use seckill_redis::RedisError;
use seckill_store::{Act, ActivityFilter, Recorded, Which};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::{
    Consent, Fault,
    context::Context,
    fault,
    output::{Output, ask, counted, number, signed, table, why},
};
use crate::config::Config;

#[derive(Debug, Args)]
pub(super) struct AuditArgs {
    /// Audit only this sale
    #[arg(long, value_name = "ID")]
    voucher: Option<VoucherId>,
    /// Repair what can be repaired, after a preview and confirmation
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
    subject: Message,
    result: Message,
}

/// What is wrong with a partition as a whole.
#[derive(Serialize)]
pub(super) struct PartitionLine {
    partition: u16,
    findings: Vec<String>,
}

impl PartitionLine {
    /// Whether a finding is about this key.
    pub(super) fn names(&self, key: &str) -> bool {
        self.findings.iter().any(|finding| finding.contains(&format!("'{key}'")))
    }

    /// A line for each finding.
    pub(super) fn words(&self) -> String {
        let mut text = String::new();
        for finding in &self.findings {
            text.push_str(&format!("! partition {}: {finding}\n", self.partition));
        }
        text
    }
}

/// Message of sales while [`is_in_the_way`] is so.
pub(super) const IN_THE_WAY: &str = "the sales cannot be audited until the partition is repaired";

pub(super) const REPAIR: &str =
    "  'seckill audit --repair' shows what can be repaired, and asks for confirmation\n";

#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    audit: ledger::Audit,
    /// Why no sale could be audited.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'static str>,
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
    out.answer(&report, || words(&report, args.repair))?;
    Ok(if report.audit.balanced { 0 } else { fault::NO })
}

async fn look(context: &mut Context, out: Output, args: &AuditArgs) -> Result<Report, Fault> {
    let mut conn = context.redis.connection();
    let repaired = if args.repair { repair(context, out, args).await? } else { None };
    let partitions = partitions(context).await?;
    let audit = ledger::audit(&context.store, &mut conn, &context.keys, args.voucher).await;
    let (mut audit, error) = match audit {
        Ok(audit) => (audit, None),
        Err(error) if is_in_the_way(&error, &partitions) => {
            (ledger::Audit { balanced: false, sales: Vec::new() }, Some(IN_THE_WAY))
        }
        Err(error) => return Err(error.into()),
    };
    audit.balanced &= partitions.is_empty();
    let losses = losses(context).await?;
    Ok(Report { audit, error, partitions, losses, repaired })
}

/// Whether it is a key of another type that a finding names.
pub(super) fn is_in_the_way(error: &EngineError, partitions: &[PartitionLine]) -> bool {
    match error {
        EngineError::Redis(RedisError::Foreign(found)) => {
            partitions.iter().any(|it| it.names(&found.key))
        }
        _ => false,
    }
}

/// What is wrong with each partition.
pub(super) async fn partitions(context: &Context) -> Result<Vec<PartitionLine>, Fault> {
    let (mut conn, mut lines) = (context.redis.connection(), Vec::new());
    for of in context.keys.partitions() {
        let findings = mend::faults(&mut conn, &context.keys, &of).await?;
        let findings: Vec<String> = findings.iter().map(ToString::to_string).collect();
        if !findings.is_empty() {
            lines.push(PartitionLine { partition: of.number(), findings });
        }
    }
    Ok(lines)
}

/// The newest losses, those that the database has no event of included.
async fn losses(context: &Context) -> Result<Vec<Loss>, Fault> {
    let filter = ActivityFilter { which: Some(Which::Events), ..ActivityFilter::default() };
    // Before the log: what is written meanwhile is in both.
    let published = published(&mut context.redis.connection(), &context.keys.home()).await?;
    let (mut lines, mut before) = (Vec::new(), None);
    for _ in 0..PAGES {
        let page = context.store.activity(&filter, before, PAGE).await?;
        let Some(last) = page.last() else { break };
        before = Some(last.position());
        lines.extend(page.into_iter().filter(|line| line.act.act == REDIS_RECONCILED));
        if lines.len() >= LOSSES {
            break;
        }
    }
    add_published(&mut lines, published);
    lines.truncate(LOSSES);
    let loss = |line: Recorded| {
        let Act { at, node, subject, result, .. } = line.act;
        Loss { at, node, subject, result }
    };
    Ok(lines.into_iter().map(loss).collect())
}

/// Shows what would be done, asks, and does just that: first for partitions, without which sales can't be looked at.
async fn repair(
    context: &mut Context,
    out: Output,
    args: &AuditArgs,
) -> Result<Option<Repaired>, Fault> {
    let mut operator = context.operator(args.consent.reason.clone())?;
    if operator.read_only {
        return Err(EngineError::ReadOnly.into());
    }
    let (mut done, mut reason) = (None, None);
    let broken = partitions(context).await?;
    for PartitionLine { partition, findings } in &broken {
        let findings = findings.join("\n  ! ");
        out.say(&format!("partition {partition}\n  ! {findings}\n    repair the partition"));
    }
    if !broken.is_empty() {
        operator.reason = reason.insert(why(&args.consent)).clone();
        let partitions = counted(broken.len() as u64, "partition", "partitions");
        ask(&args.consent, &format!("Repair {partitions}?"))?;
        done = Some(execute(&operator, Vec::new()).await?);
    }
    let mut plan =
        repair::plan(&context.store, &mut context.redis.connection(), &context.keys).await?;
    plan.retain(|sale| args.voucher.is_none_or(|only| only == sale.voucher_id));
    for sale in &plan {
        out.say(&told(sale));
    }
    plan.retain(|sale| !sale.cures.is_empty());
    if plan.is_empty() {
        return Ok(done);
    }
    operator.reason = reason.unwrap_or_else(|| why(&args.consent));
    let sales = counted(plan.len() as u64, "sale", "sales");
    ask(&args.consent, &format!("Apply this repair to {sales}?"))?;
    let mut all = execute(&operator, plan).await?;
    if let Some(partitions) = done {
        all.enqueued += partitions.enqueued;
        all.mended += partitions.mended;
    }
    Ok(Some(all))
}

async fn execute(operator: &Operator, plan: Vec<SaleRepair>) -> Result<Repaired, Fault> {
    match operator.execute(Command::Repair(plan), &CancellationToken::new()).await? {
        Reply::Repaired(done) => Ok(done),
        _ => Err(Fault::no("unexpected reply from the engine to a repair")),
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
        text.push_str(&match left {
            Finding::Stranded(_) => format!(
                "\n    manual action needed: {left}\n      'seckill dead list' shows why\n      'seckill dead replay --all' replays them\n      'seckill dead discard --all --compensate' cancels them and refunds the stock"
            ),
            _ => format!(
                "\n    manual action needed, compare tb_voucher_order with tb_seckill_voucher: {left}"
            ),
        });
    }
    text
}

/// `repairing`: whether a repair was asked for.
fn words(report: &Report, repairing: bool) -> String {
    let audit = &report.audit;
    let broken: String = report.partitions.iter().map(PartitionLine::words).collect();
    let hint = if repairing { "" } else { REPAIR };
    if let Some(error) = report.error {
        return format!("{broken}{hint}Audit failed: {error}.");
    }
    if audit.sales.is_empty() {
        let end = if audit.balanced { "nothing to audit" } else { "but a partition is damaged" };
        let hint = if report.partitions.is_empty() { "" } else { hint };
        return format!("{broken}{hint}No sales yet, {end}.");
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
    let curable = |it: &SaleAudit| it.findings.iter().any(|finding| finding.cure().is_some());
    if audit.sales.iter().any(curable) || !report.partitions.is_empty() {
        text.push_str(hint);
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
    let unknown: u64 = report.losses.iter().map(|loss| unknown_buyers(&loss.result)).sum();
    if unknown > 0 {
        text.push_str(&format!(
            "! At most {} may have been admitted in these losses without any record: no audit can find them.\n",
            counted(unknown, "buyer", "buyers")
        ));
    }
    text.push_str(if audit.balanced {
        "Audit passed: all orders accounted for."
    } else {
        "Audit FAILED."
    });
    text
}
