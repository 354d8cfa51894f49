//! `seckill audit`: the ledger.

use clap::Args;
use seckill_engine::{
    Command, Operator, Reply,
    deployment::servers::Servers,
    ledger,
    recovery::{
        partition_repair::{PartitionFault, PartitionFindings, all_faults, prevent_audit},
        repair::{self, Repaired},
    },
    sale_list,
    telemetry::{
        data_loss::{REDIS_RECONCILED, add_published, published, unknown_buyers},
        snapshot::LostServer,
    },
};
use seckill_model::{Finding, Label, Message, Millis, SaleAudit, VoucherId, text};
use seckill_store::{ActivityFilter, AuditEntry, Which};
use seckill_text::audit_log::{localized_result, localized_subject};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::{
    CliError, Config, Consent, Context, Needs, Output, Result, Table, ask, ask_reason, error,
    local, number, or_dash,
};

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

/// What Redis lost in a restart or a failover, and what was restored.
#[derive(Serialize)]
struct Loss {
    at: Millis,
    node: String,
    subject: Message,
    result: Message,
}

/// A line for each finding.
pub(super) fn partition_lines(found: &PartitionFindings) -> String {
    let line =
        |finding: &PartitionFault| text!("cli-partition-finding", n = found.partition, finding);
    let mut text = String::new();
    text.extend(found.findings.iter().map(|finding| format!("! {}\n", line(finding))));
    text
}

/// Why no sale could be audited, if [`prevent_audit`].
pub(super) const NOT_AUDITED: Label = Label("cli-audit-prevented");

#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    audit: ledger::Audit,
    /// Why no sale could be audited.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// Partitions with findings.
    partitions: Vec<PartitionFindings>,
    /// Servers of a cluster that do not reply; their sales are not audited.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unreachable: Vec<LostServer>,
    /// The newest losses, newest first.
    losses: Vec<Loss>,
    #[serde(skip_serializing_if = "Option::is_none")]
    repaired: Option<Repaired>,
}

/// Events among which losses are searched, in pages.
const PAGE: u32 = 500;
const PAGES: u32 = 40;
const LOSSES: usize = 10;

pub(super) async fn run(config: &Config, out: Output, args: &AuditArgs) -> Result<u8> {
    let needs = if args.repair { Needs::Both } else { Needs::Readable };
    let report = Context::with(config, out, needs, async |it| audit(it, args).await).await?;
    let code = out.verdict(report.audit.balanced, &report, || render(&report, args.repair))?;
    Ok(if report.unreachable.is_empty() { code } else { error::UNREACHABLE })
}

async fn audit(context: &mut Context, args: &AuditArgs) -> Result<Report> {
    let repaired = if args.repair { repair(context, args).await? } else { None };
    let mut servers = context.probed().await;
    let unreachable = servers.conn.lost().to_vec();
    let partitions = servers.following(async |it| all_faults(it).await).await?;
    let of_sales = async |servers: &mut Servers| ledger::audit(servers, args.voucher).await;
    let audit = servers.following(of_sales).await;
    let (mut audit, error) = match audit {
        Ok(audit) => (audit, None),
        Err(error) if prevent_audit(&partitions, &error) => {
            let none = ledger::Audit { balanced: false, sales: Vec::new(), unread: Vec::new() };
            (none, Some(NOT_AUDITED.to_owned()))
        }
        Err(error) => return Err(error.into()),
    };
    audit.balanced &= partitions.is_empty();
    let losses = losses(&mut servers).await?;
    Ok(Report { audit, error, partitions, unreachable, losses, repaired })
}

