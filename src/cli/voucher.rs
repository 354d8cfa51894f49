//! `seckill voucher`: vouchers of both kinds, those with a sale and those without.

use clap::Subcommand;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::{
    Fault,
    context::Context,
    output::{Output, page, rows, table},
};
use crate::{
    config::Config,
    engine::command::{Command, Reply},
    model::{Voucher, VoucherId, sale::check_title},
};

#[derive(Debug, Subcommand)]
pub(super) enum VoucherCommand {
    /// Create an ordinary voucher: one without stock or window; 'sale create' makes the other kind
    Create {
        /// What buyers read
        #[arg(long)]
        title: String,
        /// Why, for the audit log
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// Vouchers of both kinds, by number
    List {
        /// Only those after this one: the next page, by the last number of the one before
        #[arg(long, value_name = "ID")]
        after: Option<VoucherId>,
        /// Most vouchers to show
        #[arg(long, value_name = "N", default_value_t = 50, value_parser = rows())]
        limit: u32,
    },
}

#[derive(Serialize)]
struct Created {
    voucher_id: VoucherId,
}

#[derive(Serialize)]
struct Line {
    voucher_id: VoucherId,
    title: String,
    kind: &'static str,
}

impl From<Voucher> for Line {
    fn from(voucher: Voucher) -> Self {
        let kind = if voucher.ordinary { "ordinary" } else { "sale" };
        Self { voucher_id: voucher.id, title: voucher.title, kind }
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
    if let VoucherCommand::Create { title, .. } = &command {
        // What a person got wrong is told before anything is opened.
        check_title(title)?;
    }
    // Redis has nothing of these, so it may be away.
    let mut context = Context::open(config).await?;
    let result = match command {
        VoucherCommand::Create { title, reason } => create(&mut context, out, title, reason).await,
        VoucherCommand::List { after, limit } => list(&context, out, after, limit).await,
    };
    context.close().await;
    result.map(|()| 0)
}

async fn create(
    context: &mut Context,
    out: Output,
    title: String,
    reason: Option<String>,
) -> Result<(), Fault> {
    let operator = context.operator(reason)?;
    let create = Command::CreateVoucher(title);
    match operator.execute(create, &CancellationToken::new()).await? {
        Reply::VoucherCreated(voucher_id) => out.answer(&Created { voucher_id }, || {
            format!("Voucher #{voucher_id} exists; it has neither stock nor window.")
        }),
        _ => Err(Fault::no("the engine answered something else than about a voucher")),
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
                "There is no voucher after that one."
            } else {
                "There is no voucher yet. Create one: seckill voucher create --title 'a present'"
            }
            .to_owned();
        }
        let rows: Vec<Vec<String>> = page
            .vouchers
            .iter()
            .map(|it| vec![it.voucher_id.to_string(), it.title.clone(), it.kind.to_owned()])
            .collect();
        let mut text = table(&["#", "title", "kind"], &[0], &rows);
        if let Some(next) = page.next {
            text.push_str(&format!("further ones: seckill voucher list --after {next}\n"));
        }
        text
    })
}
