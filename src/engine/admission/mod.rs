//! Admission: the one place where a buyer takes a piece.
//!
//! Requests wait in a bounded queue for each partition. Its [`AdmissionWorker`] takes those that arrived while the last
//! batches were in flight and decides all of them in one call of the admission script: no timer, so a lone buyer pays
//! one round trip, and a stampede pays little more. Once a sale is sold out, the node refuses further buyers itself.

mod queue_bound;
mod refusal_cache;
mod reply;
mod shards;
mod worker;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use queue_bound::QueueBound;
use redis::ScriptInvocation;
use refusal_cache::RefusalCache;
use seckill_model::{OrderId, Outcome, SaleId, ShardId, UserId, VoucherId, message::text};
use seckill_redis::{Layout, RedisError, keys::Partition, scripts};
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot};

pub use shards::Rebalancer;
pub use worker::AdmissionWorker;

use crate::{
    EngineError,
    lists::group_by,
    node::context::NodeContext,
    recovery::{sale_versions::SaleVersions, sharded_sale::ShardedSale},
    telemetry::Meters,
};

/// Why a request got no outcome.
#[derive(Clone, Debug, PartialEq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AdmissionError {
    /// Redis did not answer in time; holds the last error.
    #[error("{}", text!("admission-no-answer", reason = _0.to_string()))]
    NoAnswer(Arc<EngineError>),
    /// The order ID proposed for the request is not admitted any more: its order was closed before the reply came, or
    /// the attempt was too late.
    #[error("{}", text!("admission-too-late"))]
    TooLate,
    /// Redis rejected the batch.
    #[error("{0}")]
    Rejected(Arc<EngineError>),
    /// The engine is stopping.
    #[error("{}", text!("admission-stopping"))]
    Stopping,
}

impl AdmissionError {
    /// Whether SQL has lost the sale, which Redis still has.
    pub fn is_of_lost_sale(&self) -> bool {
        matches!(self, Self::Rejected(why) if matches!(**why, EngineError::LostInSql(_)))
    }

    /// Whether Redis rejects the command itself, whatever the sale: a permission is missing.
    pub fn is_of_permission(&self) -> bool {
        let denied = |why: &EngineError| matches!(why, EngineError::Redis(RedisError::Rejected(_)));
        matches!(self, Self::Rejected(why) if denied(why))
    }
}

/// Takes the requests of buyers. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Admission(Arc<Queues>);

#[derive(Debug)]
struct Queues {
    /// The queue of each partition.
    by_partition: Vec<Queue>,
    keys: Layout,
    meters: Arc<Meters>,
    versions: SaleVersions,
    /// Bound on a request whose shard has no piece while others may have some.
    within: Duration,
}

/// The admission queue of one partition.
#[derive(Clone, Debug)]
struct Queue {
    requests: mpsc::Sender<AdmissionRequest>,
    bound: QueueBound,
    /// Answers requests that need no worker.
    refusals: Arc<RefusalCache>,
}

/// A request whose reply comes within the time that the settings allow.
#[derive(Debug)]
pub struct Ticket {
    answer: Answer,
    admission: Admission,
    sale: SaleId,
    /// The user's shard of it was asked, and the others are not known to be sold out.
    is_shard: bool,
    user: UserId,
}

#[derive(Debug)]
enum Answer {
    Known(AdmissionReply),
    Awaited(oneshot::Receiver<AdmissionReply>),
}

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
        let Self { answer, admission: Admission(queues), sale, is_shard, user } = self;
        let reply = answer.get().await;
        let begun = Instant::now();
        let (sold_out, unknown) = match reply.outcome {
            Ok(Outcome::SoldOut) => (is_shard, false),
            // The worker may have learned of the shards by this request.
            Ok(Outcome::Busy) => (false, !is_shard),
            _ => (false, false),
        };
        let sale = (sold_out || unknown).then(|| queues.versions.sharded(sale));
        match sale.flatten() {
            Some(sale) => {
                let outcome = queues.ask_shard(&sale, user, sold_out).await;
                // Not since the request: the caller may have let this ticket lie.
                AdmissionReply { outcome, took: reply.took + begun.elapsed() }
            }
            None => reply,
        }
    }
}

