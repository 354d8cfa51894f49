//! `seckill sale`: creates, shows and controls sales.

use clap::{Args, Subcommand};
use jiff::tz::TimeZone;
use seckill_engine::{
    command::{Command, Reply},
    telemetry::snapshot::SaleLine,
};
use seckill_model::{Millis, NewSale, Phase, SaleState, VoucherId, When};
use seckill_redis::stream_stats::read_stats;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::{
    Consent, Fault,
    context::Context,
    output::{Output, ask, counted, number, page, rows, signed, table},
};
use crate::config::Config;

#[derive(Debug, Subcommand)]
pub(super) enum SaleCommand {
    /// Create a sale; without --begin it starts immediately
    Create(CreateArgs),
    /// List sales that are not archived, newest first
    List {
        /// List archived sales instead
        #[arg(long)]
        archived: bool,
        /// With --archived: only sales before this one
        #[arg(long, value_name = "ID", requires = "archived")]
        before: Option<VoucherId>,
        /// With --archived: maximum number of sales
        #[arg(long, value_name = "N", default_value_t = 50, requires = "archived", value_parser = rows())]
        limit: u32,
    },
    /// Show one sale, archived or not
    Show {
        /// Voucher ID
        id: VoucherId,
    },
    /// Start a planned sale now
    Start(SteerArgs),
    /// Pause a sale
    Pause(SteerArgs),
    /// Resume a paused sale
    Resume(SteerArgs),
    /// End a sale permanently
    End(SteerArgs),
    /// Add stock, or remove unsold stock
    Restock {
        /// Voucher ID
        id: VoucherId,
        /// Pieces to add; -20 removes 20 unsold pieces
        #[arg(allow_hyphen_values = true, value_parser = super::output::difference)]
        by: i64,
        #[command(flatten)]
        consent: Consent,
    },
}

#[derive(Debug, Args)]
pub(super) struct CreateArgs {
    /// Title shown to buyers
    #[arg(long)]
    title: String,
    /// Initial stock in pieces
    #[arg(long, allow_hyphen_values = true, value_parser = super::output::count)]
    stock: u64,
    /// Maximum orders per user
    #[arg(long, value_name = "N", default_value_t = 1, allow_hyphen_values = true, value_parser = super::output::count)]
    limit: u64,
    /// Start time: 2026-11-20T14:30:00Z, '2026-11-20 14:30' (local), 14:30 or +10m
    #[arg(long, value_name = "TIME")]
    begin: Option<When>,
    /// End time; +10m is relative to the Redis clock
    #[arg(long, value_name = "TIME")]
    end: Option<When>,
    #[command(flatten)]
    consent: Consent,
}

#[derive(Debug, Args)]
pub(super) struct SteerArgs {
    /// Voucher ID
    id: VoucherId,
    #[command(flatten)]
    consent: Consent,
}

#[derive(Serialize)]
struct Created {
    voucher_id: VoucherId,
}

#[derive(Serialize)]
struct Page {
    sales: Vec<SaleLine>,
    next: Option<VoucherId>,
}

pub(super) async fn run(config: &Config, out: Output, command: SaleCommand) -> Result<u8, Fault> {
    // Invalid arguments are reported before anything is opened.
    let act = match &command {
        SaleCommand::Create(args) => {
            // The window is checked once Redis' clock is known.
            let sale = NewSale::checked(&args.title, args.stock, None, None, Millis::now())?;
            Some((Command::CreateSale(sale.limited(args.limit)?), &args.consent))
        }
        SaleCommand::Start(args) => Some((Command::StartSale(args.id), &args.consent)),
        SaleCommand::Pause(args) => Some((Command::PauseSale(args.id), &args.consent)),
        SaleCommand::Resume(args) => Some((Command::ResumeSale(args.id), &args.consent)),
        SaleCommand::End(args) => Some((Command::EndSale(args.id), &args.consent)),
        SaleCommand::Restock { id, by, consent } => {
            Some((Command::Restock { voucher: *id, by: *by }, consent))
        }
        SaleCommand::List { .. } | SaleCommand::Show { .. } => None,
    };
    let mut context = Context::open_answering(config).await?;
    let act = match (act, &command) {
        (Some((Command::CreateSale(sale), consent)), SaleCommand::Create(args)) => {
            window(&context, &sale, args)
                .await
                .map(|sale| Some((Command::CreateSale(sale), consent)))
        }
        (act, _) => Ok(act),
    };
    let act = match act {
        Ok(act) => act,
        Err(fault) => {
            context.close().await;
            return Err(fault);
        }
    };
    let result = match (act, &command) {
        (Some((command, consent)), _) => change(&mut context, out, command, consent).await,
        (None, SaleCommand::Show { id }) => show(&context, out, *id).await,
        (None, SaleCommand::List { archived: true, before, limit }) => {
            archived(&context, out, *before, *limit).await
        }
        (None, _) => list(&mut context, out).await,
    };
    context.close().await;
    result.map(|()| 0)
}

/// The sale with its window resolved by Redis' clock, by which it opens and closes.
async fn window(context: &Context, sale: &NewSale, args: &CreateArgs) -> Result<NewSale, Fault> {
    let now = context.redis.connection().now().await?;
    let at = |when: &Option<When>| when.as_ref().map(|when| when.from(now));
    let sale = NewSale::checked(&sale.title, sale.stock, at(&args.begin), at(&args.end), now)?;
    Ok(sale.limited(args.limit)?)
}

