//! `seckill orders`: what became of an order.

use clap::Subcommand;
use jiff::tz::TimeZone;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::{Fault, context::Context, fault, output::Output};
use crate::{
    config::Config,
    engine::{
        command::{Command, Reply},
        orders::{self, Decoded, Standing},
    },
    model::{OrderId, Payment},
};

#[derive(Debug, Subcommand)]
pub(super) enum OrdersCommand {
    /// What became of an order, and what its id says
    Show {
        /// The id that the buyer was given
        id: OrderId,
    },
    /// Pay an order, if it is unpaid still
    Pay {
        /// The id that the buyer was given
        id: OrderId,
        /// Why, for the audit log
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
}

#[derive(Serialize)]
struct Paid {
    id: OrderId,
    payment: Payment,
}

#[derive(Serialize)]
struct Shown {
    id: OrderId,
    decoded: Decoded,
    #[serde(flatten)]
    standing: Standing,
}

pub(super) async fn run(config: &Config, out: Output, command: OrdersCommand) -> Result<u8, Fault> {
    let mut context = Context::open_answering(config).await?;
    let id = match command {
        OrdersCommand::Show { id } => id,
        OrdersCommand::Pay { id, reason } => {
            let result = pay(&mut context, out, id, reason).await;
            context.close().await;
            return result;
        }
    };
    let mut link = context.redis.link();
    let found = orders::find(&context.store, &mut link, &context.keys, id).await;
    context.close().await;
    let shown = Shown { id, decoded: orders::decode(id), standing: found? };
    out.answer(&shown, || words(&shown))?;
    Ok(0)
}

async fn pay(
    context: &mut Context,
    out: Output,
    id: OrderId,
    reason: Option<String>,
) -> Result<u8, Fault> {
    let operator = context.operator(reason)?;
    let reply = operator.execute(Command::Pay(id), &CancellationToken::new()).await?;
    let Reply::Paid { payment, .. } = reply else {
        return Err(Fault::no("the engine answered something else than about a payment"));
    };
    out.answer(&Paid { id, payment }, || match payment {
        Payment::Paid => format!("Order {id} is paid."),
        Payment::PaidBefore => format!("Order {id} was paid before; nothing was changed."),
        Payment::TooLate => format!("Order {id} was closed before; nothing was paid."),
        Payment::NotFound => {
            format!("Order {id} is not in SQL; 'seckill orders show {id}' tells where it is.")
        }
    })?;
    Ok(if matches!(payment, Payment::Paid | Payment::PaidBefore) { 0 } else { fault::NO })
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
