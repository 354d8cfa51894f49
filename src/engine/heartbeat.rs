//! Signs of life of a node, its claim to its name, and the look at its partitions that goes with them.
//!
//! Two processes of one name would take each other's entries for their own. Who finds his name
//! taken, because he was suspended for too long or was started twice, gives way.

use std::time::{Duration, Instant};

use seckill_redis::{Layout, Link, keys::Partition, nodes::FORGET_MS, scripts};
use seckill_store::SharedStore;
use tokio_util::sync::CancellationToken;

use super::{EngineError, mend, outbox::Outbox};
use crate::telemetry::data_loss::LossExchange;

const BEAT_EVERY: Duration = Duration::from_secs(1);
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// The task that gives a node's signs of life in one partition.
#[derive(Debug)]
pub(super) struct Beat {
    pub(super) link: Link,
    pub(super) partition: Partition,
    pub(super) node: String,
    pub(super) instance: String,
    pub(super) dead_ms: u64,
    pub(super) store: SharedStore,
    pub(super) keys: Layout,
    pub(super) outbox: Outbox,
}

impl Beat {
    /// Beats until `stop`; cancels it when another process has taken the name.
    pub(super) async fn run(mut self, stop: CancellationToken) {
        let mut losses = LossExchange::default();
        let is_home = self.partition == self.keys.home();
        loop {
            let link = &mut self.link;
            let beat = beat(link, &self.partition, &self.node, &self.instance, self.dead_ms, "");
            // An outage is told by the collector; the next beat tries again.
            if let Ok(false) = beat.await {
                tracing::error!(
                    node = self.node,
                    "another process goes by this name by now; this one stops"
                );
                stop.cancel();
            }
            self.mend().await;
            let next = Instant::now() + BEAT_EVERY;
            loop {
                if is_home {
                    let (link, of, node) = (&mut self.link, &self.partition, &self.node);
                    // An outage is told by the collector here as well.
                    let _ = losses.run(link, of, node, &self.outbox).await;
                }
                tokio::select! {
                    () = stop.cancelled() => return,
                    // What was lost is seen at once by whoever looks at Redis: the database may take a second longer.
                    () = self.outbox.line_came(), if is_home => {}
                    () = tokio::time::sleep_until(next.into()) => break,
                }
            }
        }
    }
}

impl Beat {
    /// Repairs what is wrong with the partition now; what could not be repaired is tried again.
    async fn mend(&mut self) {
        let Self { link, partition, node, store, keys, outbox, .. } = self;
        match mend::mend_partition(store, link, keys, partition).await {
            Ok(mended) if mended.is_empty() => {}
            Ok(mended) => {
                mend::record(outbox, node, partition, mended);
                outbox.write(store).await;
            }
            Err(error) => {
                tracing::debug!(%error, partition = partition.number(), "not looked through");
            }
        }
    }
}

/// Takes a name in every partition before a node starts under it. A process of that name that has just died
/// is waited for until it counts as dead; with `force`, nobody is.
///
/// # Errors
/// [`EngineError::NameTaken`] when it is alive; Redis is away.
pub async fn take_name(
    link: &mut Link,
    keys: &Layout,
    node: &str,
    instance: &str,
    dead_ms: u64,
    force: bool,
) -> Result<(), EngineError> {
    let until = Instant::now() + Duration::from_millis(dead_ms) + BEAT_EVERY;
    let how = if force { "take" } else { "" };
    for of in keys.partitions() {
        while !beat(link, &of, node, instance, dead_ms, how).await? {
            if Instant::now() > until {
                return Err(EngineError::NameTaken(node.to_owned()));
            }
            tokio::time::sleep(ASK_AGAIN).await;
        }
    }
    Ok(())
}

/// `false` when another process of that name is alive.
async fn beat(
    link: &mut Link,
    of: &Partition,
    node: &str,
    instance: &str,
    dead_ms: u64,
    how: &str,
) -> Result<bool, EngineError> {
    let mut call = scripts::BEAT.prepare_invoke();
    call.key(of.nodes()).key(of.instances()).key(of.healed());
    call.arg(node).arg(FORGET_MS).arg(instance).arg(dead_ms).arg(how);
    let (_, taken): (i64, bool) = link.invoke(&call).await?;
    Ok(taken)
}
