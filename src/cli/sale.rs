//! `seckill sale`: create, show and steer sales.

use clap::{Args, Subcommand};
use jiff::tz::TimeZone;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::{
    Consent, Fault,
    context::Context,
    output::{Output, ask, number, table},
};
use crate::{
    config::Config,
    engine::command::{Command, Reply},
    model::{Millis, NewSale, Phase, Sale, VoucherId},
    telemetry::snapshot::SaleLine,
};

#[derive(Debug, Subcommand)]
pub(super) enum SaleCommand {
    /// Create a sale; without --begin it runs at once
    Create(CreateArgs),
    /// All sales, newest first
    List,
    /// One sale
    Show {
        /// Number of the voucher
        id: VoucherId,
    },
    /// Open a planned sale now
    Start(SteerArgs),
    /// Hold a sale
    Pause(SteerArgs),
    /// Let a paused sale go on
    Resume(SteerArgs),
    /// End a sale for good
    End(SteerArgs),
    /// Put more pieces on sale, or take unsold ones out
    Restock {
        /// Number of the voucher
        id: VoucherId,
        /// How many pieces more; -20 takes 20 out that nobody was promised
        #[arg(allow_hyphen_values = true, value_parser = super::output::difference)]
        by: i64,
        #[command(flatten)]
        consent: Consent,
    },
}

#[derive(Debug, Args)]
pub(super) struct CreateArgs {
    /// What buyers read
    #[arg(long)]
    title: String,
    /// Pieces on sale
    #[arg(long, allow_hyphen_values = true, value_parser = super::output::count)]
    stock: u64,
    /// When it opens: 2026-11-20T14:30:00Z, '2026-11-20 14:30' (local), 14:30 or +10m
    #[arg(long, value_name = "TIME")]
    begin: Option<Millis>,
    /// When it ends
    #[arg(long, value_name = "TIME")]
    end: Option<Millis>,
    #[command(flatten)]
    consent: Consent,
}

#[derive(Debug, Args)]
pub(super) struct SteerArgs {
    /// Number of the voucher
    id: VoucherId,
    #[command(flatten)]
    consent: Consent,
}

#[derive(Serialize)]
struct Created {
    voucher_id: VoucherId,
}

pub(super) async fn run(config: &Config, out: Output, command: SaleCommand) -> Result<u8, Fault> {
    // What a person got wrong is told before anything is opened.
    let act = match &command {
        SaleCommand::Create(args) => {
            let CreateArgs { title, stock, begin, end, .. } = args;
            let sale = NewSale::checked(title, *stock, *begin, *end, Millis::now())?;
            Some((Command::CreateSale(sale), &args.consent))
        }
        SaleCommand::Start(args) => Some((Command::StartSale(args.id), &args.consent)),
        SaleCommand::Pause(args) => Some((Command::PauseSale(args.id), &args.consent)),
        SaleCommand::Resume(args) => Some((Command::ResumeSale(args.id), &args.consent)),
        SaleCommand::End(args) => Some((Command::EndSale(args.id), &args.consent)),
        SaleCommand::Restock { id, by, consent } => {
            Some((Command::Restock { voucher: *id, by: *by }, consent))
        }
        SaleCommand::List | SaleCommand::Show { .. } => None,
    };
    let mut context = Context::open_answering(config).await?;
    let result = match act {
        Some((command, consent)) => change(&mut context, out, command, consent).await,
        None => show(&mut context, out, &command).await,
    };
    context.close().await;
    result.map(|()| 0)
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
        let (left, initial) = (number(sale.stock), number(sale.initial));
        ask(
            consent,
            &format!(
                "End sale #{voucher} '{}'? {left} of {initial} pieces are unsold; it can't be opened again.",
                sale.title
            ),
        )?;
    }
    let reply = operator.execute(command, &CancellationToken::new()).await?;
    match reply {
        Reply::SaleCreated(voucher_id) => {
            let sale = context.store.sale(voucher_id).await?;
            out.answer(&Created { voucher_id }, || {
                let pieces = number(sale.initial);
                format!("#{voucher_id} '{}' holds {pieces} pieces. Let buyers at it: seckill rush --voucher {voucher_id} --users 1000", sale.title)
            })?;
        }
        Reply::SaleChanged { voucher, .. } | Reply::Restocked { voucher, .. } => {
            let sale = context.store.sale(voucher).await?;
            out.answer(&sale, || {
                format!(
                    "#{voucher} '{}' is {}; {} pieces in all.",
                    sale.title,
                    sale.state,
                    number(sale.initial)
                )
            })?;
        }
        _ => {}
    }
    Ok(())
}

async fn show(context: &mut Context, out: Output, command: &SaleCommand) -> Result<(), Fault> {
    let lines = super::status::look(context).await?.sales;
    if let SaleCommand::Show { id } = command {
        let sale = context.store.sale(*id).await?;
        let line = lines.iter().find(|line| line.voucher_id == *id);
        return match line {
            Some(line) => out.answer(line, || card(line)),
            // Older than what a picture shows.
            None => out.answer(&sale, || old_card(&sale)),
        };
    }
    out.answer(&lines, || {
        if lines.is_empty() {
            return "There is no sale yet. Create one: seckill sale create --title 'hot pot 50% off' --stock 100".to_owned();
        }
        let rows: Vec<Vec<String>> = lines.iter().map(row).collect();
        table(&["#", "title", "phase", "stock", "initial", "admitted", "persisted"], &[0, 3, 4, 5, 6], &rows)
    })
}

fn row(line: &SaleLine) -> Vec<String> {
    vec![
        line.voucher_id.to_string(),
        line.title.clone(),
        phase(line.phase).to_owned(),
        line.stock.map_or("not loaded".to_owned(), |stock| number(stock.max(0) as u64)),
        number(line.initial),
        line.admitted.map_or("unknown".to_owned(), number),
        number(line.persisted),
    ]
}

fn card(line: &SaleLine) -> String {
    let zone = TimeZone::system();
    let time =
        |at: Option<Millis>, none: &str| at.map_or(none.to_owned(), |at| at.date_time(&zone));
    let stock =
        line.stock.map_or("not loaded in Redis".to_owned(), |stock| number(stock.max(0) as u64));
    format!(
        "#{} {}\n  phase      {}\n  window     {} to {}\n  stock      {stock} of {} (SQL {})\n  admitted   {}\n  persisted  {}",
        line.voucher_id,
        line.title,
        phase(line.phase),
        time(line.begin, "at once"),
        time(line.end, "never"),
        number(line.initial),
        number(line.db_stock),
        line.admitted.map_or("unknown".to_owned(), number),
        number(line.persisted),
    )
}

fn old_card(sale: &Sale) -> String {
    format!(
        "#{} {}: {}, {} of {} left",
        sale.voucher_id,
        sale.title,
        sale.state,
        number(sale.stock),
        number(sale.initial)
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
