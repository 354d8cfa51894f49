//! Nodes and their heartbeats.

use redis::pipe;
use seckill_model::Millis;

use super::{
    Connection, Result,
    keys::{Partition, is_replay, node_of},
    lossy_utf8::Text,
};

/// A node without heartbeats for a day is removed.
pub const FORGET_MS: u64 = 24 * 3_600 * 1_000;

/// State of a node, derived from its heartbeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeState {
    /// Its last heartbeat is recent.
    Alive,
    /// It shut down cleanly.
    Stopped,
    /// It stopped without a clean shutdown.
    Dead,
}

/// Last heartbeat of each node, by Redis' clock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nodes {
    /// Redis' time of this read.
    pub now: Millis,
    /// Each node with its last heartbeat.
    pub signs: Vec<(String, Millis)>,
}

impl Nodes {
    /// Reads the heartbeats in one partition: every node works on every partition.
    pub async fn read(conn: &mut Connection, of: &Partition) -> Result<Self> {
        let mut read = pipe();
        read.cmd("TIME").cmd("ZRANGE").arg(of.nodes()).arg(0).arg(-1).arg("WITHSCORES");
        let ((seconds, micros), signs): ((i64, i64), Vec<(Text, f64)>) = conn.pipe(&read).await?;
        Ok(Self::of(Millis(seconds * 1_000 + micros / 1_000), signs))
    }

    /// From a sorted set of nodes by their last heartbeat.
    pub(super) fn of(now: Millis, signs: Vec<(Text, f64)>) -> Self {
        let signs = signs.into_iter().map(|(Text(node), at)| (node, Millis(at as i64)));
        Self { now, signs: signs.collect() }
    }

    /// Whether the last heartbeat of a node is within `dead_ms`.
    pub fn is_alive(&self, node: &str, dead_ms: u64) -> bool {
        self.life(node, dead_ms) == Some(true)
    }

    /// State of the node of a consumer that has been idle for `idle_ms`.
    pub fn state(&self, consumer: &str, idle_ms: u64, dead_ms: u64) -> NodeState {
        match self.life(node_of(consumer), dead_ms) {
            Some(true) => NodeState::Alive,
            Some(false) => NodeState::Dead,
            // An operator without an engine is not a node and does not leave.
            None if is_replay(consumer) && idle_ms < dead_ms => NodeState::Alive,
            // An unlisted node has left, or was removed after a day.
            None if is_replay(consumer) || idle_ms >= FORGET_MS => NodeState::Dead,
            None => NodeState::Stopped,
        }
    }

    /// Like [`Self::is_alive`], or `None` for a name that is not a node's: an operator without an engine.
    pub fn life(&self, node: &str, dead_ms: u64) -> Option<bool> {
        let (_, at) = self.signs.iter().find(|(name, _)| name == node)?;
        Some(self.now.since(*at) < dead_ms)
    }

    /// Nodes whose last heartbeat is within `dead_ms`.
    pub fn alive(&self, dead_ms: u64) -> impl Iterator<Item = &str> {
        let fresh = move |(_, at): &&(String, Millis)| self.now.since(*at) < dead_ms;
        self.signs.iter().filter(fresh).map(|(node, _)| node.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_is_dead_after_its_timeout() {
        let signs = vec![("a".to_owned(), Millis(9_000)), ("b".to_owned(), Millis(1_000))];
        let nodes = Nodes { now: Millis(10_000), signs };
        assert_eq!(nodes.alive(5_000).collect::<Vec<_>>(), ["a"]);
        assert!(nodes.is_alive("b", 9_001) && !nodes.is_alive("c", 9_001));
    }

    #[test]
    fn node_that_left_is_stopped_not_dead() {
        let signs = vec![("a".to_owned(), Millis(9_000)), ("b".to_owned(), Millis(1_000))];
        let nodes = Nodes { now: Millis(10_000), signs };
        let state = |consumer, idle_ms| nodes.state(consumer, idle_ms, 5_000);
        assert_eq!(state("a/1", 10), NodeState::Alive);
        assert_eq!(state("b/1", 9_000), NodeState::Dead);
        assert_eq!(state("c/1", 10), NodeState::Stopped);
        assert_eq!(state("c/1", FORGET_MS), NodeState::Dead, "the exit is forgotten");
        assert_eq!(state("c/replay", 10), NodeState::Alive);
        assert_eq!(state("c/replay", 5_000), NodeState::Dead);
    }
}
