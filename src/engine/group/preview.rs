//! What an act on the group would do, asked before it is done: what comes back is the plan that is done then.
//!
//! Nothing is changed here.

use tokio_util::sync::CancellationToken;

use super::{
    super::{EngineError, operator::Operator},
    ClaimPlan, ClaimScope, RemoveReport, Rewind, To, claim, remove, rewind,
};

/// An act on the group, as a person names it.
#[derive(Clone, Debug, PartialEq)]
pub enum GroupAct {
    /// Move it back.
    Rewind {
        /// The first entry to deliver again.
        to: To,
        /// Only there.
        partition: Option<u16>,
    },
    /// Give pending entries to somebody who works.
    Claim {
        /// Which ones.
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

/// What it would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Preview {
    /// Partition by partition.
    Rewind(Vec<Rewind>),
    /// Part by part.
    Claim(ClaimPlan),
    /// Where the consumer is.
    Remove(RemoveReport),
}

/// Looks at what the act would do.
///
/// # Errors
/// [`super::GroupFault`] where it is not possible; a server is away; `stop` came.
pub async fn of(
    operator: &Operator,
    act: &GroupAct,
    stop: &CancellationToken,
) -> Result<Preview, EngineError> {
    let mut link = operator.redis.link();
    let (store, keys, dead_ms) = (&operator.store, &operator.keys, operator.settings.node_dead_ms);
    let looking = async {
        match act {
            GroupAct::Rewind { to, partition } => {
                let plan = rewind::preview(store, &mut link, keys, to, *partition).await?;
                Ok(Preview::Rewind(plan))
            }
            GroupAct::Claim { scope, to } => {
                let plan = claim::preview(&mut link, keys, scope, to, dead_ms, false).await?;
                Ok(Preview::Claim(plan))
            }
            GroupAct::Remove { name } => {
                let found = remove::preview(&mut link, keys, name, None, dead_ms).await?;
                Ok(Preview::Remove(found))
            }
        }
    };
    // A long stream takes its time, and nobody waits for it at the end of the program.
    tokio::select! {
        () = stop.cancelled() => Err(EngineError::Stopping),
        preview = looking => preview,
    }
}
