//! `seckill orders`: what became of an order.

use clap::Subcommand;
use jiff::tz::TimeZone;
use serde::Serialize;

use super::{Fault, context::Context, output::Output};
use crate::{
    config::Config,
    engine::orders::{self, Decoded, Standing},
    model::OrderId,
};

#[derive(Debug, Subcommand)]
pub(super) enum OrdersCommand {
    /// What became of an order, and what its id says
    Show {
        /// The id that the buyer was given
        id: OrderId,
    },
}

#[derive(Serialize)]
struct Shown {
    id: OrderId,
    decoded: Decoded,
    #[serde(flatten)]
    standing: Standing,
}

pub(super) async fn run(config: &Config, out: Output, command: OrdersCommand) -> Result<u8, Fault> {
    let OrdersCommand::Show { id } = command;
    let context = Context::open_answering(config).await?;
    let mut link = context.redis.link();
    let found = orders::find(&context.store, &mut link, &context.keys, id).await;
    context.close().await;
    let shown = Shown { id, decoded: orders::decode(id), standing: found? };
    out.answer(&shown, || words(&shown))?;
    Ok(0)
}

fn words(shown: &Shown) -> String {
    let zone = TimeZone::system();
    let of = |user: &crate::model::UserId, voucher: &crate::model::VoucherId| {
        format!("buyer {user}, sale #{voucher}")
    };
    let standing = match &shown.standing {
        Standing::Persisted { order } => {
            let status = format!("{:?}", order.status).to_lowercase();
            format!(
                "{status}, {}, written {}",
                of(&order.user_id, &order.voucher_id),
                order.create_time.date_time(&zone)
            )
        }
        Standing::Undelivered { entry, user_id, voucher_id } => {
            format!("undelivered in the stream as {entry}, {}", of(user_id, voucher_id))
        }
        Standing::Pending { entry, user_id, voucher_id } => {
            format!(
                "pending as {entry}, {}; 'seckill pending list' tells who holds it",
                of(user_id, voucher_id)
            )
        }
        Standing::Dead { reason, user_id, voucher_id } => {
            format!("dead letter ({reason}), {}", of(user_id, voucher_id))
        }
        Standing::Lost { user_id, voucher_id } => {
            format!("LOST: {} holds it in Redis, and it is nowhere else", of(user_id, voucher_id))
        }
    };
    let Decoded { issued, sequence, day } = shown.decoded;
    format!(
        "order {}\n  {standing}\n  issued {}, number {sequence} of {day} (UTC)",
        shown.id,
        issued.date_time(&zone)
    )
}
