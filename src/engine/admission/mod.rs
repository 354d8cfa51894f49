//! Admission: the one place where a buyer takes a piece.
//!
//! Requests wait in a bounded queue for each partition. Its [`AdmissionWorker`] takes those that arrived while the last
//! batches were in flight and decides all of them in one call of the admission script: no timer, so a lone buyer pays
//! one round trip, and a stampede pays little more.

mod reply;
mod worker;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use seckill_model::{OrderId, Outcome, UserId, VoucherId, message::text};
use seckill_redis::Layout;
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot};

pub use worker::AdmissionWorker;

use crate::{EngineError, context::NodeContext, lists::group_by, telemetry::Meters};

/// Why a request got no outcome.
#[derive(Clone, Debug, PartialEq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AdmissionError {
    /// Redis did not answer in time; holds the last error.
    #[error("{}", text!("admission-no-answer", reason = _0.to_string()))]
    NoAnswer(Arc<EngineError>),
    /// Redis rejected the batch.
    #[error("{0}")]
    Rejected(Arc<EngineError>),
    /// The engine is stopping.
    #[error("{}", text!("admission-stopping"))]
    Stopping,
}

/// Takes the requests of buyers. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Admission {
    /// One for each partition.
    queues: Vec<mpsc::Sender<AdmissionRequest>>,
    keys: Layout,
    meters: Arc<Meters>,
}

/// A request whose reply comes within the time that the settings allow.
#[derive(Debug)]
pub struct Ticket(oneshot::Receiver<AdmissionReply>);

/// The reply to one request, and how long it took.
#[derive(Debug)]
pub struct AdmissionReply {
    /// The decision, or why there is none.
    pub outcome: Result<Outcome, AdmissionError>,
    /// From the request to the reply.
    pub took: Duration,
}

impl Ticket {
    /// Waits for the reply.
    pub async fn answer(self) -> AdmissionReply {
        let stopped = Err(AdmissionError::Stopping);
        self.0.await.unwrap_or(AdmissionReply { outcome: stopped, took: Duration::ZERO })
    }
}

/// A request that is queued or in flight.
#[derive(Debug)]
pub(super) struct AdmissionRequest {
    pub(super) voucher: VoucherId,
    pub(super) user: UserId,
    pub(super) requested: Instant,
    /// The proposed order ID, the same in every attempt: Redis may have admitted the buyer although its reply was lost.
    pub(super) order: Option<OrderId>,
    reply: oneshot::Sender<AdmissionReply>,
}

impl AdmissionRequest {
    /// Sends the reply. It is dropped if the caller no longer waits, which loses nothing.
    pub(super) fn reply(self, now: Instant, outcome: Result<Outcome, AdmissionError>) {
        let took = now.saturating_duration_since(self.requested);
        let _ = self.reply.send(AdmissionReply { outcome, took });
    }
}

/// Requests of one voucher, in the order in which they came.
pub(super) type Batch = Vec<AdmissionRequest>;

impl Admission {
    /// Creates a queue and its worker for each partition: a partition that cannot be reached does not delay the others.
    /// The workers end when their `stop` is cancelled, and reply to every request that still waits.
    pub fn new(context: &NodeContext) -> (Self, Vec<AdmissionWorker>) {
        let (mut queues, mut workers) = (Vec::new(), Vec::new());
        for partition in context.deployment.keys.partitions() {
            let (queue, requests) = mpsc::channel(context.deployment.settings.queue);
            queues.push(queue);
            workers.push(AdmissionWorker::new(context.clone(), partition, requests));
        }
        let (keys, meters) = (context.deployment.keys.clone(), Arc::clone(&context.meters));
        (Self { queues, keys, meters }, workers)
    }

    /// Requests a piece for `user`. Never waits: the queue takes the request, or the reply is `Busy`.
    pub fn request(&self, voucher: VoucherId, user: UserId) -> Ticket {
        let (reply, answer) = oneshot::channel();
        let requested = Instant::now();
        let request = AdmissionRequest { voucher, user, requested, order: None, reply };
        let of = usize::from(self.keys.partition_of(voucher).number());
        if let Some(queue) = self.queues.get(of)
            && let Err(mpsc::error::TrySendError::Full(request)) = queue.try_send(request)
        {
            self.meters.note_busy(1);
            request.reply(Instant::now(), Ok(Outcome::Busy));
        }
        // When the engine stops, the sender is dropped with the request, and the receiver reports that.
        Ticket(answer)
    }
}

/// Splits requests into batches of one voucher, keeping the order within each.
pub(super) fn by_voucher(gathered: &mut Vec<AdmissionRequest>) -> impl Iterator<Item = Batch> {
    group_by(gathered.drain(..), |request| request.voucher).into_values()
}

/// Replies alike to a whole batch.
pub(super) fn reply_all(
    batch: impl IntoIterator<Item = AdmissionRequest>,
    outcome: &Result<Outcome, AdmissionError>,
) {
    let now = Instant::now();
    batch.into_iter().for_each(|request| request.reply(now, outcome.clone()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_keep_the_order_of_each_voucher() {
        let request = |voucher, user| AdmissionRequest {
            voucher: VoucherId(voucher),
            user: UserId(user),
            requested: Instant::now(),
            order: None,
            reply: oneshot::channel().0,
        };
        let mut gathered = vec![request(1, 1), request(2, 2), request(1, 3)];
        let users: Vec<Vec<u64>> = by_voucher(&mut gathered)
            .map(|batch| batch.iter().map(|a| a.user.0).collect())
            .collect();
        assert_eq!(users, [vec![1, 3], vec![2]]);
    }
}