/// The newest losses, including those without an event in the database.
async fn losses(servers: &mut Servers) -> Result<Vec<Loss>> {
    let filter = ActivityFilter { which: Some(Which::Events), ..ActivityFilter::default() };
    // Before the log: what is written meanwhile is in both.
    let home = servers.keys.home();
    let published = if servers.conn.is_lost(&home) {
        Vec::new()
    } else {
        servers.following(async |it| Ok(published(&mut it.conn, &home).await?)).await?
    };
    let (mut lines, mut before) = (Vec::new(), None);
    for _ in 0..PAGES {
        let page = servers.store.activity(&filter, before, PAGE).await?;
        let Some(last) = page.last() else { break };
        before = Some(last.position());
        lines.extend(page.into_iter().filter(|line| line.action == REDIS_RECONCILED));
        if lines.len() >= LOSSES {
            break;
        }
    }
    add_published(&mut lines, published);
    lines.truncate(LOSSES);
    let loss = |line: AuditEntry| {
        let AuditEntry { at, node, subject, result, .. } = line;
        Loss { at, node, subject, result }
    };
    Ok(lines.into_iter().map(loss).collect())
}

/// Shows the repair, asks for confirmation, and executes it: partitions first, because sales cannot be read without
/// them.
async fn repair(context: &mut Context, args: &AuditArgs) -> Result<Option<Repaired>> {
    let mut operator = context.writer(&args.consent)?;
    let (mut done, mut reason) = (None, None);
    let broken = all_faults(&mut context.servers()).await?;
    for PartitionFindings { partition, findings } in &broken {
        let findings: Vec<String> = findings.iter().map(ToString::to_string).collect();
        let findings = findings.join("\n  ! ");
        let repair = Label("cli-repair-the-partition");
        let partition = text!("cli-partition", n = partition);
        context.out.say(&format!("{partition}\n  ! {findings}\n    {repair}"));
    }
    if !broken.is_empty() {
        operator.reason = reason.insert(ask_reason(&args.consent)).clone();
        ask(&args.consent, &text!("cli-repair-partitions", partitions = broken.len()))?;
        done = Some(execute(&operator, Vec::new()).await?);
    }
    let mut plan = repair::plan(&mut context.servers()).await?;
    plan.retain(|sale| args.voucher.is_none_or(|only| sale.voucher_id == only));
    let parts = plan.iter().flat_map(SaleAudit::parts);
    for part in parts.filter(|part| !part.findings.is_empty()) {
        context.out.say(&preview(part));
    }
    plan.retain(|sale| !sale.cures().is_empty());
    if plan.is_empty() {
        return Ok(done);
    }
    operator.reason = reason.unwrap_or_else(|| ask_reason(&args.consent));
    ask(&args.consent, &text!("cli-repair-sales", sales = plan.len()))?;
    let mut all = execute(&operator, plan).await?;
    if let Some(partitions) = done {
        all.enqueued += partitions.enqueued;
        all.partition_faults += partitions.partition_faults;
    }
    Ok(Some(all))
}

async fn execute(operator: &Operator, plan: Vec<SaleAudit>) -> Result<Repaired> {
    match operator.execute(Command::Repair(plan), &CancellationToken::new()).await? {
        Reply::Repaired(done) => Ok(done),
        _ => Err(CliError::unexpected_reply()),
    }
}

fn preview(sale: &SaleAudit) -> String {
    let mut text = name(sale);
    text.extend(sale.findings.iter().map(|finding| format!("\n  ! {finding}")));
    text.extend(sale.cures().iter().map(|cure| format!("\n    {cure}")));
    let manual = |finding: &Finding| match finding {
        Finding::Stranded(_) => text!("cli-repair-stranded", finding),
        _ => match finding.missing_pieces() {
            Some(missing) => {
                text!("cli-repair-oversold", finding, voucher = sale.voucher_id, missing)
            }
            None => text!("cli-repair-manual", finding),
        },
    };
    let left = sale.findings.iter().filter(|finding| finding.cure().is_none());
    text.extend(left.map(|finding| format!("\n    {}", manual(finding))));
    text
}

