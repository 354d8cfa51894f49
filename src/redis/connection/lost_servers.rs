//! Servers of a cluster that do not reply: a probe finds them, and until the next probe, connecting to them fails at
//! once with the error of the probe. What the other servers have can be read meanwhile.

use std::{fmt, time::Duration};

use futures::future::join_all;
use redis::cmd;
use seckill_model::{
    Millis,
    message::{Label, text},
};
use serde::{Serialize, Serializer};

use super::Connection;
use crate::{
    Layout, RedisError, Result,
    cluster_slots::{Hint, Node},
    keys::Partition,
};

/// A server that takes longer than this to reply to a probe counts as lost.
const PROBE_TIMEOUT_MS: u64 = 1_000;
const PROBE_TIMEOUT: Duration = Duration::from_millis(PROBE_TIMEOUT_MS);

/// A server of a cluster that does not reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LostServer {
    /// `None` if no server has the slots of these partitions.
    #[serde(skip)]
    node: Option<Node>,
    /// Its address; that of the cluster if no server has the slots of these partitions.
    pub address: String,
    /// The numbers of its partitions, ascending.
    pub partitions: Vec<u16>,
    /// Why it cannot be read.
    #[serde(serialize_with = "sentence")]
    pub error: RedisError,
}

fn sentence<S: Serializer>(error: &RedisError, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(error)
}

impl LostServer {
    /// Returns partitions that no server has, in the cluster at this address.
    pub fn unserved(address: String, partitions: Vec<u16>, error: RedisError) -> Self {
        Self { node: None, address, partitions, error }
    }

    /// The numbers of its partitions, as a list.
    pub fn numbers(&self) -> String {
        number_list(&self.partitions)
    }
}

/// The numbers of partitions, as a list.
pub fn number_list(partitions: &[u16]) -> String {
    let numbers: Vec<String> = partitions.iter().map(ToString::to_string).collect();
    numbers.join(&Label("list-items"))
}

impl fmt::Display for LostServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, numbers) = (self.partitions.len(), self.numbers());
        f.write_str(&text!("redis-lost-server", count, numbers, error = self.error))
    }
}

impl Connection {
    /// Asks the server of each partition for a reply, and returns those that give none. Without a cluster there are no
    /// others to read, so nothing is asked.
    pub async fn probe(&mut self, keys: &Layout) -> &[LostServer] {
        let silent = self.still_silent().await;
        self.forget_lost();
        if !self.is_cluster() {
            return &self.lost;
        }
        let mut alive: Vec<Node> = Vec::new();
        for of in keys.partitions() {
            let Err((node, error)) = self.probe_one(&of, &silent, &mut alive).await else {
                continue;
            };
            // Without a server for the slot, those of other slots may reply; otherwise no server has replied.
            let rest = node.is_none() && !matches!(error, RedisError::ClusterDown(_));
            let last = if rest { keys.count() } else { of.number() + 1 };
            let partitions = of.number()..last;
            if let Some(lost) = self.lost.iter_mut().find(|it| it.node == node) {
                lost.partitions.extend(partitions);
            } else {
                let of_node = node.as_ref().map(ToString::to_string);
                let address = of_node.unwrap_or_else(|| self.address().to_owned());
                let partitions = partitions.collect();
                self.lost.push(LostServer { node, address, partitions, error });
            }
            if rest {
                break;
            }
        }
        self.blame_missing();
        &self.lost
    }

    /// A cluster that needs all slots is down as a whole: those that say so are unknown for the same reason as the
    /// partitions of the missing server.
    fn blame_missing(&mut self) {
        let is_down = |error: &RedisError| matches!(error, RedisError::ClusterDown(_));
        if self.lost.iter().all(|it| is_down(&it.error)) {
            return;
        }
        let down = self.lost.extract_if(.., |it| it.node.is_some() && is_down(&it.error));
        let partitions: Vec<u16> = down.flat_map(|it| it.partitions).collect();
        if let Some(missing) = self.lost.iter_mut().find(|it| !is_down(&it.error)) {
            missing.partitions.extend(partitions);
            missing.partitions.sort_unstable();
        }
    }

