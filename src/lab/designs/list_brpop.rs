//! Text 000, section 12.2 (and 004): a list as the queue, `LPUSH` and `BRPOP`.
//!
//! The fault: `BRPOP` removes the entry from the list and gives it to the consumer. If that dies before the commit, the
//! entry is nowhere.

use redis::{Cmd, cmd};

use super::{prelude::*, queue};
use crate::{
    consumer::{BLOCK, Consumer},
    entry::Entry,
};

const LIST: &str = "list.orders";

pub(super) const DESIGN: Design = Design {
    name: "list-brpop",
    question: Question::HandOver,
    source: Source { text: "000", section: "12.2" },
    faults: &[Fault::loses(Incident::ConsumerDies)],
    mended_by: Some("stream-group-repaired"),
    why: Label("lab-why-list-brpop"),
    not_on: &[],
    schema: &[],
    serve: |lane| buy(lane).boxed(),
    consumer: Some(Consumer::Process {
        start: |_| async { Ok(()) }.boxed(),
        run: |lane| run(lane).boxed(),
        poison: || push("poison"),
    }),
};

fn push(text: &str) -> Cmd {
    cmd("LPUSH").arg(LIST).arg(text).take()
}

async fn buy(lane: &mut Lane<'_>) -> Result<Reply> {
    let order = match queue::admit(lane).await? {
        Ok(order) => order,
        Err(refused) => return Ok(refused),
    };
    let _: i64 = lane.redis(&push(&order.text())).await?;
    Ok(Reply::Bought(order.id))
}

async fn run(lane: &mut Lane<'_>) -> Result<()> {
    let pop = cmd("BRPOP").arg(LIST).arg(BLOCK.as_secs()).take();
    loop {
        let Some(entry) = lane.receive(&pop, Entry::popped).await? else { continue };
        let handled = match entry.order() {
            Ok(order) => queue::handle_voucher_order(lane, order).await,
            Err(error) => Err(error),
        };
        if let Err(error) = handled {
            tracing::warn!(%error, "order failed");
        }
    }
}
