//! Text 000, section 12.3 (and 004): a channel as the queue, `PUBLISH` and `SUBSCRIBE`.
//!
//! The fault: Redis keeps no message. A consumer that is not subscribed at that moment never receives it; `PUBLISH`
//! replies 0, and the design ignores that reply.

use redis::{Cmd, cmd};

use super::{prelude::*, queue};
use crate::consumer::Consumer;

const CHANNEL: &str = "channel.orders";

pub(super) const DESIGN: Design = Design {
    name: "pubsub",
    question: Question::HandOver,
    source: Source { text: "000", section: "12.3" },
    faults: &[Fault::loses(Incident::NoSubscriber), Fault::loses(Incident::ConsumerDies)],
    mended_by: Some("stream-group-repaired"),
    why: Label("lab-why-pubsub"),
    not_on: &[],
    schema: &[],
    serve: |lane| buy(lane).boxed(),
    consumer: Some(Consumer::Process {
        start: |lane| lane.subscribe(CHANNEL).boxed(),
        run: |lane| run(lane).boxed(),
        poison: || publish("poison"),
    }),
};

fn publish(text: &str) -> Cmd {
    cmd("PUBLISH").arg(CHANNEL).arg(text).take()
}

async fn buy(lane: &mut Lane<'_>) -> Result<Reply> {
    let order = match queue::admit(lane).await? {
        Ok(order) => order,
        Err(refused) => return Ok(refused),
    };
    let _: i64 = lane.redis(&publish(&order.text())).await?;
    Ok(Reply::Bought(order.id))
}

async fn run(lane: &mut Lane<'_>) -> Result<()> {
    while let Some(entry) = lane.message().await {
        let handled = match entry.order() {
            Ok(order) => queue::handle_voucher_order(lane, order).await,
            Err(error) => Err(error),
        };
        if let Err(error) = handled {
            tracing::warn!(%error, "order failed");
        }
    }
    Ok(())
}
