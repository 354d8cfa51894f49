//! Text 000, section 11.3 (and 002, 004): `new ArrayBlockingQueue<>(1024 * 1024)`, and a thread that takes orders from it.
//!
//! The fault: the queue is in the memory of the process. When it dies, the orders in it are lost, although their
//! users got the reply that they bought.

use super::{prelude::*, queue};
use crate::consumer::Consumer;

pub(super) const DESIGN: Design = Design {
    name: "blocking-queue",
    question: Question::HandOver,
    source: Source { text: "000", section: "11.3" },
    faults: &[Fault::loses(Incident::Restart), Fault::loses(Incident::ConsumerDies)],
    mended_by: Some("stream-group-repaired"),
    why: Label("lab-why-blocking-queue"),
    not_on: &[],
    schema: &[],
    serve: |lane| buy(lane).boxed(),
    consumer: Some(Consumer::Task(|lane| run(lane).boxed())),
};

async fn buy(lane: &mut Lane<'_>) -> Result<Reply> {
    let order = match queue::admit(lane).await? {
        Ok(order) => order,
        Err(refused) => return Ok(refused),
    };
    // 2.6. orderTasks.add(voucherOrder)
    lane.add(order)?;
    Ok(Reply::Bought(order.id))
}

/// `VoucherOrderHandler`
async fn run(lane: &mut Lane<'_>) -> Result<()> {
    // orderTasks.take()
    while let Some(order) = lane.take().await {
        if let Err(error) = queue::handle_voucher_order(lane, order).await {
            tracing::warn!(%error, "order failed");
        }
    }
    Ok(())
}