async fn change(
    context: &mut Context,
    out: Output,
    command: Command,
    consent: &Consent,
) -> Result<(), Fault> {
    let operator = context.operator(consent.reason.clone())?;
    if let Command::EndSale(voucher) = command
        && !operator.read_only
    {
        let sale = context.store.sale(voucher).await?;
        let left = number(sale.stock);
        let initial = counted(sale.initial, "piece", "pieces");
        ask(
            consent,
            &format!(
                "End sale #{voucher} '{}'? Unsold: {left} of {initial}; it cannot be reopened.",
                sale.title
            ),
        )?;
    }
    let reply = operator.execute(command, &CancellationToken::new()).await?;
    match reply {
        Reply::SaleCreated(voucher_id) => {
            let sale = context.store.sale(voucher_id).await?;
            out.answer(&Created { voucher_id }, || {
                let pieces = counted(sale.initial, "piece", "pieces");
                let each = match sale.limit {
                    1 => String::new(),
                    limit => format!(", up to {limit} per user"),
                };
                format!("#{voucher_id} '{}' holds {pieces}{each}. Run a load test: seckill rush --voucher {voucher_id} --users 1000", sale.title)
            })?;
        }
        Reply::SaleChanged { voucher, .. } | Reply::Restocked { voucher, .. } => {
            let sale = context.store.sale(voucher).await?;
            out.answer(&sale, || {
                format!(
                    "#{voucher} '{}' is {}; {} in total.",
                    sale.title,
                    sale.state,
                    counted(sale.initial, "piece", "pieces")
                )
            })?;
        }
        _ => {}
    }
    Ok(())
}

async fn list(context: &mut Context, out: Output) -> Result<(), Fault> {
    let (_, seen) = super::status::still(context).await;
    // A failed read is not an empty list.
    if let Some(error) = seen.sql.error.or(seen.redis.error) {
        return Err(Fault::unreachable(error.to_string()));
    }
    let lines = seen.sales;
    out.answer(&lines, || {
        if lines.is_empty() {
            return "No sales yet. Create one: seckill sale create --title 'hot pot 50% off' --stock 100".to_owned();
        }
        let rows: Vec<Vec<String>> = lines.iter().map(row).collect();
        table(&["#", "title", "phase", "stock", "initial", "admitted", "persisted"], &[0, 3, 4, 5, 6], &rows)
    })
}

async fn archived(
    context: &Context,
    out: Output,
    before: Option<VoucherId>,
    limit: u32,
) -> Result<(), Fault> {
    let mut sales = context.store.archived(before, limit + 1).await?;
    let next = page(&mut sales, limit, |sale| sale.voucher_id);
    let now = Millis::now();
    let sales = sales.iter().map(|sale| SaleLine::of(sale, now, None)).collect();
    let page = Page { sales, next };
    out.answer(&page, || {
        if page.sales.is_empty() {
            let older = if before.is_some() { "older " } else { "" };
            return format!("No {older}archived sales.");
        }
        let zone = TimeZone::system();
        let rows: Vec<Vec<String>> = page
            .sales
            .iter()
            .map(|sale| {
                vec![
                    sale.voucher_id.to_string(),
                    sale.title.clone(),
                    number(sale.initial),
                    number(sale.persisted),
                    sale.changed.date_time(&zone),
                ]
            })
            .collect();
        let head = ["#", "title", "initial", "persisted", "changed"];
        let mut text = table(&head, &[0, 2, 3], &rows);
        if let Some(next) = page.next {
            text.push_str(&format!("next page: seckill sale list --archived --before {next}\n"));
        }
        text
    })
}

async fn show(context: &Context, out: Output, id: VoucherId) -> Result<(), Fault> {
    let sale = context.store.sale(id).await?;
    let mut conn = context.redis.connection();
    let stats = read_stats(&mut conn, &context.keys, &[id]).await?;
    let facts = stats.sales.first().filter(|_| sale.state != SaleState::Archived);
    let line = SaleLine::of(&sale, stats.now, facts);
    out.answer(&line, || card(&line))
}

fn row(line: &SaleLine) -> Vec<String> {
    vec![
        line.voucher_id.to_string(),
        line.title.clone(),
        phase(line.phase).to_owned(),
        line.stock.map_or("not loaded".to_owned(), signed),
        number(line.initial),
        line.admitted.map_or("unknown".to_owned(), number),
        number(line.persisted),
    ]
}

fn card(line: &SaleLine) -> String {
    let zone = TimeZone::system();
    let time =
        |at: Option<Millis>, none: &str| at.map_or(none.to_owned(), |at| at.date_time(&zone));
    let (initial, db_stock) = (number(line.initial), number(line.db_stock));
    let stock = match line.stock {
        Some(stock) => format!("{} of {initial} (SQL {db_stock})", number(stock.max(0) as u64)),
        None if line.phase == Phase::Archived => format!("{db_stock} of {initial} unsold"),
        None => format!("not loaded in Redis, {db_stock} of {initial} by SQL"),
    };
    let limit = match line.limit {
        1 => "1 order per user".to_owned(),
        limit => format!("{limit} orders per user"),
    };
    format!(
        "#{} {}\n  phase      {}\n  state      {}, changed {}\n  window     {} to {}\n  limit      {limit}\n  stock      {stock}\n  admitted   {}\n  persisted  {}",
        line.voucher_id,
        line.title,
        phase(line.phase),
        line.state,
        line.changed.date_time(&zone),
        time(line.begin, "at once"),
        time(line.end, "never"),
        line.admitted.map_or("gone from Redis".to_owned(), number),
        number(line.persisted),
    )
}

pub(super) fn phase(phase: Phase) -> &'static str {
    match phase {
        Phase::Planned => "planned",
        Phase::Running => "running",
        Phase::Paused => "paused",
        Phase::SoldOut => "sold out",
        Phase::Ended => "ended",
        Phase::Archived => "archived",
    }
}