    /// The servers that did not reply to the last probe.
    pub fn lost(&self) -> &[LostServer] {
        &self.lost
    }

    /// Forgets the last probe: each server is asked again.
    pub fn forget_lost(&mut self) {
        self.lost.clear();
    }

    /// The partitions whose server replied to the last probe; all of them without one.
    pub fn reachable(&self, keys: &Layout) -> impl Iterator<Item = Partition> + use<> {
        let lost: Vec<u16> = self.lost.iter().flat_map(|it| it.partitions.clone()).collect();
        keys.partitions().filter(move |of| !lost.contains(&of.number()))
    }

    /// Time of the first server that replied to the last probe.
    pub async fn now_of_reachable(&mut self, keys: &Layout) -> Result<Millis> {
        let of = self.reachable(keys).next().ok_or_else(|| self.why_lost())?;
        self.now_at(&of.orders()).await
    }

    /// Whether the server of this partition did not reply to the last probe.
    pub fn is_lost(&self, of: &Partition) -> bool {
        self.lost.iter().any(|it| it.partitions.contains(&of.number()))
    }

    /// Why nothing can be read after a probe without a reply. A server that replies that the cluster is down does not
    /// name the one that is missing.
    pub fn why_lost(&self) -> RedisError {
        let names = |it: &&LostServer| !matches!(it.error, RedisError::ClusterDown(_));
        let lost = self.lost.iter().find(names).or(self.lost.first());
        lost.map_or(RedisError::Reply(None), |it| it.error.clone())
    }

    /// The error of the last probe of this server, if it did not reply.
    pub(super) fn lost_at(&self, node: &Node) -> Option<&LostServer> {
        self.lost.iter().find(|it| it.node.as_ref() == Some(node))
    }

    /// The servers that did not reply in time to the last probe and still do not: asked at once, or each would take the
    /// whole timeout again.
    async fn still_silent(&self) -> Vec<Node> {
        let silent = self.lost.iter().filter(|it| matches!(it.error, RedisError::Silent { .. }));
        let asking = silent.filter_map(|it| it.node.as_ref()).map(async |node| {
            let asked = self.redis.connect(Some(node), self.answer);
            tokio::time::timeout(PROBE_TIMEOUT, asked).await.is_err().then(|| node.clone())
        });
        join_all(asking).await.into_iter().flatten().collect()
    }

    /// The error, with its server if there is one for the slot.
    async fn probe_one(
        &mut self,
        of: &Partition,
        silent: &[Node],
        alive: &mut Vec<Node>,
    ) -> Result<(), (Option<Node>, RedisError)> {
        let slot = self.slot(&of.orders());
        // After a failover, the first attempt may go to the former primary.
        let mut failed: Option<(Node, RedisError)> = None;
        loop {
            let located = self.locate(slot).await.map_err(|error| (None, error))?;
            let Some(node) = located else { return Ok(()) };
            if let Some(lost) = self.lost.iter_mut().find(|it| it.node.as_ref() == Some(&node)) {
                lost.partitions.push(of.number());
                return Ok(());
            }
            match failed {
                _ if alive.contains(&node) => return Ok(()),
                // It replies while the key moves.
                Some((before, RedisError::Moved { .. })) if before == node => return Ok(()),
                Some((before, error)) if before == node => return Err((Some(node), error)),
                _ => {}
            }
            let ask = cmd("EXISTS").arg(of.orders()).take();
            let answer = if silent.contains(&node) {
                None
            } else {
                let asking = self.query_at::<bool>(slot, &ask);
                tokio::time::timeout(PROBE_TIMEOUT, asking).await.ok()
            };
            let error = match answer {
                Some(Err(error)) if error.is_away() => error,
                // Any other error is not of the server, but of the command that meets it.
                Some(_) => {
                    alive.push(node);
                    return Ok(());
                }
                None => {
                    self.peers.retain(|peer| peer.node.as_ref() != Some(&node));
                    self.mark_stale(Hint::Last(node.clone()));
                    match self.redis.cluster() {
                        Some(cluster) => cluster.note_silent(&node, PROBE_TIMEOUT_MS),
                        None => return Ok(()),
                    }
                }
            };
            failed = Some((node, error));
        }
    }
}
