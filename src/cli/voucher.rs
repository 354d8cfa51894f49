//! `seckill voucher`: vouchers of both kinds, and purchases of the ordinary ones.

use clap::{Args, Subcommand};
use seckill_engine::Command;
use seckill_model::{Label, UserId, Voucher, VoucherDetails, VoucherId, VoucherStatus, text};
use serde_json::json;

use crate::{
    Config, Context, Needs, Output, Reason, Result, Table, count, next_page, number, or_dash, page,
    plain, reply, rows,
};

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
        #[command(flatten)]
        reason: Reason,
    },
    /// List vouchers of both kinds by ID
    List {
        /// Only vouchers with larger IDs; for the next page, pass the last ID of the previous one
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
    #[command(flatten)]
    reason: Reason,
}

pub(super) async fn run(config: &Config, out: Output, command: VoucherCommand) -> Result<u8> {
    // Redis holds no voucher, so it may be unavailable; order IDs come from its counters.
    let needs = match command {
        VoucherCommand::Buy { .. } => Needs::Both,
        _ => Needs::Database,
    };
    // Invalid arguments are reported before anything is opened.
    let (command, reason) = match command {
        VoucherCommand::List { after, limit } => {
            let list = async |context: &mut Context| list(context, after, limit).await;
            return Context::with(config, out, needs, list).await;
        }
        VoucherCommand::Create(args) => {
            let details = VoucherDetails {
                title: args.title,
                shop_id: args.shop,
                sub_title: args.sub_title,
                rules: args.rules,
                pay_value: args.pay_value,
                actual_value: args.actual_value,
                status: args.status,
            };
            (Command::CreateVoucher(details.checked()?), args.reason)
        }
        VoucherCommand::Buy { id, user, reason } => (Command::BuyVoucher(id, UserId(user)), reason),
    };
    let run = async |context: &mut Context| reply::run_once(context, command, reason).await;
    Context::with(config, out, needs, run).await
}

async fn list(context: &Context, after: Option<VoucherId>, limit: u32) -> Result<u8> {
    let mut vouchers = context.store.vouchers(after, limit + 1).await?;
    let next = page(&mut vouchers, limit, |voucher| voucher.voucher_id);
    context.out.answer(&json!({ "vouchers": vouchers, "next": next }), || {
        if vouchers.is_empty() {
            let continued = after.is_some();
            let none =
                if continued { Label("cli-voucher-no-more") } else { Label("cli-voucher-none") };
            return none.to_owned();
        }
        render(&vouchers) + &next_page("seckill voucher list --after", next)
    })
}

fn render(vouchers: &[Voucher]) -> String {
    let table = Table::new(vouchers)
        .right("#", |line| line.voucher_id)
        .left(&Label("column-title"), |line| line.details.title.clone())
        .left(&Label("column-kind"), |line| text!("cli-voucher-kind", kind = line.kind))
        .left(&Label("column-status"), |line| {
            text!("cli-voucher-status", status = line.details.status)
        })
        .right(&Label("column-shop"), |line| or_dash(line.details.shop_id))
        .right(&Label("column-pays"), |line| money(line.details.pay_value))
        .right(&Label("column-worth"), |line| money(line.details.actual_value));
    table.with_details(|line| {
        let VoucherDetails { sub_title, rules, .. } = &line.details;
        let rules = rules.iter().flat_map(|rules| rules.lines());
        sub_title.as_deref().into_iter().chain(rules).map(plain).collect()
    })
}

/// Cents as a decimal number.
fn money(cents: u64) -> String {
    format!("{}.{:02}", number(cents / 100), cents % 100)
}