/// `repairing`: whether a repair was requested.
fn render(report: &Report, repairing: bool) -> String {
    let Report { audit, error, partitions, unreachable, losses, repaired } = report;
    let mut text = match audit.sales.as_slice() {
        [] => String::new(),
        sales => sales_table(&SaleAudit::with_shards(sales).collect::<Vec<_>>()).to_string(),
    };
    text.extend(partitions.iter().map(partition_lines));
    text.extend(unreachable.iter().map(|lost| format!("! {lost}\n")));
    text.push_str(&findings(&audit.sales));
    let curable = |it: &SaleAudit| it.findings.iter().any(|finding| finding.cure().is_some());
    if !repairing && (audit.sales.iter().any(curable) || !partitions.is_empty()) {
        text.push_str(&format!("  {}\n", Label("cli-audit-repair")));
    }
    for Loss { at, node, subject, result } in losses {
        let (subject, result) = (localized_subject(subject), localized_result(result));
        let loss = text!("cli-audit-loss", at = local(*at), node, subject, result);
        text.push_str(&format!("  {loss}\n"));
    }
    if let Some(done) = repaired {
        let Repaired { put_back, enqueued, given_back, derived, partition_faults } = done;
        let done = text!("cli-repaired", put_back, enqueued, given_back);
        text.push_str(&format!("{done}\n"));
        if *derived > 0 {
            text.push_str(&format!("{}\n", text!("cli-repaired-stocks", sales = derived)));
        }
        if *partition_faults > 0 {
            let faults = text!("cli-repaired-partitions", faults = partition_faults);
            text.push_str(&format!("{faults}\n"));
        }
    }
    let unknown: u64 = losses.iter().map(|loss| unknown_buyers(&loss.result)).sum();
    if unknown > 0 {
        text.push_str(&format!("! {}\n", text!("cli-audit-unknown-buyers", buyers = unknown)));
    }
    text + &match error {
        Some(error) => text!("cli-audit-failed-because", error),
        None if audit.sales.is_empty() && audit.balanced => {
            Label("ledger-no-sales-yet-nothing").to_owned()
        }
        None => incomplete(audit)
            .filter(|_| partitions.is_empty())
            .unwrap_or_else(|| conclusion(audit.balanced).to_owned()),
    }
}

/// The result of an audit without a finding that has not read each sale.
pub(super) fn incomplete(audit: &ledger::Audit) -> Option<String> {
    if audit.balanced || audit.findings().next().is_some() {
        return None;
    }
    Some(if audit.unread.is_empty() {
        Label("cli-audit-incomplete-partitions").to_owned()
    } else {
        text!("cli-audit-incomplete", sales = sale_list(&audit.unread))
    })
}

/// Whether the audit passed.
pub(super) fn conclusion(balanced: bool) -> Label {
    if balanced { Label("cli-audit-passed") } else { Label("cli-audit-failed") }
}

/// A line for each finding.
pub(super) fn findings(sales: &[SaleAudit]) -> String {
    let found = sales.iter().flat_map(SaleAudit::found);
    let mut text = String::new();
    text.extend(found.map(|finding| format!("! {finding}\n")));
    text
}

/// The figures of each sale.
pub(super) fn sales_table<'a>(sales: &'a [&SaleAudit]) -> Table<'a, &'a SaleAudit> {
    Table::new(sales)
        .left(&Label("column-sale"), |sale| name(sale))
        .left(&Label("column-title"), |sale| sale.title.clone())
        .right(&Label("column-initial"), |sale| number(sale.initial))
        .right(&Label("column-stock"), |sale| or_dash(sale.stock.map(number)))
        .right(&Label("column-admitted"), |sale| number(sale.admitted))
        .right(&Label("column-persisted"), |sale| number(sale.persisted))
        .right(&Label("column-closed"), |sale| number(sale.closed))
        .right(&Label("column-undelivered"), |sale| number(sale.undelivered))
        .right(&Label("column-pending"), |sale| number(sale.pending))
        .right(&Label("column-dead"), |sale| number(sale.dead))
        .right(&Label("column-sql-stock"), |sale| number(sale.db_stock))
}

/// The ID of a sale, or of a shard of one.
fn name(sale: &SaleAudit) -> String {
    let name = format!("#{}", sale.shard_id());
    if sale.incomplete { text!("cli-audit-sale-incomplete", name) } else { name }
}
