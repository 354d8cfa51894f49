//! `seckill orders`: lists orders, shows and pays one.

use clap::{Args, Subcommand};
use seckill_engine::{
    Command,
    orders::{self, Decoded, Location},
};
use seckill_model::{
    Label, Millis, Order, OrderFilter, OrderId, OrderStatus, OrderTerms, UserId, VoucherId, text,
};
use serde::Serialize;
use serde_json::json;

use crate::{
    Config, Context, Needs, Output, Reason, Result, Table, count, local, next_page, page, reply,
    rows,
};

#[derive(Debug, Subcommand)]
pub(super) enum OrdersCommand {
    /// List orders in SQL, newest first
    List(ListArgs),
    /// Show where an order is, and decode its ID
    Show {
        /// Order ID
        id: OrderId,
    },
    /// Pay an unpaid order
    Pay {
        /// Order ID
        id: OrderId,
        #[command(flatten)]
        reason: Reason,
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
    /// Only orders with smaller IDs; for the next page, pass the last ID of the previous one
    #[arg(long, value_name = "ORDER_ID")]
    before: Option<OrderId>,
}

#[derive(Serialize)]
struct Shown {
    id: OrderId,
    decoded: Decoded,
    #[serde(flatten)]
    location: Location,
}

pub(super) async fn run(config: &Config, out: Output, command: OrdersCommand) -> Result<u8> {
    // Invalid arguments are reported before anything is opened. A list also works while Redis is unavailable.
    let (needs, filter) = match &command {
        OrdersCommand::List(args) => (Needs::Database, args.filter()?),
        _ => (Needs::Both, OrderFilter::default()),
    };
    let done = Context::with(config, out, needs, async |context| match command {
        OrdersCommand::List(args) => list(context, &filter, &args).await,
        OrdersCommand::Show { id } => show(context, id).await,
        OrdersCommand::Pay { id, reason } => {
            reply::run_once(context, Command::Pay(id), reason).await
        }
    });
    done.await
}

impl ListArgs {
    fn filter(&self) -> Result<OrderFilter> {
        let user = self.user.map(UserId);
        let is = OrderTerms { user, voucher: self.voucher, status: self.status };
        let filter = OrderFilter { is, ..OrderFilter::default() };
        Ok(filter.admitted(self.from, self.to)?)
    }
}

async fn show(context: &Context, id: OrderId) -> Result<u8> {
    let location = orders::find(&mut context.servers(), id).await?;
    let shown = Shown { id, decoded: orders::decode(id), location };
    context.out.verdict(shown.location != Location::Unknown, &shown, || render(&shown))
}

async fn list(context: &Context, filter: &OrderFilter, args: &ListArgs) -> Result<u8> {
    let mut orders = context.store.orders(filter, args.before, args.limit + 1).await?;
    let next = page(&mut orders, args.limit, |order| order.id);
    context.out.answer(&json!({ "orders": orders, "next": next }), || {
        if orders.is_empty() {
            return Label("cli-orders-none").to_owned();
        }
        let text = Table::new(&orders)
            .left(&Label("column-order"), |order| order.id)
            .left(&Label("column-admitted"), |order| local(orders::decode(order.id).issued))
            .right(&Label("column-buyer"), |order| order.user_id)
            .right(&Label("column-voucher"), |order| format!("#{}", order.voucher_id))
            .left(&Label("column-status"), status)
            .left(&Label("column-since"), |order| local(order.since()))
            .to_string();
        text + &next_page("--before", next)
    })
}

fn status(order: &Order) -> String {
    text!("orders-status-name", status = order.status)
}

fn render(shown: &Shown) -> String {
    let of = |user: &UserId, voucher: &VoucherId| text!("cli-orders-of-sale", user, voucher);
    let state = match &shown.location {
        Location::Persisted { order } => persisted(order),
        Location::Undelivered { entry, user_id, voucher_id } => {
            text!("cli-orders-undelivered", entry, of = of(user_id, voucher_id))
        }
        Location::Pending { entry, user_id, voucher_id } => {
            text!("cli-orders-pending", entry, of = of(user_id, voucher_id))
        }
        Location::Dead { reason, user_id, voucher_id } => {
            text!("cli-orders-dead", reason, of = of(user_id, voucher_id))
        }
        Location::Lost { user_id, voucher_id } => {
            text!("cli-orders-lost", of = of(user_id, voucher_id))
        }
        Location::Unknown => Label("orders-unknown-not-in-sql-stream").to_owned(),
    };
    let Decoded { issued, sequence, day } = shown.decoded;
    let (issued, sequence) = (local(issued), sequence.to_string());
    let issued = text!("orders-issued-number-of-utc", issued, sequence, day);
    format!("{}\n  {state}\n  {issued}", text!("cli-order", id = shown.id))
}

fn persisted(order: &Order) -> String {
    let status = match order.status {
        OrderStatus::Unpaid => status(order),
        _ => format!("{} {}", status(order), local(order.since())),
    };
    let (user, voucher) = (order.user_id, order.voucher_id);
    let of = match order.place {
        None => text!("cli-orders-of-voucher", user, voucher),
        Some(1) => text!("cli-orders-of-sale", user, voucher),
        Some(place) => text!("cli-orders-of-place", user, voucher, place),
    };
    text!("cli-orders-persisted", status, of, written = local(order.create_time))
}
