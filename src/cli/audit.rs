//! `seckill audit`: the ledger.

use clap::Args;

use super::{
    Fault,
    context::Context,
    fault,
    output::{Output, number, table},
};
use crate::{config::Config, engine::ledger, model::VoucherId};

#[derive(Debug, Args)]
pub(super) struct AuditArgs {
    /// Only this sale
    #[arg(long, value_name = "ID")]
    voucher: Option<VoucherId>,
}

pub(super) async fn run(config: &Config, out: Output, args: &AuditArgs) -> Result<u8, Fault> {
    let context = Context::open_answering(config).await?;
    let mut link = context.redis.link();
    let audit = ledger::audit(&context.store, &mut link, &context.keys, args.voucher).await;
    context.close().await;
    let audit = audit?;
    out.answer(&audit, || words(&audit))?;
    Ok(if audit.balanced { 0 } else { fault::NO })
}

fn words(audit: &ledger::Audit) -> String {
    if audit.sales.is_empty() {
        return "There is no sale yet; the books are empty and balance.".to_owned();
    }
    let rows: Vec<Vec<String>> = audit
        .sales
        .iter()
        .map(|sale| {
            vec![
                format!("#{}", sale.voucher_id),
                sale.title.clone(),
                number(sale.initial),
                sale.stock.map_or("-".to_owned(), |stock| stock.to_string()),
                number(sale.admitted),
                number(sale.persisted),
                number(sale.closed),
                number(sale.undelivered),
                number(sale.pending),
                number(sale.dead),
                sale.db_stock.to_string(),
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
    for sale in &audit.sales {
        for finding in &sale.findings {
            text.push_str(&format!("! #{}: {finding}\n", sale.voucher_id));
        }
    }
    text.push_str(if audit.balanced { "The books balance." } else { "The books are OFF." });
    text
}
