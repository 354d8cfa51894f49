//! `seckill voucher`: vouchers of both kinds, and purchases of the ordinary ones.

use clap::{Args, Subcommand};
use seckill_engine::command::{Command, Reply};
use seckill_model::{OrderId, UserId, Voucher, VoucherDetails, VoucherId, VoucherStatus};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::{
    Fault,
    context::Context,
    output::{Output, count, number, page, plain, rows, table},
};
use crate::config::Config;

#[derive(Debug, Subcommand)]
pub(super) enum VoucherCommand {
    /// Create an ordinary voucher, without stock or time window; see 'sale create' for flash-sale vouchers
    Create(CreateArgs),
    /// Buy an ordinary voucher for a user, at any time and without limit; the order is unpaid
    Buy {
        /// Voucher ID
        id: VoucherId,
        /// User ID of the buyer
        #[arg(long, value_name = "USER", allow_hyphen_values = true, value_parser = count)]
        user: u64,
        /// Reason, recorded in the audit log
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// List vouchers of both kinds by ID
    List {
        /// Only vouchers after this one: the next page, by the last ID of the previous page
        #[arg(long, value_name = "ID")]
        after: Option<VoucherId>,
        /// Maximum number of vouchers
        #[arg(long, value_name = "N", default_value_t = 50, value_parser = rows())]
        limit: u32,
    },
}

#[derive(Debug, Args)]
pub(super) struct CreateArgs {
    /// Title shown to buyers
    #[arg(long)]
    title: String,
    /// Shop ID
    #[arg(long, value_name = "ID", allow_hyphen_values = true, value_parser = count)]
    shop: Option<u64>,
    /// Subtitle
    #[arg(long, value_name = "TEXT")]
    sub_title: Option<String>,
    /// Terms of use, one or more lines
    #[arg(long, value_name = "TEXT")]
    rules: Option<String>,
    /// Price in cents
    #[arg(long, value_name = "CENTS", default_value_t = 0, allow_hyphen_values = true, value_parser = count)]
    pay_value: u64,
    /// Face value in cents
    #[arg(long, value_name = "CENTS", default_value_t = 0, allow_hyphen_values = true, value_parser = count)]
    actual_value: u64,
    /// Status: on, off or expired
    #[arg(long, default_value_t = VoucherStatus::On)]
    status: VoucherStatus,
    /// Reason, recorded in the audit log
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

#[derive(Serialize)]
struct Created {
    voucher_id: VoucherId,
}

#[derive(Serialize)]
struct Bought {
    order_id: OrderId,
}

#[derive(Serialize)]
struct Line {
    voucher_id: VoucherId,
    kind: &'static str,
    #[serde(flatten)]
    details: VoucherDetails,
}

impl From<Voucher> for Line {
    fn from(voucher: Voucher) -> Self {
        let kind = if voucher.ordinary { "ordinary" } else { "sale" };
        Self { voucher_id: voucher.id, kind, details: voucher.details }
    }
}

#[derive(Serialize)]
struct Page {
    vouchers: Vec<Line>,
    next: Option<VoucherId>,
}

pub(super) async fn run(
    config: &Config,
    out: Output,
    command: VoucherCommand,
) -> Result<u8, Fault> {
    // Invalid arguments are reported before anything is opened.
    let (command, reason) = match command {
        VoucherCommand::Create(args) => {
            let CreateArgs {
                title, shop, sub_title, rules, pay_value, actual_value, status, ..
            } = args;
            let details = VoucherDetails {
                title,
                shop_id: shop,
                sub_title,
                rules,
                pay_value,
                actual_value,
                status,
            };
            (Command::CreateVoucher(details.checked()?), args.reason)
        }
        VoucherCommand::Buy { id, user, reason } => (Command::BuyVoucher(id, UserId(user)), reason),
        VoucherCommand::List { after, limit } => {
            let context = Context::open(config).await?;
            let result = list(&context, out, after, limit).await;
            context.close().await;
            return result.map(|()| 0);
        }
    };
    // Redis holds no voucher, so it may be unavailable; order IDs come from its counters.
    let mut context = match command {
        Command::BuyVoucher(..) => Context::open_answering(config).await?,
        _ => Context::open(config).await?,
    };
    let result = change(&mut context, out, command, reason).await;
    context.close().await;
    result.map(|()| 0)
}

async fn change(
    context: &mut Context,
    out: Output,
    command: Command,
    reason: Option<String>,
) -> Result<(), Fault> {
    let operator = context.operator(reason)?;
    match operator.execute(command, &CancellationToken::new()).await? {
        Reply::VoucherCreated(voucher_id) => out.answer(&Created { voucher_id }, || {
            format!("Voucher #{voucher_id} exists; it has neither stock nor window.")
        }),
        Reply::VoucherBought(order_id) => out.answer(&Bought { order_id }, || {
            format!("Order {order_id} is written, unpaid. Pay it: seckill orders pay {order_id}")
        }),
        _ => Err(Fault::no("unexpected reply from the engine to a voucher command")),
    }
}

async fn list(
    context: &Context,
    out: Output,
    after: Option<VoucherId>,
    limit: u32,
) -> Result<(), Fault> {
    let mut vouchers = context.store.vouchers(after, limit + 1).await?;
    let next = page(&mut vouchers, limit, |voucher| voucher.id);
    let page = Page { vouchers: vouchers.into_iter().map(Line::from).collect(), next };
    out.answer(&page, || {
        if page.vouchers.is_empty() {
            return if after.is_some() {
                "No more vouchers."
            } else {
                "No vouchers yet. Create one: seckill voucher create --title 'a present'"
            }
            .to_owned();
        }
        let rows: Vec<Vec<String>> = page.vouchers.iter().map(row).collect();
        let head = ["#", "title", "kind", "status", "shop", "pays", "worth"];
        let listed = table(&head, &[0, 4, 5, 6], &rows);
        let mut text = String::new();
        // The first line is the header.
        let vouchers = std::iter::once(None).chain(page.vouchers.iter().map(Some));
        for (line, voucher) in listed.lines().zip(vouchers) {
            text.push_str(&format!("{line}\n"));
            let Some(VoucherDetails { sub_title, rules, .. }) = voucher.map(|it| &it.details)
            else {
                continue;
            };
            let rules = rules.iter().flat_map(|rules| rules.lines());
            for more in sub_title.as_deref().into_iter().chain(rules) {
                text.push_str(&format!("    {}\n", plain(more)));
            }
        }
        if let Some(next) = page.next {
            text.push_str(&format!("more: seckill voucher list --after {next}\n"));
        }
        text
    })
}

fn row(voucher: &Line) -> Vec<String> {
    let details = &voucher.details;
    vec![
        voucher.voucher_id.to_string(),
        details.title.clone(),
        voucher.kind.to_owned(),
        details.status.to_string(),
        details.shop_id.map_or_else(|| "-".to_owned(), |shop| shop.to_string()),
        money(details.pay_value),
        money(details.actual_value),
    ]
}

/// Cents as a decimal number.
fn money(cents: u64) -> String {
    format!("{}.{:02}", number(cents / 100), cents % 100)
}
