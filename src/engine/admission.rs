//! Admission: the one place where a buyer takes a piece.
//!
//! Requests wait in a bounded queue. A task takes what has gathered while the last batches were
//! on their way and asks Redis for all of them at once: no timer, so a lone buyer pays one
//! round trip, and a stampede pays little more. The tasks behind the queues are `gate`s.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use seckill_model::{OrderId, Outcome, UserId, VoucherId};
use seckill_redis::{Layout, Redis};
use seckill_store::SharedStore;
use tokio::sync::{mpsc, oneshot};

use super::{admission_worker::Gate, sale_versions::SaleVersions, settings::Settings};
use crate::telemetry::Meters;

/// Why a request got no outcome.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdmissionError {
    /// Redis did not answer in time; holds what it said last.
    #[error("no answer in time ({0}); ask again: a buyer who was admitted learns the order")]
    NoAnswer(String),
    /// Redis refused the batch.
    #[error("{0}")]
    Refused(String),
    /// The engine stops.
    #[error("the engine is stopping; ask again once it runs")]
    Stopping,
}

/// Where buyers ask. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Admission {
    /// One for each partition.
    queues: Vec<mpsc::Sender<Ask>>,
    keys: Layout,
    meters: Arc<Meters>,
}

/// A place in the queue, or an answer that needed none.
#[derive(Debug)]
pub enum Ticket {
    /// The queue was full.
    Busy,
    /// The answer is on its way; it comes within the time that the settings allow.
    Waiting(oneshot::Receiver<Answer>),
}

/// What a buyer was told, and how long he waited for it.
#[derive(Debug)]
pub struct Answer {
    /// The answer, or why there is none.
    pub outcome: Result<Outcome, AdmissionError>,
    /// From asking to the answer.
    pub took: Duration,
}

impl Ticket {
    /// Waits for the answer.
    pub async fn answer(self) -> Answer {
        match self {
            Self::Busy => Answer { outcome: Ok(Outcome::Busy), took: Duration::ZERO },
            Self::Waiting(answer) => answer
                .await
                .unwrap_or(Answer { outcome: Err(AdmissionError::Stopping), took: Duration::ZERO }),
        }
    }
}

/// A buyer's request on its way.
#[derive(Debug)]
pub(super) struct Ask {
    pub(super) voucher: VoucherId,
    pub(super) user: UserId,
    pub(super) asked: Instant,
    /// Kept through every attempt: Redis may have admitted the buyer although its reply was lost.
    pub(super) order: Option<OrderId>,
    reply: oneshot::Sender<Answer>,
}

impl Ask {
    /// A buyer who has gone away meanwhile hears nothing; nothing is lost by that.
    pub(super) fn tell(self, now: Instant, outcome: Result<Outcome, AdmissionError>) {
        let took = now.saturating_duration_since(self.asked);
        let _ = self.reply.send(Answer { outcome, took });
    }
}

/// Requests of one voucher, in the order in which they came.
pub(super) type Batch = Vec<Ask>;

impl Admission {
    /// Makes a queue and the task behind it for each partition: what stands in the way of one does not
    /// hold up the others. The tasks end when `stop` is cancelled, and answer everybody who still waits.
    pub fn new(
        node: &str,
        redis: &Redis,
        store: &SharedStore,
        keys: &Layout,
        settings: &Settings,
        meters: &Arc<Meters>,
        versions: &SaleVersions,
    ) -> (Self, Vec<Gate>) {
        let (mut queues, mut gates) = (Vec::new(), Vec::new());
        for partition in keys.partitions() {
            let (queue, asks) = mpsc::channel(settings.queue);
            queues.push(queue);
            gates.push(Gate::new(
                node, partition, asks, redis, store, keys, settings, meters, versions,
            ));
        }
        (Self { queues, keys: keys.clone(), meters: Arc::clone(meters) }, gates)
    }

    /// Asks for a piece. Never waits: the queue takes the request, or the answer is `Busy`.
    pub fn ask(&self, voucher: VoucherId, user: UserId) -> Ticket {
        let (reply, answer) = oneshot::channel();
        let ask = Ask { voucher, user, asked: Instant::now(), order: None, reply };
        let of = usize::from(self.keys.partition_of(voucher).number());
        let Some(queue) = self.queues.get(of) else { return Ticket::Waiting(answer) };
        match queue.try_send(ask) {
            Err(mpsc::error::TrySendError::Full(_)) => {
                self.meters.note_busy();
                Ticket::Busy
            }
            // Where the engine stops, the reply side is dropped with the request, which tells so.
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => Ticket::Waiting(answer),
        }
    }
}

/// Splits what has gathered into batches of one voucher, keeping the order within each.
pub(super) fn by_voucher(gathered: &mut Vec<Ask>) -> Vec<Batch> {
    let mut batches: Vec<Batch> = Vec::with_capacity(1);
    for ask in gathered.drain(..) {
        match batches
            .iter_mut()
            .find(|batch| batch.first().is_some_and(|a| a.voucher == ask.voucher))
        {
            Some(batch) => batch.push(ask),
            None => batches.push(vec![ask]),
        }
    }
    batches
}

/// Tells all of them the same.
pub(super) fn refuse(batch: impl IntoIterator<Item = Ask>, why: &AdmissionError) {
    let now = Instant::now();
    batch.into_iter().for_each(|ask| ask.tell(now, Err(why.clone())));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_keep_the_order_of_each_voucher() {
        let ask = |voucher, user| Ask {
            voucher: VoucherId(voucher),
            user: UserId(user),
            asked: Instant::now(),
            order: None,
            reply: oneshot::channel().0,
        };
        let mut gathered = vec![ask(1, 1), ask(2, 2), ask(1, 3)];
        let users: Vec<Vec<u64>> = by_voucher(&mut gathered)
            .iter()
            .map(|batch| batch.iter().map(|a| a.user.0).collect())
            .collect();
        assert_eq!(users, [vec![1, 3], vec![2]]);
    }
}
