//! Previews of commands on the group; the preview is the plan executed afterwards.
//!
//! Nothing is changed here.

use tokio_util::sync::CancellationToken;

use crate::{
    EngineError,
    commands::{
        group::{ClaimPlan, ClaimScope, RemoveReport, Rewind, To, claim, remove, rewind},
        operator::Operator,
    },
};

/// A command on the group, as the operator enters it.
#[derive(Clone, Debug, PartialEq)]
pub enum GroupAction {
    /// Rewind the group.
    Rewind {
        /// The first entry to deliver again.
        to: To,
        /// Limits it to this partition.
        partition: Option<u16>,
    },
    /// Transfer pending entries to another consumer.
    Claim {
        /// The entries.
        scope: ClaimScope,
        /// A consumer, or a node for its consumer of each partition.
        to: String,
    },
    /// Remove a consumer from the group of every partition where it is.
    Remove {
        /// Its name.
        name: String,
    },
}

/// Effect of the command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Preview {
    /// Partition by partition.
    Rewind(Vec<Rewind>),
    /// Part by part.
    Claim(ClaimPlan),
    /// Where the consumer is.
    Remove(RemoveReport),
}

/// Previews a command.
pub async fn of(
    operator: &Operator,
    action: &GroupAction,
    stop: &CancellationToken,
) -> Result<Preview, EngineError> {
    let mut servers = operator.servers();
    let dead_ms = operator.deployment.settings.node_dead_ms;
    let reading = async {
        match action {
            GroupAction::Rewind { to, partition } => {
                rewind::preview(&mut servers, to, *partition).await.map(Preview::Rewind)
            }
            GroupAction::Claim { scope, to } => {
                claim::preview(&mut servers, scope, to, dead_ms, false).await.map(Preview::Claim)
            }
            GroupAction::Remove { name } => {
                remove::preview(&mut servers, name, None, dead_ms).await.map(Preview::Remove)
            }
        }
    };
    // A long stream takes time, and a shutdown does not wait for it.
    tokio::select! {
        () = stop.cancelled() => Err(EngineError::Stopping),
        preview = reading => preview,
    }
}