impl Answer {
    async fn get(self) -> AdmissionReply {
        let stopped = Err(AdmissionError::Stopping);
        match self {
            Self::Known(reply) => reply,
            Self::Awaited(reply) => {
                reply.await.unwrap_or(AdmissionReply { outcome: stopped, took: Duration::ZERO })
            }
        }
    }
}

/// A request that is queued or in flight.
#[derive(Debug)]
pub(super) struct AdmissionRequest {
    pub(super) shard: ShardId,
    pub(super) user: UserId,
    pub(super) requested: Instant,
    /// The shard of this buyer was sold out before.
    pub(super) again: bool,
    /// The proposed order ID, the same in every attempt: Redis may have admitted the buyer although its reply was lost.
    pub(super) order: Option<Proposal>,
    reply: oneshot::Sender<AdmissionReply>,
}

/// The order ID that is proposed for a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Proposal {
    pub(super) id: OrderId,
    /// When it was issued. It is admitted only as long as a request may wait.
    pub(super) at: Instant,
}

impl AdmissionRequest {
    /// The proposed order ID, if any.
    pub(super) fn order_id(&self) -> Option<OrderId> {
        self.order.map(|it| it.id)
    }

    /// Sends the reply. It is dropped if the caller no longer waits, which loses nothing.
    pub(super) fn reply(self, now: Instant, outcome: Result<Outcome, AdmissionError>) {
        let took = now.saturating_duration_since(self.requested);
        let _ = self.reply.send(AdmissionReply { outcome, took });
    }
}

/// Requests of one shard, in the order in which they came.
pub(super) type Batch = Vec<AdmissionRequest>;

impl Queue {
    /// Enqueues a request, or returns it if the queue is at its bound.
    fn try_enqueue(&self, request: AdmissionRequest) -> Result<(), AdmissionRequest> {
        if self.requests.max_capacity() - self.requests.capacity() >= self.bound.get() {
            return Err(request);
        }
        match self.requests.try_send(request) {
            Err(mpsc::error::TrySendError::Full(request)) => Err(request),
            // It is dropped when the engine stops.
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => Ok(()),
        }
    }
}

impl Admission {
    /// Creates a queue and its worker for each partition: a partition that cannot be reached does not delay the others.
    /// The workers end when their `stop` is cancelled, and reply to every request that still waits.
    pub fn new(context: &NodeContext) -> (Self, Vec<AdmissionWorker>) {
        let (mut queues, mut workers) = (Vec::new(), Vec::new());
        for partition in context.deployment.keys.partitions() {
            let (sender, requests) = mpsc::channel(context.deployment.settings.queue);
            let refusals = Arc::new(RefusalCache::new());
            let worker =
                AdmissionWorker::new(context.clone(), partition, requests, Arc::clone(&refusals));
            queues.push(Queue { requests: sender, bound: worker.queue_bound(), refusals });
            workers.push(worker);
        }
        let NodeContext { deployment, meters, versions, .. } = context;
        let queues = Queues {
            by_partition: queues,
            keys: deployment.keys.clone(),
            meters: Arc::clone(meters),
            versions: versions.clone(),
            within: Duration::from_millis(deployment.settings.answer_within_ms),
        };
        (Self(Arc::new(queues)), workers)
    }

    /// Requests a piece for `user`. Never waits: the queue takes the request, or the reply is `Busy`.
    pub fn request(&self, voucher: VoucherId, user: UserId) -> Ticket {
        let requested = Instant::now();
        let sale = self.0.versions.sharded(voucher.into());
        let only = ShardId::only(voucher);
        let asked = sale.as_ref().map_or(only, |sale| sale.spread.of_user(user));
        let answer = self.0.ask(asked, user, requested);
        let is_known = matches!(answer, Answer::Known(_));
        let is_shard = sale.is_some_and(|sale| !(is_known && sale.is_sold_out(requested)));
        Ticket { answer, admission: self.clone(), sale: asked.sale, is_shard, user }
    }

