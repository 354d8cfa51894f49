//! `seckill orders`: lists orders, shows and pays one.

use clap::{Args, Subcommand};
use jiff::tz::TimeZone;
use seckill_engine::{
    command::{Command, Reply},
    orders::{self, Decoded, Location},
};
use seckill_model::{Millis, Order, OrderFilter, OrderId, OrderStatus, Payment, UserId, VoucherId};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::{
    Fault,
    context::Context,
    fault,
    output::{Output, count, page, rows, table},
};
use crate::config::Config;

#[derive(Debug, Subcommand)]
pub(super) enum OrdersCommand {
    /// List orders in SQL, newest first
    List(ListArgs),
    /// Show the state of an order and the contents of its ID
    Show {
        /// Order ID
        id: OrderId,
    },
    /// Pay an unpaid order
    Pay {
        /// Order ID
        id: OrderId,
        /// Reason, recorded in the audit log
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
}

#[derive(Debug, Args)]
pub(super) struct ListArgs {
    /// Only orders of this user
    #[arg(long, value_name = "USER", allow_hyphen_values = true, value_parser = count)]
    user: Option<u64>,
    /// Only orders of this voucher
    #[arg(long, value_name = "ID")]
    voucher: Option<VoucherId>,
    /// Only in this state: unpaid, paid, used, cancelled or closed
    #[arg(long, value_name = "STATUS")]
    status: Option<OrderStatus>,
    /// Admitted at or after this time, by the time in the ID: 2026-11-20T14:30:00Z,
    /// '2026-11-20 14:30' (local), 14:30 (today) or -2h
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    from: Option<Millis>,
    /// Admitted before this time, same formats
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    to: Option<Millis>,
    /// Maximum number of orders
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = rows())]
    limit: u32,
    /// Only smaller IDs: the next page, by the last ID of the previous page
    #[arg(long, value_name = "ORDER_ID")]
    before: Option<OrderId>,
}

#[derive(Serialize)]
struct Page {
    orders: Vec<Order>,
    next: Option<OrderId>,
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
    standing: Location,
}

pub(super) async fn run(config: &Config, out: Output, command: OrdersCommand) -> Result<u8, Fault> {
    match command {
        OrdersCommand::List(args) => {
            let filter = OrderFilter {
                user: args.user.map(UserId),
                voucher: args.voucher,
                status: args.status,
                ..OrderFilter::default()
            };
            // Invalid arguments are reported before anything is opened.
            let filter = filter.admitted(args.from, args.to)?;
            // Needs SQL only, so it also works while Redis is unavailable.
            let context = Context::open(config).await?;
            let read = context.store.orders(&filter, args.before, args.limit + 1).await;
            context.close().await;
            list(out, read?, args.limit)
        }
        OrdersCommand::Show { id } => {
            let context = Context::open_answering(config).await?;
            let mut conn = context.redis.connection();
            let found = orders::find(&context.store, &mut conn, &context.keys, id).await;
            context.close().await;
            let shown = Shown { id, decoded: orders::decode(id), standing: found? };
            out.answer(&shown, || render(&shown))?;
            Ok(if shown.standing == Location::Unknown { fault::NO } else { 0 })
        }
        OrdersCommand::Pay { id, reason } => {
            let mut context = Context::open_answering(config).await?;
            let result = pay(&mut context, out, id, reason).await;
            context.close().await;
            result
        }
    }
}

fn list(out: Output, mut orders: Vec<Order>, limit: u32) -> Result<u8, Fault> {
    let next = page(&mut orders, limit, |order| order.id);
    let page = Page { orders, next };
    out.answer(&page, || {
        if page.orders.is_empty() {
            return "No orders match. Orders in flight are not in SQL yet: seckill orders show ID"
                .to_owned();
        }
        let zone = TimeZone::system();
        let rows: Vec<Vec<String>> = page.orders.iter().map(|order| row(order, &zone)).collect();
        let mut text =
            table(&["order", "admitted", "buyer", "voucher", "status", "since"], &[2, 3], &rows);
        if let Some(next) = page.next {
            text.push_str(&format!("next page: --before {next}\n"));
        }
        text
    })?;
    Ok(if page.orders.is_empty() { fault::NO } else { 0 })
}

fn row(order: &Order, zone: &TimeZone) -> Vec<String> {
    vec![
        order.id.to_string(),
        orders::decode(order.id).issued.date_time(zone),
        order.user_id.to_string(),
        format!("#{}", order.voucher_id),
        order.status.to_string(),
        since(order).date_time(zone),
    ]
}

/// When the order reached its status, if SQL records it.
fn since(order: &Order) -> Millis {
    let at = match order.status {
        OrderStatus::Unpaid => None,
        OrderStatus::Paid | OrderStatus::Used => order.pay_time,
        OrderStatus::Cancelled | OrderStatus::Closed => order.close_time,
    };
    at.unwrap_or(order.create_time)
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
        return Err(Fault::no("unexpected reply from the engine to a payment"));
    };
    out.answer(&Paid { id, payment }, || match payment {
        Payment::Paid => format!("Order {id} is paid."),
        Payment::PaidBefore => format!("Order {id} was paid before; nothing was changed."),
        Payment::TooLate => format!("Order {id} was closed before; nothing was paid."),
        Payment::NotFound => {
            format!("Order {id} is not in SQL; 'seckill orders show {id}' shows where it is.")
        }
    })?;
    Ok(if matches!(payment, Payment::Paid | Payment::PaidBefore) { 0 } else { fault::NO })
}

fn render(shown: &Shown) -> String {
    let zone = TimeZone::system();
    let of = |user: &UserId, voucher: &VoucherId| format!("buyer {user}, sale #{voucher}");
    let standing = match &shown.standing {
        Location::Persisted { order } => {
            let when = match order.status {
                OrderStatus::Unpaid => String::new(),
                _ => format!(" {}", since(order).date_time(&zone)),
            };
            let (user, voucher) = (&order.user_id, &order.voucher_id);
            let bought = match order.place {
                None => format!("buyer {user}, ordinary voucher #{voucher}"),
                Some(1) => of(user, voucher),
                Some(place) => format!("{}, place {place} of the buyer", of(user, voucher)),
            };
            format!(
                "{}{when}, {bought}, written {}",
                order.status,
                order.create_time.date_time(&zone)
            )
        }
        Location::Undelivered { entry, user_id, voucher_id } => {
            format!("undelivered in the stream as {entry}, {}", of(user_id, voucher_id))
        }
        Location::Pending { entry, user_id, voucher_id } => {
            format!(
                "pending as {entry}, {}; 'seckill pending list' shows its holder",
                of(user_id, voucher_id)
            )
        }
        Location::Dead { reason, user_id, voucher_id } => {
            format!("dead letter ({reason}), {}", of(user_id, voucher_id))
        }
        Location::Lost { user_id, voucher_id } => {
            format!(
                "LOST: assigned to {} in Redis and stored nowhere else",
                of(user_id, voucher_id)
            )
        }
        Location::Unknown => {
            "unknown: not in SQL, the stream, the dead letters, or assigned to a buyer".to_owned()
        }
    };
    let Decoded { issued, sequence, day } = shown.decoded;
    format!(
        "order {}\n  {standing}\n  issued {}, number {sequence} of {day} (UTC)",
        shown.id,
        issued.date_time(&zone)
    )
}
