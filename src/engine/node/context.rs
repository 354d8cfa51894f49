//! What the tasks of a node share.

use std::sync::Arc;

use crate::{
    deployment::{Deployment, servers::Servers},
    ledger::promise_journal::InHand,
    locks::Locks,
    node::outbox::Outbox,
    recovery::sale_versions::SaleVersions,
    telemetry::Meters,
};

/// What the tasks of a node share. Cheap to clone.
#[derive(Clone, Debug)]
pub struct NodeContext {
    /// Name of the node.
    pub node: String,
    /// Servers and settings.
    pub deployment: Deployment,
    /// Locks of the node.
    pub locks: Locks,
    /// Counts requests and their latencies, and shows the progress of commands.
    pub meters: Arc<Meters>,
    /// The versions of sales that the node has seen.
    pub versions: SaleVersions,
    /// Takes the events of the tasks.
    pub outbox: Outbox,
    /// Orders in progress of the node's consumers, which are restored with the promises.
    pub in_hand: InHand,
}

impl NodeContext {
    /// The servers, for a task that compares them with what the node has seen.
    pub(crate) fn servers(&self) -> Servers {
        Servers { seen: self.versions.clone(), ..self.deployment.servers() }
    }

    /// The context of a node that starts.
    pub fn new(node: &str, deployment: &Deployment, locks: &Locks) -> Self {
        Self {
            node: node.to_owned(),
            deployment: deployment.clone(),
            locks: locks.clone(),
            meters: Arc::default(),
            versions: SaleVersions::default(),
            outbox: Outbox::default(),
            in_hand: InHand::default(),
        }
    }
}