    /// Gives no refusal without Redis until it has confirmed it again: this process has changed a sale.
    pub(crate) fn invalidate_refusals(&self) {
        self.0.by_partition.iter().for_each(|queue| queue.refusals.invalidate());
        self.0.versions.all_sharded().iter().for_each(|sale| sale.invalidate());
    }
}

impl Queues {
    fn queue(&self, shard: ShardId) -> Option<&Queue> {
        self.by_partition.get(usize::from(self.keys.partition_of(shard).number()))
    }

    fn ask(&self, shard: ShardId, user: UserId, requested: Instant) -> Answer {
        let queue = self.queue(shard);
        if let Some(outcome) = queue.and_then(|it| it.refusals.get(shard, user, requested)) {
            return Answer::Known(AdmissionReply { outcome, took: requested.elapsed() });
        }
        self.enqueue(shard, user, requested, false)
    }

    /// Has Redis decide.
    fn enqueue(&self, shard: ShardId, user: UserId, requested: Instant, again: bool) -> Answer {
        let (reply, answer) = oneshot::channel();
        if let Some(queue) = self.queue(shard) {
            let request = AdmissionRequest { shard, user, requested, again, order: None, reply };
            if let Err(request) = queue.try_enqueue(request) {
                self.meters.note_busy(1);
                request.reply(Instant::now(), Ok(Outcome::Busy));
            }
        }
        // When the engine stops, the sender is dropped with the request, and the receiver reports that.
        Answer::Awaited(answer)
    }

    /// Asks the shard of this user; if it is sold out, again once pieces were moved to it, until all shards are sold out.
    /// Without either in time, the reply is `Busy`.
    async fn ask_shard(
        &self,
        sale: &ShardedSale,
        user: UserId,
        mut sold_out: bool,
    ) -> Result<Outcome, AdmissionError> {
        let shard = sale.spread.of_user(user);
        let asking = async {
            loop {
                if sold_out && sale.is_sold_out(Instant::now()) {
                    return Ok(Outcome::SoldOut);
                }
                if sold_out {
                    sale.rebalanced(shard).await;
                    if let Some(closed) = sale.closed() {
                        let why = Arc::new(closed.error(sale.spread.sale.into()));
                        return Err(AdmissionError::Rejected(why));
                    }
                }
                let asking = self.enqueue(shard, user, Instant::now(), sold_out);
                let outcome = asking.get().await.outcome;
                if outcome != Ok(Outcome::SoldOut) {
                    return outcome;
                }
                sold_out = true;
            }
        };
        tokio::time::timeout(self.within, asking).await.unwrap_or(Ok(Outcome::Busy))
    }
}

/// Prepares a call of the admission script for buyers of whom `again` ask a sold-out shard again; the caller appends until
/// when they are admitted, then them and their order IDs.
pub(super) fn admit_call(
    keys: &Layout,
    of: &Partition,
    shard: ShardId,
    node: &str,
    run_id: &str,
    version: u64,
    again: usize,
) -> ScriptInvocation<'static> {
    let mut call = scripts::ADMIT.prepare_invoke();
    call.key(&keys.sale_keys(shard));
    call.key(of.orders()).key(keys.tally(shard)).key(of.reconciled()).key(of.watermark());
    call.key(of.returned());
    call.arg(of.group()).arg(keys.name_in_entries(shard));
    call.arg(node).arg(run_id).arg(version).arg(again);
    call
}

/// Splits requests into batches of one shard, keeping the order within each.
pub(super) fn by_shard(gathered: &mut Vec<AdmissionRequest>) -> impl Iterator<Item = Batch> {
    group_by(gathered.drain(..), |request| request.shard).into_values()
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
    fn batches_keep_the_order_of_each_shard() {
        let request = |voucher, user| AdmissionRequest {
            shard: ShardId::only(VoucherId(voucher)),
            user: UserId(user),
            requested: Instant::now(),
            again: false,
            order: None,
            reply: oneshot::channel().0,
        };
        let mut gathered = vec![request(1, 1), request(2, 2), request(1, 3)];
        let users: Vec<Vec<u64>> =
            by_shard(&mut gathered).map(|batch| batch.iter().map(|a| a.user.0).collect()).collect();
        assert_eq!(users, [vec![1, 3], vec![2]]);
    }
}
